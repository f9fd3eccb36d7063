"""What earlier paths have left of a target map, for OPT-P: candidates, their connections, and the way between two."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from vergence.maps.graph import RoadGraph


class Candidate(NamedTuple):
    """A possible match of a point of a path: inside an edge of the target, or at a node of it."""

    edge: int
    share: float
    node: int
    """-1: inside the edge."""
    square: float
    """The cost: the squared distance."""


Part = tuple[int, float, float]
"""An edge, and the fraction of it from one share to another."""


class Target:
    """A target and the edges that are left of it."""

    def __init__(self, graph: RoadGraph, hops: int = 0) -> None:
        self.hops = hops or len(graph.points) + 2
        """Largest number of edges between connected candidates; inside an edge is one edge from its nodes."""
        self.ends: list[list[int]] = graph.edges.tolist()
        self.lengths: list[float] = graph.lengths.tolist()
        self.points: list[list[float]] = graph.points.tolist()
        self.alive = [True] * len(graph)
        self.edges_left = len(graph)
        self.at: list[dict[int, int]] = [{} for _ in range(len(graph.points))]
        """By node: the edge to each neighbour."""
        for number, (u, v) in enumerate(self.ends):
            self.at[u][v] = self.at[v][u] = number

    def remove(self, edges: list[int]) -> None:
        for edge in edges:
            u, v = self.ends[edge]
            del self.at[u][v], self.at[v][u]
            self.alive[edge] = False
        self.edges_left -= len(edges)

    def candidates(self, closest: list[Candidate]) -> list[Candidate]:
        """Local minima of the distance along what is left, from the closest points of edges, in the order of these: any
        other point in reach is connected to a minimum within reach, so the others can be left out."""
        minima, at_node = [], {}  # type: ignore[var-annotated]
        for candidate in closest:
            if self.alive[candidate.edge]:
                if candidate.node < 0:
                    minima.append(candidate)
                else:
                    at_node.setdefault(candidate.node, []).append(candidate)
        # A node is a local minimum if it is one on every edge at the node.
        nodes = [found[0] for node, found in at_node.items() if len(found) == len(self.at[node])]
        return sorted(minima + nodes) if nodes else minima  # no two are on the same edge

    def links(self, before: list[Candidate], after: list[Candidate], region: Collection[int]) -> list[list[int]]:
        """For each candidate of a point, the candidates of the point before that it is connected to within a region."""
        floods: dict[int, dict[int, int]] = {}
        links = []
        for b in after:
            linked = []
            for number, a in enumerate(before):
                hops = self._few_hops(a, b, region)
                if hops is None:
                    if number not in floods:
                        floods[number] = self._flood(a, region)
                    reached, beyond = floods[number], int(b.node < 0)
                    hops = min((reached[n] + beyond for n in self._exits(b) if n in reached), default=math.inf)
                if hops <= self.hops:
                    linked.append(number)
            links.append(linked)
        return links

    def _exits(self, candidate: Candidate) -> list[int]:
        return [candidate.node] if candidate.node >= 0 else self.ends[candidate.edge]

    def _few_hops(self, a: Candidate, b: Candidate, region: Collection[int]) -> int | None:
        """The number of edges between candidates on the same edge or on two that meet; None elsewhere."""
        if a.node < 0 and b.node < 0 and a.edge == b.edge:
            return 0
        for node in self._exits(a):
            if node in self._exits(b) and node in region:
                return (a.node < 0) + (b.node < 0)
        return None

    def _flood(self, candidate: Candidate, region: Collection[int]) -> dict[int, int]:
        """Nodes of a region that are connected to a candidate in it, with the number of edges."""
        queue = [node for node in self._exits(candidate) if node in region]
        reached = dict.fromkeys(queue, int(candidate.node < 0))
        for node in queue:  # grows while it is read
            for neighbour in self.at[node]:
                if neighbour in region and neighbour not in reached:
                    reached[neighbour] = reached[node] + 1
                    queue.append(neighbour)
        return reached

    def way(self, a: Candidate, b: Candidate, region: Collection[int]) -> list[Part]:
        """The shortest path between two connected candidates over nodes of a region."""
        if a.node < 0 and b.node < 0 and a.edge == b.edge:
            return [(a.edge, min(a.share, b.share), max(a.share, b.share))]
        if a.node >= 0 and b.node >= 0:
            if a.node == b.node:
                return []
            direct = self.at[a.node].get(b.node)
            if direct is not None:  # straight, and so the shortest
                return [(direct, 0.0, 1.0)]
        leave, arrive = self._leaving(a), self._leaving(b)
        for node in leave:
            if node in arrive and node in region and self._is_shortest(node, leave, arrive):
                return [part for _, part in (leave[node], arrive[node]) if part is not None]
        queue = [(far, node, -1, part) for node, (far, part) in leave.items() if node in region]
        goal = {node: (far, part) for node, (far, part) in arrive.items() if node in region}
        return self._dijkstra(queue, goal, region)

    def _leaving(self, candidate: Candidate) -> dict[int, tuple[float, Part | None]]:
        """Distances from a candidate to nodes, and the part of its own edge on the way."""
        edge, share, node, _ = candidate
        if node >= 0:
            return {node: (0.0, None)}
        u, v = self.ends[edge]
        length = self.lengths[edge]
        return {u: (share * length, (edge, 0.0, share)), v: ((1 - share) * length, (edge, share, 1.0))}

    def _is_shortest(self, shared: int, leave: dict[int, Any], arrive: dict[int, Any]) -> bool:
        """Whether the way over a shared node is the shortest: any other leaves and arrives by the other ends, and is no
        shorter than a straight line between these."""
        over = leave[shared][0] + arrive[shared][0]
        for u, (first, _) in leave.items():
            for w, (last, _) in arrive.items():
                if u != shared and w != shared and first + math.dist(self.points[u], self.points[w]) + last < over:
                    return False
        return True

    def _dijkstra(self, queue: list[Any], goal: dict[int, Any], region: Collection[int]) -> list[Part]:
        heapq.heapify(queue)
        done: dict[int, tuple[int, Any]] = {}
        best, best_node = np.inf, -1
        while queue and queue[0][0] < best:
            far, node, before, part = heapq.heappop(queue)
            if node in done:
                continue
            done[node] = before, part
            if node in goal and far + goal[node][0] < best:
                best, best_node = far + goal[node][0], node
            for neighbour, edge in self.at[node].items():
                if neighbour in region and neighbour not in done:
                    heapq.heappush(queue, (far + self.lengths[edge], neighbour, node, (edge, 0.0, 1.0)))
        if best_node < 0:
            raise AssertionError("connected candidates have a path between them")
        parts, node = [goal[best_node][1]], best_node
        while node >= 0:
            node, part = done[node]
            parts.append(part)
        return [part for part in parts if part is not None]
