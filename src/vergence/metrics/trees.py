"""The edit distance of ordered trees (Zhang and Shasha, 1989)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Node(NamedTuple):
    """A tree: what its root is, and its subtrees from left to right."""

    label: Any
    children: tuple[Node, ...] = ()

    def size(self) -> int:
        return 1 + sum(child.size() for child in self.children)


class _Flat(NamedTuple):
    """A tree by the order in which its nodes are left."""

    labels: list[Any]
    leftmost: list[int]
    """Of each node, its first leaf."""
    keys: list[int]
    """Of each leaf, the highest node that has it as its first one."""


def _flat(root: Node) -> _Flat:
    labels, leftmost = list[Any](), list[int]()

    def visit(node: Node) -> None:
        first = len(labels)  # the node that is left first in a subtree is its first leaf
        for child in node.children:
            visit(child)
        leftmost.append(first)
        labels.append(node.label)

    visit(root)
    return _Flat(labels, leftmost, sorted({first: place for place, first in enumerate(leftmost)}.values()))


def tree_distance(first: Node, second: Node, rename: Callable[[Any, Any], float]) -> float:
    """The least cost of turning one tree into another: 1 for each node that is removed or added, and ``rename(a, b)``,
    from 0 to 2, for each that is replaced."""
    a, b = _flat(first), _flat(second)
    cost = [[rename(x, y) for y in b.labels] for x in a.labels]
    known = [[0.0] * len(b.labels) for _ in a.labels]
    for i in a.keys:
        for j in b.keys:
            if a.leftmost[i] == i and b.leftmost[j] == j:  # two leaves
                known[i][j] = min(cost[i][j], 2.0)
            else:
                _subtrees(i, j, a, b, cost, known)
    return known[-1][-1]


def _subtrees(i: int, j: int, a: _Flat, b: _Flat, cost: list[list[float]], known: list[list[float]]) -> None:
    """Distances of all pairs of subtrees on the leftmost paths to nodes i and j, from those of their forests."""
    low, left = a.leftmost[i], b.leftmost[j]
    above = [float(n) for n in range(j - left + 2)]
    rows = [above]
    for x in range(low, i + 1):
        before, row = rows[-1], [float(x - low + 1)]
        whole = a.leftmost[x] == low
        for y in range(left, j + 1):
            at = y - left
            best = min(before[at + 1], row[at]) + 1
            if whole and b.leftmost[y] == left:
                best = min(best, before[at] + cost[x][y])
                known[x][y] = best
            else:
                best = min(best, rows[a.leftmost[x] - low][b.leftmost[y] - left] + known[x][y])
            row.append(best)
        rows.append(row)
