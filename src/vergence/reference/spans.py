"""Soft-NMS of spans and the protocols of temporal proposals and detections, one item at a time, as the public scripts
go about them."""

from __future__ import annotations

import math
from collections.abc import Sequence

Span = tuple[float, float]


def iou(a: Span, b: Span) -> float:
    """Intersection over union of two spans."""
    common = max(min(a[1], b[1]) - max(a[0], b[0]), 0.0)
    union = (a[1] - a[0]) + (b[1] - b[0]) - common
    return common / union if union > 0 else 0.0


def soft_nms(
    spans: Sequence[Span], scores: Sequence[float], sigma: float, low: float, high: float, duration: float, most: int
) -> list[tuple[int, float]]:
    """Indices and lowered scores, best first: one span is taken at a time, and every other one is looked at."""
    left = dict(enumerate(scores))
    taken: list[tuple[int, float]] = []
    while left and len(taken) < most:
        best = max(left, key=lambda i: (left[i], -i))
        taken.append((best, left.pop(best)))
        limit = low + (high - low) * (spans[best][1] - spans[best][0]) / duration
        for other in left:
            overlap = iou(spans[best], spans[other])
            if overlap > limit:
                left[other] *= math.exp(-(overlap**2) / sigma)
    return taken


def average_recall(
    truth: Sequence[Sequence[Span]],
    proposals: Sequence[Sequence[Span]],
    thresholds: Sequence[float],
    most: float,
    steps: int,
) -> tuple[list[float], list[float]]:
    """Mean recall over ``thresholds`` and the mean number of proposals, at 1 to ``steps`` equal shares of each video's
    list (best first), of which ``most`` per video are kept on average."""
    total = sum(map(len, proposals))
    ratio = most * len(truth) / total
    kept = [list(p)[: min(int(len(p) * ratio), len(p))] for p in proposals]
    used = sum(map(len, kept))
    recalls, numbers = [], []
    for step in range(1, steps + 1):
        share = step / steps * (most * len(truth) / used)
        found = 0
        for threshold in thresholds:
            for mine, list_ in zip(truth, kept, strict=True):
                some = list_[: min(int(len(list_) * share), len(list_))]
                found += sum(any(iou(t, p) >= threshold for p in some) for t in mine)
        recalls.append(found / (len(thresholds) * sum(map(len, truth))))
        numbers.append(share * used / len(truth))
    return recalls, numbers


def activitynet_precision(
    truth: Sequence[Sequence[Span]], found: Sequence[tuple[int, Span, float]], threshold: float
) -> float:
    """Average precision of one class: detections (video, span, score) by falling score, each with the best free
    instance of its video; the area under the precision made monotone."""
    free = [set(range(len(mine))) for mine in truth]
    hits = []
    for video, span, _ in sorted(found, key=lambda row: -row[2]):
        ranked = sorted(free[video], key=lambda j: -iou(span, truth[video][j]))
        hit = bool(ranked) and iou(span, truth[video][ranked[0]]) >= threshold
        if hit:
            free[video].remove(ranked[0])
        hits.append(hit)
    count, curve = 0, []
    for place, hit in enumerate(hits, 1):
        count += hit
        curve.append((count / sum(map(len, truth)), count / place))
    area, before = 0.0, 0.0
    for place, (recall, _) in enumerate(curve):
        area += (recall - before) * max(precision for _, precision in curve[place:])
        before = recall
    return area


def thumos_precision(
    truth: Sequence[Sequence[Span]],
    found: Sequence[tuple[int, Span, float]],
    threshold: float,
    ambiguous: Sequence[Sequence[Span]] = (),
) -> float:
    """Average precision of one class as THUMOS's scripts have it: every instance takes the free detection of its video
    that overlaps it most, whatever its score; detections that touch an ambiguous span are no mistakes; the mean of
    the best precision at 11 recalls."""
    rows: list[tuple[float, bool]] = []
    for video, mine in enumerate(truth):
        own = sorted(((s, c) for v, s, c in found if v == video), key=lambda row: -row[1])
        free = list(range(len(own)))
        for instance in mine:
            if free:
                best = max(free, key=lambda j: (iou(instance, own[j][0]), -j))
                if iou(instance, own[best][0]) > threshold:
                    free.remove(best)
        for j, (span, score) in enumerate(own):
            if j not in free:
                rows.append((score, True))
            elif not any(iou(span, a) > 0 for a in (ambiguous[video] if ambiguous else ())):
                rows.append((score, False))
    rows.sort(key=lambda row: (-row[0], not row[1]))
    count, curve = 0, []
    for place, (_, hit) in enumerate(rows, 1):
        count += hit
        curve.append((count / sum(map(len, truth)), count / place))
    return sum(max((p for r, p in curve if r >= t / 10), default=0.0) for t in range(11)) / 11
