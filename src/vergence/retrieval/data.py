"""Retrieval data: labelled descriptors, evaluation sets, and training tuples with mined negatives.

Readers return :class:`Clusters` (descriptors with cluster labels), :class:`Judged` (queries and gallery with the ground
truth), or :class:`Pictures`, which become one of the two once their descriptors are computed.
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
"""Similarities that mining holds in memory at a time."""


@dataclass(frozen=True)
class Judged:
    """A gallery (N, D), queries (Q, D), and by protocol the ground truth of each query."""

    gallery: Tensor
    queries: Tensor
    truths: Mapping[str, Truth]
    """By protocol; the key is empty if there is only one."""
    own: Tensor | None = None
    """Gallery positions of the queries themselves (Q,), if they are in it."""

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, index: int) -> int:
        return range(len(self))[index]

    def with_distractors(self, distractors: Tensor) -> Judged:
        """A copy with distractors (M, D) added to the gallery; they are relevant to no query."""
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
    """Matching positions (P, 2), if the data set lists them; else any two of a cluster match."""
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
        """An evaluation set with each query against all others: its cluster is relevant, the query itself is junk."""
        positives = [(self.clusters == self.clusters[q]).nonzero()[:, 0] for q in self.queries]
        positives = [p[p != q] for p, q in zip(positives, self.queries, strict=True)]
        truth = Truth(positives, list(self.queries[:, None]))
        return Judged(self.descriptors, self.descriptors[self.queries], {"": truth}, self.queries)

    def with_positives(self) -> Clusters:
        """A copy with only the queries whose cluster has another member."""
        sizes = torch.bincount(self.clusters)
        queries = self.queries[sizes[self.clusters[self.queries]] > 1]
        if not len(queries):
            raise VergenceError(f"no two descriptors of {self.where} share a cluster: there is nothing to learn")
        return replace(self, queries=queries)

    def neighbours(self, count: int) -> Tensor:
        """The ``count`` nearest neighbours of every descriptor (N, count), or fewer if there are fewer."""
        index = Index(self.descriptors, tuple(map(str, range(len(self.descriptors)))), "training")
        count = min(count, len(index) - 1)
        parts = torch.arange(len(index)).split(4096)
        return torch.cat([first_search(index, self.descriptors[part], count, part).places for part in parts])


@dataclass(frozen=True)
class Pictures:
    """Pictures whose descriptors are still to be computed; ``become`` turns descriptors (N, D) into data."""

    paths: Sequence[Path]
    become: Callable[[Tensor], Clusters | Judged]
    boxes: Sequence[tuple[float, float, float, float] | None] = ()
    """Crops (left, top, right, bottom), in pixels; None is the whole picture."""

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
    """A batch: queries (B, D), neighbours (B, k, D), masks of padding and of relevance (B, k), positives (B, D) and
    negatives (B, n, D)."""

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
    """The number of neighbours of a query is drawn between this and K."""
    drop: float = 0.6
    """The fraction of neighbours to drop is drawn per query between 0 and this."""
    ranks: Ranks = "renumbered"
    updates: int = 0
    """Batches per epoch (0: as many as the queries fill)."""

    def __len__(self) -> int:
        return len(self.data) if self.data.pairs is None else len(self.data.pairs)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[list[int]]:
        """One epoch of ``updates`` batches: queries in random order, repeated if necessary."""
        wanted = self.updates * size if self.updates else max(len(self) // size, 1) * size
        order: list[int] = []
        while len(order) < wanted:
            order += torch.randperm(len(self), generator=generator).tolist()
        return iter([order[i : i + size] for i in range(0, wanted, size)])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return self.draw(index, torch.Generator().manual_seed(index))

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Positions of the query, its neighbours with their padding mask, a positive, and negatives."""
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
    """Hard negatives (Q, count) of each query position (Q,), nearest first: the most similar of a pool (P,) from other
    clusters, at most one per cluster. Repeated queries are computed once."""
    names, inverse, sizes = data.clusters[pool].unique(return_inverse=True, return_counts=True)
    if len(names) <= count:
        raise VergenceError(
            f"mining {count} negatives per query needs more than {count} clusters, but {data.where} has only "
            f"{len(names)} clusters in a pool of {len(pool)}"
        )
    # The pool as a table with one row per cluster, so that the best of each cluster is one maximum.
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
