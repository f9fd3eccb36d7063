"""Roads, the parts of a graph between junctions and dead ends, and shortest paths along them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from vergence.maps.graph import SAME, Floats, Ints, RoadGraph, road_graph


class Road(NamedTuple):
    """A road without a junction inside: its nodes in order, and the edges between them. A ring ends where it begins."""

    nodes: list[int]
    edges: list[int]


def roads(graph: RoadGraph) -> list[Road]:
    """All roads between nodes of degree 1 or at least 3, and rings without such a node. Every edge is in one."""
    starts, incident = (part.tolist() for part in graph.incident)
    ends, degrees = graph.edges.tolist(), graph.degrees.tolist()
    taken = [False] * len(ends)

    def walk(node: int, edge: int) -> Road:
        nodes, edges, first = [node], [], node
        while True:
            taken[edge] = True
            edges.append(edge)
            u, v = ends[edge]
            node = v if node == u else u
            nodes.append(node)
            if degrees[node] != 2 or node == first:
                return Road(nodes, edges)
            one, other = incident[starts[node] : starts[node] + 2]
            edge = other if edge == one else one

    traced = []
    features = [n for n, degree in enumerate(degrees) if degree != 2]
    for node in (*features, *range(len(degrees))):  # what is left after the features is rings
        for edge in incident[starts[node] : starts[node + 1]]:
            if not taken[edge]:
                traced.append(walk(node, edge))
    return traced


class Places(NamedTuple):
    """Positions on a graph: an edge, and the fraction of it before the position."""

    edge: Ints
    share: Floats


@dataclass(frozen=True, eq=False)
class Network:
    """Shortest-path distances between any two positions on a graph.

    The search runs between junctions only, a tenth to a hundredth of all nodes.
    """

    graph: RoadGraph

    @cached_property
    def roads(self) -> list[Road]:
        return roads(self.graph)

    @cached_property
    def _layout(self) -> tuple[Ints, Floats, Floats, Ints, Floats]:
        """By edge: its road, and the offsets of its two nodes from the road's start. By road: its ends, length."""
        road = np.zeros(len(self.graph), np.int64)
        at = np.zeros((len(self.graph), 2))
        ends, lengths = [], []
        for number, (nodes, edges) in enumerate(self.roads):
            reached = np.cumsum(self.graph.lengths[edges])
            forward = self.graph.edges[edges, 0] == nodes[:-1]
            before = np.r_[0.0, reached[:-1]]
            road[edges] = number
            at[edges, 0] = np.where(forward, before, reached)
            at[edges, 1] = np.where(forward, reached, before)
            ends.append((nodes[0], nodes[-1]))
            lengths.append(reached[-1])
        return road, at[:, 0], at[:, 1], np.array(ends, np.int64).reshape(-1, 2), np.array(lengths)

    @cached_property
    def _junctions(self) -> tuple[Ints, sparse.csr_matrix]:
        """Number of each node among the junctions (-1: none), and the shortest road between any two of them."""
        _, _, _, ends, lengths = self._layout
        used = np.unique(ends)
        number = np.full(len(self.graph.points), -1, np.int64)
        number[used] = np.arange(len(used))
        pairs = np.sort(number[ends], axis=1)
        order = np.lexsort((lengths, pairs[:, 1], pairs[:, 0]))
        pairs, lengths = pairs[order], lengths[order]
        first = np.r_[True, (np.diff(pairs, axis=0) != 0).any(1)] & (pairs[:, 0] != pairs[:, 1])
        return number, sparse.csr_matrix((lengths[first], pairs[first].T), shape=(len(used),) * 2)

    def travel(self, a: Places, b: Places) -> Floats:
        """The shortest-path distance from each position of ``a`` to the same row of ``b``; infinite if unreachable."""
        road, at_first, at_second, ends, lengths = self._layout
        number, matrix = self._junctions
        offsets, sides = [], []
        for place in (a, b):
            offset = at_first[place.edge] + place.share * (at_second[place.edge] - at_first[place.edge])
            offsets.append(offset)
            # Towards either end of the road: the junction there, and its distance.
            sides.append([(number[ends[road[place.edge], k]], offset if k == 0 else lengths[road[place.edge]] - offset)
                          for k in (0, 1)])  # fmt: skip
        best = np.where(road[a.edge] == road[b.edge], np.abs(offsets[0] - offsets[1]), np.inf)
        for source, leave in sides[0]:
            for target, arrive, rows in _from_each(matrix, source, sides[1]):
                best[rows] = np.minimum(best[rows], leave[rows] + target + arrive)
        return best


def _from_each(
    matrix: sparse.csr_matrix, source: Ints, sides: list[tuple[Ints, Floats]], chunk: int = 128
) -> list[tuple[Floats, Floats, Ints]]:
    """Distances from junction to junction, in chunks of sources: (distance, offset at the target, rows)."""
    parts = []
    order = np.argsort(source, kind="stable")
    unique, first = np.unique(source[order], return_index=True)
    bounds = np.r_[first, len(order)]
    for begin in range(0, len(unique), chunk):
        stop = min(begin + chunk, len(unique))
        rows = order[bounds[begin] : bounds[stop]]
        distance = dijkstra(matrix, directed=False, indices=unique[begin:stop])
        line = np.searchsorted(unique[begin:stop], source[rows])
        parts += [(distance[line, target[rows]], arrive[rows], rows) for target, arrive in sides]
    return parts


def simplified(graph: RoadGraph, epsilon: float) -> RoadGraph:
    """Ramer-Douglas-Peucker simplification: no removed control point is farther than ``epsilon`` from the simplified
    road."""
    edges: list[tuple[int, int]] = []
    for nodes, _ in roads(graph):
        kept = _kept(graph.points[nodes], epsilon)
        if nodes[0] == nodes[-1] and len(kept) < 4:  # a ring must stay a ring
            kept = sorted({0, len(nodes) // 3, 2 * len(nodes) // 3, len(nodes) - 1})
        edges += [(nodes[a], nodes[b]) for a, b in pairwise(kept)]
    return road_graph(graph.points, np.array(edges, np.int64).reshape(-1, 2))


def _kept(points: Floats, epsilon: float) -> list[int]:
    from vergence.maps.geometry import on_segments

    kept, open_runs = {0, len(points) - 1}, [(0, len(points) - 1)]
    while open_runs:
        first, last = open_runs.pop()
        if last - first < 2:
            continue
        inner = points[first + 1 : last]
        ends = (np.broadcast_to(points[k], inner.shape) for k in (first, last))
        distance = on_segments(inner, *ends)[1]
        worst = int((distance >= distance.max() - SAME).argmax())  # the first of equals, whatever the rounding
        if distance[worst] > epsilon:
            middle = first + 1 + worst
            kept.add(middle)
            open_runs += [(first, middle), (middle, last)]
    return sorted(kept)
