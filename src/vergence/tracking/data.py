"""Tracking sequences, as returned by readers and generators.

:class:`Tracks` has all frames of all sequences by index, so that a data set can be checked frame by frame, and the
sequences themselves for training and evaluation; :class:`Clips` are the sequences that trackers are evaluated on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from vergence.core.errors import VergenceError
from vergence.data.images import SUFFIXES, read_image
from vergence.tracking.boxes import Array, known
from vergence.tracking.crops import Frame

T = TypeVar("T")
Judged = Literal["ope", "got10k", "vot"]


class Frames(Protocol):
    """The frames of a sequence, by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Frame: ...


@dataclass(frozen=True)
class FileFrames:
    """Frames as picture files in a folder, by name. The folder is listed on first access."""

    folder: Path
    expected: int
    """The number of boxes."""
    truth: Path
    """The ground-truth file."""
    part: tuple[int, int | None] = (0, None)
    """First and last frame in use; data sets leave some out."""

    def __len__(self) -> int:
        return self.expected

    @cached_property
    def names(self) -> tuple[str, ...]:
        names = sorted(p.name for p in entries(self.folder) if p.suffix.lower() in SUFFIXES)[slice(*self.part)]
        if not names:
            raise VergenceError(f"{self.folder} has no frames: expected pictures by number, such as 00000001.jpg")
        if len(names) != self.expected:
            less = "fewer" if self.expected < len(names) else "more"
            raise VergenceError(
                f"{self.truth} has {self.expected} boxes, {less} than the {len(names)} frames of {self.folder}"
            )
        return tuple(names)

    def path(self, index: int) -> Path:
        return self.folder / self.names[index]

    def __getitem__(self, index: int) -> Frame:
        return np.ascontiguousarray(read_image(self.path(index)).permute(1, 2, 0).numpy())


@dataclass(frozen=True)
class Track:
    """One sequence: frames, and the boxes of one target."""

    name: str
    frames: Frames
    boxes: Array
    """(N, 4): x, y, width, height; NaN or without area where the target is unknown."""
    polygons: Array | None = None
    """(N, 8), if the ground truth is given as polygons."""
    visible: NDArray[np.bool_] | None = None
    """(N,): mask of the frames that are evaluated; None: all."""
    attributes: Mapping[str, bool] = field(default_factory=dict)
    """Attributes of the sequence (occlusion, fast motion, ...) from its data set."""

    def __len__(self) -> int:
        return len(self.boxes)

    @cached_property
    def shown(self) -> NDArray[np.intp]:
        """The frames in which the target is known."""
        there = known(self.boxes)
        return np.flatnonzero(there if self.visible is None else there & self.visible)


@dataclass(frozen=True)
class Tracks:
    """All frames of ``sequences`` by index."""

    sequences: tuple[Track, ...]
    protocol: Judged = "ope"
    """Evaluation protocol besides success and precision."""
    lengths: tuple[int, int] | None = None
    """vot: the range of lengths for EAO, if the challenge defines it."""
    whole: int = 0
    """Number of sequences of the whole data set (0: those present)."""
    split: str = ""
    """The split that the files came from, if another stands in for the one asked for."""

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self.sequences)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def place(self, index: int) -> tuple[Track, int]:
        """The sequence of a frame, and the frame's number in it."""
        number = int(np.searchsorted(self._ends, index, side="right"))
        return self.sequences[number], index - (self._ends[number - 1] if number else 0)

    def __getitem__(self, index: int) -> dict[str, Any]:
        track, frame = self.place(index)
        box = track.boxes[frame]
        there = bool(known(box[None])[0])
        return {
            "frame": torch.from_numpy(track.frames[frame]).permute(2, 0, 1),
            "box": torch.from_numpy(box if there else np.zeros(4)).float(),
            "known": int(there),
        }

    @property
    def paths(self) -> FramePaths:
        """The file of every frame."""
        return FramePaths(self)


class FramePaths:
    """The files of frames by index, without a list of possibly millions."""

    def __init__(self, tracks: Tracks) -> None:
        self.tracks = tracks

    def __getitem__(self, index: int) -> Path:
        track, frame = self.tracks.place(index)
        assert isinstance(track.frames, FileFrames)
        return track.frames.path(frame)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FramePaths) and self.truths == other.truths

    @property
    def truths(self) -> list[Path]:
        return [track.frames.truth for track in self.tracks.sequences if isinstance(track.frames, FileFrames)]


@dataclass(frozen=True)
class Clips:
    """Test sequences by index, in one or two worlds."""

    worlds: Mapping[str, Tracks]
    """Worlds by the suffix of their metrics."""

    @property
    def tracks(self) -> list[Track]:
        return [track for tracks in self.worlds.values() for track in tracks.sequences]

    def __len__(self) -> int:
        return sum(len(tracks.sequences) for tracks in self.worlds.values())

    def __getitem__(self, index: int) -> int:
        return range(len(self))[index]

    @property
    def bounded(self) -> bool:
        """Whether boxes are clipped to the frame before evaluation."""
        return any(tracks.protocol == "got10k" for tracks in self.worlds.values())

    def only(self, count: int) -> Clips:
        """The first few sequences of each world."""
        return Clips({k: replace(t, sequences=t.sequences[:count]) for k, t in self.worlds.items()})

    def by_world(self, values: Sequence[T]) -> dict[str, Sequence[T]]:
        """Splits results of all sequences, in order, into one list per world."""
        bounds = pairwise(accumulate((len(tracks.sequences) for tracks in self.worlds.values()), initial=0))
        return {ending: values[a:b] for ending, (a, b) in zip(self.worlds, bounds, strict=True)}


def entries(folder: Path) -> list[Path]:
    """The entries of a folder."""
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise VergenceError(f"{folder} cannot be read: {error.strerror or error}") from None
