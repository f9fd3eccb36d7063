"""Temporal proposals and detections, as the official scripts of ActivityNet and THUMOS judge them.

Proposals: recall averaged over overlaps (AR) at an average number of proposals per video (AN), where every video keeps
the same share of its list; the area under that curve. Detections: average precision. The two scripts differ:
ActivityNet goes through the detections by score and takes the area under the curve; THUMOS lets every instance take the
detection that fits it best, and averages precisions at 11 recalls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from vergence.core.errors import VergenceError

Floats = NDArray[np.float64]
Protocol = Literal["activitynet", "thumos"]

OVERLAPS: dict[Protocol, Floats] = {
    "activitynet": np.linspace(0.5, 0.95, 10),
    "thumos": np.linspace(0.5, 1.0, 11),
}
"""Overlaps that recall is averaged over."""
DETECTION_OVERLAPS: dict[Protocol, Floats] = {
    "activitynet": np.linspace(0.5, 0.95, 10),
    "thumos": np.linspace(0.3, 0.7, 5),
}


@dataclass(frozen=True)
class RecallCurve:
    """Recall by the average number of proposals per video."""

    number: Floats
    """(steps,), AN."""
    recall: Floats
    """(overlaps, steps), from 0 to 1."""
    overlaps: Floats

    def at(self, number: float) -> float:
        """AR@AN in percent, between steps by linear interpolation."""
        return 100 * float(np.interp(number, self.number, self.recall.mean(0)))

    @property
    def area(self) -> float:
        """AUC in percent: the area under AR(AN), divided by the largest AN."""
        mean = self.recall.mean(0)
        return 100 * float(((mean[1:] + mean[:-1]) / 2 * np.diff(self.number)).sum() / self.number[-1])


def _iou(first: Floats, second: Floats) -> Floats:
    """(N, M) of spans (N, 2) and (M, 2)."""
    low = np.maximum(first[:, None, 0], second[None, :, 0])
    high = np.minimum(first[:, None, 1], second[None, :, 1])
    common = (high - low).clip(0)
    union = (first[:, 1] - first[:, 0])[:, None] + (second[:, 1] - second[:, 0])[None] - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def _spans(values: object) -> Floats:
    spans = np.asarray(values, np.float64)
    spans = spans.reshape(-1, 2) if spans.size == 0 else spans
    if spans.ndim != 2 or spans.shape[1] != 2 or not np.isfinite(spans).all():
        raise VergenceError(f"spans are finite starts and ends (N, 2), got an array {spans.shape}")
    return spans


def average_recall(
    truth: Sequence[object],
    proposals: Sequence[object],
    scores: Sequence[object],
    most: float | None = 100.0,
    protocol: Protocol = "activitynet",
    steps: int = 100,
) -> RecallCurve:
    """The recall curve of proposals (n_i, 2) with scores (n_i,) for videos whose instances are ``truth`` (m_i, 2).

    Videos without instances do not count. On average ``most`` proposals per video are kept (None: all). Cost: one sort
    per video, since only the rank at which an instance is first found matters.
    """
    if not len(truth) == len(proposals) == len(scores):
        raise VergenceError(
            f"every video has instances, proposals and scores, got {len(truth)}, {len(proposals)} and {len(scores)}"
        )
    overlaps = OVERLAPS[protocol]
    rows = [
        (_spans(t), _spans(p), np.asarray(s, np.float64).reshape(-1))
        for t, p, s in zip(truth, proposals, scores, strict=True)
    ]
    rows = [row for row in rows if len(row[0])]
    total = sum(len(p) for _, p, _ in rows)
    if not rows:
        raise VergenceError("no video has an instance: there is nothing to recall")
    most = total / len(rows) if most is None else most
    instances = sum(len(t) for t, _, _ in rows)
    shares = np.arange(1, steps + 1) / steps
    if not total:
        return RecallCurve(shares * most, np.zeros((len(overlaps), steps)), overlaps)
    ratio = most * len(rows) / total
    kept = [min(int(len(p) * ratio), len(p)) for _, p, _ in rows]
    used = sum(kept)
    if not used:
        return RecallCurve(shares * most, np.zeros((len(overlaps), steps)), overlaps)
    shares = shares * (most * len(rows) / used)
    matches = np.zeros((len(overlaps), steps))
    for (mine, found, score), count in zip(rows, kept, strict=True):
        order = np.argsort(-score, kind="stable")[:count]
        taken = np.minimum((count * shares).astype(np.int64), count)  # (steps,)
        if count:
            # The best overlap that an instance has met after each number of proposals.
            best = np.maximum.accumulate(_iou(mine, found[order]), 1)
            met = np.concatenate([np.full((len(mine), 1), -1.0), best], 1)[:, taken]
            matches += (met[None] >= overlaps[:, None, None]).sum(1)
    return RecallCurve(shares * used / len(rows), matches / instances, overlaps)


def average_precision(
    truth: Sequence[object],
    found: Sequence[object],
    scores: Sequence[object],
    overlaps: Floats | None = None,
    protocol: Protocol = "activitynet",
    ambiguous: Sequence[object] = (),
) -> Floats:
    """Average precision (overlaps,) from 0 to 1 of one class: spans found (n_i, 2) with scores (n_i,) in videos whose
    instances of the class are ``truth`` (m_i, 2). NaN if there is no instance. ``ambiguous`` (k_i, 2), THUMOS alone:
    detections that touch one of these are neither right nor wrong."""
    overlaps = DETECTION_OVERLAPS[protocol] if overlaps is None else np.asarray(overlaps, np.float64)
    instances = [_spans(t) for t in truth]
    spans = [_spans(f) for f in found]
    score = [np.asarray(s, np.float64).reshape(-1) for s in scores]
    positives = sum(map(len, instances))
    if not positives:
        return np.full(len(overlaps), np.nan)
    if protocol == "activitynet":
        return _by_detection(instances, spans, score, overlaps, positives)
    unclear = [_spans(a) for a in ambiguous] if len(ambiguous) else [_spans([])] * len(instances)
    return np.array([_by_instance(instances, spans, score, unclear, t, positives) for t in overlaps])


def _by_detection(
    truth: Sequence[Floats], found: Sequence[Floats], scores: Sequence[Floats], overlaps: Floats, positives: int
) -> Floats:
    """Videos do not share instances, so each is matched alone, by falling score; the curves are joined after that."""
    hits, order = [], np.argsort(-np.concatenate(scores), kind="stable")
    for mine, spans, score in zip(truth, found, scores, strict=True):
        ranked = np.argsort(-score, kind="stable")
        iou = _iou(spans[ranked], mine)
        hit = np.zeros((len(overlaps), len(spans)), bool)
        free = np.ones((len(overlaps), len(mine)), bool)
        every = np.arange(len(overlaps))
        for row, place in enumerate(ranked if len(mine) else ()):
            open_ = np.where(free, iou[row], -1.0)  # (overlaps, instances)
            best = open_.argmax(1)
            met = open_[every, best] >= overlaps
            hit[:, place] = met
            free[every[met], best[met]] = False
        hits.append(hit)
    joined = np.concatenate(hits, 1)[:, order]
    return np.array([_area(row, positives) for row in joined])


def _area(hits: NDArray[np.bool_], positives: int) -> float:
    count = hits.cumsum()
    precision = count / np.arange(1, len(hits) + 1)
    highest = np.maximum.accumulate(precision[::-1])[::-1]  # from here on
    return float(highest[hits].sum() / positives)


def _by_instance(
    truth: Sequence[Floats],
    found: Sequence[Floats],
    scores: Sequence[Floats],
    ambiguous: Sequence[Floats],
    overlap: float,
    positives: int,
) -> float:
    right, wrong = [], []
    for mine, spans, score, unclear in zip(truth, found, scores, ambiguous, strict=True):
        order = np.argsort(-score, kind="stable")
        spans, score = spans[order], score[order]
        free = np.ones(len(spans), bool)
        for row in _iou(mine, spans) if len(spans) else ():
            best = int(np.where(free, row, -1.0).argmax())
            if free[best] and row[best] > overlap:
                free[best] = False
        right.append(score[~free])
        wrong.append(score[free & ~(_iou(spans, unclear) > 0).any(1)])
    values = np.concatenate(right + wrong)
    hit = np.arange(len(values)) < sum(map(len, right))  # with equal scores, what is right comes first
    hit = hit[np.argsort(-values, kind="stable")]
    count = hit.cumsum()
    recall, precision = count / positives, count / np.arange(1, len(hit) + 1)
    levels = [precision[recall >= level / 10] for level in range(11)]
    return float(np.mean([level.max() if len(level) else 0.0 for level in levels]))
