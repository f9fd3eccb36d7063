"""What reading clips costs: by seeking and scaling while decoding, against what one would write first."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from saccade.benchmark import Contest
from saccade.data.loader import Plan
from saccade.data.video import Frame, open_video, write_video
from saccade.video.data import Clips, Labelled, View, even_places

SECONDS, RATE, HEIGHT, WIDTH = 10, 30, 256, 340
"""A clip of Kinetics, as it is usually stored."""
VIDEOS = 4
VIEW = View()


def contests() -> Iterator[Contest]:
    """A clip of 8 frames from 10 seconds of 340 x 256; and training clips, 8 of them, with and without a second
    process."""
    rivals = {"every frame decoded": _whole, "decoded by seeking, scaled afterwards": _scaled_afterwards}
    yield Contest("a clip of 8 frames, 32 apart, of 10 s of video", _one, rivals)
    yield Contest("8 training clips read ahead by 2 processes", lambda: _drawn(2), {"by the same process": _alone})


@cache
def _files() -> tuple[Path, ...]:
    """Videos with a texture that moves, written for this process alone."""
    folder = Path(tempfile.mkdtemp(prefix="saccade-bench-"))
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


@cache
def _stream(workers: int) -> Callable[[], Any]:
    data = Clips(Labelled(_files(), (0,) * VIDEOS, ("moves",)), VIEW)
    stream = Plan(data, VIDEOS, ("bench",)).stream(0, 0, workers)
    return lambda: [next(stream) for _ in range(8 // VIDEOS)]


def _drawn(workers: int) -> Any:
    return _stream(workers)()


def _alone() -> Any:
    return _drawn(0)
