"""Reading the four clips of a video from encoded files, against loaders that a user would write."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.contract.loader import BatchPlan
from vergence.core.seeding import generator
from vergence.data.video import open_video, write_video
from vergence.reading.video import LOCAL, open_container
from vergence.video.data import Labelled
from vergence.video.tampered import Tampered, ask_temporal, read_clips
from vergence.video.temporaltransforms.settings import Footage
from vergence.video.transforms import transformed_indices

HEIGHT, WIDTH = 240, 320
VIDEOS = 24


def contests() -> Iterator[Contest]:
    """One sample of pre-training from a video of 10 s and from one of 40 s, and an epoch with two worker processes."""
    short, long = (_written(count) for count in (300, 1200))
    for name, path in (("sample", short), ("long-video", long)):
        places = _places(path)
        yield Contest(
            name,
            f"four clips of 16 frames, 128 x 171, from {_length(path) // 30} s of H.264 at {WIDTH} x {HEIGHT}",
            partial(ours, path, places),
            {
                "all frames": partial(read_all, path, places),
                "clip by clip": partial(clip_by_clip, path, places),
            },
        )
    files = tuple([short] * VIDEOS)
    data = Labelled(files, (0,) * VIDEOS, ())
    tampered = Tampered(data, Footage(), ask=ask_temporal)
    yield Contest(
        "epoch",
        f"an epoch of {VIDEOS} such videos, {4 * VIDEOS} clips, two worker processes",
        partial(_epoch, tampered, 2),
        {
            "all frames, PyTorch's loader": lambda: list(_loader(files)),
            "one process": partial(_epoch, tampered, 0),
        },
    )


def _epoch(data: Tampered, workers: int) -> int:
    """Draws every video once, as training does; returns the number of batches."""
    plan = BatchPlan(data, 4, (0, "bench"))
    return len(list(islice(plan.stream(0, 0, workers), len(plan.epoch(0)))))


@cache
def _folder() -> Path:
    """A temporary folder of this process."""
    folder = Path(tempfile.mkdtemp(prefix="vergence-bench-"))
    atexit.register(shutil.rmtree, folder, True)
    return folder


@cache
def _written(count: int) -> Path:
    """A video of a pattern that drifts and turns, at 30 frames per second."""
    random = np.random.default_rng(0)
    pattern = random.integers(0, 256, (HEIGHT // 16, WIDTH // 16 * 2, 3), dtype=np.uint8).repeat(16, 0).repeat(16, 1)
    rows = (np.roll(pattern, (k % HEIGHT, 3 * k), (0, 1))[:, :WIDTH] for k in range(count))
    return write_video(_folder() / f"{count}.mp4", rows, 30)


def _length(path: Path) -> int:
    return open_video(path).length or 0


def _places(path: Path) -> list[Tensor]:
    """Clips of the four transformations in a window of 128 frames at a random place, as pre-training takes them."""
    source = generator("bench", path.name)
    start = int(torch.randint(_length(path) - 127, (), generator=source))
    return [transformed_indices(name, 128, 3, source) + start for name in ("speed", "random", "periodic", "warp")]


def ours(path: Path, places: list[Tensor]) -> Tensor:
    """The frames of all clips, each decoded once, from the nearest key frame on."""
    return torch.stack(read_clips(open_video(path), places, 128))


def read_all(path: Path, places: list[Tensor]) -> Tensor:
    """Decode and scale every frame with PyAV, then index: the loader that one writes first."""
    with open_container(str(path), path, options=LOCAL) as (container, stream):
        stream.thread_type = "AUTO"
        frames = [
            frame.reformat(width=171, height=128, format="rgb24", interpolation="BILINEAR").to_ndarray()
            for frame in container.decode(stream)
        ]
    pixels = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)
    return torch.stack([pixels[place] for place in places])


def clip_by_clip(path: Path, places: list[Tensor]) -> Tensor:
    """The same reader, asked for one clip after another."""
    video = open_video(path)
    return torch.stack([read_clips(video, [place], 128)[0] for place in places])


@dataclass(frozen=True)
class _All:
    """The plain loader as data."""

    files: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        pixels = read_all(self.files[index], _places(self.files[index]))[..., :112, :112]
        return pixels.float() / 127.5 - 1


def _loader(files: tuple[Path, ...]) -> Any:
    return torch.utils.data.DataLoader(_All(files), batch_size=4, num_workers=2)  # type: ignore[arg-type]
