"""Descriptors to search among, and the tuples that training takes.

Readers give :class:`Clusters` (descriptors with a cluster each, to train on or to judge), :class:`Judged` (queries and
a gallery with the ground truth), or :class:`Pictures`, which become one of the two once described.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data.images import read_image
from vergence.retrieval.metrics import Truth
from vergence.retrieval.settings import Ranks
from vergence.search import Index
from vergence.search.expansion import first_search

TABLE = 20_000_000
"""Similarities that mining holds at a time."""


@dataclass(frozen=True)
class Judged:
    """A gallery (N, D), queries (Q, D), and by protocol the ground truth of each query."""

    gallery: Tensor
    queries: Tensor
    truths: Mapping[str, Truth]
    """By protocol; a single nameless one where there is one way to judge."""
    own: Tensor | None = None
    """Where the queries themselves are in the gallery (Q,), if they are."""

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, index: int) -> int:
        return range(len(self))[index]

    def with_distractors(self, distractors: Tensor) -> Judged:
        """The same with more in the gallery that is relevant to no query."""
        if distractors.shape[1] != self.gallery.shape[1]:
            raise VergenceError(
                f"the distractors have {distractors.shape[1]} numbers, the gallery's items {self.gallery.shape[1]}"
            )
        return replace(self, gallery=torch.cat([self.gallery, distractors]))


@dataclass(frozen=True)
class Clusters:
    """Unit descriptors (N, D), the cluster of each (N,), and the positions of the queries (Q,)."""

    descriptors: Tensor
    clusters: Tensor
    queries: Tensor
    pairs: Tensor | None = None
    """Matching positions (P, 2), where the data set names them; else any two of a cluster match."""
    where: str = "the data"

    def __post_init__(self) -> None:
        if len(self.descriptors) != len(self.clusters) or not len(self.clusters):
            raise VergenceError(
                f"{self.where} needs a cluster for each descriptor, got {len(self.clusters)} for "
                f"{len(self.descriptors)} descriptors"
            )
        for places in (self.queries, self.pairs):
            if (
                places is not None
                and len(places)
                and not 0 <= int(places.min()) <= int(places.max()) < len(self.clusters)
            ):
                raise VergenceError(f"{self.where} names positions beyond its {len(self.clusters)} descriptors")

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, index: int) -> int:
        return int(self.queries[index])

    def judged(self) -> Judged:
        """Each query against all others: its cluster is relevant, and the query itself is junk."""
        positives = [(self.clusters == self.clusters[q]).nonzero()[:, 0] for q in self.queries]
        positives = [p[p != q] for p, q in zip(positives, self.queries, strict=True)]
        truth = Truth(positives, list(self.queries[:, None]))
        return Judged(self.descriptors, self.descriptors[self.queries], {"": truth}, self.queries)

    def with_positives(self) -> Clusters:
        """With only those queries whose cluster has another member."""
        sizes = torch.bincount(self.clusters)
        queries = self.queries[sizes[self.clusters[self.queries]] > 1]
        if not len(queries):
            raise VergenceError(f"no two descriptors of {self.where} share a cluster: there is nothing to learn")
        return replace(self, queries=queries)

    def neighbours(self, count: int) -> Tensor:
        """The ``count`` nearest of every descriptor among the others (N, count), or as many as there are."""
        index = Index(self.descriptors, tuple(map(str, range(len(self.descriptors)))), "training")
        count = min(count, len(index) - 1)
        parts = torch.arange(len(index)).split(4096)
        return torch.cat([first_search(index, self.descriptors[part], count, part).places for part in parts])


@dataclass(frozen=True)
class Pictures:
    """Pictures to describe first; ``become`` makes data of their descriptors (N, D)."""

    paths: Sequence[Path]
    become: Callable[[Tensor], Clusters | Judged]
    boxes: Sequence[tuple[float, float, float, float] | None] = ()
    """Left, top, right, bottom: only this part of the picture counts."""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        picture = read_image(self.paths[index])
        box = self.boxes[index] if self.boxes else None
        if box is None:
            return picture
        left, top, right, bottom = (round(v) for v in box)
        part = picture[:, max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
        if not part.numel():
            raise VergenceError(f"the box {box} is outside {self.paths[index]}")
        return part


# Training -------------------------------------------------------------------------------------------------------------


class Tuples(NamedTuple):
    """A batch: queries (B, D) with neighbours (B, k, D), where these are missing and which are relevant (B, k), a
    positive (B, D) and negatives (B, n, D)."""

    query: Tensor
    neighbours: Tensor
    padding: Tensor
    relevant: Tensor
    positive: Tensor
    negatives: Tensor


@dataclass(frozen=True)
class TupleData:
    """Training queries with their nearest neighbours (N, K) and mined negatives (Q, n)."""

    data: Clusters
    neighbours: Tensor
    negatives: Tensor | None = None
    least: int = 32
    """Neighbours of a query: drawn from here to K."""
    drop: float = 0.6
    """Each query draws the share of its neighbours to drop, from 0 to this."""
    ranks: Ranks = "renumbered"
    updates: int = 0
    """The number of batches in an epoch (0: as many as the queries fill)."""

    def __len__(self) -> int:
        return len(self.data) if self.data.pairs is None else len(self.data.pairs)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[list[int]]:
        """One epoch of ``updates`` batches: queries in random order, again and again if need be."""
        wanted = self.updates * size if self.updates else max(len(self) // size, 1) * size
        order: list[int] = []
        while len(order) < wanted:
            order += torch.randperm(len(self), generator=generator).tolist()
        return iter([order[i : i + size] for i in range(0, wanted, size)])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return self.draw(index, torch.Generator().manual_seed(index))

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Positions: the query, its kept neighbours and where they are missing, a positive, negatives."""
        query, positive = self._pair(index, generator)
        most = self.neighbours.shape[1]
        count = int(torch.randint(min(self.least, most), most + 1, (), generator=generator))
        share = self.drop * torch.rand((), generator=generator)
        missing = torch.rand(most, generator=generator) < share
        missing[count:] = True
        places = self.neighbours[query]
        if self.ranks == "renumbered":
            order = missing.byte().argsort(stable=True)
            places, missing = places[order], missing[order]
        negatives = torch.zeros(0, dtype=torch.int64) if self.negatives is None else self.negatives[index]
        return torch.tensor(query), places, missing, torch.tensor(positive), negatives

    def _pair(self, index: int, generator: torch.Generator) -> tuple[int, int]:
        if self.data.pairs is not None:
            query, positive = self.data.pairs[index].tolist()
            return query, positive
        query = int(self.data.queries[index])
        others = (self.data.clusters == self.data.clusters[query]).nonzero()[:, 0]
        others = others[others != query]
        return query, int(others[torch.randint(len(others), (), generator=generator)])

    @property
    def queries(self) -> Tensor:
        """The query of each sample, (len,)."""
        return self.data.queries if self.data.pairs is None else self.data.pairs[:, 0]

    def collate(self, samples: list[tuple[Tensor, ...]]) -> Tuples:
        query, places, padding, positive, negatives = (torch.stack(part) for part in zip(*samples, strict=True))
        most = int((~padding).sum(1).max()) if self.ranks == "renumbered" else padding.shape[1]
        places, padding = places[:, :most], padding[:, :most]
        rows, clusters = self.data.descriptors, self.data.clusters
        relevant = (clusters[places] == clusters[query][:, None]) & ~padding
        return Tuples(rows[query], rows[places], padding, relevant, rows[positive], rows[negatives])


def hardest(data: Clusters, queries: Tensor, pool: Tensor, count: int, device: torch.device | str = "cpu") -> Tensor:
    """For each query position (Q,) the ``count`` nearest of a pool (P,) that are of other clusters, at most one per
    cluster: (Q, count), nearest first. Positions that come twice are looked up once."""
    names, inverse, sizes = data.clusters[pool].unique(return_inverse=True, return_counts=True)
    if len(names) <= count:
        raise VergenceError(
            f"{count} negatives of different clusters are to be mined for a query, but {data.where} shows only "
            f"{len(names)} clusters in a pool of {len(pool)}"
        )
    # The pool as a table, one row per cluster: the best of each row is one maximum.
    order = inverse.argsort(stable=True)
    column = torch.arange(len(pool)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    table = torch.full((len(names), int(sizes.max())), -1)
    table[inverse[order], column] = order
    table, names, shown = table.to(device), names.to(device), data.descriptors[pool].to(device)
    hole = table < 0
    once, again = queries.unique(return_inverse=True)
    negatives = []
    for part in once.split(max(TABLE // table.numel(), 1)):
        alike = data.descriptors[part].to(device) @ shown.T
        best, which = alike[:, table.clamp(min=0)].masked_fill(hole, -torch.inf).max(-1)  # (b, clusters)
        best = best.masked_fill(names == data.clusters[part].to(device)[:, None], -torch.inf)
        rows = best.topk(count).indices
        negatives.append(pool[table[rows, which.gather(1, rows)].cpu()])
    return torch.cat(negatives)[again]
