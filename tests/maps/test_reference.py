"""The fast measures give what their definitions give, written out with all pairs."""

import numpy as np
import pytest

from vergence.core.seeding import derive
from vergence.maps.geometry import along
from vergence.maps.metrics import OptP, Subgraphs, Trips, ccq, junct, opt_g, opt_j, subg
from vergence.maps.metrics.opt_g import Explorer
from vergence.maps.metrics.opt_p_match import Matcher
from vergence.maps.metrics.opt_p_paths import decompose
from vergence.maps.metrics.trips import places as drawn
from vergence.maps.metrics.trips import sampled
from vergence.maps.synth import ErrorInjector, city
from vergence.reference import roadmetrics as plain

COUNTS = {"interruptions": 2, "overconnections": 2, "perturbations": 3, "doubled": 2, "doubled-truth": 2}


@pytest.fixture(scope="module", params=[3, 8])
def pair(request):
    """A small city and a copy with mistakes of every kind, moved a little so that nothing coincides."""
    truth, prediction = ErrorInjector().mixed(city(request.param, blocks=4), COUNTS, request.param)
    shaken = prediction.points + np.random.default_rng(0).normal(0, 2, prediction.points.shape)
    return truth.canonical, prediction.moved(shaken).canonical


def places(points):
    return [tuple(p) for p in points.tolist()]


def test_paths_are_matched_as_by_viterbi_over_all_edges(pair):
    for source, target in (pair, pair[::-1]):
        cut = source.split(20.0), target.split(20.0)
        paths = decompose(cut[0], seed=1)
        ours = Matcher(*cut, OptP()).match_paths(paths).scores
        theirs = plain.match_paths([cut[0].points[p.nodes] for p in paths], cut[1].to_networkx())
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
        assert 0 < np.mean(ours) < 1


def test_junctions_are_matched_as_among_all_pairs(pair):
    found = opt_j(*pair).agreement
    hits, predicted, actual = plain.opt_j(*(g.to_networkx() for g in pair))
    assert (found.right, found.predicted, found.found, found.actual) == (hits, predicted, hits, actual)
    assert hits < min(predicted, actual)


def test_subgraphs_are_those_of_a_search_over_the_whole_map(pair):
    settings = Subgraphs(starts=16)
    explorers = [Explorer(g, settings) for g in pair]
    graphs = [e.graph.to_networkx() for e in explorers]
    starts = [places(e.graph.points[e.starts(8, derive("opt_g", 5))]) for e in explorers]
    found = opt_g(*pair, settings, seed=5)
    assert (found.right, found.predicted, found.actual) == plain.opt_g(*graphs, starts)
    older = subg(*pair, settings, seed=5)
    starts = places(explorers[0].graph.points[explorers[0].starts(16, derive("subg", 5))])
    assert (older.right, older.predicted, older.found, older.actual) == plain.subg(*graphs, starts)
    assert 0 < found.f1 < 1


def test_trips_are_as_long_as_the_shortest_way_of_networkx(pair):
    g, h = pair
    actual, made = sampled(g, h, Trips(pairs=25), seed=2)
    start, end = drawn(g, 25, derive("trips", 2))
    trips = list(zip(places(along(g, *start)), places(along(g, *end)), strict=True))
    np.testing.assert_allclose(actual, plain.travel(g.to_networkx(), trips), atol=1e-6)
    np.testing.assert_allclose(made, plain.travel(h.to_networkx(), trips), atol=1e-6)
    assert np.isfinite(made).any()


def test_lengths_near_roads_and_arms_of_junctions_are_those_of_all_pairs(pair):
    g, h = pair
    found = ccq(g, h)
    assert (found.right, found.predicted) == pytest.approx(plain.covered(h.split(2.0).to_networkx(), g.to_networkx()))
    assert (found.found, found.actual) == pytest.approx(plain.covered(g.split(2.0).to_networkx(), h.to_networkx()))
    correct, wrong, count = plain.junct(g.to_networkx(), h.to_networkx())
    found = junct(g, h)
    assert (found.found, found.predicted, found.actual) == pytest.approx((correct, wrong + correct, count))
    assert 0 < found.f1 < 1
