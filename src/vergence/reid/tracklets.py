"""Tracklets (the frames of one person in one camera) and the clips sampled from them.

Frames are read when a clip needs them. Readers of the public data sets are in :mod:`vergence.reid.tracklet_layouts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data import images
from vergence.data.images import read_image
from vergence.reid.data import Balanced, whole
from vergence.reid.settings import PersonView


class Tracklet(NamedTuple):
    """The frames of one person in one camera, in order: files of one folder. (MARS has a million of them.)"""

    folder: Path
    names: tuple[str, ...]
    identity: int
    camera: int

    @property
    def frames(self) -> tuple[Path, ...]:
        return tuple(self.folder / name for name in self.names)


class Walk(NamedTuple):
    """A sample: a clip (T, 3, H, W), its identity (in training a class label from 0) and its camera."""

    clip: Tensor
    identity: int
    camera: int


class Walks(Protocol):
    """Interface of tracklet data; the first ``queries`` are the queries, the rest is the gallery."""

    @property
    def queries(self) -> int: ...

    @property
    def identities(self) -> tuple[int, ...]: ...

    @property
    def cameras(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def length(self, index: int) -> int: ...

    def frames(self, index: int, places: Sequence[int]) -> list[Tensor]: ...


@dataclass(frozen=True)
class Tracklets:
    """Tracklets in files. The first ``queries`` are the queries; the rest is the gallery."""

    tracklets: tuple[Tracklet, ...]
    queries: int = 0
    skipped: tuple[str, ...] = ()
    """One sentence per missing file or folder that was left out."""

    def __len__(self) -> int:
        return len(self.tracklets)

    def __getitem__(self, index: int) -> Walk:
        """All frames, bytes, at the size of the first one."""
        frames = self.frames(index, range(self.length(index)))
        size = frames[0].shape[-2:]
        same = [f if f.shape[-2:] == size else _bytes(images.resized(images.scaled(f), *size)) for f in frames]
        return Walk(torch.stack(same), self.tracklets[index].identity, self.tracklets[index].camera)

    def length(self, index: int) -> int:
        """The number of frames of a tracklet."""
        return len(self.tracklets[index].names)

    def frames(self, index: int, places: Sequence[int]) -> list[Tensor]:
        """The frames at ``places`` of a tracklet, bytes (3, H, W) each; repeated places are read once."""
        tracklet = self.tracklets[index]
        read = {place: read_image(tracklet.folder / tracklet.names[place]) for place in dict.fromkeys(places)}
        return [read[place] for place in places]

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The first frame of each tracklet."""
        return tuple(tracklet.folder / tracklet.names[0] for tracklet in self.tracklets)

    @cached_property
    def identities(self) -> tuple[int, ...]:
        return tuple(tracklet.identity for tracklet in self.tracklets)

    @cached_property
    def cameras(self) -> tuple[int, ...]:
        return tuple(tracklet.camera for tracklet in self.tracklets)


def _bytes(picture: Tensor) -> Tensor:
    return picture.mul(255).round().clamp(0, 255).to(torch.uint8)


# Clips ---------------------------------------------------------------------------------------------------------------


def run_of(length: int, frames: int, generator: torch.Generator) -> list[int]:
    """Frame positions of a training clip: consecutive from a random start; a shorter tracklet wraps around."""
    start = int(torch.randint(0, max(length - frames, 0) + 1, (), generator=generator))
    return [(start + step) % length for step in range(frames)]


def all_runs(length: int, frames: int, most: int = 0) -> list[list[int]]:
    """Frame positions of all test clips of a tracklet, the last filled up by repeating it; if ``most`` is above 0, at
    most that many clips, evenly spread."""
    starts = list(range(0, length, frames))
    if 0 < most < len(starts):
        starts = [starts[(2 * i + 1) * len(starts) // (2 * most)] for i in range(most)]
    return [[start + step % min(frames, length - start) for step in range(frames)] for start in starts]


class Batch(NamedTuple):
    """Clips of several tracklets: in training one each, (B, T, 3, H, W); in testing all of them concatenated,
    (V, T, 3, H, W), with ``counts`` (B,), the number of clips per tracklet."""

    clips: Tensor
    identity: Tensor
    camera: Tensor
    counts: Tensor

    def pooled(self, features: Tensor) -> Tensor:
        """Averages clip features (V, C) per tracklet, (B, C)."""
        whose = torch.repeat_interleave(torch.arange(len(self.counts), device=features.device),
                                        self.counts.to(features.device))  # fmt: skip
        total = features.new_zeros(len(self.counts), features.shape[1]).index_add(0, whose, features)
        return total / self.counts.to(features)[:, None]


@dataclass(frozen=True)
class Clips:
    """Tracklets as network input: all clips by index; ``draw`` gives a random one, all frames augmented alike."""

    data: Walks
    view: PersonView
    frames: int = 4
    """Frames per clip."""
    most: int = 0
    """Testing: at most this many clips per tracklet, evenly spread (0: all, as published)."""

    def __post_init__(self) -> None:
        if not 1 <= self.frames <= 1024 or not self.most >= 0:
            raise VergenceError(
                f"clips of tracklets have 1 to 1024 frames, and there are 0 (all) or more of one, got "
                f"frames={self.frames} and most={self.most}"
            )

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Walk:
        """All clips, normalised, (V, T, 3, height, width)."""
        runs = all_runs(self.data.length(index), self.frames, self.most)
        flat = self._seen(index, [place for run in runs for place in run])
        return self._walk(index, flat.unflatten(0, (len(runs), self.frames)))

    def draw(self, index: int, generator: torch.Generator) -> Walk:
        """A random clip, normalised, (T, 3, height, width)."""
        seen = self._seen(index, run_of(self.data.length(index), self.frames, generator))
        seen = seen.flatten(0, 1)  # frames as channels of one picture, so that all are augmented alike
        if self.view.pad:
            seen = images.padded_crop(seen, self.view.pad, generator)
        if self.view.flip:
            seen = images.flipped(seen, generator)
        if self.view.erase:
            seen = images.erased(seen, self.view.erase, generator)
        return self._walk(index, seen.unflatten(0, (self.frames, 3)))

    def _seen(self, index: int, places: Sequence[int]) -> Tensor:
        return torch.stack([whole(self.view, frame) for frame in self.data.frames(index, places)])

    def _walk(self, index: int, clip: Tensor) -> Walk:
        return Walk(clip, self.data.identities[index], self.data.cameras[index])

    @staticmethod
    def collate(walks: list[Walk]) -> Batch:
        clips = [walk.clip if walk.clip.dim() == 5 else walk.clip.unsqueeze(0) for walk in walks]
        numbers = ([walk.identity for walk in walks], [walk.camera for walk in walks], list(map(len, clips)))
        return Batch(torch.cat(clips), *map(torch.tensor, numbers))


@dataclass(frozen=True)
class BalancedClips(Clips):
    """Batches with ``each`` tracklets per identity (PK sampling); identities with fewer repeat them."""

    each: int = 4

    def batches(self, size: int, generator: torch.Generator) -> Iterator[list[int]]:
        """One epoch: every identity once, ``size // each`` of them per batch."""
        return Balanced(self.data, self.view, self.each).batches(size, generator)
