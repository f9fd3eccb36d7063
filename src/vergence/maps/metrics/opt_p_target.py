"""What earlier paths have left of a target map, for OPT-P: candidates, their connections, and the way between two.

A candidate is a number: a row of :class:`Candidates`. Numbers in lists are all that is kept, because thousands of
small objects would cost more time in garbage collection than the matching.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from vergence.maps.graph import RoadGraph

Part = tuple[int, float, float]
"""An edge, and the fraction of it from one share to another."""


class Candidates(NamedTuple):
    """Possible matches of the source's nodes: the closest points of edges of the target, by node and edge."""

    edge: list[int]
    share: list[float]
    node: list[int]
    """The target's node, if the closest point is an end of the edge; -1: inside the edge."""
    square: list[float]
    """The cost: the squared distance."""
    starts: list[int]
    """Those of source node ``n`` are from ``starts[n]`` to before ``starts[n + 1]``."""


class Target:
    """A target and the edges that are left of it."""

    def __init__(self, graph: RoadGraph, candidates: Candidates, hops: int = 0) -> None:
        self.hops = hops or len(graph.points) + 2
        """Largest number of edges between connected candidates; inside an edge is one edge from its nodes."""
        self.edge, self.share, self.node, _, self.first = candidates
        self.ends: list[list[int]] = graph.edges.tolist()
        self.lengths: list[float] = graph.lengths.tolist()
        self.points: list[list[float]] = graph.points.tolist()
        self.starts, self.incident = (column.tolist() for column in graph.incident)
        self.degrees: list[int] = graph.degrees.tolist()
        self.alive = [True] * len(graph)
        self.edges_left = len(graph)

    def remove(self, edges: Sequence[int]) -> None:
        for edge in edges:
            self.alive[edge] = False
            for node in self.ends[edge]:
                self.degrees[node] -= 1
        self.edges_left -= len(edges)

    def candidates(self, source: int) -> list[int]:
        """Local minima of the distance to a source node along what is left: any other point in reach is connected to a
        minimum within reach, so the others can be left out."""
        minima: list[int] = []
        corners: list[int] = []
        for number in range(self.first[source], self.first[source + 1]):
            if self.alive[self.edge[number]]:
                (minima if self.node[number] < 0 else corners).append(number)
        if corners:
            nodes = [self.node[number] for number in corners]
            for place, (number, node) in enumerate(zip(corners, nodes, strict=True)):
                # A node is a local minimum if it is one on every edge at the node; it is the first of these.
                if nodes.count(node) == self.degrees[node] and nodes.index(node) == place:
                    minima.append(number)
            minima.sort()
        return minima

    def links(self, before: list[int], after: list[int], region: list[int]) -> list[tuple[int, int]]:
        """Pairs of candidates of neighbouring points that are connected within a region of nodes."""
        floods: dict[int, dict[int, int]] = {}
        pairs = []
        for b in after:
            for a in before:
                hops = self._few_hops(a, b, region)
                if hops < 0:
                    if a not in floods:
                        floods[a] = self._flood(a, region)
                    far = [floods[a][node] for node in self._exits(b) if node in floods[a]]
                    hops = min(far) + (self.node[b] < 0) if far else self.hops + 1
                if hops <= self.hops:
                    pairs.append((a, b))
        return pairs

    def _exits(self, number: int) -> Sequence[int]:
        """The nodes next to a candidate: its own, or the two of its edge."""
        node = self.node[number]
        return self.ends[self.edge[number]] if node < 0 else (node,)

    def _few_hops(self, a: int, b: int, region: list[int]) -> int:
        """The number of edges between candidates on the same edge or on two that meet; -1 elsewhere."""
        inside = (self.node[a] < 0) + (self.node[b] < 0)
        if inside == 2 and self.edge[a] == self.edge[b]:
            return 0
        exits = self._exits(b)
        for node in self._exits(a):
            if node in exits and node in region:
                return inside
        return -1

    def _flood(self, number: int, region: list[int]) -> dict[int, int]:
        """Nodes of a region that are connected to a candidate in it, with the number of edges."""
        queue = [node for node in self._exits(number) if node in region]
        reached = dict.fromkeys(queue, int(self.node[number] < 0))
        for node in queue:  # grows while it is read
            for neighbour, _ in self._neighbours(node):
                if neighbour in region and neighbour not in reached:
                    reached[neighbour] = reached[node] + 1
                    queue.append(neighbour)
        return reached

    def _neighbours(self, node: int) -> list[tuple[int, int]]:
        """Neighbours of a node with the edges that are left to them."""
        edges = self.incident[self.starts[node] : self.starts[node + 1]]
        return [(sum(self.ends[edge]) - node, edge) for edge in edges if self.alive[edge]]

    def way(self, a: int, b: int, region: list[int]) -> list[Part]:
        """The shortest path between two connected candidates over nodes of a region."""
        if self.node[a] < 0 and self.node[b] < 0 and self.edge[a] == self.edge[b]:
            return [(self.edge[a], min(self.share[a], self.share[b]), max(self.share[a], self.share[b]))]
        exits = self._exits(b)
        for node in self._exits(a):
            if node in exits and node in region and self._is_shortest(a, b, node):
                return [self._part(number, node)[1] for number in (a, b) if self.node[number] < 0]
        leave, arrive = ({n: self._part(k, n) for n in self._exits(k) if n in region} for k in (a, b))
        return self._dijkstra([(far, node, -1, part) for node, (far, part) in leave.items()], arrive, region)

    def _part(self, number: int, node: int) -> tuple[float, Any]:
        """The distance from a candidate to a node next to it, and the part of its edge between them."""
        if self.node[number] >= 0:
            return 0.0, None
        edge, share = self.edge[number], self.share[number]
        if node == self.ends[edge][0]:
            return share * self.lengths[edge], (edge, 0.0, share)
        return (1 - share) * self.lengths[edge], (edge, share, 1.0)

    def _is_shortest(self, a: int, b: int, shared: int) -> bool:
        """Whether the way over a shared node is the shortest: any other leaves and arrives by the other ends, and is no
        shorter than a straight line between these."""
        if self.node[a] >= 0 or self.node[b] >= 0:
            return True
        u, w = (sum(self.ends[self.edge[number]]) - shared for number in (a, b))
        over = self._part(a, shared)[0] + self._part(b, shared)[0]
        return self._part(a, u)[0] + math.dist(self.points[u], self.points[w]) + self._part(b, w)[0] >= over

    def _dijkstra(self, queue: list[Any], goal: dict[int, Any], region: list[int]) -> list[Part]:
        heapq.heapify(queue)
        done: dict[int, tuple[int, Any]] = {}
        best, best_node = math.inf, -1
        while queue and queue[0][0] < best:
            far, node, before, part = heapq.heappop(queue)
            if node in done:
                continue
            done[node] = before, part
            if node in goal and far + goal[node][0] < best:
                best, best_node = far + goal[node][0], node
            for neighbour, edge in self._neighbours(node):
                if neighbour in region and neighbour not in done:
                    heapq.heappush(queue, (far + self.lengths[edge], neighbour, node, (edge, 0.0, 1.0)))
        if best_node < 0:
            raise AssertionError("connected candidates have a path between them")
        parts, node = [goal[best_node][1]], best_node
        while node >= 0:
            node, part = done[node]
            parts.append(part)
        return [part for part in parts if part is not None]
