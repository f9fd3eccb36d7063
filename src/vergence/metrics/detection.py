"""Average precision of detected boxes, by the protocols of COCO and of PASCAL VOC.

Detections of one class in one picture form a group. All groups advance together, their best detections first, for all
overlaps and ranges of size at once; so the steps are as many as the detections of the largest group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.metrics.interpolated import eleven_point
from vergence.ops.boxes import area, intersection

OVERLAPS = tuple(np.linspace(0.5, 0.95, 10).tolist())
"""Overlaps from which a detection is right, of COCO; they and the recalls are rounded as in the official tools."""
RECALLS = tuple(np.linspace(0.0, 1.0, 101).tolist())
RANGES = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}
"""Areas of objects in pixels, both ends included."""
MOST = (1, 10, 100)
"""Detections per picture and class that count."""
TOGETHER = 4_000_000
"""Pairs of detections and objects that are compared at once."""


class Found(NamedTuple):
    """Detections of a picture."""

    boxes: Tensor
    """(D, 4): left, top, right, bottom."""
    scores: Tensor
    """(D,)."""
    labels: Tensor
    """(D,)."""


class Truth(NamedTuple):
    """Objects of a picture."""

    boxes: Tensor
    """(G, 4)."""
    labels: Tensor
    """(G,)."""
    aside: Tensor | None = None
    """(G,), true for objects that need not be found: crowds of COCO, difficult ones of VOC."""
    area: Tensor | None = None
    """(G,): areas of the objects themselves, where they are known; those of the boxes otherwise."""


class Judged(NamedTuple):
    """Detections of one class in all pictures, for ranges of size and overlaps."""

    scores: Tensor
    """(D,)."""
    rank: Tensor
    """(D,): the place of each within its picture, from 0."""
    right: Tensor
    """(ranges, overlaps, D)."""
    aside: Tensor
    """(ranges, overlaps, D): neither right nor wrong."""
    positives: Tensor
    """(ranges,): objects that are to be found."""


# COCO -----------------------------------------------------------------------------------------------------------------


def coco_precision(found: Sequence[Found], truth: Sequence[Truth], classes: Sequence[int]) -> dict[str, float]:
    """The twelve numbers of COCO, in per cent: ``ap``, ``ap50``, ``ap75``, ``ap_small``, ``ap_medium``, ``ap_large``,
    and mean recalls ``ar1``, ``ar10``, ``ar100``, ``ar_small``, ``ar_medium``, ``ar_large``; NaN where there is nothing
    to find. Equal to the official tools."""
    _same_number(found, truth)
    bounds = torch.tensor(list(RANGES.values()), dtype=torch.float64)
    overlaps = torch.tensor(OVERLAPS, dtype=torch.float64)
    precision, recall = [], []  # per class: (ranges, overlaps), (counts, ranges, overlaps)
    for judged in _matched(found, truth, classes, overlaps, bounds):
        sums = [_curve(judged, most) for most in MOST]
        precision.append(sums[-1][0])
        recall.append(torch.stack([each[1] for each in sums]))
    ap, ar = torch.stack(precision), torch.stack(recall)  # (classes, ranges, overlaps), (classes, counts, ranges, ...)
    sizes = list(RANGES)
    values = {"ap": ap[:, 0], "ap50": ap[:, 0, 0], "ap75": ap[:, 0, 5]}
    values |= {f"ap_{size}": ap[:, sizes.index(size)] for size in sizes[1:]}
    values |= {f"ar{most}": ar[:, number, 0] for number, most in enumerate(MOST)}
    values |= {f"ar_{size}": ar[:, -1, sizes.index(size)] for size in sizes[1:]}
    return {name: 100 * float(value.nanmean()) for name, value in values.items()}


def _curve(judged: Judged, most: int) -> tuple[Tensor, Tensor]:
    """Average precision at 101 recalls and the largest recall, (ranges, overlaps) each."""
    counted = judged.rank < most
    order = judged.scores[counted].argsort(descending=True, stable=True)
    right = judged.right[..., counted][..., order]
    wrong = ~right & ~judged.aside[..., counted][..., order]
    hits = (right & ~judged.aside[..., counted][..., order]).cumsum(-1).double()
    misses = wrong.cumsum(-1).double()
    none = judged.positives == 0
    positives = judged.positives.clamp(min=1).double().view(-1, 1, 1)
    if not hits.shape[-1]:
        zero = torch.zeros(right.shape[:2], dtype=torch.float64).masked_fill(none.unsqueeze(1), torch.nan)
        return zero, zero
    recall = hits / positives
    precision = hits / (hits + misses + torch.finfo(torch.float64).eps)
    best = precision.flip(-1).cummax(-1).values.flip(-1)
    wanted = torch.tensor(RECALLS, dtype=torch.float64).expand(*recall.shape[:2], -1).contiguous()
    place = torch.searchsorted(recall.contiguous(), wanted)
    padded = torch.cat([best, torch.zeros_like(best[..., :1])], -1)
    mean = padded.gather(-1, place).mean(-1).masked_fill(none.unsqueeze(1), torch.nan)
    return mean, recall[..., -1].masked_fill(none.unsqueeze(1), torch.nan)


def _matched(
    found: Sequence[Found], truth: Sequence[Truth], classes: Sequence[int], overlaps: Tensor, bounds: Tensor
) -> Iterator[Judged]:
    """What COCO's protocol says of the detections of each class."""
    for label in classes:
        groups = [_group(f, t, label, bounds) for f, t in zip(found, truth, strict=True)]
        groups = [group for group in groups if len(group.scores) or group.boxes.shape[0]]
        positives = sum((group.counts for group in groups), torch.zeros(len(bounds), dtype=torch.long))
        parts = [part for some in _parcels(groups) for part in _greedy(some, overlaps)]
        shape = (len(bounds), len(overlaps), 0)
        empty = torch.zeros(shape, dtype=torch.bool)
        yield Judged(
            torch.cat([torch.zeros(0, dtype=torch.float64), *(g.scores for g in groups)]),
            torch.cat([torch.zeros(0, dtype=torch.long), *(torch.arange(len(g.scores)) for g in groups)]),
            torch.cat([empty, *(right for right, _ in parts)], -1),
            torch.cat([empty, *(aside for _, aside in parts)], -1),
            positives,
        )


class _Group(NamedTuple):
    scores: Tensor
    boxes: Tensor
    iou: Tensor
    """(D, G)."""
    crowd: Tensor
    ignored: Tensor
    """(ranges, G): objects that need not be found."""
    outside: Tensor
    """(ranges, D): detections of another size."""
    counts: Tensor
    """(ranges,)."""


def _group(found: Found, truth: Truth, label: int, bounds: Tensor) -> _Group:
    own = (found.labels == label).nonzero().squeeze(1).cpu()
    scores = found.scores.detach().cpu().double()[own]
    order = scores.argsort(descending=True, stable=True)[: MOST[-1]]
    boxes, scores = found.boxes.detach().cpu().double()[own[order]], scores[order]
    here = (truth.labels == label).cpu()
    objects = truth.boxes.cpu().double()[here]
    crowd = truth.aside.cpu()[here].bool() if truth.aside is not None else torch.zeros(len(objects), dtype=torch.bool)
    sizes = truth.area.cpu().double()[here] if truth.area is not None else area(objects)
    common = intersection(boxes.unsqueeze(1), objects)
    whole = torch.where(crowd, area(boxes).unsqueeze(1), area(boxes).unsqueeze(1) + area(objects) - common)
    iou = common / whole.clamp(min=torch.finfo(torch.float64).tiny)
    low, high = bounds.unsqueeze(-1).unbind(1)
    ignored = crowd | (sizes < low) | (sizes > high)
    own_area = area(boxes)
    outside = (own_area < low) | (own_area > high)
    return _Group(scores, objects, iou, crowd, ignored, outside, (~ignored).sum(1))


def _parcels(groups: Sequence[_Group]) -> Iterator[list[_Group]]:
    """Groups in a row that fit into memory together."""
    some: list[_Group] = []
    rows = columns = 1
    for group in groups:
        rows, columns = max(rows, group.iou.shape[0]), max(columns, group.iou.shape[1])
        if some and (len(some) + 1) * rows * columns > TOGETHER:
            yield some
            some, rows, columns = [], max(group.iou.shape[0], 1), max(group.iou.shape[1], 1)
        some.append(group)
    if some:
        yield some


def _greedy(groups: Sequence[_Group], overlaps: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Right and ignored detections of each group, (ranges, overlaps, D): detections by falling score take the object
    that they overlap most and that is still free, one that counts before one that does not."""
    count, ranges = len(groups), len(groups[0].counts)
    rows, columns = max(len(g.scores) for g in groups), max(g.iou.shape[1] for g in groups)
    iou = torch.full((count, rows, columns), -1.0, dtype=torch.float64)
    crowd = torch.zeros(count, columns, dtype=torch.bool)
    ignored = torch.ones(ranges, count, columns, dtype=torch.bool)
    for number, group in enumerate(groups):
        height, width = group.iou.shape
        iou[number, :height, :width] = group.iou
        crowd[number, :width] = group.crowd
        ignored[:, number, :width] = group.ignored
    free = torch.ones(ranges, len(overlaps), count, columns, dtype=torch.bool)
    right = torch.zeros(ranges, len(overlaps), count, rows, dtype=torch.bool)
    aside = torch.zeros_like(right)
    least = overlaps.clamp(max=1 - 1e-10).view(1, -1, 1, 1)
    for step in range(rows if columns else 0):
        near = iou[:, step].expand(ranges, len(overlaps), -1, -1)
        possible = free & (near >= least)
        counting = possible & ~ignored.unsqueeze(1)
        chosen = torch.where(counting.any(-1, keepdim=True), counting, possible)
        # The last of those with equal overlap, as in the official tools.
        best = columns - 1 - torch.where(chosen, near, -1.0).flip(-1).argmax(-1, keepdim=True)
        hit = chosen.any(-1)
        right[..., step] = hit
        aside[..., step] = hit & ignored.unsqueeze(1).expand_as(free).gather(-1, best).squeeze(-1)
        taken = hit & ~crowd.expand_as(free).gather(-1, best).squeeze(-1)
        free.scatter_(-1, best, free.gather(-1, best) & ~taken.unsqueeze(-1))
    results = []
    for number, group in enumerate(groups):
        mine = right[:, :, number, : len(group.scores)]
        results.append((mine, aside[:, :, number, : len(group.scores)] | (~mine & group.outside.unsqueeze(1))))
    return results


# PASCAL VOC -----------------------------------------------------------------------------------------------------------

Points = Literal["eleven", "area"]
"""Precision at eleven recalls (VOC 2007), or the area under the curve (since 2010)."""


def voc_precision(
    found: Sequence[Found],
    truth: Sequence[Truth],
    classes: Sequence[int],
    overlap: float = 0.5,
    points: Points = "eleven",
    offset: float = 0.0,
) -> Mapping[int, float]:
    """Average precision of each class in per cent; NaN for classes without objects.

    A detection belongs to the object of its picture that it overlaps most, and is right if that is by more than
    ``overlap`` and the object was not found before; those of difficult objects do not count. ``offset`` = 1 counts
    pixels as the official script does, by which a box from 0 to 9 is 10 wide.
    """
    _same_number(found, truth)
    return {label: 100 * _voc_class(found, truth, label, overlap, points, offset) for label in classes}


def _voc_class(
    found: Sequence[Found], truth: Sequence[Truth], label: int, overlap: float, points: Points, offset: float
) -> float:
    scores, right, aside, positives = [], [], [], 0
    grow = torch.tensor([0.0, 0.0, offset, offset], dtype=torch.float64)
    for mine, objects in zip(found, truth, strict=True):
        here = (objects.labels == label).cpu()
        difficult = (
            objects.aside.cpu()[here].bool() if objects.aside is not None else torch.zeros(int(here.sum())).bool()
        )
        positives += int((~difficult).sum())
        own = (mine.labels == label).cpu()
        order = mine.scores.detach().cpu()[own].argsort(descending=True, stable=True)
        boxes = mine.boxes.detach().cpu().double()[own][order] + grow
        scores.append(mine.scores.detach().cpu().double()[own][order])
        hit = torch.zeros(len(boxes), dtype=torch.bool)
        skipped = torch.zeros_like(hit)
        if len(boxes) and here.any():
            there = objects.boxes.cpu().double()[here] + grow
            common = intersection(boxes.unsqueeze(1), there)
            iou = common / (area(boxes).unsqueeze(1) + area(there) - common).clamp(min=1e-12)
            most, best = iou.max(1)
            near = most > overlap
            skipped = near & difficult[best]
            # The first detection of an object, in the order of scores.
            claims = torch.where(near & ~skipped, best, len(there) + torch.arange(len(boxes)))
            first = (claims.unsqueeze(0) == claims.unsqueeze(1)).tril(-1).any(1).logical_not()
            hit = near & ~skipped & first
        right.append(hit)
        aside.append(skipped)
    kept = ~torch.cat(aside) if aside else torch.zeros(0, dtype=torch.bool)
    hits, ranked = torch.cat(right)[kept], torch.cat(scores)[kept]
    if points == "eleven":
        return eleven_point(hits, ranked, positives)
    return _under(hits, ranked, positives)


def _under(hits: Tensor, scores: Tensor, positives: int) -> float:
    """The area under the curve of precision over recall, made monotone."""
    if not positives:
        return float("nan")
    good = hits[scores.argsort(descending=True, stable=True)].double()
    gained = good.cumsum(0)
    precision = gained / torch.arange(1, len(good) + 1)
    best = precision.flip(0).cummax(0).values.flip(0) if len(good) else precision
    return float((best * good).sum() / positives)


def _same_number(found: Sequence[Found], truth: Sequence[Truth]) -> None:
    if len(found) != len(truth):
        raise VergenceError(f"detections of {len(found)} pictures cannot be judged by objects of {len(truth)}")
