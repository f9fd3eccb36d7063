"""Retrieval metrics: cumulative matching characteristics (CMC) and mean average precision.

Follows the single-query protocol of Market-1501: gallery images of the query's identity *and* camera are left out of
its list, and so is junk; a query without remaining matches is not evaluated but counted. Only the ranks of the matches
are needed, so the sorted lists are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from vergence.core.errors import VergenceError

Area = Literal["step", "trapezoid"]
"""How the area under a precision-recall curve is computed: one step per match, as in scikit-learn and most public code,
or trapezoids between matches, as in the toolboxes of Market-1501 and Oxford5k."""

JUNK = -1
"""The identity of junk images, which are ignored for every query."""
CHUNK = 4_000_000
"""Number of distances ranked at a time."""


@dataclass(frozen=True)
class Taken:
    """The identities and cameras of N images, (N,) each."""

    identities: Tensor
    cameras: Tensor

    def __post_init__(self) -> None:
        if self.identities.shape != self.cameras.shape or self.identities.ndim != 1:
            raise VergenceError(
                f"ranking needs one identity and one camera per image, got {tuple(self.identities.shape)} identities "
                f"and {tuple(self.cameras.shape)} cameras"
            )

    def __len__(self) -> int:
        return len(self.identities)


@dataclass(frozen=True)
class Ranked:
    """For each query the rank of its first match (from 1; 0 if it has none) and its average precision, (Q,) each."""

    first: Tensor
    precision: Tensor

    @property
    def judged(self) -> Tensor:
        """Which queries have a match, (Q,)."""
        return self.first > 0

    @property
    def unmatched(self) -> int:
        """The number of queries without a match."""
        return int((~self.judged).sum())

    def cmc(self, rank: int) -> float:
        """Percentage of the evaluated queries with a match among the first ``rank``."""
        return float((self.first[self.judged] <= rank).double().mean() * 100)

    @property
    def mean_precision(self) -> float:
        """Mean average precision over the evaluated queries, in per cent."""
        return float(self.precision[self.judged].double().mean() * 100)


def rank(distances: Tensor, queries: Taken, gallery: Taken, area: Area = "step") -> Ranked:
    """Evaluate distances (Q, G). Among equal distances the earlier gallery image comes first."""
    if distances.shape != (len(queries), len(gallery)):
        raise VergenceError(
            f"ranking {len(queries)} queries in a gallery of {len(gallery)} needs a distance for each pair, "
            f"got {tuple(distances.shape)}"
        )
    if not distances.isfinite().all():
        raise VergenceError("the distances to rank hold values that are not finite")
    parts = [_rank(distances[rows], _of(queries, rows), gallery, area) for rows in _pieces(queries, gallery)]
    return Ranked(*(torch.cat(part) for part in zip(*parts, strict=True)))


def rank_descriptors(asked: Tensor, ranked: Tensor, queries: Taken, gallery: Taken, area: Area = "step") -> Ranked:
    """Evaluate descriptors of queries (Q, D) and gallery (G, D) by Euclidean distance, in chunks of distances."""
    parts = [
        rank(distances(asked[rows], ranked), _of(queries, rows), gallery, area) for rows in _pieces(queries, gallery)
    ]
    return Ranked(torch.cat([part.first for part in parts]), torch.cat([part.precision for part in parts]))


def _pieces(queries: Taken, gallery: Taken) -> Iterator[slice]:
    rows = max(CHUNK // max(len(gallery), 1), 1)
    return (slice(start, start + rows) for start in range(0, len(queries), rows))


def _of(taken: Taken, rows: slice) -> Taken:
    return Taken(taken.identities[rows], taken.cameras[rows])


def _rank(distances: Tensor, queries: Taken, gallery: Taken, area: Area) -> tuple[Tensor, Tensor]:
    same = queries.identities[:, None] == gallery.identities
    left_out = (same & (queries.cameras[:, None] == gallery.cameras)) | (gallery.identities == JUNK)
    ranked = rank_matches(distances, same & ~left_out, left_out, area)
    return ranked.first, ranked.precision


def rank_matches(distances: Tensor, matches: Tensor, left_out: Tensor, area: Area = "step") -> Ranked:
    """Evaluate distances (Q, G), given which images match a query and which are left out of its list, (Q, G) each."""
    order = distances.masked_fill(left_out, torch.inf).argsort(dim=1, stable=True)
    match = matches.gather(1, order)  # excluded images come last and are no match
    query, place = match.nonzero(as_tuple=True)  # row by row, in rank order
    counts = match.sum(1)
    number = torch.arange(1, len(query) + 1, device=query.device) - (counts.cumsum(0) - counts)[query]  # of the match
    precision = number / (place + 1.0).double()
    if area == "trapezoid":
        # Precision just before the match: one match fewer at one rank less; at rank 1 it counts as 1.
        before = torch.where(place > 0, (number - 1) / place.clamp(min=1).double(), 1.0)
        precision = (precision + before) / 2
    total = torch.zeros(len(counts), dtype=torch.float64, device=counts.device).index_add_(0, query, precision)
    first = torch.zeros_like(counts)
    first[query[number == 1]] = place[number == 1] + 1
    return Ranked(first, total / counts.clamp(min=1))


def distances(queries: Tensor, gallery: Tensor) -> Tensor:
    """Euclidean distances between descriptors (Q, D) and (G, D): (Q, G), by one matrix product."""
    return torch.cdist(queries, gallery, compute_mode="use_mm_for_euclid_dist")
