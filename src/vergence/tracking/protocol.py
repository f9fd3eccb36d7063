"""Running and evaluating trackers: in one pass over many sequences at once, or by VOT's protocol with restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from vergence.contract.context import Context
from vergence.core.errors import Cancelled
from vergence.tracking.boxes import Array, as_polygons, known, polygon_overlap
from vergence.tracking.crops import Frame
from vergence.tracking.data import Clips, Track
from vergence.tracking.metrics import Pass, Supervised, got10k, one_pass, ope, supervise, vot

AT_ONCE = 10
"""Number of sequences tracked in parallel."""


class Found(NamedTuple):
    """The position of a target in a frame."""

    box: tuple[float, float, float, float]
    """x, y, width, height."""
    score: float
    """Confidence, from 0 to 1."""


class Follows(Protocol):
    """A tracker of one target."""

    def start(self, frame: Frame, box: Sequence[float]) -> None: ...

    def step(self, frame: Frame) -> Found: ...


@dataclass(frozen=True)
class Followed:
    """The output of a tracker on a sequence."""

    boxes: Array
    """(N, 4); the first is the given box."""
    scores: Array
    """(N,), from 0 to 1."""
    size: tuple[int, int]
    """Width and height of its frames."""


Together = Callable[[list[Any], list[Frame]], list[Found]]
"""Steps trackers of one kind, each in its own frame: ``together(trackers, frames)`` returns each one's box and
score."""


def follow(
    tracks: Sequence[Track],
    make: Callable[[], Follows],
    together: Together,
    cancelled: Callable[[], bool] = bool,
) -> list[Followed]:
    """Tracks all sequences in lockstep, frame by frame, so that the network processes their crops in one batch."""
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
        places = together([trackers[n] for n in going], [tracks[n].frames[frame] for n in going])
        for number, (box, score) in zip(going, places, strict=True):
            boxes[number][frame], scores[number][frame] = box, score
    return [Followed(*columns) for columns in zip(boxes, scores, sizes, strict=True)]


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


# Judging -------------------------------------------------------------------------------------------------------------


def judge(ctx: Context[Any, Any], clips: Clips, make: Callable[[], Follows], together: Together) -> dict[str, float]:
    """The scores of a tracker on sequences: success and precision, and those of the data set's protocol."""
    for tracks in clips.worlds.values():
        if tracks.whole > len(tracks.sequences):
            ctx.progress.say(f"judged on {len(tracks.sequences)} of the {tracks.whole} sequences of the data set")
    passes = run_passes(ctx, clips, make, together)
    scores: dict[str, float] = {}
    for ending, world in clips.by_world(passes).items():
        scores |= {f"{name}{ending}": value for name, value in ope(world).items()}
    if len(clips.worlds) > 1:
        for name in ("auc", "precision"):
            scores[name] = sum(scores[f"{name}{ending}"] for ending in clips.worlds) / len(clips.worlds)
    tracks = next(iter(clips.worlds.values()))
    if tracks.protocol == "got10k":
        scores |= got10k(passes)
    elif tracks.protocol == "vot":
        scores |= vot(run_restarts(ctx, clips, make), tracks.lengths)
    return scores


def run_passes(ctx: Context[Any, Any], clips: Clips, make: Callable[[], Follows], together: Together) -> list[Pass]:
    """Tracks and evaluates every sequence in one pass."""
    tracks, passes = clips.tracks, []
    for batch in ctx.batches(clips, AT_ONCE, "sequences"):
        chosen = [tracks[int(index)] for index in batch]
        for track, followed in zip(chosen, follow(chosen, make, together, ctx.cancelled), strict=True):
            bounds = followed.size if clips.bounded else None
            passes.append(one_pass(followed.boxes, track.boxes, track.visible, bounds))
    return ctx.gather(passes)


def run_restarts(ctx: Context[Any, Any], clips: Clips, make: Callable[[], Follows]) -> list[Supervised]:
    """Tracks every sequence by VOT's protocol."""
    tracks, runs = clips.tracks, []
    for batch in ctx.batches(clips, 1, "sequences, with restarts"):
        runs += [followed_with_restarts(tracks[int(index)], make()) for index in batch]
    return ctx.gather(runs)
