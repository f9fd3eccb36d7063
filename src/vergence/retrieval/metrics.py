"""Mean average precision of retrieval, as the revisited Oxford and Paris benchmarks take it, and two views of it.

Junk is taken out of a ranking before it is judged, precision is averaged over trapezoids, and a query without positives
is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.metrics.ranking import rank_matches


@dataclass(frozen=True)
class Truth:
    """For each query the gallery positions that count for it, and those that count neither way."""

    positives: Sequence[Tensor]
    junk: Sequence[Tensor]

    def __len__(self) -> int:
        return len(self.positives)

    def relevant(self) -> Tensor:
        """The number of positives of each query, (Q,)."""
        return torch.tensor([len(positions) for positions in self.positives])


def average_precision(distances: Tensor, truth: Truth, queries: Sequence[int]) -> Tensor:
    """Of distances (B, N) from the given queries of the truth to a gallery: (B,) from 0 to 1, NaN without positives."""
    if not distances.isfinite().all():
        raise VergenceError("the distances to rank hold values that are not finite")
    match, left_out = (torch.zeros(distances.shape, dtype=torch.bool) for _ in range(2))
    for row, query in enumerate(queries):
        match[row, truth.positives[query]] = True
        left_out[row, truth.junk[query]] = True
    ranked = rank_matches(distances.cpu(), match & ~left_out, left_out, "trapezoid")
    return torch.where(ranked.judged, ranked.precision, torch.nan)


def mean_of(precisions: Tensor) -> float:
    """The mean over judged queries, in per cent."""
    judged = precisions[~precisions.isnan()]
    if not len(judged):
        raise VergenceError("no query has a positive in the gallery: there is nothing to judge")
    return float(judged.double().mean() * 100)


def regimes(before: Tensor, after: Tensor, by: Tensor) -> list[tuple[float, float]]:
    """Queries in three groups, cut at the 33rd and 66th percentile of ``by`` (Q,): the group's mean of ``by`` and the
    relative gain of its mAP from ``before`` to ``after`` in per cent; NaN for a group that is empty or had nothing."""
    judged = ~(before.isnan() | after.isnan())
    before, after, by = before[judged].double(), after[judged].double(), by[judged].double()
    low, high = torch.quantile(by, torch.tensor([0.33, 0.66], dtype=torch.float64))
    groups = (by <= low, (by > low) & (by <= high), by > high)
    return [
        (float(by[group].mean()), float(100 * (after[group].mean() / before[group].mean() - 1))) for group in groups
    ]
