"""Clips of videos for learning from time: several clips of one video, whose frames are decoded once.

:class:`Tampered` draws the clips of a pretext task; :class:`Timed` plain clips at one playback speed, for classifiers.
Both read with :meth:`vergence.data.video.Video.at`, which seeks: one call per video, with increasing indices and no
repetition, so that no frame is decoded twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data.video import Video
from vergence.video.data import Sample, Videos
from vergence.video.settings import TimedView
from vergence.video.transforms import (
    FRAMES,
    TRANSFORMS,
    disordered_indices,
    draw_speed,
    fastest,
    speed_indices,
    together,
    transformed_indices,
)


class Asked(NamedTuple):
    """One clip of a pretext task."""

    indices: Tensor
    """Frames, (T,)."""
    target: int
    """The answer."""
    kappa: int = -1
    """The speed to be told; -1 if it is not asked for."""
    turns: int = 0
    """Quarter turns of the picture."""


class Puzzle(NamedTuple):
    """The clips of a pretext task, of one video (K, T, 3, S, S) or of several in a batch (B K, ...)."""

    clips: Tensor
    target: Any
    kappa: Any
    damaged: Any = ()
    """One sentence per video that could not be read."""


Ask = Callable[[int, int, torch.Generator], list[Asked]]
"""The clips to ask for, given the length of a video, its label and a generator."""


def ask_temporal(
    length: int, label: int, generator: torch.Generator, transforms: Sequence[str] = TRANSFORMS, frames: int = FRAMES
) -> list[Asked]:
    """One clip of each transformation; the speed is that of the speed clip. One or two transformations are asked four
    times or twice, so that a video has four clips."""
    asked = []
    for _ in range(max(len(TRANSFORMS) // len(transforms), 1)):
        kappa = draw_speed(length, generator, frames)
        asked += [
            Asked(transformed_indices(name, length, kappa, generator, frames), number, kappa if number == 0 else -1)
            for number, name in enumerate(transforms)
        ]
    return asked


def ask_order(length: int, label: int, generator: torch.Generator, frames: int = FRAMES) -> list[Asked]:
    """Two clips in order and two whose pieces are not."""
    kappa = draw_speed(length, generator, frames)
    right = [Asked(speed_indices(length, kappa, generator, frames), 0) for _ in range(2)]
    return right + [Asked(disordered_indices(length, kappa, generator, frames), 1) for _ in range(2)]


def ask_rotation(
    length: int, label: int, generator: torch.Generator, speed: int = 2, frames: int = FRAMES
) -> list[Asked]:
    """A clip in the four orientations."""
    indices = speed_indices(length, min(speed, fastest(length, frames)), generator, frames)
    return [Asked(indices, turns, turns=turns) for turns in range(4)]


def ask_label(length: int, label: int, generator: torch.Generator, speed: int = 2, frames: int = FRAMES) -> list[Asked]:
    """Four clips of a video, as many as the other tasks take, with its label."""
    kappa = min(speed, fastest(length, frames))
    return [Asked(speed_indices(length, kappa, generator, frames), label) for _ in range(4)]


# Pixels --------------------------------------------------------------------------------------------------------------


class TooShort(VergenceError):
    """A video has fewer frames than a clip."""


def checked_length(video: Video, frames: int) -> int:
    """The number of frames of a video that has enough for a clip."""
    if video.length is None:
        raise VergenceError(f"{video.name} has no end: a clip is taken of a file or a folder of frames")
    if video.length < frames:
        raise TooShort(f"{video.name} has {video.length} frames: a clip needs {frames}")
    return video.length


def read_clips(video: Video, clips: Sequence[Tensor], shorter: int) -> list[Tensor]:
    """Clips (T, 3, H, W), bytes, given their frame indices; each frame is decoded once for all of them."""
    indices, places = together(clips)
    pixels = torch.from_numpy(np.ascontiguousarray(video.at(indices.tolist(), shorter))).permute(0, 3, 1, 2)
    return [pixels[place] for place in places]


def scaled(pixels: Tensor) -> Tensor:
    """Bytes as numbers from -1 to 1."""
    return pixels.float() / 127.5 - 1


def _corner(pixels: Tensor, size: int, down: float, across: float, drift: Tensor | None = None) -> Tensor:
    """A square crop of (T, 3, H, W) at a place; with ``drift`` (T, 2) each frame is cropped so many pixels away."""
    height, width = pixels.shape[-2:]
    top, left = int(down * (height - size + 1)), int(across * (width - size + 1))
    if drift is None:
        return pixels[..., top : top + size, left : left + size]
    room = torch.tensor([height - size, width - size])
    places = (torch.tensor([top, left]) + drift).round().long().clamp(min=torch.zeros(2, dtype=torch.long), max=room)
    return torch.stack(
        [frame[:, y : y + size, x : x + size] for frame, (y, x) in zip(pixels, places.tolist(), strict=True)]
    )


def _drift(length: int, most: float, generator: torch.Generator) -> Tensor:
    """Where a camera points that moves slowly, in pixels, for each frame of a video (length, 2): a function of the
    video's own time, so that it is transformed with it."""
    reach, pace, phase = torch.rand(3, 2, generator=generator)
    times = torch.arange(length)[:, None] / (30 + 90 * pace)
    return most * reach * torch.sin(2 * torch.pi * (times + phase))


def centred(pixels: Tensor, size: int) -> Tensor:
    """The centre crop, as numbers from -1 to 1."""
    height, width = pixels.shape[-2:]
    top, left = (height - size) // 2, (width - size) // 2
    return scaled(pixels[..., top : top + size, left : left + size])


# Data ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tolerant:
    data: Videos
    view: TimedView
    skip: frozenset[str] = frozenset()
    """``train``, ``test``: where videos that cannot be used are left out instead of raising an error."""

    def __len__(self) -> int:
        return len(self.data)

    def _tried(self, index: int, generator: torch.Generator, take: Callable[[int], Any]) -> tuple[Any, list[str]]:
        """What ``take`` makes of a video, or of another one if this one cannot be used; and the errors on the way."""
        damaged: list[str] = []
        for _ in range(10):
            try:
                return take(index), damaged
            except VergenceError as error:
                if "train" not in self.skip:
                    raise
                damaged.append(str(error))
            index = int(torch.randint(len(self), (), generator=generator))
        raise VergenceError(f"{len(damaged)} videos drawn in a row cannot be used: {damaged[-1]}")


@dataclass(frozen=True)
class Tampered(_Tolerant):
    """The clips of a pretext task: random ones by ``draw``, by index always the same."""

    ask: Ask = ask_temporal

    def __getitem__(self, index: int) -> Puzzle:
        try:
            return self._puzzle(index, torch.Generator().manual_seed(range(len(self))[index]), augment=False)
        except VergenceError as error:
            if "test" not in self.skip and not (self.skip and isinstance(error, TooShort)):
                raise
            size, none = self.view.size, torch.zeros(0, dtype=torch.long)
            return Puzzle(torch.zeros(0, self.view.frames, 3, size, size), none, none, (str(error),))

    def draw(self, index: int, generator: torch.Generator) -> Puzzle:
        puzzle, damaged = self._tried(index, generator, lambda i: self._puzzle(i, generator, augment=True))
        return puzzle._replace(damaged=tuple(damaged))

    def _puzzle(self, index: int, generator: torch.Generator, augment: bool) -> Puzzle:
        video, label = self.data.video(index)
        length = checked_length(video, self.view.frames)
        inside = min(length, self.view.window)
        start = int(torch.randint(length - inside + 1, (), generator=generator))
        asked = self.ask(inside, label, generator)
        clips = read_clips(video, [one.indices + start for one in asked], self.view.resize)
        mirror, *places = torch.rand(1 + 2 * len(clips), generator=generator).tolist()
        drift = _drift(inside, self.view.pan, generator) if augment and self.view.pan else None
        cut = []
        for number, (clip, one) in enumerate(zip(clips, asked, strict=True)):
            # The crop differs from clip to clip and the flip does not; both are alike for all transformations.
            down, across = places[2 * number : 2 * number + 2] if augment else (0.5, 0.5)
            clip = _corner(clip, self.view.size, down, across, None if drift is None else drift[one.indices])
            clip = torch.rot90(clip, one.turns, (-2, -1))
            cut.append(clip.flip(-1) if augment and self.view.flip and mirror < 0.5 else clip)
        targets, kappas = ([getattr(one, name) for one in asked] for name in ("target", "kappa"))
        return Puzzle(scaled(torch.stack(cut)), torch.tensor(targets), torch.tensor(kappas))

    @staticmethod
    def collate(samples: list[Puzzle]) -> Puzzle:
        clips, targets, kappas = (torch.cat([sample[k] for sample in samples]) for k in range(3))
        return Puzzle(clips, targets, kappas, [message for sample in samples for message in sample.damaged])


def timed_places(length: int, view: TimedView, count: int) -> list[Tensor]:
    """The frames of ``count`` clips, evenly spread over a video, at the speed of ``view`` or the fastest possible."""
    q = 2 ** min(view.speed, fastest(length, view.frames))
    last = length - 1 - (view.frames - 1) * q
    return [torch.arange(view.frames) * q + round(last * (k + 0.5) / count) for k in range(count)]


@dataclass(frozen=True)
class Timed(_Tolerant):
    """Clips at one playback speed with labels: a random one by ``draw``, by index several spread over the video."""

    def __getitem__(self, index: int) -> Sample:
        try:
            video, label = self.data.video(index)
            places = timed_places(checked_length(video, self.view.frames), self.view, self.view.clips)
            clips = torch.stack(read_clips(video, places, self.view.resize))
            return Sample(centred(clips, self.view.size), label)
        except VergenceError as error:
            if "test" not in self.skip:
                raise
            nothing = torch.zeros(self.view.clips, self.view.frames, 3, self.view.size, self.view.size)
            return Sample(nothing, -1, (str(error),))

    def draw(self, index: int, generator: torch.Generator) -> Sample:
        sample, damaged = self._tried(index, generator, lambda i: self._clip(i, generator))
        return sample._replace(damaged=tuple(damaged))

    def _clip(self, index: int, generator: torch.Generator) -> Sample:
        video, label = self.data.video(index)
        length = checked_length(video, self.view.frames)
        kappa = min(self.view.speed, fastest(length, self.view.frames))
        places = speed_indices(length, kappa, generator, self.view.frames)
        mirror, down, across = torch.rand(3, generator=generator).tolist()
        (clip,) = read_clips(video, [places], self.view.resize)
        clip = _corner(clip, self.view.size, down, across)
        return Sample(scaled(clip.flip(-1) if self.view.flip and mirror < 0.5 else clip), label)

    @staticmethod
    def collate(samples: list[Sample]) -> Sample:
        clips = torch.stack([sample.clips for sample in samples])
        labels = torch.tensor([sample.label for sample in samples])
        return Sample(clips, labels, [message for sample in samples for message in sample.damaged])
