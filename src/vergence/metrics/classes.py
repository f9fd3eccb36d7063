"""Retrieval by class: knee point, bull's eye and precision against recall, when every sample is a query in turn.

A gallery may hold samples of no class (label -1), which are never a query and never right. Among equal distances the
earlier sample comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.errors import VergenceError

NONE = -1
"""The label of samples that belong to no class."""
CHUNK = 4_000_000
"""Number of distances ranked at a time."""
RECALLS = 20
"""Steps of recall at which curves are sampled."""


@dataclass(frozen=True)
class ClassScores:
    """Scores in per cent, means over all queries."""

    knee: float
    """Precision (which is recall there) among the first V, the number of samples of the query's class, where the query
    itself is in the gallery and counts."""
    knee_others: float
    """The same without the query: precision among the first V - 1 others."""
    bullseye: float
    """Recall among the first 2 V, the query included: the bull's eye score of MPEG-7 CE-Shape-1 (40 for classes of
    20)."""
    first: float
    """How often the nearest other sample is of the query's class."""
    precision: Tensor
    """Mean precision (R,) at recalls 1/R, 2/R, ..., 1, the query included: the least list that reaches each."""

    @property
    def recall(self) -> Tensor:
        """Recalls (R,) of the curve, in per cent."""
        return torch.arange(1, len(self.precision) + 1) * (100 / len(self.precision))


def class_scores(descriptors: Tensor, labels: Tensor) -> ClassScores:
    """Scores of descriptors (N, D) with labels (N,), compared by L1. Queries without another sample of their class are
    left out of ``knee_others`` and ``first``; there must be one with."""
    if descriptors.ndim != 2 or labels.shape != descriptors.shape[:1]:
        raise VergenceError(
            f"retrieval by class needs descriptors (N, D) with one label each, got {tuple(descriptors.shape)} and "
            f"{tuple(labels.shape)}"
        )
    if not descriptors.isfinite().all():
        raise VergenceError("the descriptors to rank hold values that are not finite")
    parts = [_ranked(torch.cdist(descriptors[rows], descriptors, p=1), labels, rows) for rows in _queries(labels)]
    counts = torch.bincount(labels[labels != NONE])
    if not parts or int(counts.max()) < 2:
        raise VergenceError("no two samples are of one class: there is nothing to judge")
    return _mean(torch.cat([a for a, _ in parts]), torch.cat([b for _, b in parts]))


def _queries(labels: Tensor) -> Iterator[Tensor]:
    places = (labels != NONE).nonzero()[:, 0]
    return iter(places.split(max(CHUNK // max(len(labels), 1), 1))) if len(places) else iter(())


def _ranked(distances: Tensor, labels: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """For each query (Q,), which samples of its list are right (Q, N), and the place of itself (Q, 1)."""
    order = distances.argsort(dim=1, stable=True)
    return labels[order] == labels[rows, None], (order == rows[:, None]).byte().argmax(1, keepdim=True)


def _mean(right: Tensor, own: Tensor) -> ClassScores:
    found = right.cumsum(1)  # among the first h
    relevant = found[:, -1:]
    place = torch.arange(right.shape[1]).expand_as(right)
    others = found - (place >= own).long()  # right ones among the first h + 1 places, without the query
    # Without the query, a list that reaches beyond it needs one place more.
    last = relevant - 2  # index of the last of V - 1 places
    last = torch.where(own <= last, last + 1, last)
    several = relevant[:, 0] > 1
    first = torch.where(own == 0, 1, 0)

    def at(counts: Tensor, index: Tensor) -> Tensor:
        return counts.gather(1, index.clamp(0, counts.shape[1] - 1))[:, 0].double()

    sizes = relevant[:, 0].double()
    steps = torch.arange(1, RECALLS + 1)
    wanted = (relevant * steps + RECALLS - 1) // RECALLS  # right ones needed for each recall
    reached = torch.searchsorted(found, wanted.contiguous()) + 1  # the length of the list that has them
    precision = wanted.double() / reached
    return ClassScores(
        knee=float((at(found, relevant - 1) / sizes).mean() * 100),
        knee_others=float((at(others, last)[several] / (sizes[several] - 1)).mean() * 100),
        bullseye=float((at(found, 2 * relevant - 1) / sizes).mean() * 100),
        first=float(at(right.long(), first)[several].mean() * 100),
        precision=precision.mean(0) * 100,
    )
