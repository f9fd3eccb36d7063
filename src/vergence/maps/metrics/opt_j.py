"""OPT-J: compares the number of roads at junctions and dead ends.

Features are nodes with one road or at least three. A feature is matched to a feature of the other map or to the closest
point on one of its roads (which counts as two roads), the cheapest match first: ``alpha`` times the distance plus the
difference of the numbers of roads. So a junction that lacks one road is partly right, and a broken road has two extra
dead ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vergence.maps.geometry import closest, within
from vergence.maps.graph import Floats, Ints, RoadGraph, as_graph
from vergence.maps.metrics.agreement import Agreement
from vergence.maps.settings import OptJ

ON_EDGE = 2
"""The number of roads at a point inside an edge, by convention."""


class Pair(NamedTuple):
    """A match or an unmatched feature: numbers of roads on both sides (0: unmatched), and its position."""

    truth: int
    prediction: int
    x: float
    y: float


@dataclass(frozen=True, eq=False)
class JunctionScore:
    agreement: Agreement
    pairs: tuple[Pair, ...]


class _Features(NamedTuple):
    points: Floats
    orders: Ints


class _Matches(NamedTuple):
    """Candidates for matches, or those chosen: features by number (-1: a point on an edge), cost and distance."""

    truth: Ints
    prediction: Ints
    cost: Floats
    distance: Floats

    def rows(self, index: Any) -> _Matches:
        return _Matches(*(column[index] for column in self))


def features(graph: RoadGraph) -> _Features:
    """Nodes with one road or at least three."""
    chosen = np.flatnonzero(graph.degrees != 2)
    return _Features(graph.points[chosen], graph.degrees[chosen])


def opt_j(truth: Any, prediction: Any, settings: OptJ = OptJ()) -> JunctionScore:
    """Junction precision and recall of a predicted map."""
    graphs = as_graph(truth, "the truth").canonical, as_graph(prediction, "the prediction").canonical
    g, h = features(graphs[0]), features(graphs[1])
    candidates = _ranked(g, h, *graphs, settings)
    choose = _cheapest_first if settings.order == "cheapest" else _in_node_order
    orders, places = _matched(candidates.rows(choose(candidates)), g, h)
    if not len(orders) and (len(graphs[0]) or len(graphs[1])):  # rings have no features
        alike = 1.0 if len(graphs[0]) and len(graphs[1]) else 0.0
        return JunctionScore(Agreement(alike, 1, alike, 1), ())
    hits, (actual, predicted) = float(orders.min(1).sum()), orders.sum(0).tolist()
    pairs = tuple(map(Pair, *orders.T.tolist(), *places.T.tolist()))
    return JunctionScore(Agreement(hits, float(predicted), hits, float(actual)), pairs)


def _ranked(g: _Features, h: _Features, truth: RoadGraph, prediction: RoadGraph, settings: OptJ) -> _Matches:
    """All candidates, cheapest first; ties prefer two features over a feature and an edge, then the nearest."""
    i, j, distance = within(g.points, h.points, settings.snap)
    to_h, to_g = closest(g.points, prediction, settings.snap), closest(h.points, truth, settings.snap)
    on_edge = np.full(len(to_h.point), -1), np.full(len(to_g.point), -1)
    of_truth = np.concatenate([i, to_h.point, on_edge[1]])
    of_prediction = np.concatenate([j, on_edge[0], to_g.point])
    distance = np.concatenate([distance, to_h.distance, to_g.distance])
    orders = [np.append(f.orders, ON_EDGE)[of] for f, of in ((g, of_truth), (h, of_prediction))]  # -1 is the last
    cost = settings.alpha * distance + np.abs(orders[0] - orders[1])
    beside = (of_truth < 0) | (of_prediction < 0)
    order = np.lexsort((of_prediction, of_truth, np.round(distance, 5), beside, np.round(cost, 7)))
    return _Matches(of_truth, of_prediction, cost, distance).rows(order)


def _cheapest_first(candidates: _Matches) -> list[int]:
    """Takes candidates in order, each feature once."""
    used: tuple[set[int], set[int]] = set(), set()
    chosen = []
    for number, (i, j) in enumerate(zip(candidates.truth.tolist(), candidates.prediction.tolist(), strict=True)):
        if i not in used[0] and j not in used[1]:
            chosen.append(number)
            if i >= 0:
                used[0].add(i)
            if j >= 0:
                used[1].add(j)
    return chosen


def _in_node_order(candidates: _Matches) -> list[int]:
    """Each true feature in turn takes its cheapest candidate, then each predicted feature that is left."""
    prediction = candidates.prediction.tolist()
    chosen, used = [], set[int]()
    for _, options in _by_feature(candidates, candidates.truth, candidates.prediction):
        best = next((n for n in options if prediction[n] < 0 or prediction[n] not in used), None)
        if best is not None:
            chosen.append(best)
            used.add(prediction[best])
    for j, options in _by_feature(candidates, candidates.prediction, candidates.truth):
        if j not in used:
            chosen.append(options[0])
    return chosen


def _by_feature(candidates: _Matches, own: Ints, other: Ints, most: int = 5) -> list[tuple[int, list[int]]]:
    """By feature, in order: its candidates on edges and its ``most`` nearest among features, cheapest first."""
    order = np.lexsort((candidates.distance, other < 0, own))
    group = own[order]
    place = np.arange(len(order)) - np.searchsorted(group, group)
    kept = np.sort(order[(group >= 0) & ((place < most) | (other[order] < 0))])
    options: dict[int, list[int]] = {}
    for feature, number in zip(own[kept].tolist(), kept.tolist(), strict=True):
        options.setdefault(feature, []).append(number)
    return sorted(options.items())


def _matched(matches: _Matches, g: _Features, h: _Features) -> tuple[Ints, Floats]:
    """Matches, then the features of the truth and of the prediction without one: numbers of roads in both maps (N, 2)
    and positions (N, 2)."""
    sides, left = ((g, matches.truth), (h, matches.prediction)), []
    for own, numbers in sides:
        free = np.ones(len(own.points), bool)
        free[numbers[numbers >= 0]] = False
        left.append(np.flatnonzero(free))
    count, first = len(matches.truth), len(matches.truth) + len(left[0])
    orders = np.zeros((first + len(left[1]), 2), np.int64)
    for side, (own, numbers) in enumerate(sides):
        orders[:count, side] = np.append(own.orders, ON_EDGE)[numbers]  # -1 is the last
    orders[count:first, 0], orders[first:, 1] = g.orders[left[0]], h.orders[left[1]]
    at = np.where(matches.truth >= 0, matches.truth, len(g.points) + matches.prediction)
    places = np.concatenate([g.points, h.points])[np.concatenate([at, left[0], len(g.points) + left[1]])]
    return orders, places
