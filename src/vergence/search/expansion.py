"""Query expansion: the results of a first search are weighted and summed to a better query, or, offline, to a better
descriptor of each database item (database augmentation).

A method gives a weight to the query and to each neighbour; the sum is a fused gather and product, so that average and
alpha expansion never copy a neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.ops.expansion import alpha_weights, aqe_weights, aqewd_weights, svm_duals, unit
from vergence.search.index import Searchable

BATCH = 256
"""Number of queries expanded at a time by methods that read the neighbours' descriptors."""


@dataclass(frozen=True)
class Found:
    """L2-normalised queries (B, D) and the results of a first search: positions and cosine similarities (B, k), nearest
    first.

    Where ``padding`` (B, k) is true there is no result: an approximate index may return fewer than requested.
    """

    index: Searchable
    query: Tensor
    places: Tensor
    similarities: Tensor
    padding: Tensor

    @cached_property
    def neighbours(self) -> Tensor:
        """The neighbours' descriptors, (B, k, D); read on first use."""
        return self.index.vectors(self.places)

    def parts(self, size: int) -> Iterator[Found]:
        """The same in batches."""
        for start in range(0, len(self.query), size):
            rows = slice(start, start + size)
            yield Found(self.index, self.query[rows], self.places[rows], self.similarities[rows], self.padding[rows])


class Method(Protocol):
    """Returns expanded, L2-normalised queries (B, D) and their weights (B, k + 1), the query's own first."""

    def __call__(self, found: Found) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class NoExpansion:
    """The query unchanged: the baseline."""

    def __call__(self, found: Found) -> tuple[Tensor, Tensor]:
        weights = torch.zeros(len(found.query), found.places.shape[1] + 1)
        weights[:, 0] = 1
        return found.query, weights


@dataclass(frozen=True)
class Average:
    """Average query expansion (AQE)."""

    def __call__(self, found: Found) -> tuple[Tensor, Tensor]:
        return _summed(found, aqe_weights(found.similarities, found.padding))


@dataclass(frozen=True)
class Decayed:
    """Average query expansion with decay (AQEwD)."""

    def __call__(self, found: Found) -> tuple[Tensor, Tensor]:
        return _summed(found, aqewd_weights(found.similarities, found.padding))


@dataclass(frozen=True)
class Alpha:
    """Alpha query expansion (αQE)."""

    alpha: float = 3.0

    def __call__(self, found: Found) -> tuple[Tensor, Tensor]:
        return _summed(found, alpha_weights(found.similarities, self.alpha, found.padding))


@dataclass(frozen=True)
class Discriminative:
    """DQE: the normal of a linear SVM with the query and its neighbours as positives and the lowest ranks as negatives.

    The returned weights are those of the query and its neighbours, without the negatives.
    """

    negatives: int = 5
    c: float = 0.1

    def __call__(self, found: Found) -> tuple[Tensor, Tensor]:
        pairs = [self._expand(part) for part in found.parts(BATCH)]
        return torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])

    def _expand(self, found: Found) -> tuple[Tensor, Tensor]:
        # The farthest from q are the nearest to -q, so the same index finds them.
        far = found.index.search(-found.query, self.negatives)[1]
        positives = 1 + found.places.shape[1]
        vectors = torch.cat([found.query[:, None], found.neighbours, found.index.vectors(far)], 1)
        labels = torch.cat([torch.ones(len(far), 1), (~found.padding).float(), -(far >= 0).float()], 1)
        both = torch.cat([found.places, far], 1)
        shared = (found.places[:, :, None] == far[:, None]).any(1)  # in a tiny gallery the farthest are also neighbours
        labels[:, positives:].masked_fill_(shared, 0)
        duals = svm_duals(vectors.double(), labels.double(), self.c).float()
        summed = duals[:, :1] * found.query + found.index.weighted(both.clamp(min=0), duals[:, 1:])
        return unit(summed, found.query), duals[:, :positives]


def normalised(descriptors: Tensor, what: str) -> Tensor:
    """L2-normalised descriptors (N, D); a zero vector has no direction and is refused."""
    if descriptors.ndim != 2:
        raise VergenceError(f"{what} should be a matrix, one descriptor per row, got shape {tuple(descriptors.shape)}")
    length = torch.linalg.vector_norm(descriptors.float(), dim=1, keepdim=True)
    bad = ~(length.isfinite() & (length > 0))[:, 0]
    if bad.any():
        first = int(bad.nonzero()[0, 0])
        kind = "zero" if float(length[first]) == 0 else "not finite"
        raise VergenceError(
            f"{int(bad.sum())} of {len(descriptors)} {what} have no direction: the first, at row {first}, is {kind}"
        )
    return descriptors.float() / length


def first_search(index: Searchable, queries: Tensor, count: int, own: Tensor | None = None) -> Found:
    """Search for L2-normalised queries (B, D). ``own`` (B,) are positions to leave out: those of the queries
    themselves."""
    most = len(index) - (own is not None)
    if not 0 <= count <= most:
        raise VergenceError(f"an index of {len(index)} cannot give {count} neighbours; ask for 0 to {most}")
    if count == 0:
        nothing = torch.empty(len(queries), 0)
        return Found(index, queries, nothing.long(), nothing, nothing.bool())
    far, places = index.search(queries, count + (own is not None))
    if own is not None:
        # A duplicate may rank before the query itself, so find it by position; the others keep their order.
        order = (places == own[:, None]).byte().argsort(dim=1, stable=True)[:, :count]
        far, places = far.gather(1, order), places.gather(1, order)
    missing = places < 0
    similarities = (1 - far.square() / 2).masked_fill(missing, 0)
    return Found(index, queries, places.clamp(min=0), similarities, missing)


def expanded(
    index: Searchable, queries: Tensor, method: Method, count: int, own: Tensor | None = None
) -> tuple[Tensor, Tensor, Found]:
    """Search, weight and sum: expanded queries (B, D), weights (B, count + 1), and the results of the first search."""
    found = first_search(index, queries, count, own)
    return *method(found), found


def augmented(index: Searchable, descriptors: Tensor, method: Method, count: int, batch: int = 4096) -> Tensor:
    """Database augmentation: every item of an index replaced by its expansion over its ``count`` nearest, (N, D).

    An item is position 0 of its own list and is not counted again among its neighbours.
    """
    parts = []
    for start in range(0, len(descriptors), batch):
        queries = descriptors[start : start + batch]
        parts.append(expanded(index, queries, method, count, torch.arange(start, start + len(queries)))[0])
    return torch.cat(parts)


def _summed(found: Found, weights: Tensor) -> tuple[Tensor, Tensor]:
    summed = found.index.weighted(found.places, weights[:, 1:]).addcmul_(weights[:, :1], found.query)
    return unit(summed, found.query), weights
