"""OPT-G and SUBG: compare the sub-graphs reachable from random points in both maps.

From a start, and from the closest point of the other map, all control points within a distance along the roads are
collected. OPT-G starts in both maps and matches control points one to one; SUBG (Biagioni and Eriksson) starts only in
the truth and lets points share a neighbour, and so overlooks far false roads and merged roads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from vergence.core.seeding import derive
from vergence.maps.geometry import along, closest
from vergence.maps.graph import SAME, Floats, Ints, RoadGraph, as_graph, norms
from vergence.maps.metrics.agreement import Agreement
from vergence.maps.roads import simplified
from vergence.maps.settings import Subgraphs


def opt_g(truth: Any, prediction: Any, settings: Subgraphs = Subgraphs(), seed: int = 0) -> Agreement:
    """Sub-graph precision and recall of a predicted map, over starts in both."""
    return opt_g_draws(truth, prediction, settings, [seed])[0]


def opt_g_draws(truth: Any, prediction: Any, settings: Subgraphs, seeds: Sequence[int]) -> list[Agreement]:
    """OPT-G for several draws of starts; starts that they share are computed once."""
    g, h = (Explorer(as_graph(x, name), settings) for x, name in _named(truth, prediction))
    # The same draw for both maps, so that exchanging the maps exchanges precision and recall.
    draws = [derive("opt_g", seed) for seed in seeds]
    half = settings.starts // 2
    forward, backward = (_counts(a.visits(b, half, draws), settings, len(draws)) for a, b in ((g, h), (h, g)))
    hits = forward[:, 0] + backward[:, 0]
    predicted, actual = forward[:, 2] + backward[:, 1], forward[:, 1] + backward[:, 2]
    columns = zip(hits.tolist(), predicted.tolist(), actual.tolist(), strict=True)
    return [Agreement(right, of_predicted, right, of_actual) for right, of_predicted, of_actual in columns]


def subg(truth: Any, prediction: Any, settings: Subgraphs = Subgraphs(), seed: int = 0) -> Agreement:
    """The older sub-graph metric: starts in the truth, neighbours may be shared."""
    return subg_draws(truth, prediction, settings, [seed])[0]


def subg_draws(truth: Any, prediction: Any, settings: Subgraphs, seeds: Sequence[int]) -> list[Agreement]:
    """SUBG for several draws of starts."""
    g, h = (Explorer(as_graph(x, name), settings) for x, name in _named(truth, prediction))
    counts = np.zeros((len(seeds), 4))  # right, predicted, found, actual
    for times, own, other in g.visits(h, settings.starts, [derive("subg", seed) for seed in seeds]):
        right, found = shared_hits(own, other, settings)
        counts += times[:, None] * np.array([right, len(other), found, len(own)])
    if not len(g.graph) and len(h.graph):
        counts[:, 1] = len(h.graph.points)  # no starts: nothing of the prediction is right
    return [Agreement(right, predicted, found, actual) for right, predicted, found, actual in counts.tolist()]


def shared_hits(own: Floats, other: Floats, settings: Subgraphs) -> tuple[int, int]:
    """SUBG's hits among predicted points (M, 2), and among true ones (N, 2)."""
    if not len(own) or not len(other):
        return 0, 0
    distance = cdist(own, other)
    least = distance.min(1)
    near = least < settings.snap
    found = int(near.sum())
    if settings.counted == "true":
        return min(found, len(other)), found
    if settings.counted == "near":
        return int((distance.min(0) < settings.snap).sum()), found
    # Ties go to the first point, whose order does not depend on rounding.
    nearest = (distance[near] <= least[near, None] + SAME).argmax(1)
    return len(np.unique(nearest)), found


def _named(truth: Any, prediction: Any) -> tuple[tuple[Any, str], tuple[Any, str]]:
    return (truth, "the truth"), (prediction, "the prediction")


def _counts(visits: Iterator[tuple[Ints, Floats, Floats]], settings: Subgraphs, draws: int) -> Floats:
    """By draw: the number of matched control points, and of all in either map, (D, 3)."""
    counts = np.zeros((draws, 3))
    for times, own, other in visits:
        counts += times[:, None] * np.array([len(matching(own, other, settings)[0]), len(own), len(other)])
    return counts


def matching(a: Floats, b: Floats, settings: Subgraphs) -> tuple[Ints, Ints]:
    """A one-to-one matching of points (N, 2) and (M, 2) nearer than ``snap``: rows and columns."""
    none = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if not len(a) or not len(b):
        return none
    distance = cdist(a, b)
    if settings.matching == "greedy":
        return _closest_first(distance, settings.snap)
    # Pairs that are too far cost the same as no match, and are dropped afterwards.
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
    pairs = np.array(chosen, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


class _Start(NamedTuple):
    """A point on an edge between two control points: both, and their distances."""

    nodes: tuple[int, int]
    offsets: tuple[float, float]
    x: float
    y: float


class Explorer:
    """A map with control points, and its reachable sub-graphs."""

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
        """Random control points, with probability proportional to the adjacent length of road."""
        if not len(self.graph):
            return np.zeros(0, np.int64)
        weight = np.bincount(self.graph.edges.ravel(), np.repeat(self.graph.lengths, 2))
        cumulative = np.cumsum(weight)
        draws = np.random.default_rng(seed).random(count) * cumulative[-1]
        return np.minimum(np.searchsorted(cumulative, draws, side="right"), len(weight) - 1)

    def visits(self, other: Explorer, count: int, seeds: Sequence[int]) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Yields for each start its count in every draw, the control points reached in this map, and those reached in
        the other map from its closest point."""
        drawn = np.stack([self.starts(count, seed) for seed in seeds])  # (D, count)
        starts, inverse = np.unique(drawn, return_inverse=True)
        times = np.zeros((len(starts), len(seeds)), np.int64)
        np.add.at(times, (inverse.reshape(drawn.shape), np.arange(len(seeds))[:, None]), 1)
        places = self.graph.points[starts]
        own = self.reached(
            [_Start((n, n), (0.0, 0.0), x, y) for n, (x, y) in zip(starts.tolist(), places, strict=True)]
        )
        there = closest(places, other.graph, self.settings.snap)
        length = other.graph.lengths[there.edge]
        columns = (
            other.graph.edges[there.edge].tolist(),
            np.stack([there.share * length, (1 - there.share) * length], 1).tolist(),
            along(other.graph, there.edge, there.share).tolist(),
        )
        begin = [_Start((u, v), (a, b), x, y) for (u, v), (a, b), (x, y) in zip(*columns, strict=True)]
        of_other = dict(zip(there.point.tolist(), other.reached(begin), strict=True))
        for number, reached in enumerate(own):
            yield times[number], reached, of_other.get(number, np.zeros((0, 2)))

    def reached(self, starts: Sequence[_Start]) -> list[Floats]:
        """Control points within the radius of each start, as coordinates."""
        radius, step = self.settings.radius, self.settings.step
        tiles: dict[tuple[int, int], list[int]] = {}
        for number, start in enumerate(starts):
            tiles.setdefault((math.floor(start.x / radius), math.floor(start.y / radius)), []).append(number)
        within: list[Floats] = [np.zeros((0, 2))] * len(starts)
        for (column, row), numbers in tiles.items():
            # Straight-line distance is at most the distance by road, so a small graph around the tile, shared by its
            # starts, is enough.
            middle = ((column + 0.5) * radius, (row + 0.5) * radius)
            close = np.array(self._tree.query_ball_point(middle, radius * (1 + math.sqrt(0.5)) + 2 * step), np.int64)
            close.sort()
            small, points = self.graph.matrix[close][:, close], self.graph.points[close]
            local = np.searchsorted(close, [starts[n].nodes for n in numbers])
            if self.settings.reach == "straight":
                for number, nodes in zip(numbers, local, strict=True):
                    within[number] = _within_circle(small, points, starts[number], nodes, radius)
                continue
            limit = radius + SAME  # control points at the radius itself are inside, whatever the rounding
            distance = dijkstra(small, directed=False, indices=local.ravel(), limit=limit).reshape(len(numbers), 2, -1)
            far = (distance + np.array([starts[n].offsets for n in numbers])[..., None]).min(1)
            for number, inside in zip(numbers, far <= limit, strict=True):
                within[number] = points[inside]
        return within


def _within_circle(matrix: sparse.csr_matrix, points: Floats, start: _Start, nodes: Ints, radius: float) -> Floats:
    """Control points connected to a start without leaving a circle around it."""
    inside = np.flatnonzero(norms(points - (start.x, start.y)) <= radius + SAME)
    _, label = connected_components(matrix[inside][:, inside], directed=False)
    component = label[np.searchsorted(inside, nodes[np.isin(nodes, inside)])]
    return points[inside[np.isin(label, component)]]
