"""Graph matching: partial quadratic assignment between the nodes of two graphs, and how far an answer is from optimal.

A problem has a cost for each pair of nodes and for each pair of directed edges; a matching pairs nodes one to one,
leaves out whom it wants at no cost, and pays for an edge pair where both ends are matched along it. Three solvers:

=============  =======================================================================================================
``enumerate``  every partial matching of at most 6 x 6 nodes, whole batches at once: the optimum
``milp``       integer programming (HiGHS through SciPy): the optimum, or the best found when its time is up
``dual``       dual block-coordinate ascent on costs passed between nodes, edges and "at most one" rows, with matchings
               rounded from them and improved by exchanges: milliseconds, with a lower bound
=============  =======================================================================================================

Every answer says what it costs, a lower bound of all costs, and so whether it is proven optimal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vergence.ops.dual_ascent import ascend

Array = NDArray[Any]
Method = Literal["auto", "enumerate", "milp", "dual"]
ENUMERABLE = 6
"""The largest number of nodes on either side whose matchings are enumerated: 13,327 of them for 6 and 6."""
GAP = 1e-7
"""Costs that differ by less than this share of the largest cost are equal."""
QUICK = 10
"""Sweeps of the dual ascent that stands in for an integer program whose time is up."""


@dataclass(frozen=True)
class Problem:
    """Two graphs with costs."""

    nodes: Tensor
    """(n, m), the cost of matching each pair of nodes."""
    left: Tensor
    """(E, 2), directed edges of the first graph as pairs of nodes."""
    right: Tensor
    """(F, 2), those of the second."""
    edges: Tensor
    """(E, F), the cost of matching each pair of edges."""

    def __post_init__(self) -> None:
        if self.nodes.dim() != 2 or self.edges.shape != (len(self.left), len(self.right)):
            raise ValueError(
                f"costs are (n, m) for nodes and ({len(self.left)}, {len(self.right)}) for edges, got "
                f"{tuple(self.nodes.shape)} and {tuple(self.edges.shape)}"
            )
        for name, pairs, count in (
            ("left", self.left, self.nodes.shape[0]),
            ("right", self.right, self.nodes.shape[1]),
        ):
            if len(pairs) and not 0 <= int(pairs.min()) <= int(pairs.max()) < count:
                raise ValueError(
                    f"{name} edges name nodes from 0 to {count - 1}, got {int(pairs.min())} to {int(pairs.max())}"
                )
        for name, costs in (("node", self.nodes), ("edge", self.edges)):
            if not bool(costs.isfinite().all()):
                raise ValueError(f"{int((~costs.isfinite()).sum())} {name} costs are not finite numbers")


@dataclass(frozen=True)
class Matching:
    """A partial matching, and what is known about it."""

    partner: Tensor
    """(n,), the node of the second graph for each of the first; -1 for none."""
    cost: float
    bound: float
    """No matching costs less than this."""

    @property
    def optimal(self) -> bool:
        """Whether no matching is proven to cost less."""
        return self.cost - self.bound <= GAP * max(abs(self.cost), 1.0)

    @property
    def gap(self) -> float:
        """How far the cost may be above the least one, as a share of it."""
        return max(self.cost - self.bound, 0.0) / max(abs(self.cost), 1e-12) if not self.optimal else 0.0

    def matrix(self, columns: int) -> Tensor:
        """(n, columns) of zeros and ones."""
        return (self.partner.unsqueeze(1) == torch.arange(columns, device=self.partner.device)).double()


def match_graphs(
    problems: Sequence[Problem], method: Method = "auto", seconds: float = 10.0, rounds: int = 40
) -> list[Matching]:
    """The cheapest partial matching of each problem. ``auto`` enumerates small ones and ascends for the others;
    ``seconds`` is the time of ``milp`` for each, ``rounds`` the number of sweeps of ``dual``."""
    if not seconds > 0:
        raise ValueError(f"the time of a solver is above 0 seconds, got {seconds:g}")
    solved = []
    for problem in problems:
        small = max(problem.nodes.shape) <= ENUMERABLE
        way = ("enumerate" if small else "dual") if method == "auto" else method
        if not problem.nodes.numel():  # nothing to match with
            solved.append(_found(np.zeros(len(problem.nodes), np.int64), 0, 0.0, 0.0))
            continue
        if way == "enumerate":
            solved.append(_enumerated(problem))
        elif way == "milp":
            solved.append(_programmed(problem, seconds))
        else:
            solved.append(_ascended(problem, rounds))
    return solved


def edge_matches(matched: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """(E, F) of zeros and ones: pairs of edges of which both ends are matched by ``matched`` (n, m)."""
    starts = matched[left[:, 0]][:, right[:, 0]]
    return starts * matched[left[:, 1]][:, right[:, 1]]


def cost_of(problem: Problem, partner: Tensor) -> float:
    """What a matching costs, by definition."""
    matched = (partner.unsqueeze(1) == torch.arange(problem.nodes.shape[1])).double()
    nodes = (matched * problem.nodes.cpu().double()).sum()
    edges = edge_matches(matched, problem.left.cpu(), problem.right.cpu()) * problem.edges.cpu().double()
    return float(nodes + edges.sum())


# Tables ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tables:
    """A problem over the nodes of the first graph: each takes a node of the second, or the last label, none."""

    unary: Array
    """(n, m + 1); none costs nothing."""
    pairs: Array
    """(P, 2), pairs of nodes i < k that an edge joins."""
    pairwise: Array
    """(P, m + 1, m + 1): costs of two labels; infinite for the same one twice."""


def tables(problem: Problem) -> Tables:
    """Costs of both directions of an edge, summed."""
    n, m = problem.nodes.shape
    unary = np.zeros((n, m + 1))
    unary[:, :m] = problem.nodes.detach().cpu().double().numpy()
    left, right = problem.left.cpu().numpy(), problem.right.cpu().numpy()
    edges = problem.edges.detach().cpu().double().numpy()
    looped = left[:, 0] == left[:, 1] if len(left) else np.zeros(0, bool)
    for a in np.flatnonzero(looped):  # an edge of a node with itself is a cost of the node
        for b in np.flatnonzero(right[:, 0] == right[:, 1]):
            unary[left[a, 0], right[b, 0]] += edges[a, b]
    straight = ~looped
    ends = np.sort(left[straight], 1).reshape(-1, 2)
    pairs, which = np.unique(ends, axis=0, return_inverse=True)
    pairwise = np.zeros((len(pairs), m + 1, m + 1))
    forward = left[straight, 0] < left[straight, 1]
    for turned in (False, True):
        own = np.flatnonzero(forward != turned)
        first, second = (right[:, 1], right[:, 0]) if turned else (right[:, 0], right[:, 1])
        index = (which.ravel()[own][:, None], first[None], second[None])
        np.add.at(pairwise, np.broadcast_arrays(*index), edges[straight][own])
    same = np.arange(m)
    pairwise[:, same, same] = np.inf
    return Tables(unary, pairs.astype(np.int64), pairwise)


# Solvers --------------------------------------------------------------------------------------------------------------


@cache
def partial_matchings(n: int, m: int) -> Array:
    """(K, n): every partial matching of n nodes with m, by labels from 0 to m; m is none."""
    rows = [labels for labels in itertools.product(range(m + 1), repeat=n) if _once(labels, m)]
    return np.array(rows, np.int64).reshape(-1, n)


def _once(labels: tuple[int, ...], none: int) -> bool:
    used = [label for label in labels if label != none]
    return len(set(used)) == len(used)


def _enumerated(problem: Problem) -> Matching:
    n, m = problem.nodes.shape
    if max(n, m) > ENUMERABLE:
        raise ValueError(f"matchings of {n} and {m} nodes are too many to enumerate: {ENUMERABLE} are allowed")
    costs, all_of = tables(problem), partial_matchings(n, m)
    total = costs.unary[np.arange(n), all_of].sum(1)
    for (i, k), table in zip(costs.pairs, costs.pairwise, strict=True):
        total += table[all_of[:, i], all_of[:, k]]
    best = int(total.argmin())
    return _found(all_of[best], m, float(total[best]), float(total[best]))


def _programmed(problem: Problem, seconds: float) -> Matching:
    """Binary node pairs and continuous edge pairs, which are pushed to the product of their ends. When the time is up,
    the better of the program's answer and a quick one of dual ascent."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    n, m = problem.nodes.shape
    weights, matrix, upper = _program(tables(problem))
    answer = milp(
        weights,
        constraints=LinearConstraint(matrix, ub=upper),
        integrality=(np.arange(len(weights)) < n * m).astype(int),
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    bound = float(answer.mip_dual_bound) if answer.mip_dual_bound is not None else -np.inf
    labels = np.full(n, m)
    if answer.x is not None:
        matched = answer.x[: n * m].reshape(n, m) > 0.5
        labels = np.where(matched.any(1), matched.argmax(1), m)
    partner = torch.from_numpy(np.where(labels == m, -1, labels))
    found = Matching(partner, cost_of(problem, partner), bound)
    if answer.status == 0:
        return replace(found, bound=found.cost)
    quick = _ascended(problem, QUICK)
    best = min(found, quick, key=lambda one: one.cost)
    return replace(best, bound=min(max(bound, quick.bound), best.cost))


def _program(costs: Tables) -> tuple[Array, Any, Array]:
    """Weights of the variables (node pairs, then edge pairs), a sparse matrix, and upper bounds of its rows."""
    import scipy.sparse as sparse

    n, m = len(costs.unary), costs.unary.shape[1] - 1
    table = costs.pairwise[:, :m, :m]
    pair, j, h = np.nonzero(np.isfinite(table) & (table != 0))
    cost, edge = table[pair, j, h], n * m + np.arange(len(pair))
    starts, ends = costs.pairs[pair, 0] * m + j, costs.pairs[pair, 1] * m + h  # the node pairs at both ends
    rows, columns, values, count = [], [], [], 0

    def add(row: Array, column: Array, value: float) -> None:
        rows.append(row)
        columns.append(column)
        values.append(np.full(len(row), value))

    place = np.arange(n * m)
    add(place // m, place, 1.0)  # a node once, on either side
    add(n + place % m, place, 1.0)
    count = n + m
    for own, node_pair in ((j, starts), (h, ends)):  # the edge pairs of a node pair share it
        which, row = np.unique(pair * m + own, return_inverse=True)
        add(count + row, edge, 1.0)
        first = np.unique(row, return_index=True)[1]
        add(count + np.arange(len(which)), node_pair[first], -1.0)
        count += len(which)
    dear = np.flatnonzero(cost > 0)  # to be paid if both ends are matched
    for column, value in ((edge[dear], -1.0), (starts[dear], 1.0), (ends[dear], 1.0)):
        add(count + np.arange(len(dear)), column, value)
    upper = np.concatenate([np.ones(n + m), np.zeros(count - n - m), np.ones(len(dear))])
    shape = (count + len(dear), n * m + len(pair))
    index = (np.concatenate(rows), np.concatenate(columns))
    matrix = sparse.coo_array((np.concatenate(values), index), shape=shape).tocsr()
    return np.concatenate([costs.unary[:, :m].ravel(), cost]), matrix, upper


def _ascended(problem: Problem, rounds: int) -> Matching:
    costs = tables(problem)
    labels, cost, bound = ascend(costs.unary, costs.pairs, costs.pairwise, rounds)
    return _found(labels, problem.nodes.shape[1], cost, min(bound, cost))


def _found(labels: Array, none: int, cost: float, bound: float) -> Matching:
    return Matching(torch.from_numpy(np.where(labels == none, -1, labels)), cost, bound)
