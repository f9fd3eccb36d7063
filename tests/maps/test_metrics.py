"""Each measure's own properties: closed forms, what its options change, and what empty maps give."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from vergence.core.errors import VergenceError
from vergence.maps.graph import road_graph
from vergence.maps.metrics import (
    NEW,
    PARITY,
    Agreement,
    Ccq,
    Junct,
    Measures,
    OptJ,
    OptP,
    Subgraphs,
    Trips,
    aggregate,
    apls,
    ccq,
    compare,
    consistency,
    correlation_matrix,
    junct,
    opt_g,
    opt_j,
    opt_p,
    preferences,
    rank_methods,
    subg,
    tlts,
    triplets,
    trips,
)
from vergence.maps.metrics.ccq import _beside
from vergence.maps.metrics.opt_g import matching, shared_hits
from vergence.maps.metrics.opt_p_match import connectivity
from vergence.maps.metrics.opt_p_paths import decompose
from vergence.maps.metrics.opt_p_target import Candidates, Target
from vergence.maps.synth import ErrorInjector, city

EMPTY = road_graph(np.zeros((0, 2)), np.zeros((0, 2)))
QUICK = Measures(subgraphs=Subgraphs(starts=20), trips=Trips(pairs=40), repeats=1)


def line(*points):
    return road_graph(points, list(itertools.pairwise(range(len(points)))))


def together(*graphs):
    whole = graphs[0]
    for graph in graphs[1:]:
        whole = whole.joined(graph)
    return whole


@pytest.fixture(scope="module")
def mistaken():
    counts = {"interruptions": 3, "overconnections": 2, "perturbations": 2, "doubled": 2}
    return ErrorInjector().mixed(city(7, blocks=4), counts, 7)


# Empty maps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [QUICK, PARITY], ids=["default", "parity"])
def test_empty_maps_have_documented_scores(settings):
    assert set(compare(EMPTY, EMPTY, settings).headline.values()) == {1.0}
    for pair in ((line((0, 0), (300, 0)), EMPTY), (EMPTY, line((0, 0), (300, 0)))):
        values = compare(*pair, settings).values
        assert {name: v for name, v in values.items() if v != 0 and "infeasible" not in name} == {}


def test_rings_without_junctions_are_compared_without_a_division_by_zero():
    ring = road_graph([(0, 0), (200, 0), (200, 200), (0, 200)], [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert set(compare(ring, ring, QUICK).headline.values()) == {1.0}
    far = ring.moved(ring.points + 5000)
    assert opt_p(ring, far).agreement.f1 == 0
    assert opt_g(ring, far, QUICK.subgraphs).f1 == 0


def test_an_agreement_never_divides_by_zero():
    assert Agreement(0, 5, 0, 5).f1 == 0
    assert Agreement(0, 0, 0, 5).precision == 0
    assert Agreement(0, 0, 0, 0).f1 == 1
    assert Agreement(2, 4, 3, 4).swapped.precision == 0.75


# OPT-P ----------------------------------------------------------------------------------------------------------------


def test_a_path_scores_the_chance_that_two_places_on_it_are_connected():
    random = np.random.default_rng(0)
    steps, connected = random.uniform(1, 9, 12), random.random(12) < 0.7
    bounds = np.r_[0, np.cumsum(steps)]
    places = np.searchsorted(bounds, random.uniform(0, bounds[-1], (200_000, 2)), side="right") - 1
    run = np.cumsum(~connected)
    same = (run[places[:, 0]] == run[places[:, 1]]) & connected[places].all(1)
    assert connectivity(steps, connected) == pytest.approx(same.mean(), abs=5e-3)


@pytest.mark.parametrize("loops", ["whole", "open"])
def test_a_decomposition_shares_no_edge_and_leaves_none_out(loops):
    graph = city(4, blocks=5).canonical.split(20.0)
    for seed in range(3):
        paths = decompose(graph, seed, loops)
        assert sorted(e for p in paths for e in p.edges) == list(range(len(graph)))
        for path in paths:
            ends = [set(graph.edges[e].tolist()) for e in path.edges]
            assert [set(step) for step in itertools.pairwise(path.nodes)] == ends
    assert [p.edges for p in decompose(graph, 1)] != [p.edges for p in decompose(graph, 2)]
    assert [p.edges for p in decompose(graph, 1)] == [p.edges for p in decompose(graph, 1)]


def test_a_ring_is_one_path_or_two_without_the_edge_that_closes_it():
    ring = road_graph([(0, 0), (100, 0), (100, 100), (0, 100)], [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert [len(p.edges) for p in decompose(ring, 0)] == [4]
    assert [len(p.edges) for p in decompose(ring, 0, "open")] == [3, 1]


def test_skipping_what_was_not_sampled_rewards_a_prediction_that_is_used_up():
    roads = [line((0, 100 * k), (600, 100 * k)) for k in range(10)]
    truth = together(*roads)
    skipped = [opt_p(truth, roads[3], OptP(unsampled="skip"), seed, 1).agreement.recall for seed in range(40)]
    # The mean of 1 / (place of the found road in a random order): a tenth of the tenth harmonic number.
    assert np.mean(skipped) == pytest.approx(0.2929, abs=0.15)
    assert max(skipped) > 0.4
    assert {round(opt_p(truth, roads[3], seed=s).agreement.recall, 12) for s in range(5)} == {0.1}


def test_paths_may_be_weighed_by_length():
    truth = together(line((0, 0), (900, 0)), line((0, 300), (100, 300)))
    assert opt_p(truth, line((0, 0), (900, 0))).agreement.recall == 0.5
    assert opt_p(truth, line((0, 0), (900, 0)), OptP(weights="length")).agreement.recall == pytest.approx(0.9)


def test_a_doubled_road_answers_once():
    truth = line((0, 0), (400, 0))
    doubled = truth.joined(line((0, 10), (400, 10)))
    assert opt_p(truth, doubled).agreement.precision == 0.5
    assert opt_p(truth, doubled).agreement.recall == 1


def test_a_road_farther_away_than_the_tolerance_is_missed_and_invented():
    truth = line((0, 0), (400, 0))
    near, far = (opt_p(truth, line((0, y), (400, y))) for y in (24.0, 26.0))
    assert near.agreement.f1 == 1
    assert far.agreement.f1 == 0
    assert far.missed.all()
    assert not near.invented.any()


def test_a_limit_of_hops_gives_what_no_limit_gives_where_edges_are_long(mistaken):
    free, limited = (opt_p(*mistaken, OptP(hops=h), repeats=1).agreement for h in (0, 50))
    assert (free.precision, free.recall) == (limited.precision, limited.recall)
    # Matches inside neighbouring pieces are two hops apart: to the node between them, and on.
    pair = line((0, 0), (400, 0)), line((-10, 0), (410, 0))
    assert [opt_p(*pair, OptP(hops=h)).agreement.recall for h in (1, 2)] == [0, 1]


def triangle():
    """Two long edges that meet at node 1, with a candidate near the far end of either, and a short edge between those
    ends: nodes, edges and lengths are 0, 1, 2."""
    graph = road_graph([(0, 0), (50, 86), (4, 0)], [(0, 1), (1, 2), (0, 2)])
    rows = {tuple(edge): number for number, edge in enumerate(graph.edges.tolist())}
    found = Candidates([rows[0, 1], rows[1, 2]], [0.02, 0.98], [-1, -1], [0.0, 0.0], [0, 1, 2])
    return Target(graph, found), rows


def test_candidates_are_connected_within_the_region_alone():
    target, _ = triangle()
    assert target.links([0], [1], [0, 1, 2]) == [(0, 1)]
    assert target.links([0], [1], [1]) == [(0, 1)]
    assert target.links([0], [1], [0, 2]) == [(0, 1)]
    assert target.links([0], [1], [0]) == target.links([0], [1], []) == []


def test_the_way_between_candidates_is_the_shortest_in_the_region():
    target, rows = triangle()
    assert {edge for edge, _, _ in target.way(0, 1, [0, 1, 2])} == set(rows.values())
    assert target.way(0, 1, [0, 1, 2])[1][1:] == (0.0, 1.0)  # the short edge, whole
    assert sorted(target.way(0, 1, [1])) == [(rows[0, 1], 0.02, 1.0), (rows[1, 2], 0.0, 0.98)]
    target.remove([rows[0, 2]])
    assert len(target.way(0, 1, [0, 1, 2])) == 2
    assert target.links([0], [1], [0, 2]) == []


def test_the_spread_is_that_of_the_draws(mistaken):
    found = opt_p(*mistaken, repeats=4)
    assert len(found.each) == 4
    assert found.spread == pytest.approx(np.std([a.f1 for a in found.each], ddof=1))
    assert found.agreement.recall == pytest.approx(np.mean([a.recall for a in found.each]))


# OPT-J ----------------------------------------------------------------------------------------------------------------


def test_a_feature_is_matched_once_and_an_edge_as_often_as_it_takes():
    truth = line((0, 0), (400, 0))
    prediction = together(*(line((100 * k + 10, 0), (100 * k + 90, 0)) for k in range(4)))
    found = opt_j(truth, prediction)
    # Two ends of the truth take an end each; six ends of the prediction lie on the road.
    assert sorted((p.truth, p.prediction) for p in found.pairs) == [(1, 1)] * 2 + [(2, 1)] * 6
    assert found.agreement.precision == 1
    assert found.agreement.recall == pytest.approx(8 / 14)


def test_in_node_order_a_true_feature_may_be_matched_twice():
    truth = line((0, 0), (400, 0))
    prediction = together(line((0, 0), (400, 0)), line((0, 8), (0, 200)))
    cheapest, node = (opt_j(truth, prediction, OptJ(order=o)).agreement for o in ("cheapest", "node"))
    assert cheapest.actual == 1 + 1 + 2  # the second end at the origin lies on the road
    assert node.actual == 1 + 1 + 1  # the first end answers again


def test_dearer_distance_prefers_the_nearer_match():
    truth = together(line((0, 0), (300, 0)), line((0, 0), (0, 300)), line((0, 0), (-300, 0)))
    arms = [line((0, 20), p) for p in ((300, 20), (0, 300), (-300, 20))]
    prediction = together(*arms, line((2, -2), (100, -200)))
    cheap = {(p.truth, p.prediction) for p in opt_j(truth, prediction).pairs}
    assert (3, 3) in cheap  # 0.2 for the distance, against 1 for a road too few
    dear = {(p.truth, p.prediction) for p in opt_j(truth, prediction, OptJ(alpha=1.0)).pairs}
    assert (3, 2) in dear  # 20 for the distance, against 1 and less than 3


# OPT-G and SUBG -------------------------------------------------------------------------------------------------------


def test_the_hungarian_matching_is_one_to_one_and_no_dearer_than_the_greedy_one():
    random = np.random.default_rng(1)
    for _ in range(20):
        a, b = random.uniform(0, 120, (30, 2)), random.uniform(0, 120, (25, 2))
        costs = []
        for kind in ("hungarian", "greedy"):
            rows, columns = matching(a, b, Subgraphs(matching=kind))
            assert len(set(rows)) == len(rows) == len(set(columns))
            distance = np.linalg.norm(a[rows] - b[columns], axis=1)
            assert (distance < 25).all()
            costs.append(distance.sum() + 25 * (25 - len(rows)))
        assert costs[0] <= costs[1] + 1e-9


def test_what_is_reached_is_measured_along_the_road():
    hairpin = line((0, 0), (200, 0), (200, 40), (0, 40))
    found = opt_g(hairpin, line((0, 0), (200, 0)), Subgraphs(starts=40, radius=50))
    assert found.precision > 0.95
    assert found.recall < 0.75
    cut = line((0, 0), (95, 0)).joined(line((105, 0), (200, 0)))
    travelled, straight = (
        opt_g(line((0, 0), (200, 0)), cut, Subgraphs(starts=200, reach=r)) for r in ("travelled", "straight")
    )
    assert travelled.recall < 0.8
    assert straight.recall < 0.8


def test_hits_are_no_more_than_either_side_has(mistaken):
    found = opt_g(*mistaken, Subgraphs(starts=40))
    assert found.right <= min(found.predicted, found.actual)


def test_subg_overlooks_far_roads_and_merged_ones_which_opt_g_sees():
    road = line((0, 0), (400, 0))
    far = road.joined(line((0, 2000), (400, 2000)))
    settings = Subgraphs(starts=60)
    assert subg(road, far, settings).f1 == 1
    assert opt_g(road, far, settings).f1 < 0.9
    doubled = road.joined(line((0, 12), (400, 12))).joined(line((0, 0), (0, 12)))
    assert subg(doubled, road, settings).f1 > 0.99
    assert opt_g(doubled, road, settings).f1 < 0.9
    assert subg(road, doubled, settings).precision < 0.8
    assert subg(road, doubled, Subgraphs(starts=60, counted="near")).precision == 1


@pytest.mark.parametrize(
    ("true", "predicted", "right"),
    [
        # Three true points choose two predicted ones (10 is nearer to 0 than to 21); two more are far from all.
        ([0, 10, 20], [(0, 0), (21, 0), (100, 0), (200, 0)], {"distinct": 2, "true": 3, "near": 2}),
        # Every predicted point has a copy 12 pixels aside, which no true point chooses.
        ([0, 100], [(0, 0), (0, 12), (100, 0), (100, 12)], {"distinct": 2, "true": 2, "near": 4}),
        # More true points than predicted ones: a precision is never above 1.
        ([0, 5, 10], [(5, 0)], {"distinct": 1, "true": 1, "near": 1}),
    ],
)
def test_each_reading_of_subg_counts_its_own_points(true, predicted, right):
    own, other = np.array([(x, 0.0) for x in true]), np.array(predicted, float)
    for counted, expected in right.items():
        assert shared_hits(own, other, Subgraphs(counted=counted)) == (expected, len(true)), counted


def test_by_default_subg_is_a_share_of_distinct_predicted_points():
    # The road ends 16 pixels early, where true points share the last predicted one; and a stub 22 pixels aside is the
    # nearest of none.
    truth = line((0, 0), (100, 0))
    prediction = together(line((0, 0), (40, 0), (84, 0)), line((40, 0), (40, 22)))
    settings = Subgraphs(starts=30, step=4.0)
    distinct, true, near = (subg(truth, prediction, replace(settings, counted=c)) for c in ("distinct", "true", "near"))
    assert {distinct.recall, true.recall, near.recall} == {1.0}
    assert near.precision == 1
    # Of 22 points on the road and 6 on the stub, 22 are chosen; 26 true points have a neighbour.
    assert (distinct.precision, true.precision) == pytest.approx((22 / 28, 26 / 28))
    assert subg(truth, prediction, settings).precision == distinct.precision


def test_a_tie_of_subg_goes_to_the_first_point_whatever_the_rounding():
    own = np.array([(0.0, 0.0), (0.0, 20.0)])
    for rounding in (-1e-9, 0.0, 1e-9):
        other = np.array([(0.0, 10.0), (0.0, -10.0 + rounding)])
        assert shared_hits(own, other, Subgraphs()) == (1, 2)  # both choose the first


# CCQ, trips, JUNCT ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measured", ["length", "pixels"])
def test_ccq_is_the_share_of_road_within_the_slack(measured):
    truth, prediction = line((0, 0), (1000, 0)), line((0, 0), (600, 0))
    found = ccq(truth, prediction, Ccq(measured=measured))
    assert found.precision == 1
    assert found.recall == pytest.approx(0.608, abs=0.005)  # the slack reaches 8 pixels past the end
    assert found.quality == pytest.approx(found.recall)
    assert ccq(truth, line((0, 20), (1000, 20)), Ccq(measured=measured)).quality == 0


def test_a_piece_of_road_at_the_slack_itself_is_near():
    # Middles of pieces are at 1, 3, 5, ...: the last within 8 pixels of 599 is 607 itself.
    assert ccq(line((0, 0), (1000, 0)), line((0, 0), (599, 0))).recall == pytest.approx(0.608, abs=1e-12)


def test_drawn_pixels_are_near_as_by_a_distance_transform():
    from scipy.ndimage import distance_transform_edt

    random = np.random.default_rng(0)
    for radius in (0.5, 2.0, 3.7):
        own, other = random.random((2, 40, 60)) < 0.02
        expected = int((distance_transform_edt(~other)[own] <= radius).sum())
        assert _beside(own, other, radius) == (expected, own.sum())


def test_trips_are_too_long_too_short_or_cannot_be_made():
    straight, detour = line((0, 0), (1000, 0)), line((0, 0), (490, 0), (500, 300), (510, 0), (1000, 0))
    long = trips(straight, detour, Trips(pairs=400))
    short = trips(detour, straight, Trips(pairs=400))
    assert long.correct + long.too_long + long.too_short + long.infeasible == pytest.approx(1)
    assert long.too_short < 0.02
    assert long.too_long == pytest.approx(0.5, abs=0.08)  # half of all pairs lie on either side of the middle
    assert short.too_short > 0.1
    cut = line((0, 0), (400, 0)).joined(line((600, 0), (1000, 0)))
    # Both ends within 25 pixels of one half: twice (0.425 of 1)².
    assert tlts(straight, cut, Trips(pairs=4000)) == pytest.approx(2 * 0.425**2, abs=0.04)
    assert apls(straight, cut, Trips(pairs=4000)) == pytest.approx(2 * 0.425**2, abs=0.04)


def test_apls_may_look_both_ways():
    truth, more = line((0, 0), (500, 0)), line((0, 0), (500, 0)).joined(line((0, 900), (500, 900)))
    assert apls(truth, more) == pytest.approx(1)
    assert apls(truth, more, Trips(direction="both")) < 0.8


def test_junct_counts_arms_of_matched_junctions():
    four = [line((0, 0), p) for p in ((200, 0), (0, 200), (-200, 0), (0, -200))]
    truth, prediction = together(*four), together(*four[:3])
    found = junct(truth, prediction)
    assert found.recall == 0.75
    assert found.precision == 1
    assert junct(prediction, truth).precision == pytest.approx(1 / 1.25)


def test_near_junctions_may_be_one():
    offset = together(line((-200, 0), (0, 0)), line((0, 0), (30, 0)), line((30, 0), (200, 0)),
                      line((0, 0), (0, 200)), line((30, 0), (30, -200)))  # fmt: skip
    cross = together(*(line((15, 0), p) for p in ((200, 0), (15, 200), (-200, 0), (15, -200))))
    assert junct(cross, offset).f1 < 1
    assert junct(cross, offset, Junct(cluster=40)).f1 == 1


# Over data sets -------------------------------------------------------------------------------------------------------


def test_over_maps_counts_are_added_and_path_scores_averaged():
    a = compare(line((0, 0), (1000, 0)), line((0, 0), (500, 0)), QUICK)
    b = compare(line((0, 0), (100, 0)), line((0, 0), (100, 0)), QUICK)
    both = aggregate([a, b])
    assert both.ccq.recall == pytest.approx((a.ccq.recall * 1000 + 100) / 1100)
    assert both.opt_p.recall == pytest.approx((a.opt_p.recall + 1) / 2)
    assert both.opt_p.f1 == pytest.approx(2 * both.opt_p.recall / (1 + both.opt_p.recall))
    assert both.trips.correct == pytest.approx((a.trips.correct + 1) / 2)
    with pytest.raises(VergenceError, match="no scores"):
        aggregate([])


def test_correlations_agree_with_scipy_and_a_constant_has_none():
    from scipy.stats import pearsonr, spearmanr

    random = np.random.default_rng(0)
    table = {name: random.random(12).round(1).tolist() for name in ("a", "b", "c")}
    for kind, peer in (("spearman", spearmanr), ("pearson", pearsonr)):
        found = correlation_matrix(table, kind)
        assert found[0, 1] == pytest.approx(peer(table["a"], table["b"])[0])
        pairs = [peer(table[x], table[y])[0] for x, y in itertools.combinations("abc", 2)]
        assert consistency(table, "abc", kind) == pytest.approx(np.mean(pairs))
    assert correlation_matrix({"a": [1, 2, 3], "b": [5, 5, 5]})[0, 1] == 0
    with pytest.raises(VergenceError, match="at least two"):
        correlation_matrix({"a": [1], "b": [2]})


def test_methods_are_ranked_and_compared_map_by_map():
    truth = line((0, 0), (1000, 0))
    results = {
        name: [compare(truth, line((0, 0), (reach, 0)), QUICK)] for name, reach in (("half", 500.0), ("all", 1000.0))
    }
    assert rank_methods(results) == {
        name: ["all", "half"] for name in ("opt_p", "opt_j", "opt_g", "ccq", "tlts", "apls", "junct", "subg")
    } | {"junct": ["half", "all"]}
    assert preferences(results["all"], results["half"])["opt_p"][0] > 0


def test_there_are_ten_triplets_of_old_measures_and_one_of_new():
    random = np.random.default_rng(0)
    table = {
        name: random.random(6).tolist() for name in ("opt_p", "opt_j", "opt_g", "ccq", "tlts", "apls", "junct", "subg")
    }
    found = triplets(table)
    assert len(found) == 11
    assert NEW in found


@pytest.mark.parametrize(
    "make",
    [
        lambda: OptP(snap=0),
        lambda: OptJ(alpha=-1),
        lambda: Subgraphs(starts=1),
        lambda: Trips(tolerance=1),
        lambda: Ccq(slack=float("nan")),
        lambda: Junct(angle=0),
        lambda: Measures(repeats=0),
    ],
)
def test_settings_that_make_no_sense_are_refused(make):
    with pytest.raises(VergenceError):
        make()
