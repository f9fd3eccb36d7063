"""Evaluation of query expansion: average precision of a method with any number of neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Indices
from vergence.metrics.ranking import distances
from vergence.retrieval.data import Judged
from vergence.retrieval.metrics import average_precision, mean_of
from vergence.search import Index
from vergence.search.expansion import Method, expanded, first_search

RANKED = 20_000_000
"""Distances that are ranked at a time."""


class Evaluator:
    """Evaluates methods on one data set; the index of its gallery is built once."""

    def __init__(self, ctx: Context[Any, Any], judged: Judged, batch: int = 256) -> None:
        self.ctx, self.judged = ctx, judged
        self.batch = max(min(batch, RANKED // len(judged.gallery)), 1)

    @cached_property
    def index(self) -> Index:
        gallery = self.judged.gallery
        return Index(gallery, tuple(map(str, range(len(gallery)))), "judged")

    def count(self, neighbours: int) -> int:
        """``neighbours``, limited to the number that a query has."""
        return min(neighbours, len(self.index) - (self.judged.own is not None))

    def precisions(self, method: Method, neighbours: int) -> dict[str, Tensor]:
        """Average precision of every query, (Q,), by protocol."""
        parts: dict[str, list[Tensor]] = {name: [] for name in self.judged.truths}
        for batch in self.ctx.batches(self.judged, self.batch):
            rows = batch.cpu()
            own = None if self.judged.own is None else self.judged.own[rows]
            queries = expanded(self.index, self.judged.queries[rows], method, self.count(neighbours), own)[0]
            far = distances(queries, self.judged.gallery)
            for name, truth in self.judged.truths.items():
                parts[name].append(average_precision(far, truth, rows.tolist()))
        nothing = torch.zeros(0, dtype=torch.float64)
        return {name: self.ctx.gather(torch.cat([nothing, *values])) for name, values in parts.items()}

    def augmented(self, method: Method, neighbours: int) -> Tensor:
        """The gallery with every item replaced by its expansion, (N, D)."""
        gallery, count = self.judged.gallery, min(neighbours, len(self.index) - 1)
        parts = [torch.zeros(0, gallery.shape[1])]
        for batch in self.ctx.batches(Indices(len(gallery)), 1024):
            rows = batch.cpu()
            parts.append(method(first_search(self.index, gallery[rows], count, rows))[0])
        return self.ctx.gather(torch.cat(parts))


def scores(precisions: Mapping[str, Tensor], prefix: str = "") -> dict[str, float]:
    """Metrics by name, in per cent, from the precisions of each protocol. For the revisited protocols the main one is
    the mean of Medium and Hard, as in the paper."""
    means = {name: mean_of(values) for name, values in precisions.items()}
    first = means[""] if "" in means else (means["medium"] + means["hard"]) / 2
    start = f"{prefix}_" if prefix else ""
    return {prefix or "map": first} | {f"{start}{name}": mean for name, mean in means.items() if name}
