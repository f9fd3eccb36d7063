"""Labelled videos, and the clips sampled from them for training and testing.

Only the frames of a clip are decoded, on access. :class:`Labelled` returns whole videos and raises an error for a
damaged one, so that a check of a data set finds it; :class:`Clips` can skip it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data.images import normalised
from vergence.data.video import Frame, Size, Video, open_video, rescaled
from vergence.video.settings import ClipView


class Videos(Protocol):
    """Interface of labelled videos."""

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
    """The file that lists the videos."""
    note: str = ""
    """How the videos were split, if they came in one piece."""
    split: str = ""
    """The split that the files came from, if another stands in for the one asked for."""

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
        frames = self.pixels[self._checked(indices)].permute(0, 2, 3, 1).numpy()
        return frames if shorter in (None, min(self.size)) else np.stack([rescaled(frame, shorter) for frame in frames])


# Clips ---------------------------------------------------------------------------------------------------------------


def random_clip(view: ClipView, video: Video, generator: torch.Generator) -> Tensor:
    """Training transform: a random clip, augmented and normalised, (T, 3, size, size)."""
    places = random_places(view, video, generator)
    shorter, down, across, mirror = torch.rand(4, generator=generator).tolist()
    side = view.jitter[0] + int(shorter * (view.jitter[1] - view.jitter[0] + 1))
    frames = _frames(video, places, side)
    height, width = frames.shape[-2:]
    top, left = int(down * (height - view.size + 1)), int(across * (width - view.size + 1))
    cut = frames[..., top : top + view.size, left : left + view.size]
    return _normalised(view, cut.flip(-1) if view.flip and mirror < 0.5 else cut)


def middle_clip(view: ClipView, video: Video, places: Sequence[int]) -> Tensor:
    """The centre crop of the frames at ``places``, normalised, (T, 3, size, size)."""
    frames = _frames(video, places, view.resize)
    height, width = frames.shape[-2:]
    top, left = (height - view.size) // 2, (width - view.size) // 2
    return _normalised(view, frames[..., top : top + view.size, left : left + view.size])


def evaluation_clips(view: ClipView, video: Video) -> Tensor:
    """Test transform: all clips in all crops, normalised, (clips * crops, T, 3, size, size)."""
    places = [even_places(view, video, number) for number in range(view.clips)]
    flat = _frames(video, [place for one in places for place in one], view.resize)
    height, width = flat.shape[-2:]
    shares = (0.0, 0.5, 1.0) if view.crops == 3 else (0.5,)
    corners = [
        (int((height - view.size) * (share if height > width else 0.5)),
         int((width - view.size) * (share if height <= width else 0.5)))
        for share in shares
    ]  # fmt: skip
    cuts = [flat[..., top : top + view.size, left : left + view.size] for top, left in corners]
    views = torch.stack(cuts).unflatten(1, (view.clips, view.frames)).transpose(0, 1).flatten(0, 1)
    return _normalised(view, views)


def _frames(video: Video, places: Sequence[int], shorter: int) -> Tensor:
    frames = np.ascontiguousarray(video.at(places, shorter))
    return torch.from_numpy(frames).permute(0, 3, 1, 2)


def _normalised(view: ClipView, pixels: Tensor) -> Tensor:
    return normalised(pixels.float() / 255, view.mean, view.std)


def _length(video: Video) -> int:
    if video.length is None:
        raise VergenceError(f"{video.name} has no end: a clip is taken of a file or a folder of frames")
    if video.length < 2:
        raise VergenceError(f"{video.name} has one frame only: a clip needs a video of at least two")
    return video.length


def random_places(view: ClipView, video: Video, generator: torch.Generator) -> list[int]:
    """Frame indices of a random clip: one random frame per segment (uniform), or equally spaced from a random start
    (dense)."""
    length = _length(video)
    if view.sampling == "dense":
        spread = _spread(view, video)
        return _row(view, length, float(torch.rand((), generator=generator)) * max(length - spread, 0), spread)
    shares = torch.rand(view.frames, generator=generator).tolist()
    return [min(a + int(share * (b - a + 1)), b) for share, (a, b) in zip(shares, _parts(view, length), strict=True)]


def even_places(view: ClipView, video: Video, number: int = 0) -> list[int]:
    """Frame indices of test clip ``number``: one per segment (uniform), or clips evenly spread over the video."""
    length = _length(video)
    share = (number + 0.5) / view.clips
    if view.sampling == "dense":
        spread = _spread(view, video)
        return _row(view, length, share * max(length - spread, 0), spread)
    return [a + int(share * (b - a)) for a, b in _parts(view, length)]


def _spread(view: ClipView, video: Video) -> float:
    """Number of video frames that a dense clip spans."""
    return view.stride * view.frames * (video.fps / view.rate if view.rate else 1.0)


def _row(view: ClipView, length: int, start: float, spread: float) -> list[int]:
    # As in TimeSformer: evenly from the first to the last frame spanned; a short video repeats its last frame.
    steps = np.linspace(start, start + spread - 1, view.frames) if view.frames > 1 else np.array([start + spread / 2])
    return [int(step) for step in steps.clip(0, length - 1)]


def _parts(view: ClipView, length: int) -> list[tuple[int, int]]:
    """First and last frame of each of the equal segments."""
    part = (length - 1) / view.frames
    return [(round(part * i), round(part * (i + 1))) for i in range(view.frames)]


class Sample(NamedTuple):
    """Clips of one video, or of several in a batch."""

    clips: Tensor
    """(T, 3, S, S) in training, (V, T, 3, S, S) in testing."""
    label: Any
    damaged: Any = ()
    """One sentence per video that could not be read."""


@dataclass(frozen=True)
class Clips:
    """Labelled videos as network input: the test clips by index, a random clip by ``draw``.

    If ``skip`` says so, a damaged video is replaced by another one in ``draw`` and gets label -1 by index; the sample
    then carries the error message.
    """

    data: Videos
    view: ClipView
    skip: frozenset[str] = frozenset()
    """``train``, ``test``: where damaged videos are skipped instead of raising an error."""

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Sample:
        try:
            video, label = self.data.video(index)
            return Sample(evaluation_clips(self.view, video), label)
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
                return Sample(random_clip(self.view, video, generator), label, tuple(damaged))
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
        return Sample(clips, labels, [message for sample in samples for message in sample.damaged])
