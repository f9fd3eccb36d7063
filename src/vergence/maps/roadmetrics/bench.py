"""Cost of the metrics: against plain implementations with all pairs, and with a map ten times as large.

The plain forms compare every edge with every point, which is quadratic in the size of the map: the larger it is, the
larger the speed-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from vergence.contract.benchmark import Contest
from vergence.core.seeding import derive
from vergence.maps.geometry import along
from vergence.maps.graph import Floats, RoadGraph, road_graph
from vergence.maps.metrics import Agreement, ccq, compare, junct, opt_g, opt_j, subg, trips
from vergence.maps.metrics.opt_g import Explorer
from vergence.maps.metrics.opt_p_match import Matcher
from vergence.maps.metrics.opt_p_paths import decompose
from vergence.maps.metrics.trips import places
from vergence.maps.settings import Measures, OptP, Subgraphs, Trips
from vergence.maps.synth import ErrorInjector, city
from vergence.reference import roadmetrics as plain

STARTS, TRIPS = 20, 20
"""Small, so that the plain forms finish in time; both sides use the same."""


def contests() -> Iterator[Contest]:
    """A city of 6 x 6 blocks with mistakes: every measure against its plain form. Then ten cities against one."""
    for name, (ours, theirs) in both_ways(*pair(6)).items():
        yield Contest(name.lower(), name, ours, {"plain": theirs})
    one = pair(10)
    ten = tiled(one[0], 10), tiled(one[1], 10)
    for name, run in (("all eight", _all_eight), ("OPT-P", _paths), ("CCQ", ccq), ("OPT-J", opt_j)):
        id = f"{name.lower().replace(' ', '-')}-large"
        yield Contest(id, f"{name}, 10 x 10 blocks", partial(run, *one), {"ten such": partial(run, *ten)})


def pair(blocks: int) -> tuple[RoadGraph, RoadGraph]:
    """A city, and a prediction with a few mistakes of every kind, moved a little."""
    truth, prediction = ErrorInjector().mixed(
        city(1, blocks), {"interruptions": 5, "overconnections": 5, "doubled": 5}, 1
    )
    shaken = prediction.points + np.random.default_rng(0).normal(0, 2, prediction.points.shape)
    return truth, prediction.moved(shaken)


def tiled(graph: RoadGraph, count: int) -> RoadGraph:
    """Copies of a map side by side."""
    width = np.ptp(graph.points, axis=0) + 100.0
    shifts = np.array([(n % 4, n // 4) for n in range(count)]) * width
    points = np.concatenate([graph.points + shift for shift in shifts])
    return road_graph(points, np.concatenate([graph.edges + n * len(graph.points) for n in range(count)]))


def both_ways(truth: RoadGraph, prediction: RoadGraph) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Each measure, fast and plain; both return the same numbers."""
    g, h = truth.canonical, prediction.canonical
    graphs = g.to_networkx(), h.to_networkx()
    around, travelled = Subgraphs(starts=STARTS), Trips(pairs=TRIPS)
    explorers = Explorer(g, around), Explorer(h, around)
    control = explorers[0].graph.to_networkx(), explorers[1].graph.to_networkx()
    begin, other = (_tuples(e.graph.points[e.starts(STARTS // 2, derive("opt_g", 0))]) for e in explorers)
    older = _tuples(explorers[0].graph.points[explorers[0].starts(STARTS, derive("subg", 0))])
    first, last = places(g, TRIPS, derive("trips", 0))
    ends = list(zip(_tuples(along(g, *first)), _tuples(along(g, *last)), strict=True))

    def plain_trips() -> Any:
        actual, predicted = (np.array(plain.travel(graph, ends)) for graph in graphs)
        return float((np.abs(predicted - actual) <= travelled.tolerance * actual).mean())

    def plain_ccq() -> Any:
        return (
            *plain.covered(h.split(2.0).to_networkx(), graphs[0]),
            *plain.covered(g.split(2.0).to_networkx(), graphs[1]),
        )

    return {
        "OPT-P": (lambda: _paths(g, h), lambda: _plain_paths(g, h)),
        "OPT-J": (lambda: _counts(opt_j(g, h).agreement), lambda: plain.opt_j(*graphs)),
        "OPT-G": (lambda: _counts(opt_g(g, h, around)), lambda: plain.opt_g(*control, (begin, other))),
        "SUBG": (lambda: _all(subg(g, h, around)), lambda: plain.subg(*control, older)),
        "CCQ": (lambda: _all(ccq(g, h)), plain_ccq),
        "TLTS": (lambda: trips(g, h, travelled).correct, plain_trips),
        "JUNCT": (lambda: _junct(g, h), lambda: plain.junct(*graphs)),
    }


def _all_eight(g: RoadGraph, h: RoadGraph) -> Any:
    return compare(g, h, Measures(repeats=1))


def _paths(g: RoadGraph, h: RoadGraph) -> list[float]:
    """Path scores of one decomposition in both directions."""
    settings = OptP()
    cut = g.canonical.split(settings.piece), h.canonical.split(settings.piece)
    return [s for a, b in (cut, cut[::-1]) for s in Matcher(a, b, settings).match(0).scores]


def _plain_paths(g: RoadGraph, h: RoadGraph) -> list[float]:
    cut = g.split(OptP().piece), h.split(OptP().piece)
    scores = []
    for a, b in (cut, cut[::-1]):
        scores += plain.match_paths([a.points[p.nodes] for p in decompose(a, 0)], b.to_networkx())
    return scores


def _counts(score: Agreement) -> tuple[float, float, float]:
    return score.right, score.predicted, score.actual


def _all(score: Agreement) -> tuple[float, float, float, float]:
    return score.right, score.predicted, score.found, score.actual


def _junct(g: RoadGraph, h: RoadGraph) -> tuple[float, float, float]:
    score = junct(g, h)
    return score.found, score.predicted - score.found, score.actual


def _tuples(points: Floats) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in points]
