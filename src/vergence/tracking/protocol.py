"""Running trackers over sequences: in one pass, many at a time, or by VOT's protocol with starts over again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from vergence.core.errors import Cancelled
from vergence.tracking.boxes import Array, as_polygons, known, polygon_overlap
from vergence.tracking.crops import Frame
from vergence.tracking.data import Track
from vergence.tracking.metrics import Supervised, supervise


class Found(NamedTuple):
    """Where a target is in a frame."""

    box: tuple[float, float, float, float]
    """x, y, width, height."""
    score: float
    """How sure the tracker is, from 0 to 1."""


class Follows(Protocol):
    """A tracker of one target."""

    def start(self, frame: Frame, box: Sequence[float]) -> None: ...

    def step(self, frame: Frame) -> Found: ...


@dataclass(frozen=True)
class Followed:
    """What a tracker made of a sequence."""

    boxes: Array
    """(N, 4); the first is what it was given."""
    scores: Array
    """(N,), from 0 to 1."""
    size: tuple[int, int]
    """Width and height of its frames."""


def follow(
    tracks: Sequence[Track],
    make: Callable[[], Follows],
    together: Callable[[list[Any], list[Frame]], list[Found]],
    cancelled: Callable[[], bool] = bool,
) -> list[Followed]:
    """Track every sequence from its first frame to its last, all of them a frame at a time, so that a network sees the
    crops of all at once. ``together(trackers, frames)`` steps them and gives each one's box and score."""
    trackers = [make() for _ in tracks]
    boxes = [np.empty((len(track), 4)) for track in tracks]
    scores = [np.ones(len(track)) for track in tracks]
    sizes: list[tuple[int, int]] = []
    for number, (track, tracker) in enumerate(zip(tracks, trackers, strict=True)):
        first = track.frames[0]
        tracker.start(first, track.boxes[0].tolist())
        boxes[number][0] = track.boxes[0]
        sizes.append((first.shape[1], first.shape[0]))
    for frame in range(1, max(map(len, tracks), default=0)):
        if cancelled():
            raise Cancelled("cancelled")
        going = [number for number, track in enumerate(tracks) if frame < len(track)]
        found = together([trackers[n] for n in going], [tracks[n].frames[frame] for n in going])
        for number, (box, score) in zip(going, found, strict=True):
            boxes[number][frame], scores[number][frame] = box, score
    return [Followed(*found) for found in zip(boxes, scores, sizes, strict=True)]


def followed_with_restarts(track: Track, tracker: Follows) -> Supervised:
    """VOT's protocol on one sequence: overlaps of a box with the polygon, within the frame."""
    polygons = as_polygons(track.boxes) if track.polygons is None else track.polygons
    there = known(track.boxes)

    def start(index: int) -> bool:
        if there[index]:
            tracker.start(track.frames[index], track.boxes[index].tolist())
        return bool(there[index])

    def step(index: int) -> float:
        frame = track.frames[index]
        box = tracker.step(frame).box
        height, width = frame.shape[:2]
        return polygon_overlap(polygons[index], box, (width, height)) if there[index] else float("nan")

    return supervise(len(track), start, step)
