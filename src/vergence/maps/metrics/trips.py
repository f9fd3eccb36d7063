"""TLTS and APLS: compare the lengths of shortest paths between random points in prediction and truth.

Only shortest paths count, so neither metric notices a road that shortens none of them; and every trip is compared on
its own, so two roads may match the same one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from vergence.core.seeding import derive
from vergence.maps.geometry import along, closest
from vergence.maps.graph import Floats, RoadGraph, as_graph
from vergence.maps.metrics.agreement import harmonic
from vergence.maps.roads import Network, Places
from vergence.maps.settings import Trips


@dataclass(frozen=True)
class TripScore:
    """Shares of trips by outcome, and APLS."""

    correct: float
    too_long: float
    too_short: float
    infeasible: float
    similarity: float
    """APLS."""


def trips(truth: Any, prediction: Any, settings: Trips = Trips(), seed: int = 0) -> TripScore:
    """TLTS and APLS of one set of random trips."""
    g, h = as_graph(truth, "the truth").canonical, as_graph(prediction, "the prediction").canonical
    if not len(g):
        alike = float(not len(h))  # two empty maps agree
        return TripScore(alike, 0.0, 0.0, 1.0 - alike, alike)
    actual, predicted = sampled(g, h, settings, seed)
    tolerance = settings.tolerance
    correct = np.abs(predicted - actual) <= tolerance * actual
    feasible = np.isfinite(predicted)
    similarity = similar(actual, predicted)
    if settings.direction == "both":
        similarity = harmonic(similarity, similar(*sampled(h, g, settings, seed))) if len(h) else 0.0
    return TripScore(
        float(correct.mean()),
        float((feasible & ~correct & (predicted > actual)).mean()),
        float((feasible & ~correct & (predicted < actual)).mean()),
        float((~feasible).mean()),
        similarity,
    )


def tlts(truth: Any, prediction: Any, settings: Trips = Trips(), seed: int = 0) -> float:
    """The share of trips with the same length, within the tolerance, in the prediction."""
    return trips(truth, prediction, settings, seed).correct


def apls(truth: Any, prediction: Any, settings: Trips = Trips(), seed: int = 0) -> float:
    """Average path length similarity."""
    return trips(truth, prediction, settings, seed).similarity


def similar(actual: Floats, predicted: Floats) -> float:
    """Eq. 1: ``1 - mean min(1, |l_true - l_predicted| / l_true)``; an infeasible trip counts 1."""
    gap = np.where(np.isfinite(predicted), np.abs(actual - predicted), np.inf) / actual
    return float(1 - np.minimum(1.0, gap).mean())


def sampled(g: RoadGraph, h: RoadGraph, settings: Trips, seed: int) -> tuple[Floats, Floats]:
    """Lengths of random trips in ``g``, and of the same trips in ``h`` (infinite if infeasible)."""
    start, end = places(g, settings.pairs, derive("trips", seed))
    actual = Network(g).travel(start, end)
    predicted = np.full(settings.pairs, np.inf)
    ends = [closest(along(g, *place), h, settings.snap) for place in (start, end)]
    rows = np.intersect1d(ends[0].point, ends[1].point)
    if len(rows):
        a, b = (Places(e.edge[i], e.share[i]) for e in ends for i in [np.searchsorted(e.point, rows)])
        predicted[rows] = Network(h).travel(a, b)
    kept = actual > 0
    return actual[kept], predicted[kept]


def places(graph: RoadGraph, count: int, seed: int) -> tuple[Places, Places]:
    """Pairs of random points, uniform over the length of road; both are in the same connected component."""
    random = np.random.default_rng(seed)
    _, label = connected_components(graph.matrix, directed=False)
    part = label[graph.edges[:, 0]]
    order = np.argsort(part, kind="stable")
    reached = np.cumsum(graph.lengths[order])
    first = _at(order, reached, graph, random.random(count) * reached[-1])
    # The roads of a component are consecutive in that order: draw between its bounds.
    low = np.r_[0.0, reached][np.searchsorted(part[order], part[first.edge], side="left")]
    high = np.r_[0.0, reached][np.searchsorted(part[order], part[first.edge], side="right")]
    return first, _at(order, reached, graph, low + random.random(count) * (high - low))


def _at(order: Any, reached: Floats, graph: RoadGraph, where: Floats) -> Places:
    index = np.minimum(np.searchsorted(reached, where, side="right"), len(order) - 1)
    edge = order[index]
    share = np.clip((where - (reached[index] - graph.lengths[edge])) / graph.lengths[edge], 0.0, 1.0)
    return Places(edge, share)


def mean_trips(parts: Sequence[TripScore]) -> TripScore:
    """Over a data set: the mean of every share."""
    names = ("correct", "too_long", "too_short", "infeasible", "similarity")
    return TripScore(*(math.fsum(getattr(p, name) for p in parts) / len(parts) for name in names))
