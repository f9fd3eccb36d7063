"""Videos as sequences of snippet features with annotated spans, and the windows that a network sees of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.ops.spans import pairwise_span_iou


@dataclass(frozen=True)
class Annotated:
    """Videos with features and spans."""

    names: tuple[str, ...]
    durations: tuple[float, ...]
    """Seconds that the features of each video cover."""
    spans: tuple[Tensor, ...]
    """Start and end of each instance in seconds, (n_i, 2) in float64."""
    labels: tuple[tuple[str, ...], ...]
    """The class of each instance."""
    features: Sequence[Tensor]
    """Features (S_i, D) of each video, read on access."""
    ambiguous: tuple[Tensor, ...] = ()
    """Spans that are neither right nor wrong, (k_i, 2); THUMOS has them."""
    note: str = ""

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.features[index], self.spans[index]

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted({label for mine in self.labels for label in mine}))

    def first(self, count: int) -> Self:
        """The first ``count`` videos."""
        cut = {name: getattr(self, name)[:count] for name in ("names", "durations", "spans", "labels", "ambiguous")}
        return replace(self, features=[self.features[k] for k in range(min(count, len(self)))], **cut)


def checked_spans(rows: Sequence[tuple[float, float]], duration: float, where: str) -> Tensor:
    """Spans (n, 2) cut to the video; an error for spans of no length or outside of it."""
    for start, end in rows:
        if not (start == start and end == end) or end <= start:
            raise VergenceError(f"{where} has a span from {start:g} to {end:g} s: the end comes after the start")
        if start >= duration or end <= 0:
            raise VergenceError(f"{where} has a span from {start:g} to {end:g} s, outside its {duration:g} s")
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, 2).clamp(0, duration)


def resized(features: Tensor, length: int) -> Tensor:
    """Features (S, D) interpolated linearly to (length, D), the centres of snippets kept in place."""
    if len(features) == length:
        return features
    return F.interpolate(features.mT.unsqueeze(0), length, mode="linear", align_corners=False)[0].mT


class Window(NamedTuple):
    """A stretch of a video: its snippets and how long each of them is."""

    video: int
    first: int
    """The first snippet; a window that covers a whole video by interpolation begins at 0."""
    snippets: int
    """Snippets of the video that it covers."""
    start: float
    """Seconds."""
    step: float
    """Seconds per position of the window."""


def windows(count: int, duration: float, length: int, stride: int, video: int = 0) -> list[Window]:
    """Windows of ``length`` positions over a video of ``count`` snippets.

    A video that is not longer, or any video with a ``stride`` of 0, is one window, interpolated. Others are cut every
    ``stride`` snippets, and the last window ends with the video.
    """
    if count <= length or not stride:
        return [Window(video, 0, count, 0.0, duration / length)]
    firsts = [*range(0, count - length, stride), count - length]
    step = duration / count
    return [Window(video, first, length, first * step, step) for first in firsts]


class Sample(NamedTuple):
    """A window as network input, with its labels."""

    features: Tensor
    """(D, T)."""
    start: Tensor
    """(T,), 1 where an instance may start."""
    end: Tensor
    """(T,)."""
    content: Tensor
    """(E,), 1 for spans that are an instance."""
    window: Any
    """Index of the window."""


def edges(length: int, longest: int = 0) -> tuple[Tensor, Tensor]:
    """Starts and ends (E,) of all spans i < j of a window, by start and then by end; at most ``longest`` long (0: any).
    100 positions have 4,950 of them, 128 with at most 64 have 6,112."""
    i, j = torch.triu_indices(length, length, 1, device="cpu")
    if longest:
        i, j = i[j - i <= longest], j[j - i <= longest]
    return i, j


def assigned(spans: Tensor, length: int, longest: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Labels of a window for instances (n, 2) in units of its positions: start and end (T,), content (E,), 0 or 1.

    A position may be a start if it lies within a tenth of an instance's duration of its start, and at least half a
    position, so that short instances have one (Eq. 5). A span is content if its ends are a start and an end and it
    overlaps some instance by more than a half. Position i is the time i + 1/2.
    """
    place = torch.arange(length, dtype=torch.float64) + 0.5
    reach = ((spans[:, 1] - spans[:, 0]) / 10).clamp(min=0.5).unsqueeze(1)
    start, end = (((place - spans[:, side : side + 1]).abs() <= reach).any(0) for side in (0, 1))
    i, j = edges(length, longest)
    overlap = pairwise_span_iou(torch.stack([place[i], place[j]], 1), spans)
    alike = (overlap > 0.5).any(1) if len(spans) else torch.zeros(len(i), dtype=torch.bool)
    return start.float(), end.float(), (start[i] & end[j] & alike).float()


@dataclass(frozen=True)
class Windowed:
    """The windows of annotated videos, each with its labels."""

    data: Any
    length: int
    longest: int = 0
    stride: int = 0
    inside: float = 0.0
    """Training: windows that hold less than this share of some instance are left out (0: keep all)."""

    rows: tuple[Window, ...] = field(init=False)

    def __post_init__(self) -> None:
        every = [window for video in range(len(self.data)) for window in self._of(video)]
        kept = [window for window in every if not self.inside or self._holds(window)]
        object.__setattr__(self, "rows", tuple(kept or every))

    def _of(self, video: int) -> list[Window]:
        count = len(self.data.features[video]) if self.stride else self.length
        return windows(count, self.data.durations[video], self.length, self.stride, video)

    def _holds(self, window: Window) -> bool:
        spans = self.data.spans[window.video]
        end = window.start + window.step * self.length
        common = spans.clamp(window.start, end)
        return bool(((common[:, 1] - common[:, 0]) >= self.inside * (spans[:, 1] - spans[:, 0])).any())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        window = self.rows[index]
        features, spans = self.data[window.video]
        if self.stride and len(features) > self.length:
            features = features[window.first : window.first + window.snippets]
        local = (spans - window.start) / window.step
        local = local[(local[:, 1] > 0) & (local[:, 0] < self.length)]
        return Sample(
            resized(features, self.length).mT.contiguous(), *assigned(local, self.length, self.longest), index
        )
