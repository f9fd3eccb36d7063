"""Dual block-coordinate ascent for partial quadratic assignment, with rounding: what a fast solver of graph matching
does.

Nodes choose labels (the last one is none); pairs of nodes have tables of costs; and every other label is taken at most
once. Costs are moved between these factors without changing any matching's total: a node collects what its factors
know (min-marginals) and shares its own costs among them. The sum of the factors' minima is a lower bound that never
falls. Matchings are rounded from the moved costs by an assignment, and improved by exchanging labels.

The kernels are loops, which :func:`kernels` compiles where numba (extra ``fast``) is installed. Without it, sweeps are
NumPy's, and the last improvements by chance (``KICKS``) have a third of the tries.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EVERY = 5
"""Sweeps between two roundings."""
ENOUGH = 1e-9
"""An exchange must be cheaper by this."""
KICKS = 12
"""Tries for each node, at the end, to leave the best matching by exchanging the labels of a few nodes at random and
improving again."""


def ascend(unary: Array, pairs: Array, pairwise: Array, rounds: int) -> tuple[Array, float, float]:
    """Labels (n,) of a good matching, its cost and a lower bound, after at most ``rounds`` sweeps forth and back.

    ``unary`` is (n, K), ``pairs`` (P, 2) and ``pairwise`` (P, K, K), with the last of K labels for none."""
    from scipy.optimize import linear_sum_assignment

    n, count = unary.shape
    m = count - 1
    state = State(unary, pairs, pairwise)
    sweep, improve, kick = kernels()
    best, least, bound = np.full(n, m, np.int64), 0.0, -np.inf
    for done in range(0, max(rounds, 1), EVERY):
        bound = max(bound, sweep(*state.arrays, min(EVERY, max(rounds, 1) - done)))
        # An assignment with a place of its own for every node to be matched with nothing.
        costs = np.full((n, m + n), np.inf)
        costs[:, :m] = state.collected[:, :m]
        costs[np.arange(n), m + np.arange(n)] = state.collected[:, m]
        costs = np.where(np.isfinite(costs), costs, 1e12)
        chosen = linear_sum_assignment(costs)[1]
        for start in (np.minimum(chosen, m), best):
            labels = start.astype(np.int64).copy()
            total = improve(unary, pairs, pairwise, state.first, state.incident, labels)
            if total < least - ENOUGH:
                best, least = labels, total
        if least - bound <= 1e-9 * max(1.0, abs(least)):
            return best, float(least), float(bound)
    total = kick(unary, pairs, pairwise, state.first, state.incident, best, KICKS * n)
    return best, float(total), float(bound)


class State:
    """Costs that were moved: from tables to nodes, and from "at most once" to nodes."""

    def __init__(self, unary: Array, pairs: Array, pairwise: Array) -> None:
        (n, count), edges = unary.shape, len(pairs)
        self.from_pairs = np.zeros((edges, 2, count))
        self.from_labels = np.zeros((n, count - 1))
        self.collected = unary.copy()
        ends = pairs.reshape(-1)
        self.incident = np.argsort(ends, kind="stable").astype(np.int64)  # pair * 2 + end, node by node
        self.first = np.searchsorted(ends[self.incident], np.arange(n + 1)).astype(np.int64)
        self.arrays = (
            unary, pairwise, self.first, self.incident, self.from_pairs, self.from_labels, self.collected
        )  # fmt: skip


Sweep = Callable[..., float]
Improve = Callable[..., float]
Kick = Callable[..., float]


@cache
def kernels() -> tuple[Sweep, Improve, Kick]:
    """The kernels, compiled where numba is installed."""
    try:
        from vergence.ops.compiling import compiled
    except ImportError:
        return plain()
    improve = compiled(_improve)
    return compiled(_sweep), improve, partial(_kicked, improve, compiled(_kick))


def plain() -> tuple[Sweep, Improve, Kick]:
    """The kernels without numba."""
    return _sweep_by_rows, _improve, _few_kicks


def _few_kicks(unary: Any, pairs: Any, pairwise: Any, first: Any, incident: Any, best: Any, tries: int) -> float:
    return _kicked(_improve, _kick, unary, pairs, pairwise, first, incident, best, tries // 3)


def _kicked(
    improve: Improve, kick: Any, unary: Any, pairs: Any, pairwise: Any, first: Any, incident: Any, best: Any, tries: int
) -> float:
    """Leaves the best labels, which change in place, again and again; returns the cost of those it ends with."""
    least = improve(unary, pairs, pairwise, first, incident, best)
    state = 1
    for _ in range(tries):
        labels = best.copy()
        state = kick(labels, unary.shape[1] - 1, state)
        total = improve(unary, pairs, pairwise, first, incident, labels)
        if total < least - ENOUGH:
            best[:], least = labels, total
    return least


def _kick(labels: Any, none: int, state: int) -> int:
    """Deals the labels of two to four nodes, and free ones among them, out anew; ``state`` is that of a generator of
    random numbers, which is returned."""
    n = len(labels)
    state = state * 48271 % 2147483647
    some = min(2 + state % 3, n)
    chosen, free = np.empty(some, np.int64), np.ones(none + some, np.bool_)
    for number in range(some):
        node = -1
        while node < 0:
            state = state * 48271 % 2147483647
            node = state % n
            for before in range(number):
                if chosen[before] == node:
                    node = -1
                    break
        chosen[number] = node
    for number in range(some):
        labels[chosen[number]] = none
    for i in range(n):
        if labels[i] < none:
            free[labels[i]] = False
    left = 0
    for label in range(none + some):
        left += free[label]
    for number in range(some):
        state = state * 48271 % 2147483647
        pick = state % left
        for label in range(none + some):
            if free[label]:
                if pick == 0:
                    labels[chosen[number]] = min(label, none)
                    free[label] = False
                    break
                pick -= 1
        left -= 1
    return state


def _sweep_by_rows(
    unary: Any, pairwise: Any, first: Any, incident: Any, from_pairs: Any, from_labels: Any, collected: Any, rounds: int
) -> float:
    """:func:`_sweep` with a row of NumPy for every loop over labels."""
    n, m = unary.shape[0], unary.shape[1] - 1
    for turn in range(2 * rounds):
        for i in range(n) if turn % 2 == 0 else range(n - 1, -1, -1):
            at = incident[first[i] : first[i + 1]]
            pair, end = at // 2, at % 2
            own = np.where(end[:, None, None] == 0, pairwise[pair], pairwise[pair].transpose(0, 2, 1))
            from_pairs[pair, end] = (own - from_pairs[pair, 1 - end][:, None]).min(2)
            others = np.delete(from_labels, i, 0).max(0, initial=0.0)
            from_labels[i] = others
            collected[i] = unary[i] + from_pairs[pair, end].sum(0)
            collected[i, :m] += others
            given = (collected[i] - collected[i].min()) / (len(at) + 1)
            from_pairs[pair, end] -= given
            from_labels[i] -= given[:m]
    nodes = unary.copy()
    nodes[:, :m] += from_labels
    np.add.at(nodes, np.repeat(np.arange(n), np.diff(first)), from_pairs[incident // 2, incident % 2])
    left = pairwise - from_pairs[:, 0][:, :, None] - from_pairs[:, 1][:, None]
    bound = nodes.min(1).sum() + left.reshape(len(left), -1).min(1, initial=np.inf).sum()
    return float(bound + np.minimum(-from_labels.max(0, initial=-np.inf), 0.0).sum())


def _sweep(
    unary: Any, pairwise: Any, first: Any, incident: Any, from_pairs: Any, from_labels: Any, collected: Any, rounds: int
) -> float:
    """Sweeps over the nodes forth and back; ``collected`` (n, K) has each node's costs when it had collected all that
    its factors know. Returns the bound after the last one."""
    n, count = unary.shape
    m = count - 1
    own = np.empty(count)
    for turn in range(2 * rounds):
        for step in range(n):
            i = step if turn % 2 == 0 else n - 1 - step
            for x in range(count):
                own[x] = unary[i, x]
            for at in range(first[i], first[i + 1]):  # everything a table knows goes to the node
                pair, end = incident[at] // 2, incident[at] % 2
                for x in range(count):
                    low = np.inf
                    for y in range(count):
                        cost = pairwise[pair, x, y] if end == 0 else pairwise[pair, y, x]
                        low = min(low, cost - from_pairs[pair, 1 - end, y])
                    from_pairs[pair, end, x] = low
                    own[x] += low
            for j in range(m):  # what a label costs beyond its best other use
                other = 0.0
                for k in range(n):
                    if k != i:
                        other = min(other, -from_labels[k, j])
                from_labels[i, j] = -other
                own[j] += from_labels[i, j]
            low = own[0]
            for x in range(count):
                collected[i, x] = own[x]
                low = min(low, own[x])
            share = 1.0 / (first[i + 1] - first[i] + 1)
            for at in range(first[i], first[i + 1]):
                pair, end = incident[at] // 2, incident[at] % 2
                for x in range(count):
                    from_pairs[pair, end, x] -= share * (own[x] - low)
            for j in range(m):
                from_labels[i, j] -= share * (own[j] - low)
    bound = 0.0
    for i in range(n):
        for x in range(count):
            own[x] = unary[i, x]
            if x < m:
                own[x] += from_labels[i, x]
        for at in range(first[i], first[i + 1]):
            for x in range(count):
                own[x] += from_pairs[incident[at] // 2, incident[at] % 2, x]
        low = own[0]
        for x in range(count):
            low = min(low, own[x])
        bound += low
    for pair in range(pairwise.shape[0]):
        low = np.inf
        for x in range(count):
            for y in range(count):
                low = min(low, pairwise[pair, x, y] - from_pairs[pair, 0, x] - from_pairs[pair, 1, y])
        bound += low
    for j in range(m):
        low = 0.0
        for i in range(n):
            low = min(low, -from_labels[i, j])
        bound += low
    return bound


def _improve(unary: Any, pairs: Any, pairwise: Any, first: Any, incident: Any, labels: Any) -> float:
    """Exchanges labels in place while that makes the matching cheaper: a node takes another label (or none), and its
    former owner gets the node's own or none. Returns the cost."""
    n, count = unary.shape
    m = count - 1
    owner = np.full(count, -1, np.int64)
    for i in range(n):
        if labels[i] < m:
            owner[labels[i]] = i
    best = 0.0
    for i in range(n):
        best += unary[i, labels[i]]
    for pair in range(len(pairs)):
        best += pairwise[pair, labels[pairs[pair, 0]], labels[pairs[pair, 1]]]
    better = True
    while better:
        better = False
        for i in range(n):
            for x in range(count):
                old = labels[i]
                if x == old:
                    continue
                rival = owner[x] if x < m else -1
                for swap in range(2 if rival >= 0 else 1):
                    given = old if (rival >= 0 and swap == 0) else m  # what the rival gets
                    before = after = 0.0
                    for role in range(2):  # the costs of both nodes, before and after, tables between them once
                        node = i if role == 0 else rival
                        if node < 0:
                            continue
                        before += unary[node, labels[node]]
                        after += unary[node, x if role == 0 else given]
                        for at in range(first[node], first[node + 1]):
                            pair, end = incident[at] // 2, incident[at] % 2
                            other = pairs[pair, 1 - end]
                            if role == 1 and other == i:
                                continue
                            new_own = x if role == 0 else given
                            new_other = given if other == rival else (x if other == i else labels[other])
                            if end == 0:
                                before += pairwise[pair, labels[node], labels[other]]
                                after += pairwise[pair, new_own, new_other]
                            else:
                                before += pairwise[pair, labels[other], labels[node]]
                                after += pairwise[pair, new_other, new_own]
                    if after < before - 1e-9:
                        if old < m:
                            owner[old] = -1
                        if rival >= 0:
                            labels[rival] = given
                            if given < m:
                                owner[given] = rival
                        labels[i] = x
                        if x < m:
                            owner[x] = i
                        best += after - before
                        better = True
                        break
                if labels[i] != old:
                    break
    return best
