"""Mean average precision of retrieval, as in the revisited Oxford and Paris benchmarks.

Junk is removed from a ranking first, average precision uses trapezoids, and a query without positives is not
evaluated.
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
    """Ground truth: for each query the gallery positions of its positives and of junk, which is ignored."""

    positives: Sequence[Tensor]
    junk: Sequence[Tensor]

    def __len__(self) -> int:
        return len(self.positives)

    def relevant(self) -> Tensor:
        """The number of positives of each query, (Q,)."""
        return torch.tensor([len(positions) for positions in self.positives])


def average_precision(distances: Tensor, truth: Truth, queries: Sequence[int]) -> Tensor:
    """Average precision (B,), 0 to 1, of distances (B, N) from ``queries`` to a gallery; NaN without positives."""
    if not distances.isfinite().all():
        raise VergenceError("the distances to rank hold values that are not finite")
    match, left_out = (torch.zeros(distances.shape, dtype=torch.bool) for _ in range(2))
    for row, query in enumerate(queries):
        match[row, truth.positives[query]] = True
        left_out[row, truth.junk[query]] = True
    ranked = rank_matches(distances.cpu(), match & ~left_out, left_out, "trapezoid")
    return torch.where(ranked.judged, ranked.precision, torch.nan)


def mean_of(precisions: Tensor) -> float:
    """The mean over evaluated queries, in per cent."""
    judged = precisions[~precisions.isnan()]
    if not len(judged):
        raise VergenceError("no query has a positive in the gallery: there is nothing to judge")
    return float(judged.double().mean() * 100)


def regimes(before: Tensor, after: Tensor, by: Tensor) -> list[tuple[float, float]]:
    """Relative gain of mAP in three groups of queries, cut at the 33rd and 66th percentile of ``by`` (Q,): for each the
    mean of ``by`` and the gain from ``before`` to ``after`` in per cent; NaN if the group is empty or had mAP 0."""
    judged = ~(before.isnan() | after.isnan())
    before, after, by = before[judged].double(), after[judged].double(), by[judged].double()
    low, high = torch.quantile(by, torch.tensor([0.33, 0.66], dtype=torch.float64))
    groups = (by <= low, (by > low) & (by <= high), by > high)
    return [
        (float(by[group].mean()), float(100 * (after[group].mean() / before[group].mean() - 1))) for group in groups
    ]
