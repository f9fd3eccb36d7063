"""Labelled videos, and the clips that are taken of them for training and testing.

A video is decoded when it is asked for, and only the frames that a clip has. :class:`Labelled` gives whole videos and
refuses a damaged one, so that a check of a data set finds it; :class:`Clips` decides what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data.images import normalised
from vergence.data.video import Frame, Size, Video, open_video, rescaled


class Videos(Protocol):
    """Labelled videos, however they are kept."""

    @property
    def classes(self) -> tuple[str, ...]: ...

    def __len__(self) -> int: ...

    def video(self, index: int) -> tuple[Video, int]: ...


@dataclass(frozen=True)
class Labelled:
    """Videos in files or folders of frames, with labels and the names of the classes."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]
    listed: Path | None = None
    """The file that names the videos."""

    def __len__(self) -> int:
        return len(self.paths)

    def video(self, index: int) -> tuple[Video, int]:
        """A video to take frames from, and its label."""
        path = self.paths[index]
        if self.listed is not None and not path.exists():
            raise VergenceError(f"{path} does not exist, but {self.listed} lists it")
        return open_video(path), self.labels[index]

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """All of a video, bytes (T, 3, H, W), and its label."""
        video, label = self.video(index)
        frames = np.stack(list(video))
        if video.lost:
            raise VergenceError(f"{video.name} is damaged: {video.lost} of its {video.length} frames cannot be read")
        return torch.from_numpy(frames).permute(0, 3, 1, 2), label


class Kept(Video):
    """A video in memory: bytes (T, 3, H, W)."""

    def __init__(self, name: str, pixels: Tensor, fps: float = 25.0) -> None:
        super().__init__(name, fps, Size(*pixels.shape[-2:]), len(pixels))
        self.pixels = pixels

    def frames(self, shorter: int | None = None) -> Any:
        return iter(self.at(range(len(self.pixels)), shorter))

    def at(self, indices: Sequence[int], shorter: int | None = None) -> Frame:
        found = self.pixels[self._checked(indices)].permute(0, 2, 3, 1).numpy()
        return found if shorter in (None, min(self.size)) else np.stack([rescaled(frame, shorter) for frame in found])


# Clips ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """How a network gets to see a video."""

    frames: int = 8
    """Frames of a clip."""
    sampling: Literal["uniform", "dense"] = "dense"
    """One frame of each of so many equal parts of the video, or frames at a fixed distance."""
    stride: int = 32
    """dense: the distance, counted in frames at `rate` per second."""
    rate: float = 30.0
    """dense: frames per second to count in, whatever the video has (0: the video's own)."""
    clips: int = 1
    """Testing: clips of a video (uniform sampling takes other frames of the same parts)."""
    crops: Literal[1, 3] = 3
    """Testing: the middle of a frame, or three crops along its longer side."""
    size: int = 224
    """Side of what the network sees."""
    resize: int = 224
    """Testing: shorter side of a frame before it is cropped."""
    jitter: tuple[int, int] = (256, 320)
    """Training: least and greatest shorter side before a random crop."""
    flip: bool = True
    """Training: exchange left and right in every second draw; not where left and right are the label."""
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Of the channels, taken out."""
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Of the channels, divided by."""

    def __post_init__(self) -> None:
        if not 1 <= self.frames <= 1024 or not 1 <= self.clips <= 1024 or self.stride < 1 or not self.rate >= 0:
            raise VergenceError(
                f"a view has 1 to 1024 frames and clips, a stride of at least 1 and a rate of at least 0, got "
                f"{self.frames}, {self.clips}, {self.stride} and {self.rate:g}"
            )
        if not 8 <= self.size <= min(self.resize, self.jitter[0]) or not self.jitter[0] <= self.jitter[1] <= 8192:
            raise VergenceError(
                f"a view has 8 <= size <= resize and size <= jitter, the smaller first, got size={self.size}, "
                f"resize={self.resize} and jitter={self.jitter}"
            )
        if not all(deviation > 0 for deviation in self.std):
            raise VergenceError(f"a view's std is above 0 in every channel, got {self.std}")

    def random(self, video: Video, generator: torch.Generator) -> Tensor:
        """For training: a random clip, normalised, (T, 3, size, size)."""
        places = random_places(self, video, generator)
        shorter, down, across, mirror = torch.rand(4, generator=generator).tolist()
        side = self.jitter[0] + int(shorter * (self.jitter[1] - self.jitter[0] + 1))
        frames = self._frames(video, places, side)
        height, width = frames.shape[-2:]
        top, left = int(down * (height - self.size + 1)), int(across * (width - self.size + 1))
        cut = frames[..., top : top + self.size, left : left + self.size]
        return self._normalised(cut.flip(-1) if self.flip and mirror < 0.5 else cut)

    def middle(self, video: Video, places: Sequence[int]) -> Tensor:
        """The middle of the frames at these places, normalised, (T, 3, size, size)."""
        frames = self._frames(video, places, self.resize)
        height, width = frames.shape[-2:]
        top, left = (height - self.size) // 2, (width - self.size) // 2
        return self._normalised(frames[..., top : top + self.size, left : left + self.size])

    def tests(self, video: Video) -> Tensor:
        """For testing: every clip in every crop, normalised, (clips * crops, T, 3, size, size)."""
        places = [even_places(self, video, number) for number in range(self.clips)]
        flat = self._frames(video, [place for one in places for place in one], self.resize)
        height, width = flat.shape[-2:]
        shares = (0.0, 0.5, 1.0) if self.crops == 3 else (0.5,)
        corners = [
            (int((height - self.size) * (share if height > width else 0.5)),
             int((width - self.size) * (share if height <= width else 0.5)))
            for share in shares
        ]  # fmt: skip
        cuts = [flat[..., top : top + self.size, left : left + self.size] for top, left in corners]
        views = torch.stack(cuts).unflatten(1, (self.clips, self.frames)).transpose(0, 1).flatten(0, 1)
        return self._normalised(views)

    def _frames(self, video: Video, places: Sequence[int], shorter: int) -> Tensor:
        frames = np.ascontiguousarray(video.at(places, shorter))
        return torch.from_numpy(frames).permute(0, 3, 1, 2)

    def _normalised(self, pixels: Tensor) -> Tensor:
        return normalised(pixels.float() / 255, self.mean, self.std)


def _length(video: Video) -> int:
    if video.length is None:
        raise VergenceError(f"{video.name} has no end: a clip is taken of a file or a folder of frames")
    if video.length < 2:
        raise VergenceError(f"{video.name} has one frame only: what happens in a video takes at least two")
    return video.length


def random_places(view: View, video: Video, generator: torch.Generator) -> list[int]:
    """Frames of a random clip: one at random of each part (uniform), or a row from a random start on (dense)."""
    length = _length(video)
    if view.sampling == "dense":
        spread = _spread(view, video)
        return _row(view, length, float(torch.rand((), generator=generator)) * max(length - spread, 0), spread)
    shares = torch.rand(view.frames, generator=generator).tolist()
    return [min(a + int(share * (b - a + 1)), b) for share, (a, b) in zip(shares, _parts(view, length), strict=True)]


def even_places(view: View, video: Video, number: int = 0) -> list[int]:
    """Frames of test clip ``number``: the middles of the parts, or rows that are evenly spread over the video."""
    length = _length(video)
    share = (number + 0.5) / view.clips
    if view.sampling == "dense":
        spread = _spread(view, video)
        return _row(view, length, share * max(length - spread, 0), spread)
    return [a + int(share * (b - a)) for a, b in _parts(view, length)]


def _spread(view: View, video: Video) -> float:
    """Frames of the video that a dense clip spans."""
    return view.stride * view.frames * (video.fps / view.rate if view.rate else 1.0)


def _row(view: View, length: int, start: float, spread: float) -> list[int]:
    # As TimeSformer: evenly from the first to the last frame spanned; a short video ends with its last frame repeated.
    steps = np.linspace(start, start + spread - 1, view.frames) if view.frames > 1 else np.array([start + spread / 2])
    return [int(step) for step in steps.clip(0, length - 1)]


def _parts(view: View, length: int) -> list[tuple[int, int]]:
    """First and last frame of each equal part."""
    part = (length - 1) / view.frames
    return [(round(part * i), round(part * (i + 1))) for i in range(view.frames)]


class Sample(NamedTuple):
    """Clips of one video, or of several in a batch."""

    clips: Tensor
    """(T, 3, S, S) to train on, (V, T, 3, S, S) to test with."""
    label: Any
    damaged: Any = ()
    """What could not be read, in sentences."""


@dataclass(frozen=True)
class Clips:
    """Labelled videos as a network sees them: the test clips by index, a random clip when drawn.

    A damaged video is replaced by another one when drawn, and left out (label -1) by index, where ``skip`` says so;
    the sample carries the sentence that names it.
    """

    data: Videos
    view: View
    skip: frozenset[str] = frozenset()
    """``train``, ``test``: where a damaged video does not stop the work."""

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Sample:
        try:
            video, label = self.data.video(index)
            return Sample(self.view.tests(video), label)
        except VergenceError as error:
            if "test" not in self.skip:
                raise
            view = self.view
            nothing = torch.zeros(view.clips * view.crops, view.frames, 3, view.size, view.size)
            return Sample(nothing, -1, (str(error),))

    def draw(self, index: int, generator: torch.Generator) -> Sample:
        damaged: list[str] = []
        tried = set()
        for _ in range(10):
            try:
                video, label = self.data.video(index)
                return Sample(self.view.random(video, generator), label, tuple(damaged))
            except VergenceError as error:
                if "train" not in self.skip:
                    raise
                damaged.append(str(error))
                tried.add(index)
                if len(tried) == len(self):
                    break
                while index in tried:
                    index = int(torch.randint(0, len(self), (), generator=generator))
        raise VergenceError(f"{len(tried)} videos drawn in a row cannot be read: {damaged[-1]}")

    @staticmethod
    def collate(samples: list[Sample]) -> Sample:
        clips = torch.stack([sample.clips for sample in samples])
        labels = torch.tensor([sample.label for sample in samples])
        return Sample(clips, labels, [said for sample in samples for said in sample.damaged])
