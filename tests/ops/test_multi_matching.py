"""Matchings of several graphs are consistent, as cheap as any consistent ones on small graphs, and bounded."""

import itertools

import numpy as np
import pytest
import torch

from vergence.ops.graph_matching import Matching, Problem, cost_of, match_graphs
from vergence.ops.multi_matching import match_many, synchronised


def graph(count, source):
    pairs = [pair for pair in itertools.combinations(range(count), 2) if float(torch.rand((), generator=source)) < 0.7]
    return torch.tensor([*pairs, *[(k, i) for i, k in pairs]], dtype=torch.long).reshape(-1, 2)


def instance(sizes, seed):
    source = torch.Generator().manual_seed(seed)
    graphs = [graph(n, source) for n in sizes]
    problems = {}
    for p, q in itertools.combinations(range(len(sizes)), 2):
        nodes = torch.randn(sizes[p], sizes[q], generator=source, dtype=torch.float64)
        edges = torch.randn(len(graphs[p]), len(graphs[q]), generator=source, dtype=torch.float64)
        problems[p, q] = Problem(nodes, graphs[p], graphs[q], edges)
    return problems


def total(sizes, problems, found):
    return sum(cost_of(problems[p, q], found.partner(p, q)) for p, q in itertools.combinations(range(len(sizes)), 2))


def consistent(sizes, found):
    """By definition: v^pq v^qr <= v^pr, entry by entry."""
    matrix = {}
    for p, q in itertools.permutations(range(len(sizes)), 2):
        matrix[p, q] = (found.partner(p, q).unsqueeze(1) == torch.arange(sizes[q])).double()
    triples = itertools.permutations(range(len(sizes)), 3)
    return all(bool((matrix[p, q] @ matrix[q, r] <= matrix[p, r]).all()) for p, q, r in triples)


@pytest.mark.parametrize("sizes", [(4, 5, 3), (5, 5, 5, 5), (6, 2, 1, 4)])
def test_matchings_are_consistent_cost_what_they_say_and_never_less_than_the_bound(sizes):
    for seed in range(3):
        problems = instance(sizes, seed)
        found = match_many(sizes, problems)
        assert consistent(sizes, found)
        assert found.cost == pytest.approx(total(sizes, problems, found), abs=1e-9)
        assert found.bound <= found.cost
        assert all(len(set(own.tolist())) == len(own) for own in found.classes)


def test_on_small_graphs_it_is_the_best_of_all_consistent_matchings():
    def classes_of(size, known):
        """Every way to give nodes of a graph known classes or new ones of their own."""
        for labels in itertools.product([*range(known), -1], repeat=size):
            used = [label for label in labels if label >= 0]
            if len(set(used)) == len(used):
                new = iter(range(known, known + size))
                yield [label if label >= 0 else next(new) for label in labels]

    sizes = (2, 2, 3)
    for seed in range(4):
        problems = instance(sizes, seed)
        costs = {pair: {} for pair in problems}
        best = np.inf
        for second in classes_of(2, 2):
            known = max(1, *second) + 1
            for third in classes_of(3, known):
                every = [[0, 1], second, third]
                value = 0.0
                for p, q in problems:
                    key = tuple(every[q].index(c) if c in every[q] else -1 for c in every[p])
                    if key not in costs[p, q]:
                        costs[p, q][key] = cost_of(problems[p, q], torch.tensor(key))
                    value += costs[p, q][key]
                best = min(best, value)
        assert match_many(sizes, problems).cost == pytest.approx(best, abs=1e-9)


def test_pairs_that_agree_stay_as_they_are_and_are_optimal():
    orders = [torch.randperm(4, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    none = torch.zeros(0, 2, dtype=torch.long)
    problems = {
        (p, q): Problem((orders[p][:, None] != orders[q]).double() * 2 - 1, none, none, torch.zeros(0, 0))
        for p, q in itertools.combinations(range(3), 2)
    }
    found = match_many((4, 4, 4), problems)
    assert found.optimal
    assert found.cost == -12
    for p, q in problems:
        assert torch.equal(orders[q][found.partner(p, q)], orders[p])


def test_synchronisation_outvotes_one_wrong_pair():
    right = Matching(torch.arange(3), 0.0, 0.0)
    wrong = Matching(torch.tensor([1, 0, 2]), 0.0, 0.0)
    pairs = dict.fromkeys(itertools.combinations(range(4), 2), right) | {(0, 1): wrong}
    classes = synchronised([3] * 4, pairs)
    assert all((own == classes[0]).all() for own in classes)


def test_graphs_without_nodes_and_wrong_pairs():
    problems = instance((3, 0, 2), 0)
    found = match_many((3, 0, 2), problems)
    assert found.partner(0, 1).tolist() == [-1, -1, -1]
    assert found.cost == pytest.approx(match_graphs([problems[0, 2]])[0].cost)
    with pytest.raises(ValueError, match="3 graphs have the pairs"):
        match_many((3, 0, 2), {(0, 1): problems[0, 1]})
    with pytest.raises(ValueError, match="graphs 0 and 1 have 4 and 0 nodes"):
        match_many((4, 0, 2), problems)
