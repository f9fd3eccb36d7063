"""Graphs of objects, relevances and scores of triplets."""

import pytest
import torch

from vergence.agents.explaining import Reading, frequencies, heat_scores, pair_scores, ranked, relevance
from vergence.agents.explainrelations import exact
from vergence.agents.graphs import Wiring, as_in_code, with_logarithm


def test_random_pairs_need_a_generator_and_follow_it():
    own = exact.batch([exact.objects(4, "chance")])
    found = relevance(exact.network(), own.graphs, 2)
    reading = Reading(rests="random")
    first, again, other = (
        pair_scores(found, own.graphs, reading, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("rests", "power"), [("pair", 3), ("nodes", 2), ("edges", 1)])
def test_printed_scores_carry_one_factor_for_each_relevance(rests, power):
    own = exact.batch([exact.objects(4, "powers")])
    found = relevance(exact.network(), own.graphs, 2)
    y = found.logits.gather(1, found.chosen).sigmoid().mT[:, own.graphs.owner]
    printed, plain = (pair_scores(found, own.graphs, Reading(mode, rests)) for mode in ("paper", "logit"))
    torch.testing.assert_close(printed, plain * (y * (1 - y)) ** power)


def test_triplets_are_ranked_within_their_picture_and_cut():
    own = exact.batch([exact.objects(4, "a"), exact.objects(1, "b"), exact.objects(3, "c")])
    found = relevance(exact.network(), own.graphs, 3)
    scores = pair_scores(found, own.graphs, Reading())
    best = ranked(scores, found.chosen, own, 5)
    assert torch.bincount(best.graph, minlength=3).tolist() == [5, 0, 5]
    weighted = scores * (own.scores[own.graphs.ends[0]] * own.scores[own.graphs.ends[1]])
    for graph in (0, 2):
        mine = weighted[:, own.graphs.owner == graph].flatten().sort(descending=True).values[:5]
        torch.testing.assert_close(best.score[best.graph == graph], mine)
    torch.testing.assert_close(best.score, weighted[best.place, best.edge])
    assert torch.equal(best.predicate, found.chosen[best.graph, best.place])


def test_a_prior_moves_the_pair_it_knows_to_the_front():
    own = exact.batch([exact.objects(4, "known")])
    found = relevance(exact.network(), own.graphs, 1)
    scores = pair_scores(found, own.graphs, Reading())
    last = ranked(scores, found.chosen, own, 100).edge[-1]
    start, end = own.graphs.ends[:, last]
    table = torch.zeros(exact.PREDICATES, exact.CLASSES, exact.CLASSES, dtype=torch.float64)
    table[:, own.labels[start], own.labels[end]] = 1
    first = ranked(scores, found.chosen, own, 1, table).edge[0]
    ends = own.graphs.ends[:, first]
    assert (own.labels[ends[0]], own.labels[ends[1]]) == (own.labels[start], own.labels[end])


def test_frequencies_of_a_predicate_sum_to_one():
    table = frequencies([torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1, 2], [2, 0, 1]])], 3, 4)
    torch.testing.assert_close(table.sum((1, 2)), torch.ones(3))
    assert table[1].argmax() == 0 * 4 + 2
    assert table[2].unique().numel() == 1


def test_heat_in_two_boxes_makes_their_pair_best_in_both_directions():
    some = exact.objects(3, "heat")._replace(
        boxes=torch.tensor([[0.0, 0, 20, 20], [60, 40, 80, 60], [0, 60, 20, 80]]), scores=torch.ones(3)
    )
    own = exact.batch([some])
    heat = torch.zeros(1, 2, 8, 10)
    heat[0, 0, :2, :2] = heat[0, 0, 4:6, 6:8] = 1.0
    scores, chosen = heat_scores(heat, torch.tensor([[3.0, -3.0]]), own, 1)
    assert chosen.tolist() == [[0]]
    ends = own.graphs.ends[:, scores[0].topk(2).indices].mT.tolist()
    assert sorted(map(sorted, ends)) == [[0, 1], [0, 1]]


def test_the_authors_quadrants_are_two_of_four():
    pairs = Wiring().graph(exact.objects(6, "quadrants")).edges
    ten = as_in_code(pairs)
    assert ten.shape == (30, 10)
    assert (ten[:, 3:7].sum(0) > 0).tolist() == [True, False, True, False]
    torch.testing.assert_close(ten[:, 8] * ten[:, 9], torch.ones(30, dtype=torch.float64))


def test_the_logarithm_of_the_ratio_changes_its_sign_when_a_pair_is_swapped():
    one = exact.objects(3, "logarithm")
    table = torch.zeros(3, 3, dtype=torch.float64)
    graph = Wiring("log").graph(one)
    table[graph.ends[0], graph.ends[1]] = graph.edges[:, 4]
    torch.testing.assert_close(table, -table.mT)
    torch.testing.assert_close(graph.edges, with_logarithm(Wiring().graph(one).edges))
