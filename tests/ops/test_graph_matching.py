"""Solvers of graph matching agree with enumeration, bounds are bounds, and gradients are those of the formula."""

import itertools

import numpy as np
import pytest
import torch

from vergence.ops import dual_ascent
from vergence.ops.blackbox import through_solver
from vergence.ops.graph_matching import Problem, cost_of, edge_matches, match_graphs, partial_matchings, tables


def problem(n, m, seed, edges=0.6, scale=1.0):
    source = torch.Generator().manual_seed(seed)

    def graph(count):
        pairs = [(i, k) for i in range(count) for k in range(count) if i < k]
        kept = [pair for pair in pairs if float(torch.rand((), generator=source)) < edges]
        return torch.tensor([*kept, *[(k, i) for i, k in kept]], dtype=torch.long).reshape(-1, 2)

    left, right = graph(n), graph(m)
    nodes = torch.randn(n, m, generator=source, dtype=torch.float64)
    return Problem(
        nodes, left, right, scale * torch.randn(len(left), len(right), generator=source, dtype=torch.float64)
    )


def cheapest(one):
    """By definition: every matching, and its cost from the costs of pairs."""
    n, m = one.nodes.shape
    rows = [
        torch.tensor([-1 if label == m else label for label in labels]) for labels in partial_matchings(n, m).tolist()
    ]
    return min(cost_of(one, partner) for partner in rows)


def test_there_are_as_many_partial_matchings_as_there_should_be():
    assert len(partial_matchings(6, 6)) == 13_327
    assert len(partial_matchings(2, 3)) == 1 + 6 + 6


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3), (1, 2)])
def test_exact_solvers_give_the_cheapest_matching(shape):
    for seed in range(3):
        one = problem(*shape, seed)
        expected = cheapest(one)
        for method in ("enumerate", "milp"):
            found = match_graphs([one], method)[0]
            assert found.cost == pytest.approx(expected, abs=1e-6)
            assert cost_of(one, found.partner) == pytest.approx(expected, abs=1e-6)
            assert found.optimal


@pytest.mark.parametrize("compiled", [True, False])
def test_dual_ascent_is_near_the_optimum_and_its_bound_below(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(dual_ascent, "kernels", dual_ascent.plain)
    gaps = []
    for seed in range(12 if compiled else 2):
        one = problem(5, 6, 100 + seed)
        best, found = match_graphs([one], "enumerate")[0], match_graphs([one], "dual", rounds=20)[0]
        assert found.bound <= best.cost + 1e-7
        assert found.cost >= best.cost - 1e-7
        assert cost_of(one, found.partner) == pytest.approx(found.cost, abs=1e-9)
        gaps.append((found.cost - best.cost) / abs(best.cost))
    assert np.mean(gaps) < 0.02


def test_the_bound_never_falls():
    costs = tables(problem(6, 6, 3))
    state, (sweep, *_) = dual_ascent.State(costs.unary, costs.pairs, costs.pairwise), dual_ascent.kernels()
    bounds = [sweep(*state.arrays, 1) for _ in range(15)]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(bounds))
    assert bounds[-1] > bounds[0]


def test_compiled_looped_and_row_wise_kernels_are_the_same():
    pytest.importorskip("numba")
    costs = tables(problem(5, 4, 7))
    states = [dual_ascent.State(costs.unary, costs.pairs, costs.pairwise) for _ in range(3)]
    sweeps = (dual_ascent.kernels()[0], dual_ascent._sweep, dual_ascent.plain()[0])
    bounds = [sweep(*state.arrays, 2) for sweep, state in zip(sweeps, states, strict=True)]
    assert bounds == pytest.approx([bounds[0]] * 3, abs=1e-12)
    assert all(np.allclose(states[0].collected, state.collected) for state in states)
    for labels in ([0, 1, 2, 3, 4], [4, 4, 4, 4, 4]):
        pieces = [np.array(labels) for _ in range(2)]
        ways = (dual_ascent._kick, dual_ascent.kernels()[2].args[1])
        ends = [kick(own, 4, 17) for kick, own in zip(ways, pieces, strict=True)]
        assert ends[0] == ends[1]
        assert (pieces[0] == pieces[1]).all()


def test_without_edge_costs_it_is_linear_assignment_and_costs_above_zero_match_nothing():
    from scipy.optimize import linear_sum_assignment

    one = problem(7, 9, 0, scale=0.0)
    padded = np.concatenate([one.nodes.numpy(), np.zeros((7, 7))], 1)
    rows, columns = linear_sum_assignment(padded)
    assert match_graphs([one], "dual")[0].cost == pytest.approx(padded[rows, columns].sum())
    dear = Problem(one.nodes.abs() + 0.1, one.left, one.right, one.edges.abs())
    found = match_graphs([dear])[0]
    assert (found.partner == -1).all()
    assert found.optimal


def test_a_large_reward_for_every_pair_matches_as_many_as_possible():
    one = problem(5, 6, 2)
    forced = Problem(one.nodes - 1e4, one.left, one.right, one.edges)
    for method in ("enumerate", "dual", "milp"):
        assert (match_graphs([forced], method)[0].partner >= 0).all()


def test_renaming_nodes_renames_the_answer():
    one = problem(5, 5, 11)
    order = torch.tensor([3, 0, 4, 1, 2])
    back = order.argsort()
    renamed = Problem(one.nodes[order], back[one.left], one.right, one.edges)
    first, second = (match_graphs([p], "enumerate")[0] for p in (one, renamed))
    assert torch.equal(second.partner, first.partner[order])
    assert second.cost == pytest.approx(first.cost)


def test_no_time_gives_the_best_so_far_and_does_not_call_it_optimal():
    one = problem(9, 9, 5)
    found = match_graphs([one], "milp", seconds=0.01)[0]
    assert found.bound <= found.cost < 0  # not just nothing
    assert cost_of(one, found.partner) == pytest.approx(found.cost)
    assert not found.optimal
    assert found.gap == pytest.approx((found.cost - found.bound) / -found.cost)
    with pytest.raises(ValueError, match="above 0 seconds"):
        match_graphs([one], "milp", seconds=0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_without_nodes_nothing_is_matched(shape):
    for method in ("auto", "enumerate", "milp", "dual"):
        found = match_graphs([problem(*shape, 0)], method)[0]
        assert found.partner.tolist() == [-1] * shape[0]
        assert found.optimal
        assert found.cost == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": torch.full((2, 2), torch.nan)}, "4 node costs are not finite"),
        ({"edges": torch.zeros(1, 2)}, r"costs are \(n, m\) for nodes and \(1, 1\)"),
        ({"left": torch.tensor([[0, 2]])}, "left edges name nodes from 0 to 1"),
    ],
)
def test_costs_that_make_no_problem_are_refused(changes, message):
    whole = {"nodes": torch.zeros(2, 2), "left": torch.tensor([[0, 1]]), "right": torch.tensor([[0, 1]]),
             "edges": torch.zeros(1, 1)}  # fmt: skip
    with pytest.raises(ValueError, match=message):
        Problem(**(whole | changes))


# Gradients ------------------------------------------------------------------------------------------------------------


def solver_of(one):
    def solve(nodes, edges):
        found = match_graphs([Problem(nodes, one.left, one.right, edges)], "enumerate")[0]
        matched = found.matrix(one.nodes.shape[1])
        return matched, edge_matches(matched, one.left, one.right)

    return solve


def test_the_gradient_is_the_change_of_the_solution_over_the_strength():
    one = problem(4, 4, 21)
    nodes, edges = one.nodes.clone().requires_grad_(), one.edges.clone().requires_grad_()
    matched, both = through_solver(solver_of(one), 3.0, nodes, edges)
    weight = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    (matched * weight).sum().backward()
    again = solver_of(one)(one.nodes + 3.0 * weight, one.edges)
    assert torch.allclose(nodes.grad, (again[0] - matched.detach()) / 3.0)
    assert torch.allclose(edges.grad, (again[1] - both.detach()) / 3.0)


def test_a_strong_perturbation_pulls_both_solutions_to_the_truth():
    one = problem(5, 5, 4)
    truth = torch.eye(5, dtype=torch.float64)
    nodes, edges = one.nodes.clone().requires_grad_(), one.edges.clone().requires_grad_()
    matched, both = through_solver(solver_of(one), 1e4, nodes, edges)
    (matched * (1 - truth) + truth * (1 - matched)).sum().backward()  # Hamming's loss
    assert torch.allclose(nodes.grad, (truth - matched.detach()) / 1e4)
    assert torch.allclose(edges.grad, (edge_matches(truth, one.left, one.right) - both.detach()) / 1e4)


def test_where_the_solution_stays_the_gradient_is_zero():
    one = problem(4, 4, 8)
    nodes = (one.nodes - 100 * torch.eye(4)).requires_grad_()
    matched, _ = through_solver(solver_of(one), 1.0, nodes, one.edges)
    (matched * (1 - 2 * torch.eye(4))).sum().backward()
    assert float(nodes.grad.abs().max()) == 0
    with pytest.raises(ValueError, match="above 0"):
        through_solver(solver_of(one), 0.0, nodes, one.edges)
