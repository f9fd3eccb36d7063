"""Paths of one map matched to another by dynamic programming, for OPT-P.

A point of a path may match any road nearby or none, and two neighbouring points are connected if their roads are,
within reach of the piece between them. All geometry (which roads are near which points) is computed once, by trees; a
path then costs a few array operations and one pass over its points.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from vergence.maps.geometry import Near, near, ragged, starts_of
from vergence.maps.graph import Floats, Ints, RoadGraph
from vergence.maps.metrics.opt_p_paths import Path, decompose
from vergence.maps.settings import OptP

BREAK = 1e4
"""Cost of a gap per square pixel of its length, relative to the squared distance of a match."""
TIE = 1e-9
"""Extra cost of a match inside an edge over one at a node, in square pixels."""


class Match(NamedTuple):
    """The match of one decomposition."""

    paths: list[Path]
    scores: list[float]
    """Scores of the paths, in order."""
    lengths: list[float]
    matched: NDArray[np.bool_]
    """Mask of the source's pieces that are connected in the target."""
    skipped: int = 0
    """Number of last paths for which nothing of the target was left."""


class _Candidates(NamedTuple):
    """Possible matches of the points of a path, by point: inside an edge of the target, or at a node of it."""

    place: Ints
    edge: Ints
    share: Floats
    node: Ints
    """-1: inside the edge."""
    square: Floats
    """The squared distance."""


@dataclass(frozen=True, eq=False)
class Matcher:
    """Matches paths of a source to a target, both split into pieces."""

    source: RoadGraph
    target: RoadGraph
    settings: OptP = field(default_factory=OptP)

    def match(self, seed: int) -> Match:
        """Decomposes the source at random and matches each path to what earlier ones have left of the target."""
        paths = decompose(self.source, seed, self.settings.loops)
        return self.match_paths(paths)

    def match_paths(self, paths: list[Path]) -> Match:
        """Matches the given paths, in order."""
        target = _Target(self.target)
        matched = np.zeros(len(self.source), bool)
        scores, lengths, skipped = [], [], 0
        for path in paths:
            steps = self.source.lengths[path.edges]
            connected = self._match_path(path, steps, target) if target.edges_left else np.zeros(len(steps), bool)
            skipped += not target.edges_left and not connected.any()
            matched[np.array(path.edges)[connected]] = True
            lengths.append(float(steps.sum()))
            scores.append(connectivity(steps, connected))
        return Match(paths, scores, lengths, matched, skipped)

    @cached_property
    def _near(self) -> tuple[Near, Ints]:
        """Target edges in reach of each source node."""
        edges = near(self.source.points, self.target, self.settings.snap)
        return edges, starts_of(edges.point, len(self.source.points))

    @cached_property
    def _reach(self) -> tuple[Ints, Ints, Ints]:
        """Target nodes in reach of each source piece: keys ``piece * nodes + node`` in order, the nodes, row starts."""
        nodes = near(self.target.points, self.source, self.settings.snap)
        keys = np.sort(nodes.edge * max(len(self.target.points), 1) + nodes.point)
        piece, node = np.divmod(keys, max(len(self.target.points), 1))
        return keys, node, starts_of(piece, len(self.source))

    @cached_property
    def _within(self) -> tuple[Ints, Ints]:
        """Target edges wholly in reach of each source piece (both nodes are, and reach is convex), row starts."""
        keys, node, starts = self._reach
        count = max(len(self.target.points), 1)
        first, edges_at = _by_first_node(self.target)
        owner, index = ragged(first, node)
        edge = edges_at[index]
        piece = np.repeat(np.arange(len(self.source)), np.diff(starts))[owner]
        wanted = piece * count + self.target.edges[edge, 1]
        kept = _position(keys, wanted) >= 0
        return edge[kept], starts_of(piece[kept], len(self.source))

    def _match_path(self, path: Path, steps: Floats, target: _Target) -> NDArray[np.bool_]:
        candidates = self._candidates(path, target)
        links = self._links(path, candidates, target)
        chosen, connected = cheapest(len(path.nodes), candidates, links, steps)
        if connected.any():
            self._remove(path, candidates, chosen, connected, target)
        return connected

    def _candidates(self, path: Path, target: _Target) -> _Candidates:
        """Local minima of the distance along what is left of the target: any other point in reach is connected to a
        minimum within reach, so the others can be left out."""
        roads, starts = self._near
        place, index = ragged(starts, np.array(path.nodes))
        alive = target.alive[roads.edge[index]]
        place, index = place[alive], index[alive]
        edge, share, distance = roads.edge[index], roads.share[index], roads.distance[index]
        inside = (share > 1e-9) & (share < 1 - 1e-9)
        # A node is a local minimum if it is one on every edge at the node.
        nodes = self.target.edges[edge, (share > 0.5).astype(np.int64)]
        keys = place * max(len(self.target.points), 1) + nodes
        at_node = np.flatnonzero(~inside)
        unique, first, counts = np.unique(keys[at_node], return_index=True, return_counts=True)
        least = counts == target.degrees[unique % max(len(self.target.points), 1)]
        kept = np.r_[np.flatnonzero(inside), at_node[first[least]]]
        kept = kept[np.lexsort((nodes[kept], edge[kept], place[kept]))]
        node = np.where(inside, -1, nodes)[kept]
        # The tie-break matches a map to itself node by node where two roads coincide.
        square = distance[kept] ** 2 + TIE * (node < 0)
        return _Candidates(place[kept], edge[kept], share[kept], node, square)

    def _links(self, path: Path, candidates: _Candidates, target: _Target) -> tuple[Ints, Ints]:
        """Pairs of candidates of neighbouring points that are connected within reach of the piece between them."""
        count, pieces = max(len(self.target.points), 1), np.array(path.edges)
        _, node, starts = self._reach
        owner, index = ragged(starts, pieces)
        here = owner * count + node[index]  # a vertex is a target node within reach of one piece; sorted
        edges, edge_starts = self._within
        edge_owner, index = ragged(edge_starts, pieces)
        edge = edges[index]
        alive = target.alive[edge]
        edge, edge_owner = edge[alive], edge_owner[alive]
        lines = [_position(here, edge_owner * count + self.target.edges[edge, k]) for k in (0, 1)]
        # Each candidate ends one piece and begins the next. Inside an edge it is a separate vertex, one per edge.
        last = len(pieces) - 1
        number = np.arange(len(candidates.place))
        begins, ends = number[candidates.place <= last], number[candidates.place >= 1]
        seen = np.r_[begins, ends]
        stretch = np.r_[candidates.place[begins], candidates.place[ends] - 1]
        inside = candidates.node[seen] < 0
        vertex = _position(here, stretch * count + np.maximum(candidates.node[seen], 0))
        own_edge = candidates.edge[seen[inside]]
        inner, place = np.unique(stretch[inside] * len(self.target) + own_edge, return_inverse=True)
        vertex[inside] = len(here) + place
        inner_stretch, inner_edge = np.divmod(inner, max(len(self.target), 1))
        for k in (0, 1):
            to = _position(here, inner_stretch * count + self.target.edges[inner_edge, k])
            lines = [np.r_[lines[0], len(here) + np.flatnonzero(to >= 0)], np.r_[lines[1], to[to >= 0]]]
        size = len(here) + len(inner)
        graph = sparse.coo_matrix((np.ones(len(lines[0])), (lines[0], lines[1])), shape=(size, size))
        begin_vertex, end_vertex = vertex[: len(begins)], vertex[len(begins) :]
        if self.settings.hops:
            return _within_hops(graph, begins, begin_vertex, ends, end_vertex, self.settings.hops)
        _, label = connected_components(graph, directed=False)
        return _join(begins, label[begin_vertex], ends, label[end_vertex])

    def _remove(
        self, path: Path, candidates: _Candidates, chosen: list[int], connected: NDArray[np.bool_], target: _Target
    ) -> None:
        """Removes the edges along the match, unless less than half of an edge is covered."""
        _, node, starts = self._reach
        covered: dict[int, tuple[float, float]] = {}
        columns = candidates.edge.tolist(), candidates.share.tolist(), candidates.node.tolist()
        places = list(zip(*columns, strict=True))
        for step in np.flatnonzero(connected).tolist():
            piece = path.edges[step]
            allowed = node[starts[piece] : starts[piece + 1]]
            for edge, low, high in target.way(places[chosen[step]], places[chosen[step + 1]], allowed):
                a, b = covered.get(edge, (low, high))
                covered[edge] = min(a, low), max(b, high)
        target.remove([edge for edge, (low, high) in covered.items() if high - low >= 0.5])


def connectivity(steps: Floats, connected: NDArray[np.bool_]) -> float:
    """Σ l(run)² / l(path)²: the probability that two random points of a path are in one connected run."""
    if connected.all():
        return 1.0
    total = float(steps.sum())
    run = np.cumsum(~connected)[connected]
    runs = np.bincount(run, steps[connected]) if len(run) else np.zeros(1)
    return float((runs**2).sum()) / total**2


def cheapest(
    places: int, candidates: _Candidates, links: tuple[Ints, Ints], steps: Floats
) -> tuple[list[int], NDArray[np.bool_]]:
    """Viterbi: for each point the candidate or none (-1), and the mask of connected pieces, at the least cost.

    A candidate costs its squared distance, a piece that is not connected ``BREAK`` times its squared length.
    """
    starts = starts_of(candidates.place, places).tolist()
    order = np.argsort(links[1], kind="stable")
    sources, link_starts = links[0][order].tolist(), starts_of(links[1][order], len(candidates.place)).tolist()
    unary, breaks = candidates.square.tolist(), (BREAK * steps**2).tolist()
    cost = [0.0] * len(unary)
    came: list[int] = [-1] * len(unary)  # the linked candidate before; -1: a gap
    best_before: list[int] = [-1] * places  # the cheapest state of the place before
    best, best_state = 0.0, -1
    none = 0.0
    for place in range(places):
        gap = best + breaks[place - 1] if place else 0.0
        best_before[place] = best_state
        none = gap
        best, best_state = none, -1
        for state in range(starts[place], starts[place + 1]):
            least, source = gap, -1
            for before in sources[link_starts[state] : link_starts[state + 1]]:
                if cost[before] < least:
                    least, source = cost[before], before
            cost[state], came[state] = least + unary[state], source
            if cost[state] < best:
                best, best_state = cost[state], state
    chosen, connected = [-1] * places, np.zeros(max(places - 1, 0), bool)
    state = best_state
    for place in range(places - 1, -1, -1):
        chosen[place] = state
        if state >= 0 and came[state] >= 0:
            connected[place - 1] = True
            state = came[state]
        else:
            state = best_before[place]
    return chosen, connected


class _Target:
    """The part of the target that earlier paths have left."""

    def __init__(self, graph: RoadGraph) -> None:
        self.ends = graph.edges.tolist()
        self.lengths = graph.lengths.tolist()
        self.alive = np.ones(len(graph), bool)
        self.degrees = graph.degrees.copy()
        self.edges_left = len(graph)
        self.at: list[dict[int, int]] = [{} for _ in range(len(graph.points))]
        for number, (u, v) in enumerate(self.ends):
            self.at[u][v] = self.at[v][u] = number

    def remove(self, edges: list[int]) -> None:
        for edge in edges:
            u, v = self.ends[edge]
            del self.at[u][v], self.at[v][u]
            self.alive[edge] = False
            self.degrees[u] -= 1
            self.degrees[v] -= 1
        self.edges_left -= len(edges)

    def way(
        self, a: tuple[int, float, int], b: tuple[int, float, int], allowed: Ints
    ) -> list[tuple[int, float, float]]:
        """The shortest path between two candidates over allowed nodes: edges, and the covered fractions."""
        (edge_a, share_a, node_a), (edge_b, share_b, node_b) = a, b
        if node_a < 0 and node_b < 0 and edge_a == edge_b:
            return [(edge_a, min(share_a, share_b), max(share_a, share_b))]
        if node_a >= 0 and node_b >= 0:
            if node_a == node_b:
                return []
            direct = self.at[node_a].get(node_b)
            if direct is not None:  # straight, and so the shortest
                return [(direct, 0.0, 1.0)]
        leave, arrive = self._exits(edge_a, share_a, node_a), self._exits(edge_b, share_b, node_b)
        inside = set(allowed.tolist())
        queue = [(far, node, -1, part) for node, (far, part) in leave.items() if node in inside]
        goal = {node: (far, part) for node, (far, part) in arrive.items() if node in inside}
        return self._dijkstra(queue, goal, inside)

    def _exits(self, edge: int, share: float, node: int) -> dict[int, tuple[float, tuple[int, float, float] | None]]:
        """Distances from a candidate to nodes, and the part of its own edge on the way."""
        if node >= 0:
            return {node: (0.0, None)}
        u, v = self.ends[edge]
        length = self.lengths[edge]
        return {u: (share * length, (edge, 0.0, share)), v: ((1 - share) * length, (edge, share, 1.0))}

    def _dijkstra(self, queue: list[Any], goal: dict[int, Any], inside: set[int]) -> list[tuple[int, float, float]]:
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
                if neighbour in inside and neighbour not in done:
                    heapq.heappush(queue, (far + self.lengths[edge], neighbour, node, (edge, 0.0, 1.0)))
        if best_node < 0:
            raise AssertionError("connected candidates have a path between them")
        parts, node = [goal[best_node][1]], best_node
        while node >= 0:
            node, part = done[node]
            parts.append(part)
        return [part for part in parts if part is not None]


def _by_first_node(graph: RoadGraph) -> tuple[Ints, Ints]:
    """Edges by their first node: row starts, edges."""
    order = np.argsort(graph.edges[:, 0], kind="stable")
    return starts_of(graph.edges[order, 0], len(graph.points)), order


def _position(keys: Ints, wanted: Ints) -> Ints:
    """Where ``wanted`` are among sorted keys; -1 where they are not."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


def _join(a: Ints, label_a: Ints, b: Ints, label_b: Ints) -> tuple[Ints, Ints]:
    """All pairs with equal labels."""
    order = np.argsort(label_a, kind="stable")
    low, high = (np.searchsorted(label_a[order], label_b, side) for side in ("left", "right"))
    counts = high - low
    owner = np.repeat(np.arange(len(b)), counts)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return a[order[low[owner] + offset]], b[owner]


def _within_hops(
    graph: sparse.coo_matrix, a: Ints, vertex_a: Ints, b: Ints, vertex_b: Ints, hops: int
) -> tuple[Ints, Ints]:
    """All pairs whose vertices are at most ``hops`` edges apart."""
    size = graph.shape[0]
    one = ((graph + graph.T + sparse.identity(size)) > 0).astype(np.int8).tocsr()
    rows, place = np.unique(vertex_a, return_inverse=True)
    reached = one[rows]
    for _ in range(hops - 1):
        reached = ((reached @ one) > 0).astype(np.int8)
    reached = reached.tocoo()
    keys = np.sort(reached.row.astype(np.int64) * size + reached.col)
    pairs_a = np.repeat(np.arange(len(a)), len(b)) if len(a) * len(b) <= 4096 else None
    if pairs_a is not None:
        pairs_b = np.tile(np.arange(len(b)), len(a))
        kept = _position(keys, place[pairs_a] * size + vertex_b[pairs_b]) >= 0
        return a[pairs_a[kept]], b[pairs_b[kept]]
    row, column = np.divmod(keys, size)
    left, index = _join(np.arange(len(a)), place, np.arange(len(keys)), row)
    first, right = _join(np.arange(len(left)), column[index], np.arange(len(b)), vertex_b)
    return a[left[first]], b[right]
