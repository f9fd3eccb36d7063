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
from scipy.spatial import cKDTree

from vergence.maps.geometry import closest
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


class _Match(NamedTuple):
    """A candidate: features by number (-1: a point on an edge), its cost and distance."""

    truth: int
    prediction: int
    cost: float
    distance: float


def features(graph: RoadGraph) -> _Features:
    """Nodes with one road or at least three."""
    chosen = np.flatnonzero(graph.degrees != 2)
    return _Features(graph.points[chosen], graph.degrees[chosen])


def opt_j(truth: Any, prediction: Any, settings: OptJ = OptJ()) -> JunctionScore:
    """Junction precision and recall of a predicted map."""
    graphs = as_graph(truth, "the truth").canonical, as_graph(prediction, "the prediction").canonical
    g, h = features(graphs[0]), features(graphs[1])
    both = _between_features(g, h, settings)
    to_h, to_g = _to_edges(g, graphs[1], settings), _to_edges(h, graphs[0], settings)
    if settings.order == "cheapest":
        on_h = [_Match(i, -1, cost, distance) for i, (cost, distance) in to_h.items()]
        on_g = [_Match(-1, j, cost, distance) for j, (cost, distance) in to_g.items()]
        matches = _cheapest_first(both + on_h + on_g)
    else:
        matches = _in_node_order(both, to_h, to_g, len(g.points), len(h.points))
    pairs = _pairs(matches, g, h)
    if not pairs and (len(graphs[0]) or len(graphs[1])):  # rings have no features
        alike = 1.0 if len(graphs[0]) and len(graphs[1]) else 0.0
        return JunctionScore(Agreement(alike, 1, alike, 1), ())
    hits = float(sum(min(p.truth, p.prediction) for p in pairs))
    return JunctionScore(
        Agreement(hits, float(sum(p.prediction for p in pairs)), hits, float(sum(p.truth for p in pairs))), tuple(pairs)
    )


def _between_features(g: _Features, h: _Features, settings: OptJ) -> list[_Match]:
    if not len(g.points) or not len(h.points):
        return []
    near = cKDTree(g.points).sparse_distance_matrix(cKDTree(h.points), settings.snap, output_type="ndarray")
    cost = settings.alpha * near["v"] + np.abs(g.orders[near["i"]] - h.orders[near["j"]])
    columns = (near["i"].tolist(), near["j"].tolist(), cost.tolist(), near["v"].tolist())
    return [_Match(*row) for row in zip(*columns, strict=True)]


def _to_edges(own: _Features, other: RoadGraph, settings: OptJ) -> dict[int, tuple[float, float]]:
    """The cost and distance of the closest point on the other map's roads, by feature."""
    points = closest(own.points, other, settings.snap)
    cost = settings.alpha * points.distance + np.abs(own.orders[points.point] - ON_EDGE)
    pairs = zip(cost.tolist(), points.distance.tolist(), strict=True)
    return dict(zip(points.point.tolist(), pairs, strict=True))


def _rank(match: _Match) -> tuple[float, bool, float, int, int]:
    """Sort key: cheapest first; ties prefer two features over a feature and an edge, then the nearest."""
    on_edge = match.truth < 0 or match.prediction < 0
    return round(match.cost, 7), on_edge, round(match.distance, 5), match.truth, match.prediction


def _cheapest_first(candidates: list[_Match]) -> list[_Match]:
    used_truth, used_prediction, chosen = set(), set(), []
    for match in sorted(candidates, key=_rank):
        if match.truth in used_truth or match.prediction in used_prediction:
            continue
        chosen.append(match)
        if match.truth >= 0:
            used_truth.add(match.truth)
        if match.prediction >= 0:
            used_prediction.add(match.prediction)
    return chosen


def _in_node_order(
    both: list[_Match],
    to_h: dict[int, tuple[float, float]],
    to_g: dict[int, tuple[float, float]],
    count: int,
    other: int,
) -> list[_Match]:
    by_truth: dict[int, list[_Match]] = {}
    by_prediction: dict[int, list[_Match]] = {}
    for match in both:
        by_truth.setdefault(match.truth, []).append(match)
        by_prediction.setdefault(match.prediction, []).append(match)
    used: set[int] = set()
    chosen = []
    for i in range(count):
        five = sorted(by_truth.get(i, []), key=lambda m: m.distance)[:5]
        options = [m for m in five if m.prediction not in used]
        options += [_Match(i, -1, *to_h[i])] if i in to_h else []
        if options:
            chosen.append(min(options, key=_rank))
            used.add(chosen[-1].prediction)
    for j in range(other):
        if j not in used:
            options = sorted(by_prediction.get(j, []), key=lambda m: m.distance)[:5]
            options += [_Match(-1, j, *to_g[j])] if j in to_g else []
            if options:
                chosen.append(min(options, key=_rank))
    return chosen


def _pairs(matches: list[_Match], g: _Features, h: _Features) -> list[Pair]:
    pairs = []
    for match in matches:
        x, y = (h.points[match.prediction] if match.truth < 0 else g.points[match.truth]).tolist()
        order_g = int(g.orders[match.truth]) if match.truth >= 0 else ON_EDGE
        order_h = int(h.orders[match.prediction]) if match.prediction >= 0 else ON_EDGE
        pairs.append(Pair(order_g, order_h, x, y))
    matched = {m.truth for m in matches}, {m.prediction for m in matches}
    for side, own in enumerate((g, h)):
        for number in range(len(own.points)):
            if number not in matched[side]:
                order, (x, y) = int(own.orders[number]), own.points[number].tolist()
                pairs.append(Pair(order, 0, x, y) if side == 0 else Pair(0, order, x, y))
    return pairs
