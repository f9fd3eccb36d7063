"""Matching several graphs at once with cycle consistency: partners of partners are partners.

A consistent set of partial matchings is the same as a class for every node, with no two nodes of a graph in one class:
nodes match if they share a class. The search goes over classes, so its answers are consistent by construction. It
begins with matchings of all pairs, made consistent by permutation synchronisation, and with graphs matched one after
another; then every graph in turn is matched anew with the classes of all others, which is a quadratic assignment of
its own, until none becomes cheaper.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vergence.ops.dual_ascent import ascend
from vergence.ops.graph_matching import GAP, Matching, Method, Problem, match_graphs, tables

Array = NDArray[Any]
Pair = tuple[int, int]
AGREED = 0.5
"""Nodes whose embeddings are at least this similar may be joined when matchings are synchronised."""
PASSES = 10
"""The most passes over all graphs."""


@dataclass(frozen=True)
class MultiMatching:
    """Consistent matchings of several graphs, and what is known about them."""

    classes: tuple[Tensor, ...]
    """The class of each node of each graph; nodes of one class are partners."""
    cost: float
    bound: float
    """The sum of the bounds of all pairs alone: no consistent set of matchings costs less."""

    @property
    def optimal(self) -> bool:
        """Whether no consistent set of matchings is proven to cost less."""
        return self.cost - self.bound <= GAP * max(abs(self.cost), 1.0)

    def partner(self, first: int, second: int) -> Tensor:
        """(n,), for each node of the first graph its partner in the second; -1 for none."""
        same = self.classes[first].unsqueeze(1) == self.classes[second]
        if not same.shape[1]:
            return torch.full((len(same),), -1)
        return torch.where(same.any(1), same.long().argmax(1), -1)


def match_many(
    sizes: Sequence[int],
    problems: Mapping[Pair, Problem],
    method: Method = "auto",
    seconds: float = 10.0,
    rounds: int = 40,
) -> MultiMatching:
    """Cheap consistent matchings of graphs with ``sizes`` nodes; ``problems`` has one problem for each pair p < q.

    ``method``, ``seconds`` and ``rounds`` are those of :func:`match_graphs` for the pairs alone, which give the
    bound."""
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    if set(problems) != set(pairs):
        raise ValueError(f"{len(sizes)} graphs have the pairs {pairs}, got {sorted(problems)}")
    for p, q in pairs:
        if tuple(problems[p, q].nodes.shape) != (sizes[p], sizes[q]):
            shape = tuple(problems[p, q].nodes.shape)
            raise ValueError(f"graphs {p} and {q} have {sizes[p]} and {sizes[q]} nodes, their costs are {shape}")
    alone = dict(zip(pairs, match_graphs([problems[pair] for pair in pairs], method, seconds, rounds), strict=True))
    joint = _Joint(sizes, problems, rounds)
    starts = [synchronised(sizes, alone), joint.one_after_another()]
    best = min((joint.descended(start) for start in starts), key=joint.cost)
    bound = sum(one.bound for one in alone.values())
    cost = joint.cost(best)
    return MultiMatching(tuple(map(torch.from_numpy, best)), cost, min(bound, cost))


def synchronised(sizes: Sequence[int], matchings: Mapping[Pair, Matching]) -> list[Array]:
    """Classes that agree with matchings of pairs as far as these agree with each other: nodes are embedded by the
    leading eigenvectors of all matchings, and joined greedily, the most similar first."""
    first = np.concatenate([[0], np.cumsum(sizes)])
    graph = np.repeat(np.arange(len(sizes)), sizes)
    whole = np.eye(first[-1])
    for (p, q), found in matchings.items():
        block = found.matrix(sizes[q]).numpy()
        whole[first[p] : first[p + 1], first[q] : first[q + 1]] = block
        whole[first[q] : first[q + 1], first[p] : first[p + 1]] = block.T
    values, vectors = np.linalg.eigh(whole)
    kept = vectors[:, values > AGREED] * np.sqrt(values[values > AGREED])
    kept /= np.maximum(np.linalg.norm(kept, axis=1, keepdims=True), 1e-12)
    similar = kept @ kept.T
    a, b = np.nonzero(np.triu(similar >= AGREED, 1) & (graph[:, None] != graph))
    owner, members = np.arange(first[-1]), [{int(g)} for g in graph]
    for number in np.argsort(-similar[a, b], kind="stable"):
        one, other = owner[a[number]], owner[b[number]]
        if one != other and not members[one] & members[other]:
            members[one] |= members[other]
            owner[owner == other] = one
    return [owner[first[p] : first[p + 1]].copy() for p in range(len(sizes))]


class _Joint:
    """Costs of all pairs as tables, for matching one graph with the classes of the others."""

    def __init__(self, sizes: Sequence[int], problems: Mapping[Pair, Problem], rounds: int) -> None:
        self.sizes, self.rounds = sizes, rounds
        both = dict(problems)
        for (p, q), one in problems.items():
            both[q, p] = Problem(one.nodes.mT, one.right, one.left, one.edges.mT)
        self.tables = {pair: tables(one) for pair, one in both.items()}

    def cost(self, classes: Sequence[Array]) -> float:
        total = 0.0
        for p, q in itertools.combinations(range(len(self.sizes)), 2):
            costs, m = self.tables[p, q], self.sizes[q]
            label = _labels(classes[p], classes[q])
            total += costs.unary[np.arange(len(label)), label].sum()
            inner = costs.pairwise[np.arange(len(costs.pairs)), label[costs.pairs[:, 0]], label[costs.pairs[:, 1]]]
            total += inner[(label[costs.pairs] < m).all(1)].sum()
        return float(total)

    def one_after_another(self) -> list[Array]:
        """Every graph matched with the classes of those before it."""
        first = np.concatenate([[0], np.cumsum(self.sizes)])
        classes = [np.arange(first[p], first[p + 1]) for p in range(len(self.sizes))]
        for p in range(1, len(classes)):
            classes[p] = self._anew(p, classes, range(p))
        return classes

    def descended(self, classes: list[Array]) -> list[Array]:
        """Graphs matched anew in turn, as long as that makes all matchings together cheaper."""
        least = self.cost(classes)
        for _ in range(PASSES):
            before = least
            for p in range(len(classes)):
                tried = list(classes)
                tried[p] = self._anew(p, classes, [q for q in range(len(classes)) if q != p])
                total = self.cost(tried)
                if total < least - 1e-9:
                    classes, least = tried, total
            if least >= before:
                break
        return classes

    def _anew(self, p: int, classes: Sequence[Array], others: Sequence[int]) -> Array:
        """Classes of the nodes of graph p by quadratic assignment with those of ``others``."""
        n = self.sizes[p]
        known = np.unique(np.concatenate([classes[q] for q in others])) if others else np.zeros(0, np.int64)
        fresh = max((int(c.max()) for c in classes if len(c)), default=-1) + 1 + np.arange(n)
        if not n or not len(known):
            return fresh
        size = len(known)
        unary, by_pair = np.zeros((n, size + 1)), dict[Pair, Array]()
        for q in others:
            costs = self.tables[p, q]
            at = np.searchsorted(known, classes[q])
            unary[:, at] += costs.unary[:, : self.sizes[q]]
            for (i, k), table in zip(costs.pairs.tolist(), costs.pairwise, strict=True):
                own = by_pair.setdefault((i, k), np.zeros((size + 1, size + 1)))
                inner = table[:-1, :-1].copy()
                np.fill_diagonal(inner, 0.0)
                own[np.ix_(at, at)] += inner
        same = np.arange(size)
        for own in by_pair.values():
            own[same, same] = np.inf
        pairs = np.array(list(by_pair), np.int64).reshape(-1, 2)
        pairwise = np.stack(list(by_pair.values())) if by_pair else np.zeros((0, size + 1, size + 1))
        label = ascend(unary, pairs, pairwise, self.rounds)[0]
        return np.where(label < size, np.append(known, -1)[label], fresh)


def _labels(one: Array, other: Array) -> Array:
    """For each node, the node of the other graph in its class; their number for none."""
    same = one[:, None] == other
    return np.where(same.any(1), same.argmax(1) if same.shape[1] else 0, len(other))
