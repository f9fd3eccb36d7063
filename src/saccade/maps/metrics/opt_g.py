"""OPT-G and SUBG: is what one can reach by travelling a while the same in both maps?

From a start, and from the closest point of the other map, all control points within a distance along the roads are
taken. OPT-G starts in both maps and matches control points one to one; SUBG (Biagioni and Eriksson) starts in the truth
alone and lets many points share a neighbour, and so overlooks far false roads and roads that were merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from saccade.errors import SaccadeError
from saccade.maps.geometry import closest
from saccade.maps.graph import Floats, Ints, RoadGraph, as_graph
from saccade.maps.metrics.agreement import Agreement
from saccade.maps.roads import simplified
from saccade.seeding import derive


@dataclass(frozen=True)
class Subgraphs:
    """How sub-graphs are taken and matched, for OPT-G and SUBG."""

    snap: float = 25.0
    """How far apart matched control points, and the two starts, may be, in pixels."""
    radius: float = 300.0
    """How far to travel from a start, in pixels."""
    step: float = 10.0
    """The distance between control points, in pixels."""
    starts: int = 1000
    """How many starts; OPT-G takes half of them in either map."""
    matching: Literal["hungarian", "greedy"] = "hungarian"
    """OPT-G: the cheapest one-to-one matching (paper), or the closest pair first (public code)."""
    reach: Literal["travelled", "straight"] = "travelled"
    """Distance along roads (paper), or roads that connect within a circle (public code)."""
    shared: Literal["truth", "both"] = "truth"
    """SUBG: a predicted point may answer to many true ones (public code), or true points to many predicted ones too, so
    that doubled roads in the prediction go unnoticed as well (the paper's wording)."""
    simplify: float = 0.0
    """Simplify roads by so many pixels before control points are set (public code: 5)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.radius > 0 and self.step > 0 and self.starts >= 2 and self.simplify >= 0):
            raise SaccadeError(
                "sub-graphs have snap, radius and step above 0, starts >= 2 and simplify >= 0, "
                f"got {self.snap}, {self.radius}, {self.step}, {self.starts} and {self.simplify}"
            )


def opt_g(truth: Any, prediction: Any, settings: Subgraphs = Subgraphs(), seed: int = 0) -> Agreement:
    """Sub-graph precision and recall of a predicted map, over starts in both."""
    g, h = (Explorer(as_graph(x, name), settings) for x, name in _named(truth, prediction))
    half = settings.starts // 2
    # The same draw for either map, whatever its role: exchanging the maps exchanges precision and recall.
    forward = _counts(g.visits(h, half, derive("opt_g", seed)), settings)
    backward = _counts(h.visits(g, half, derive("opt_g", seed)), settings)
    hits = float(forward[0] + backward[0])
    return Agreement(hits, float(forward[2] + backward[1]), hits, float(forward[1] + backward[2]))


def subg(truth: Any, prediction: Any, settings: Subgraphs = Subgraphs(), seed: int = 0) -> Agreement:
    """The older sub-graph measure: starts in the truth, neighbours may be shared."""
    g, h = (Explorer(as_graph(x, name), settings) for x, name in _named(truth, prediction))
    right = found = predicted = actual = 0
    for times, own, other in g.visits(h, settings.starts, derive("subg", seed)):
        actual, predicted = actual + times * len(own), predicted + times * len(other)
        if len(own) and len(other):
            distance = cdist(own, other)
            near_prediction = int((distance.min(1) < settings.snap).sum())
            near_truth = int((distance.min(0) < settings.snap).sum())
            found += times * near_prediction
            right += times * (near_truth if settings.shared == "both" else min(near_prediction, len(other)))
    if not len(g.graph) and len(h.graph):
        predicted = len(h.graph.points)  # nowhere to start from: nothing of the prediction is right
    return Agreement(float(right), float(predicted), float(found), float(actual))


def _named(truth: Any, prediction: Any) -> tuple[tuple[Any, str], tuple[Any, str]]:
    return (truth, "the truth"), (prediction, "the prediction")


def _counts(visits: Iterator[tuple[int, Floats, Floats]], settings: Subgraphs) -> tuple[int, int, int]:
    """Matched control points, and how many there are in either map."""
    matched = own_count = other_count = 0
    for times, own, other in visits:
        own_count, other_count = own_count + times * len(own), other_count + times * len(other)
        matched += times * len(matching(own, other, settings)[0])
    return matched, own_count, other_count


def matching(a: Floats, b: Floats, settings: Subgraphs) -> tuple[Ints, Ints]:
    """A one-to-one matching of points (N, 2) and (M, 2) nearer than ``snap``: rows and columns."""
    none = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if not len(a) or not len(b):
        return none
    distance = cdist(a, b)
    if settings.matching == "greedy":
        return _closest_first(distance, settings.snap)
    # A pair that is too far costs the same as none, so the cheapest assignment leaves it out.
    rows, columns = linear_sum_assignment(np.minimum(distance, settings.snap))
    kept = distance[rows, columns] < settings.snap
    return rows[kept], columns[kept]


def _closest_first(distance: Floats, snap: float) -> tuple[Ints, Ints]:
    rows, columns = np.nonzero(distance < snap)
    order = np.argsort(distance[rows, columns], kind="stable")
    free_row, free_column = np.ones(distance.shape[0], bool), np.ones(distance.shape[1], bool)
    chosen = []
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if free_row[row] and free_column[column]:
            free_row[row] = free_column[column] = False
            chosen.append((row, column))
    found = np.array(chosen, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


class _Start(NamedTuple):
    """A place on an edge between two control points: both, and how far they are."""

    nodes: tuple[int, int]
    offsets: tuple[float, float]
    x: float
    y: float


class Explorer:
    """A map with control points, and what can be reached in it."""

    def __init__(self, graph: RoadGraph, settings: Subgraphs) -> None:
        whole = graph.canonical
        if settings.simplify:
            whole = simplified(whole, settings.simplify).canonical
        self.graph = whole.split(settings.step)
        self.settings = settings

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.graph.points)

    def starts(self, count: int, seed: int) -> Ints:
        """Random control points, each as likely as it has road around it."""
        if not len(self.graph):
            return np.zeros(0, np.int64)
        weight = np.bincount(self.graph.edges.ravel(), np.repeat(self.graph.lengths, 2))
        cumulative = np.cumsum(weight)
        draws = np.random.default_rng(seed).random(count) * cumulative[-1]
        return np.minimum(np.searchsorted(cumulative, draws, side="right"), len(weight) - 1)

    def visits(self, other: Explorer, count: int, seed: int) -> Iterator[tuple[int, Floats, Floats]]:
        """From each start: how often it was drawn, the control points reached in this map, and those reached in the
        other from its closest point."""
        starts, times = np.unique(self.starts(count, seed), return_counts=True)
        places = self.graph.points[starts]
        there = closest(places, other.graph, self.settings.snap)
        first, second = (other.graph.edges[there.edge, k] for k in (0, 1))
        partner = dict(zip(there.point.tolist(), range(len(there.point)), strict=True))
        for number, node in enumerate(starts.tolist()):
            own = self.reached(_Start((node, node), (0.0, 0.0), *places[number].tolist()))
            row = partner.get(number)
            if row is None:
                yield int(times[number]), own, np.zeros((0, 2))
                continue
            u, v, length = int(first[row]), int(second[row]), float(other.graph.lengths[there.edge[row]])
            share = float(there.share[row])
            x, y = (other.graph.points[u] + share * (other.graph.points[v] - other.graph.points[u])).tolist()
            yield int(times[number]), own, other.reached(_Start((u, v), (share * length, (1 - share) * length), x, y))

    def reached(self, start: _Start) -> Floats:
        """Control points within the radius of a start, as coordinates."""
        radius = self.settings.radius
        # Nothing that is reached by road is farther than that in a straight line: a small graph will do.
        close = np.array(self._tree.query_ball_point((start.x, start.y), radius + self.settings.step), np.int64)
        close.sort()
        local = np.searchsorted(close, start.nodes)
        small = self.graph.matrix[close][:, close]
        if self.settings.reach == "straight":
            inside = ((self.graph.points[close] - (start.x, start.y)) ** 2).sum(1) <= radius**2
            small = small.multiply(inside[:, None]).multiply(inside[None])
            _, label = connected_components(small, directed=False)
            return self.graph.points[close[inside & np.isin(label, label[local])]]
        distance = dijkstra(small, directed=False, indices=local, limit=radius)
        far = np.minimum(distance[0] + start.offsets[0], distance[1] + start.offsets[1])
        return self.graph.points[close[far <= radius]]
