"""What reading clips costs: by seeking and scaling while decoding, against what one would write first."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from vergence.contract.benchmark import Contest
from vergence.contract.loader import InOrder
from vergence.core.seeding import generator
from vergence.data.video import Frame, open_video, write_video
from vergence.video.data import Clips, Labelled, View, even_places

SECONDS, RATE, HEIGHT, WIDTH = 10, 30, 256, 340
"""A clip of Kinetics, as it is usually stored."""
VIDEOS, CLIPS = 4, 32
VIEW = View()


def contests() -> Iterator[Contest]:
    """A clip of 8 frames from 10 seconds of 340 x 256; and training clips, starting the processes that read
    them included."""
    rivals = {"every frame decoded": _whole, "decoded by seeking, scaled afterwards": _scaled_afterwards}
    yield Contest("a clip of 8 frames, 32 apart, of 10 s of video", _one, rivals)
    name = f"{CLIPS} training clips read by 2 processes"
    yield Contest(name, lambda: _drawn(2), {"by the process that trains": lambda: _drawn(0)})


@cache
def _files() -> tuple[Path, ...]:
    """Videos with a texture that moves, written for this process alone."""
    folder = Path(tempfile.mkdtemp(prefix="vergence-bench-"))
    atexit.register(shutil.rmtree, folder, True)
    return tuple(write_video(folder / f"{n}.mp4", _moving(n), RATE) for n in range(VIDEOS))


def _moving(seed: int) -> Iterator[Frame]:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (40, 60, 3), dtype=np.uint8).repeat(12, 0).repeat(12, 1)
    for step in range(SECONDS * RATE):
        top, left = step % (len(coarse) - HEIGHT), (2 * step) % (coarse.shape[1] - WIDTH)
        yield np.ascontiguousarray(coarse[top : top + HEIGHT, left : left + WIDTH])


def _one() -> Any:
    video = open_video(_files()[0])
    return VIEW.middle(video, even_places(VIEW, video))


def _whole() -> Any:
    video = open_video(_files()[0])
    frames = np.stack(list(video))[even_places(VIEW, video)]
    return _cut(frames)


def _scaled_afterwards() -> Any:
    video = open_video(_files()[0])
    return _cut(video.at(even_places(VIEW, video)))


def _cut(frames: Frame) -> Any:
    pixels = torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255
    height, width = VIEW.resize, round(WIDTH * VIEW.resize / HEIGHT)
    scaled = F.interpolate(pixels, (height, width), mode="bilinear", antialias=True)
    left = (width - VIEW.size) // 2
    return (scaled[..., left : left + VIEW.size] - 0.5) / 0.5


@dataclass(frozen=True)
class _Draws:
    """Training clips by number, so that a pass has an end and reads nothing ahead of it."""

    clips: Clips

    def __getitem__(self, index: int) -> Any:
        return self.clips.draw(index % VIDEOS, generator("bench", index))

    def __len__(self) -> int:
        return CLIPS

    @staticmethod
    def collate(samples: list[Any]) -> Any:
        return Clips.collate(samples)


def _drawn(workers: int) -> Any:
    data = _Draws(Clips(Labelled(_files(), (0,) * VIDEOS, ("moves",)), VIEW))
    return list(InOrder(data, range(CLIPS), 4, workers))
