"""Cost of the metrics: against the public code's algorithm on a crop of 1,000 pixels, against plain forms with all
pairs, and with a map ten times as large.

``python -m vergence.maps.roadmetrics.bench TRUTH PREDICTION`` measures them on a real city, with scores beside the
times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from vergence.contract.benchmark import Contest
from vergence.core.seeding import derive
from vergence.maps.data import read_map
from vergence.maps.geometry import along
from vergence.maps.graph import Floats, RoadGraph, road_graph
from vergence.maps.metrics import Agreement, ccq, compare, junct, opt_g, opt_j, opt_p, subg, trips
from vergence.maps.metrics.opt_g import Explorer
from vergence.maps.metrics.opt_p_match import Matcher
from vergence.maps.metrics.opt_p_paths import decompose
from vergence.maps.metrics.trips import places
from vergence.maps.roads import simplified
from vergence.maps.settings import PARITY, Measures, OptP, Subgraphs, Trips
from vergence.maps.synth import ErrorInjector, city
from vergence.reference import roadmetrics as plain
from vergence.reference import roadmetrics_public as public
from vergence.reference import roadmetrics_public_paths as public_paths

Run = Callable[[], Any]
Sides = dict[str, tuple[Run, Run]]
"""Ours and the other, by measure."""
OWN = Measures()
STARTS = 25
"""Starts of OPT-G and SUBG and trips of TLTS; with the default 1,000 the public code takes a minute."""
CROP, CITY, SMALL = 9, 6, 4
"""Crossings along a side of a city: 1,000 pixels, as in the study, and few enough for the plain forms."""


def contests() -> Iterator[Contest]:
    """Six measures against the public code's algorithm, seven against their plain forms, all eight on ten cities."""
    for name in ("OPT-P", "OPT-J", "OPT-G", "SUBG", "CCQ", "TLTS"):
        ours, theirs = (_later(_crop_sides, name, side) for side in (0, 1))
        yield Contest(name.lower(), f"{name}, a crop of 1,000 pixels", ours, {"public code": theirs})
    ours, theirs = (_later(_small_sides, "", side) for side in (0, 1))
    yield Contest("plain", "seven measures, 4 x 4 crossings", ours, {"plain": theirs})
    yield Contest("large", "all eight, 6 x 6 crossings", lambda: _all_eight(*pair(CITY)),
                  {"ten such": lambda: _all_eight(*ten(CITY))})  # fmt: skip


def _later(sides: Callable[[], Sides], name: str, side: int) -> Run:
    """A contestant that is built when it is first called; without a name, all of them in turn."""
    return lambda: [both[side]() for measure, both in sides().items() if name in ("", measure)]


@cache
def _crop_sides() -> Sides:
    return against_public(*pair(CROP))


@cache
def _small_sides() -> Sides:
    return against_plain(*pair(SMALL))


@cache
def pair(blocks: int) -> tuple[RoadGraph, RoadGraph]:
    """A city, and a prediction with a few mistakes of every kind, moved a little and simplified like a traced map."""
    truth, prediction = ErrorInjector().mixed(
        city(1, blocks), {"interruptions": 5, "overconnections": 5, "doubled": 5}, 1
    )
    shaken = prediction.points + np.random.default_rng(0).normal(0, 1, prediction.points.shape)
    return truth, simplified(prediction.moved(shaken), 3.0)


@cache
def ten(blocks: int) -> tuple[RoadGraph, RoadGraph]:
    """Ten copies of a pair side by side."""
    truth, prediction = pair(blocks)
    width = np.ptp(truth.points, axis=0) + 100.0
    shifts = np.array([(n % 4, n // 4) for n in range(10)]) * width
    return _repeated(truth, shifts), _repeated(prediction, shifts)


def _repeated(graph: RoadGraph, shifts: Floats) -> RoadGraph:
    points = np.concatenate([graph.points + shift for shift in shifts])
    return road_graph(points, np.concatenate([graph.edges + n * len(graph.points) for n in range(len(shifts))]))


def _fresh(graph: RoadGraph) -> RoadGraph:
    """The same map without anything computed before."""
    return RoadGraph(graph.points, graph.edges)


def _all_eight(truth: RoadGraph, prediction: RoadGraph) -> Any:
    settings = Measures(subgraphs=Subgraphs(starts=STARTS), trips=Trips(pairs=STARTS), repeats=1)
    return compare(_fresh(truth), _fresh(prediction), settings)


# The public code's algorithm ------------------------------------------------------------------------------------------


def against_public(truth: RoadGraph, prediction: RoadGraph, starts: int = STARTS, choices: Measures = OWN) -> Sides:
    """Each measure's score by our choices and by the public code's algorithm; every call does the whole work."""
    points = np.concatenate([truth.points, prediction.points])
    corner, far = points.min(0), points.max(0)
    g, h = (graph.moved(graph.points - corner).to_networkx() for graph in (truth, prediction))
    size = float(far[0] - corner[0]) + 1, float(far[1] - corner[1]) + 1
    around, travelled = replace(choices.subgraphs, starts=starts), replace(choices.trips, pairs=starts)

    def ours(measure: Callable[[RoadGraph, RoadGraph], float]) -> Run:
        return lambda: measure(_fresh(truth), _fresh(prediction))

    return {
        "OPT-P": (ours(lambda a, b: opt_p(a, b, choices.opt_p, repeats=1).agreement.f1),
                  lambda: _f1(*public_paths.opt_p(g, h, 0))),
        "OPT-J": (ours(lambda a, b: opt_j(a, b, choices.opt_j).agreement.f1),
                  lambda: _of_counts(public.opt_j(g, h)).f1),
        "OPT-G": (ours(lambda a, b: opt_g(a, b, around).f1), lambda: _of_counts(public.opt_g(g, h, starts, 0)).f1),
        "SUBG": (ours(lambda a, b: subg(a, b, around).f1), lambda: _of_four(public.subg(g, h, starts, 0)).f1),
        "CCQ": (ours(lambda a, b: ccq(a, b, choices.ccq).quality), lambda: _of_four(public.ccq(g, h, size)).quality),
        "TLTS": (ours(lambda a, b: trips(a, b, travelled).correct), lambda: public.tlts(g, h, starts, 0)[0] / starts),
    }  # fmt: skip


def _of_counts(counts: Any) -> Agreement:
    hits, predicted, actual = counts
    return Agreement(hits, predicted, hits, actual)


def _of_four(counts: Any) -> Agreement:
    right, predicted, found, actual = counts
    return Agreement(right, predicted, found, actual)


def _f1(precision: float, recall: float) -> float:
    return Agreement(precision, 1, recall, 1).f1


# Plain forms ----------------------------------------------------------------------------------------------------------


def against_plain(truth: RoadGraph, prediction: RoadGraph, paths: int | None = None, every: int = 1) -> Sides:
    """Each measure, fast and plain; both return the same numbers, OPT-P of the first ``paths``, CCQ of one in ``every``
    pieces."""
    g, h = truth.canonical, prediction.canonical
    graphs = g.to_networkx(), h.to_networkx()
    around, travelled = Subgraphs(starts=STARTS), Trips(pairs=STARTS)
    explorers = Explorer(g, around), Explorer(h, around)
    control = explorers[0].graph.to_networkx(), explorers[1].graph.to_networkx()
    begin, other = (_tuples(e.graph.points[e.starts(STARTS // 2, derive("opt_g", 0))]) for e in explorers)
    older = _tuples(explorers[0].graph.points[explorers[0].starts(STARTS, derive("subg", 0))])
    first, last = places(g, STARTS, derive("trips", 0))
    ends = list(zip(_tuples(along(g, *first)), _tuples(along(g, *last)), strict=True))

    def plain_trips() -> Any:
        actual, predicted = (np.array(plain.travel(graph, ends)) for graph in graphs)
        return float((np.abs(predicted - actual) <= travelled.tolerance * actual).mean())

    def plain_ccq() -> Any:
        cut = [_some(graph.split(2.0), every) for graph in (h, g)]
        return [part for a, b in zip(cut, graphs, strict=True) for part in plain.covered(a.to_networkx(), b)]

    return {
        "OPT-P": (lambda: _paths(g, h, paths), lambda: _plain_paths(g, h, paths)),
        "OPT-J": (lambda: _counts(opt_j(g, h).agreement), lambda: plain.opt_j(*graphs)),
        "OPT-G": (lambda: _counts(opt_g(g, h, around)), lambda: plain.opt_g(*control, (begin, other))),
        "SUBG": (lambda: _all(subg(g, h, around)), lambda: plain.subg(*control, older)),
        "CCQ": (lambda: _all(ccq(g, h)), plain_ccq),
        "TLTS": (lambda: trips(g, h, travelled).correct, plain_trips),
        "JUNCT": (lambda: _junct(g, h), lambda: plain.junct(*graphs)),
    }


def _some(graph: RoadGraph, every: int) -> RoadGraph:
    return RoadGraph(graph.points, graph.edges[::every])


def _paths(g: RoadGraph, h: RoadGraph, count: int | None) -> list[float]:
    """Path scores of one decomposition in both directions."""
    settings = OptP()
    cut = g.canonical.split(settings.piece), h.canonical.split(settings.piece)
    ways = ((Matcher(a, b, settings), decompose(a, 0)[:count]) for a, b in (cut, cut[::-1]))
    return [score for matcher, paths in ways for score in matcher.match_paths(paths).scores]


def _plain_paths(g: RoadGraph, h: RoadGraph, count: int | None) -> list[float]:
    cut = g.split(OptP().piece), h.split(OptP().piece)
    scores = []
    for a, b in (cut, cut[::-1]):
        scores += plain.match_paths([a.points[p.nodes] for p in decompose(a, 0)[:count]], b.to_networkx())
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


# A real city ----------------------------------------------------------------------------------------------------------


def table(
    truth: Annotated[Path, tyro.conf.Positional],
    prediction: Annotated[Path, tyro.conf.Positional],
    window: tuple[float, float, float, float] | None = None,
    starts: int = STARTS,
    plain_forms: bool = True,
    paths: int = 1,
    every: int = 100,
) -> Iterator[str]:
    """Seconds of each measure, ours, by the public code's algorithm and plain, and scores: ours, ours by the public
    code's choices, and by its algorithm.

    The plain forms of a city take hours: OPT-P's matches the first ``paths`` of each map only, CCQ's looks at one piece
    of ``every`` so many.
    """
    g, h = (graph.inside(*window) if window else graph for graph in map(read_map, (truth, prediction)))
    publicly, alike = (against_public(g, h, starts, choices) for choices in (OWN, PARITY))
    plainly = against_plain(g, h, paths, every) if plain_forms else {}
    notes = {"OPT-P": f" (paths: {paths})", "CCQ": f" (1/{every})"}
    yield "| measure | ours | public code | | plain | scores: ours, its choices, public code |\n" + 6 * "|---" + "|"
    for name, (ours, theirs) in publicly.items():
        (score, own), (other, public_time) = _timed(ours), _timed(theirs)
        by_plain = f"{_timed(plainly[name][1])[1]:.3g} s{notes.get(name, '')}" if plainly else ""
        yield (f"| {name} | {own:.3g} s | {public_time:.3g} s | {public_time / own:.0f} x | {by_plain} | "
               f"{score:.3f}, {alike[name][0]():.3f}, {other:.3f} |")  # fmt: skip


def _timed(run: Run) -> tuple[Any, float]:
    began = time.perf_counter()
    return run(), time.perf_counter() - began


if __name__ == "__main__":
    for row in tyro.cli(table):
        print(row, flush=True)
