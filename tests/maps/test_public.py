"""The public code's algorithm, written out as a peer: what running the authors' code gave is what it gives."""

import networkx as nx
import numpy as np
import pytest

from vergence.maps.metrics import ccq, opt_j
from vergence.maps.metrics.agreement import Agreement
from vergence.maps.metrics.ccq import Ccq
from vergence.maps.synth import ErrorInjector, city
from vergence.reference import roadmetrics_public as public
from vergence.reference import roadmetrics_public_paths as paths


def lines(*given):
    graph = nx.Graph()
    for line in given:
        first = len(graph)
        graph.add_nodes_from((first + n, {"pos": p}) for n, p in enumerate(line))
        nx.add_path(graph, range(first, first + len(line)))
    return graph


@pytest.mark.parametrize(("gap", "recall"), [(20, 0.4804), (200, 0.3528)])
def test_a_gap_costs_what_it_costs_in_the_public_code(gap, recall):
    half = (1000 - gap) / 2
    broken = lines([(0, 0), (half, 0)], [(1000 - half, 0), (1000, 0)])
    whole = lines([(20.0 * n, 0) for n in range(51)])
    assert paths.opt_p(whole, broken, seed=0) == pytest.approx((1, recall))


def test_paths_left_when_the_target_is_used_up_are_not_counted():
    roads = [[(0, 100 * k), (600, 100 * k)] for k in range(10)]
    recalls = [paths.opt_p(lines(*roads), lines(roads[3]), seed)[1] for seed in range(100)]
    assert min(recalls) == pytest.approx(0.1)
    assert max(recalls) == 1
    assert np.mean(recalls) == pytest.approx(0.2929, abs=0.06)  # a tenth of the tenth harmonic number; run: 0.287


@pytest.fixture(scope="module")
def pair():
    counts = {"interruptions": 3, "overconnections": 2, "perturbations": 2, "doubled": 2}
    return ErrorInjector().mixed(city(7, blocks=4), counts, 7)


def test_a_map_agrees_with_itself(pair):
    graph = pair[1].to_networkx()
    assert paths.opt_p(graph, graph, 0) == (1, 1)
    assert len(set(public.opt_j(graph, graph))) == 1
    assert len(set(public.opt_g(graph, graph, 10, 0))) == 1
    assert len(set(public.subg(graph, graph, 10, 0))) == 1
    assert public.tlts(graph, graph, 10, 0) == [10, 0, 0, 0]


def test_it_scores_a_city_with_mistakes_nearly_as_ours(pair):
    g, h = (graph.moved(graph.points + 50).to_networkx() for graph in pair)
    hits, predicted, actual = public.opt_j(g, h)
    assert Agreement(hits, predicted, hits, actual).f1 == pytest.approx(opt_j(*pair).agreement.f1, abs=0.03)
    pixels = Agreement(*public.ccq(g, h, (480, 480)))
    assert pixels.quality == pytest.approx(ccq(*pair, Ccq(measured="pixels")).quality, abs=0.03)
    assert 0 < pixels.quality < 1


def test_a_search_leaves_a_junction_only_away_from_its_start():
    # The side road leads back towards the start; the main road goes on.
    fork = lines([(0, 0), (100, 0), (200, 0)])
    fork.add_node(9, pos=(50, 10))
    fork.add_edge(1, 9)
    assert list(public.reached(fork, 0, 300)) == [0, 1, 2]
    assert set(public.reached(fork, 0, 50)) == {0, 1}
