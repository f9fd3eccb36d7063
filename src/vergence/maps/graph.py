"""A spatial graph as two arrays, with the operations that the metrics need.

Metrics must not depend on the representation of a map: the order of its nodes, control points along a straight road, or
the origin. So each of them starts from :attr:`RoadGraph.canonical` and splits it into pieces.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from vergence.core.errors import VergenceError
from vergence.reading.budget import within

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SAME = 1e-6
"""Nodes nearer than this (in pixels) are merged."""
STRAIGHT = 1e-8
"""A control point where the road turns by less than this (in radians) is removed."""


@dataclass(frozen=True, eq=False)
class RoadGraph:
    """Nodes (N, 2) as x, y and edges (E, 2) as pairs of node numbers. Build one with :func:`road_graph`."""

    points: Floats
    edges: Ints

    def __len__(self) -> int:
        return len(self.edges)

    @cached_property
    def lengths(self) -> Floats:
        """Lengths of the edges, (E,)."""
        return norms(self.points[self.edges[:, 1]] - self.points[self.edges[:, 0]])

    @property
    def middles(self) -> Floats:
        """Midpoints of the edges, (E, 2)."""
        return (self.points[self.edges[:, 0]] + self.points[self.edges[:, 1]]) / 2

    @property
    def length(self) -> float:
        return float(self.lengths.sum())

    @cached_property
    def degrees(self) -> Ints:
        """Number of edges at each node, (N,)."""
        return np.bincount(self.edges.ravel(), minlength=len(self.points)).astype(np.int64)

    @cached_property
    def matrix(self) -> sparse.csr_matrix:
        """Symmetric adjacency matrix with edge lengths, (N, N)."""
        i, j = self.edges.T
        both = (np.r_[self.lengths, self.lengths], (np.r_[i, j], np.r_[j, i]))
        return sparse.csr_matrix(both, shape=(len(self.points),) * 2)

    @cached_property
    def incident(self) -> tuple[Ints, Ints]:
        """Edges at each node: those of node ``n`` are ``edges[starts[n]:starts[n + 1]]``; (starts, edges)."""
        starts = np.zeros(len(self.points) + 1, np.int64)
        np.cumsum(self.degrees, out=starts[1:])
        return starts, np.argsort(self.edges.ravel(), kind="stable") // 2

    @cached_property
    def merged(self) -> RoadGraph:
        """The same map without control points on straight roads."""
        return _without_straight_nodes(self)

    @cached_property
    def canonical(self) -> RoadGraph:
        """The merged map with nodes in an order invariant to translation, rotation, renumbering and subdivision: by
        distance to the centre of all roads."""
        merged = self.merged
        if not len(merged):
            return merged
        centre = merged.lengths @ merged.middles / merged.lengths.sum()
        offset = merged.points - centre
        x, y = offset.round(4).T
        order = np.lexsort((y, x, (norms(offset) / SAME / 10).round()))
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return RoadGraph(merged.points[order], _ordered(rank[merged.edges]))

    def moved(self, points: Floats) -> RoadGraph:
        """The same edges with new node coordinates (N, 2)."""
        return road_graph(points, self.edges)

    def split(self, spacing: float) -> RoadGraph:
        """Every edge cut evenly into pieces of at most ``spacing``. Old nodes keep their numbers."""
        return _cut(self, pieces_of(self.lengths, spacing))

    def halved(self, spacing: float) -> RoadGraph:
        """Every edge halved until its pieces are at most ``spacing``."""
        halvings = np.ceil(np.log2(np.maximum(self.lengths / spacing, 1)) - SAME)
        return _cut(self, (2 ** np.maximum(halvings, 0)).astype(np.int64))

    def inside(self, left: float, top: float, right: float, bottom: float) -> RoadGraph:
        """The part inside a rectangle; edges that leave it are cut at its border."""
        start, way = self.points[self.edges[:, 0]], self.points[self.edges[:, 1]] - self.points[self.edges[:, 0]]
        enter, leave = np.zeros(len(self)), np.ones(len(self))
        low, high = np.array([left, top]), np.array([right, bottom])
        for axis in (0, 1):  # Liang and Barsky: the share of each edge between the two borders of an axis
            flat = way[:, axis] == 0
            with np.errstate(divide="ignore", invalid="ignore"):
                a, b = ((border[axis] - start[:, axis]) / way[:, axis] for border in (low, high))
            near, far = np.minimum(a, b), np.maximum(a, b)
            out = flat & ((start[:, axis] < low[axis]) | (start[:, axis] > high[axis]))
            enter = np.where(flat, np.where(out, 2.0, enter), np.maximum(enter, near))
            leave = np.where(flat, leave, np.minimum(leave, far))
        kept = enter < leave
        ends = np.stack([start + enter[:, None] * way, start + leave[:, None] * way], 1)[kept]  # (K, 2, 2)
        whole = np.stack([enter == 0, leave == 1], 1)[kept]
        ends[whole] = self.points[self.edges[kept]][whole]  # ends that are not cut keep their coordinates exactly
        return road_graph(ends.reshape(-1, 2), np.arange(2 * len(ends)).reshape(-1, 2))

    def without(self, edges: NDArray[np.bool_]) -> RoadGraph:
        """The graph without the edges of a mask (E,)."""
        return road_graph(self.points, self.edges[~edges])

    def joined(self, other: RoadGraph) -> RoadGraph:
        """The union of both graphs; nodes at the same place are merged."""
        return road_graph(np.r_[self.points, other.points], np.r_[self.edges, other.edges + len(self.points)])

    def to_networkx(self) -> Any:
        """A ``networkx.Graph`` whose nodes have ``pos=(x, y)``."""
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from((n, {"pos": (float(x), float(y))}) for n, (x, y) in enumerate(self.points))
        graph.add_edges_from(self.edges.tolist())
        return graph


def road_graph(points: Any, edges: Any) -> RoadGraph:
    """A graph from nodes (N, 2) and pairs of their numbers (E, 2), cleaned.

    Self loops, repeated edges and isolated nodes are removed; nodes at the same place are merged. A coordinate that is
    not finite, or an edge to a node that does not exist, is an error.
    """
    points, edges = _pairs(points, np.float64, "nodes are x, y"), _pairs(edges, np.int64, "edges are node numbers i, j")
    if not np.isfinite(points).all():
        worst = int(np.flatnonzero(~np.isfinite(points).all(1))[0])
        raise VergenceError(f"the node {worst} is at {points[worst].tolist()}: coordinates are finite numbers")
    within("points", len(points) + len(edges), "the graph")
    within("number", float(np.abs(points).max(initial=0)), "a node")
    if len(edges) and (edges.min() < 0 or edges.max() >= len(points)):
        bad = edges[((edges < 0) | (edges >= len(points))).any(1)][0].tolist()
        raise VergenceError(f"the edge {bad[0]} {bad[1]} names a node that does not exist: there are {len(points)}")
    points, edges = _one_node_a_place(points, edges)
    edges = edges[edges[:, 0] != edges[:, 1]]
    edges = np.unique(np.sort(edges, axis=1), axis=0) if len(edges) else edges
    used = np.unique(edges)
    number = np.full(len(points), -1, np.int64)
    number[used] = np.arange(len(used))
    return RoadGraph(points[used], number[edges])


def _pairs(given: Any, kind: Any, what: str) -> Any:
    """Converts to rows of two numbers, (N, 2); integers for node numbers."""
    try:
        array = np.asarray(given)
        if not array.size:
            return np.zeros((0, 2), kind)
        rows = array.astype(kind)
        right = array.ndim == 2 and array.shape[1] == 2 and (kind != np.int64 or bool((rows == array).all()))
    except (TypeError, ValueError):
        right = False
    if not right:
        raise VergenceError(f"{what}: expected rows of two numbers, got {str(given)[:60]}")
    return rows


def from_networkx(graph: Any, name: str = "the graph") -> RoadGraph:
    """From a ``networkx`` graph of any kind: nodes of any name with ``pos=(x, y)`` or ``x`` and ``y``."""
    number: dict[Hashable, int] = {}
    points: list[tuple[float, float]] = []
    for node, data in graph.nodes(data=True):
        place = data.get("pos", (data["x"], data["y"]) if "x" in data and "y" in data else None)
        try:
            x, y = (float(v) for v in place)
        except (TypeError, ValueError):
            raise VergenceError(f"the node {node!r} of {name} has no pos=(x, y): it has {place!r}") from None
        number[node] = len(points)
        points.append((x, y))
    try:
        return road_graph(points, [(number[u], number[v]) for u, v in graph.edges()])
    except VergenceError as error:
        raise VergenceError(f"{name}: {error}") from None


def as_graph(given: Any, name: str) -> RoadGraph:
    """Converts a metric's argument: a :class:`RoadGraph` or a ``networkx`` graph."""
    if isinstance(given, RoadGraph):
        return given
    if hasattr(given, "nodes") and hasattr(given, "edges"):
        return from_networkx(given, name)
    raise VergenceError(f"{name} is a {type(given).__name__}, expected a RoadGraph or a networkx graph")


def pieces_of(lengths: Floats, spacing: float) -> Ints:
    """The number of even pieces of at most ``spacing`` that edges are cut into."""
    return np.maximum(np.ceil(lengths / spacing - SAME), 1).astype(np.int64)


def norms(vectors: Floats) -> Floats:
    """Lengths of vectors (N, 2)."""
    x, y = vectors[:, 0], vectors[:, 1]
    return np.sqrt(x * x + y * y)


def _ordered(edges: Ints) -> Ints:
    """Edges with the smaller node first, in the order of their nodes."""
    edges = np.sort(edges, axis=1)
    return edges[np.lexsort(edges.T[::-1])]


def _one_node_a_place(points: Floats, edges: Ints) -> tuple[Floats, Ints]:
    from scipy.spatial import cKDTree

    if not len(points):
        return points, edges
    pairs = cKDTree(points).query_pairs(SAME, output_type="ndarray")
    if not len(pairs):
        return points, edges
    links = sparse.coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(points),) * 2)
    _, label = connected_components(links, directed=False)
    _, first, place = np.unique(label, return_index=True, return_inverse=True)
    return points[first], place[edges].reshape(-1, 2)


def _without_straight_nodes(graph: RoadGraph) -> RoadGraph:
    middle = np.flatnonzero(graph.degrees == 2)
    if not len(middle):
        return graph
    starts, incident = graph.incident
    first = starts[middle]
    before, after = (graph.points[graph.edges[incident[first + k]].sum(1) - middle] for k in (0, 1))
    a, b = graph.points[middle] - before, after - graph.points[middle]
    turn = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
    straight = (turn <= STRAIGHT * norms(a) * norms(b)) & (a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1] > 0)
    if not straight.any():
        return graph
    gone = np.zeros(len(graph.points), bool)
    gone[middle[straight]] = True
    # Runs of removed nodes are paths; each is replaced by one edge between the nodes at its ends.
    flags = gone[graph.edges]
    inner, border = graph.edges[flags.all(1)], graph.edges[flags.sum(1) == 1]
    links = sparse.coo_matrix((np.ones(len(inner)), inner.T), shape=(len(gone),) * 2)
    _, run = connected_components(links, directed=False)
    leaving = gone[border]  # (B, 2): which of the two is removed
    order = np.argsort(run[border[leaving]], kind="stable")
    bridges = border[~leaving][order].reshape(-1, 2)
    return road_graph(graph.points, np.r_[graph.edges[~flags.any(1)], bridges])


def _cut(graph: RoadGraph, counts: Ints) -> RoadGraph:
    """Splits every edge into ``counts`` (E,) even pieces; the pieces of an edge are consecutive."""
    owner = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)  # 0 to count - 1 within an edge
    inserted = step > 0
    share = (step / counts[owner])[inserted, None]
    start, end = (graph.points[graph.edges[owner[inserted], k]] for k in (0, 1))
    number = len(graph.points) + np.cumsum(inserted) - 1  # of the first node of a piece, if that was inserted
    first = np.where(inserted, number, graph.edges[owner, 0])
    last = np.where(step == counts[owner] - 1, graph.edges[owner, 1], np.r_[number[1:], 0])
    pieces = np.stack([first, last], 1)
    return RoadGraph(np.r_[graph.points, start + share * (end - start)], pieces)
