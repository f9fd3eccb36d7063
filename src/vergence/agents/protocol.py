"""Scores of ranked triplets: recall of VRD, average precision of HICO-DET and UnRel, and the lenient forms of both that
the public code of Baldassarre et al. (2020) computes.

Official: a triplet is right if its three classes are, and its boxes overlap the annotated ones by more than a
threshold; each annotation is found once; recall is pooled over all annotations; and a triplet counts as wrong in every
picture that does not show it. Lenient: recall looks at classes alone and is averaged over pictures; precision leaves
out triplets that a picture does not show.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from vergence.metrics.interpolated import eleven_point
from vergence.ops.boxes import pairwise_iou

Kind = Literal["relation", "phrase", "subject", "classes"]
"""What has to overlap: both boxes, their union, the subject's box, or nothing (classes alone)."""
Triplet = tuple[int, int, int]


class Triplets(NamedTuple):
    """Triplets of one picture, the best first if they are ranked."""

    subjects: Tensor
    """(t, 4), boxes."""
    objects: Tensor
    """(t, 4), boxes."""
    classes: Tensor
    """(t, 3): subject, predicate, object."""
    scores: Tensor
    """(t,)."""

    def first(self, count: int) -> Triplets:
        return Triplets(*(part[:count] for part in self))

    def only(self, mask: Tensor) -> Triplets:
        return Triplets(*(part[mask] for part in self))

    def swapped(self) -> Triplets:
        return Triplets(self.objects, self.subjects, self.classes.flip(1), self.scores)


Picture = tuple[Triplets, Triplets]
"""What was found in a picture, and the truth."""


def agreement(found: Triplets, truth: Triplets, kind: Kind = "relation") -> Tensor:
    """Overlap (t, g) of triplets with true ones; -1 where their classes differ."""
    same = (found.classes.unsqueeze(1) == truth.classes.unsqueeze(0)).all(2)
    if kind == "classes":
        return torch.where(same, 1.0, -1.0)
    if kind == "phrase":
        overlap = pairwise_iou(_union(found), _union(truth))
    else:
        overlap = pairwise_iou(found.subjects, truth.subjects)
        if kind == "relation":
            overlap = torch.minimum(overlap, pairwise_iou(found.objects, truth.objects))
    return torch.where(same, overlap, -1.0)


def _union(some: Triplets) -> Tensor:
    low = torch.minimum(some.subjects[:, :2], some.objects[:, :2])
    return torch.cat([low, torch.maximum(some.subjects[:, 2:], some.objects[:, 2:])], 1)


def hits(agree: Tensor, threshold: float) -> Tensor:
    """Which of the ranked triplets (t,) are right: each chooses the true one it overlaps most, and of several that
    choose the same one only the first is right (PASCAL VOC's rule)."""
    count, answers = agree.shape
    if not count or not answers:
        return torch.zeros(count, dtype=torch.bool, device=agree.device)
    best, own = agree.max(1)
    good = best > threshold
    place = torch.arange(count, device=agree.device)
    first = torch.full((answers,), count, device=agree.device).scatter_reduce(0, own[good], place[good], "amin")
    return good & (first[own] == place)


def found_answers(agree: Tensor, threshold: float) -> Tensor:
    """Which true triplets (g,) are found: ranked ones take, one after another, the best that is still free."""
    free = torch.ones(agree.shape[1], dtype=torch.bool, device=agree.device)
    for row in agree[(agree > threshold).any(1)]:  # few: those that match anything at all
        best = torch.where(free, row, -1.0).argmax()
        if row[best] > threshold:
            free[best] = False
    return ~free


def recall_at(
    pictures: Sequence[Picture],
    most: int,
    kind: Kind = "relation",
    threshold: float = 0.5,
    ordered: bool = True,
    among: Collection[Triplet] | None = None,
) -> float:
    """Recall@x in percent: the share of all true triplets that are among the ``most`` best of their picture. Without
    ``ordered``, subject and object may be exchanged. ``among`` looks only at these true triplets of classes."""
    right, total = 0, 0
    for found, truth in pictures:
        if among is not None:
            truth = truth.only(torch.tensor([tuple(row) in among for row in truth.classes.tolist()], dtype=torch.bool))
        agree = agreement(found.first(most), truth, kind)
        if not ordered:
            agree = torch.maximum(agree, agreement(found.first(most).swapped(), truth, kind))
        right += int(found_answers(agree, threshold).sum())
        total += len(truth.classes)
    return 100 * right / total if total else math.nan


def lenient_recall_at(pictures: Sequence[Picture], most: int) -> float:
    """Recall@x as the public code has it, in percent: classes alone, and the mean over pictures."""
    shares = [
        float((agreement(found.first(most), truth, "classes") > 0).any(0).float().mean())
        for found, truth in pictures
        if len(truth.classes)
    ]
    return 100 * sum(shares) / len(shares) if shares else math.nan


def best_pair(pictures: Sequence[Picture], ordered: bool = True, threshold: float = 0.5) -> float:
    """How often the best pair for a predicate that a picture shows is one that it really relates, in percent."""
    right, total = 0, 0
    for found, truth in pictures:
        for predicate in truth.classes[:, 1].unique().tolist():
            first = found.only(found.classes[:, 1] == predicate).first(1)
            agree = agreement(first, truth)
            if not ordered:
                agree = torch.maximum(agree, agreement(first.swapped(), truth))
            right += int(bool((agree > threshold).any()))
            total += 1
    return 100 * right / total if total else math.nan


def average_precisions(
    pictures: Sequence[Picture], kind: Kind = "relation", threshold: float = 0.5, lenient: bool = False
) -> dict[Triplet, float]:
    """The 11-point average precision of every triplet of classes that is annotated."""
    names: list[Tensor] = []
    scores: list[Tensor] = []
    right: list[Tensor] = []
    answers: list[Tensor] = []
    base = 1 + max((int(p.classes.max()) for pair in pictures for p in pair if len(p.classes)), default=0)

    def named(classes: Tensor) -> Tensor:
        return (classes[:, 0] * base + classes[:, 1]) * base + classes[:, 2]

    for found, truth in pictures:
        good = hits(agreement(found, truth, kind), threshold)
        answers.append(named(truth.classes))
        kept = torch.isin(named(found.classes), answers[-1]) if lenient else torch.ones_like(good)
        names.append(named(found.classes)[kept])
        scores.append(found.scores[kept])
        right.append(good[kept])
    if not pictures:
        return {}
    name, score, good, answer = (torch.cat(parts) for parts in (names, scores, right, answers))
    order = name.argsort(stable=True)
    name, score, good = name[order], score[order], good[order]
    kinds, counts = answer.unique(return_counts=True)
    low, high = torch.searchsorted(name, kinds), torch.searchsorted(name, kinds, right=True)
    return {
        (own // base**2, own // base % base, own % base): eleven_point(good[a:b], score[a:b], count)
        for own, a, b, count in zip(kinds.tolist(), low.tolist(), high.tolist(), counts.tolist(), strict=True)
    }


def mean_precision(precisions: dict[Triplet, float], among: Collection[Triplet] | None = None) -> float:
    """Their mean in percent, perhaps of some triplets only; NaN for none."""
    kept = [value for name, value in precisions.items() if among is None or name in among]
    return 100 * sum(kept) / len(kept) if kept else math.nan
