"""Tracking metrics: OTB's success and precision, GOT-10k's AO and SR, VOT's accuracy, robustness and EAO.

A tracker's boxes and the truth are rectangles (N, 4), one row per frame, the first of them given. Frames where the
target is unknown (NaN, no area, or not visible) are not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vergence.core.errors import VergenceError
from vergence.tracking.boxes import Array, areas, centre_errors, known, overlaps, pushed

OVERLAPS = np.arange(21) / 20
"""Thresholds of the success plot, 0 to 1."""
DISTANCES = np.arange(51.0)
"""Thresholds of the precision plot, 0 to 50 pixels."""
SKIPPED = 5
"""VOT: number of frames after which a lost tracker is restarted."""
BURN_IN = 10
"""VOT: frames after a start that do not count for accuracy (burn-in)."""


# One pass (OTB) ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """One-pass evaluation of a sequence, without restarts."""

    overlaps: Array
    """Overlap in all frames; NaN where the truth is unknown."""
    errors: Array
    """Centre error in pixels; NaN likewise."""

    @property
    def success(self) -> Array:
        """The share of frames whose overlap is above each threshold of OVERLAPS (strictly, so never above 1)."""
        return np.asarray((self.overlaps[~np.isnan(self.overlaps)][:, None] > OVERLAPS).mean(0))

    @property
    def precision(self) -> Array:
        """The share of frames whose centre is within each of DISTANCES."""
        return np.asarray((self.errors[~np.isnan(self.errors)][:, None] <= DISTANCES).mean(0))

    @property
    def judged(self) -> bool:
        return not np.isnan(self.overlaps).all()


def one_pass(
    boxes: Array,
    truth: Array,
    visible: NDArray[np.bool_] | None = None,
    bounds: tuple[float, float] | None = None,
) -> Pass:
    """Evaluates boxes (N, 4) against the truth (N, 4); with ``bounds`` (width, height) both are first clipped to the
    frame, as in GOT-10k's toolkit."""
    if len(boxes) != len(truth):
        raise VergenceError(f"{len(boxes)} boxes cannot be evaluated against {len(truth)}")
    shown = known(truth) if visible is None else known(truth) & visible
    errors = np.where(shown, centre_errors(boxes, truth), np.nan)
    if bounds is not None:
        boxes, truth = pushed(boxes, bounds), pushed(truth, bounds)
    return Pass(np.where(shown, overlaps(boxes, truth), np.nan), errors)


def ope(passes: Sequence[Pass]) -> dict[str, float]:
    """OTB's one-pass evaluation, in per cent: area under the success curve, and precision at 20 pixels;
    unweighted means over sequences."""
    judged = [p for p in passes if p.judged]
    if not judged:
        raise VergenceError("no frame has a box to evaluate a tracker with")
    return {
        "auc": 100 * float(np.mean([p.success.mean() for p in judged])),
        "precision": 100 * float(np.mean([p.precision[20] for p in judged])),
    }


# GOT-10k -------------------------------------------------------------------------------------------------------------


def got10k(passes: Sequence[Pass]) -> dict[str, float]:
    """GOT-10k's scores, in per cent: the mean overlap of all frames but the first (AO), and the share of frames whose
    overlap is above 0.5 and 0.75 (SR). All frames of all sequences have equal weight."""
    later = np.concatenate([p.overlaps[1:] for p in passes])
    later = later[~np.isnan(later)]
    if not len(later):
        raise VergenceError("no frame after the first has a box to evaluate a tracker with")
    return {
        "ao": 100 * float(later.mean()),
        "sr50": 100 * float((later > 0.5).mean()),
        "sr75": 100 * float((later > 0.75).mean()),
    }


# VOT -----------------------------------------------------------------------------------------------------------------

START, SKIP, LOST = -1.0, -2.0, 0.0
"""Special values of a frame in a supervised run: a start, a skipped frame, a failure."""


@dataclass(frozen=True)
class Supervised:
    """A sequence by VOT's protocol: a tracker without overlap has failed and is restarted some frames later."""

    codes: Array
    """(N,): the overlap of a tracked frame (above 0), or START, SKIP, LOST; NaN where the truth is unknown."""

    @property
    def failures(self) -> int:
        return int((self.codes == LOST).sum())

    def accurate(self, burn_in: int = BURN_IN) -> Array:
        """The overlaps for accuracy: of tracked frames, without the burn-in after a start."""
        counted = ~np.isnan(self.codes) & (self.codes > 0)
        for start in np.flatnonzero(self.codes == START):
            counted[start : start + burn_in] = False
        return self.codes[counted]

    def fragments(self) -> list[tuple[Array, bool]]:
        """The overlaps of each segment from a start on, including the first frame, and whether it ended in a
        failure."""
        starts = np.flatnonzero(self.codes == START)
        fragments = []
        for start in starts:
            ended = np.flatnonzero(self.codes[start:] == LOST)
            stop = start + ended[0] if len(ended) else len(self.codes)
            stretch = np.nan_to_num(self.codes[start:stop])
            stretch[0] = 1.0
            fragments.append((stretch, bool(len(ended))))
        return fragments


def supervise(
    length: int, start: Callable[[int], bool], step: Callable[[int], float], skipped: int = SKIPPED
) -> Supervised:
    """Runs a tracker with restarts after failures. ``start(frame)`` initialises it with the truth (False: unknown, so
    the next frame is tried), ``step(frame)`` tracks and returns the overlap; NaN means unknown truth, not a failure."""
    codes = np.full(length, SKIP)
    again = 0
    for frame in range(length):
        if frame < again:
            continue
        if frame == again:
            if start(frame):
                codes[frame] = START
            else:
                again += 1
            continue
        overlap = step(frame)
        codes[frame] = overlap
        if overlap <= 0:  # never for NaN
            codes[frame] = LOST
            again = frame + skipped
        else:
            again = -1
    return Supervised(codes)


def expected_overlaps(runs: Sequence[Supervised]) -> Array:
    """The expected average overlap by length (L,), for lengths of 1 to that of the longest sequence: over segments of
    at least that length, the mean overlap of frames 2 to the length. A segment that ended in a failure is extended with
    overlap 0; one that ended with its sequence is not used for greater lengths. NaN where no segment is left."""
    longest = max(len(run.codes) for run in runs)
    sums, counts = np.zeros(longest), np.zeros(longest)
    for run in runs:
        for stretch, failed in run.fragments():
            reach = longest if failed else len(stretch)
            total = np.zeros(reach)
            total[: len(stretch)] = stretch
            total[0] = 0
            sums[:reach] += np.cumsum(total)
            counts[:reach] += 1
    lengths = np.arange(longest)  # frames after the first
    with np.errstate(invalid="ignore", divide="ignore"):
        curve = sums / counts / np.maximum(lengths, 1)
    curve[0] = 1.0
    return np.asarray(curve)


def interval(lengths: Sequence[int], share: float = 0.5) -> tuple[int, int]:
    """The range of lengths for EAO: around the mode of the sequence lengths, the shortest interval with ``share`` of
    their kernel density."""
    if len(set(lengths)) < 2:
        return lengths[0], lengths[0]
    from scipy.stats import gaussian_kde

    places = np.arange(1, max(lengths) + 1)
    density = gaussian_kde(np.asarray(lengths, np.float64))(places)
    density /= density.sum()
    low = high = int(density.argmax())
    held = density[low]
    while held < share:
        before = density[low - 1] if low > 0 else -1.0
        after = density[high + 1] if high + 1 < len(density) else -1.0
        if before > after:
            low, held = low - 1, held + before
        else:
            high, held = high + 1, held + after
    return int(places[low]), int(places[high])


def vot(runs: Sequence[Supervised], lengths: tuple[int, int] | None = None) -> dict[str, float]:
    """VOT's scores: accuracy (mean overlap of tracked frames, in per cent), robustness (failures per sequence) and the
    expected average overlap (EAO, in per cent) over the given lengths, or those from the sequences."""
    accurate = np.concatenate([run.accurate() for run in runs])
    curve = expected_overlaps(runs)
    low, high = lengths or interval([len(run.codes) for run in runs])
    part = curve[low - 1 : high]
    part = part[~np.isnan(part)]
    if not len(part):
        raise VergenceError(f"EAO needs a segment of {low} frames or more, and the longest sequence has {len(curve)}")
    return {
        "accuracy": 100 * float(accurate.mean()) if len(accurate) else 0.0,
        "robustness": float(np.mean([run.failures for run in runs])),
        "eao": 100 * float(part.mean()),
    }


# By attribute ---------------------------------------------------------------------------------------------------------


def box_attributes(truth: Array) -> dict[str, bool]:
    """OTB's attributes that follow from boxes alone: scale variation (under half or over twice the first frame's size,
    by the root of the area), fast motion (over 20 pixels between frames) and low resolution (under 400 pixels)."""
    boxes = truth[known(truth)]
    if not len(boxes):
        return {"scale variation": False, "fast motion": False, "low resolution": False}
    ratio = np.sqrt(areas(boxes) / areas(boxes[:1]))
    return {
        "scale variation": bool(((ratio < 0.5) | (ratio > 2)).any()),
        "fast motion": bool((centre_errors(boxes[1:], boxes[:-1]) > 20).any()),
        "low resolution": bool((areas(boxes) < 400).any()),
    }


def by_attribute(
    passes: Sequence[Pass], attributes: Sequence[Mapping[str, bool]]
) -> dict[str, tuple[int, float, float]]:
    """By attribute: the number of sequences, and their success AUC and precision."""
    names = dict.fromkeys(name for held in attributes for name in held)
    table = {}
    for name in names:
        chosen = [p for p, held in zip(passes, attributes, strict=True) if held.get(name) and p.judged]
        if chosen:
            scores = ope(chosen)
            table[name] = (len(chosen), scores["auc"], scores["precision"])
    return table
