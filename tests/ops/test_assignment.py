"""Assignments are optimal: against every permutation, SciPy, and the conditions of the optimum."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vergence.ops import assignment as module
from vergence.ops.assignment import assign, soft_assign, solve_with_scipy
from vergence.reference import alignment as plain

SHAPES = [(7, 7), (5, 9), (9, 5), (1, 1), (1, 6), (6, 1), (16, 16), (17, 33)]


def values(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def reached(similarity, columns):
    """The total similarity of an assignment, per problem."""
    taken = similarity.gather(-1, columns.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    return taken.where(columns >= 0, 0).sum(-1)


def by_scipy(similarity):
    found = torch.full(similarity.shape[:2], -1)
    solve_with_scipy(similarity, found)
    return found


@pytest.fixture(params=["compiled", "scipy"])
def solver(request, monkeypatch):
    if request.param == "scipy":
        monkeypatch.setattr(module, "compiled", lambda: None)
    elif module.compiled() is None:
        pytest.skip("numba is not installed")


@pytest.mark.usefixtures("solver")
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_no_permutation_adds_up_to_more(shape):
    similarity = values(20, *shape)
    wide = similarity if shape[0] <= shape[1] else similarity.mT
    rows = torch.arange(wide.shape[1])
    every = [wide[:, rows, list(p)].sum(-1) for p in itertools.permutations(range(wide.shape[2]), wide.shape[1])]
    best = torch.stack(every).amax(0)
    torch.testing.assert_close(reached(similarity, assign(similarity)), best)


@pytest.mark.skipif(module.compiled() is None, reason="numba is not installed")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_compiled_solver_finds_what_scipy_finds(shape, dtype):
    similarity = values(30, *shape, dtype=dtype)
    assert torch.equal(assign(similarity), by_scipy(similarity))


@pytest.mark.skipif(module.compiled() is None, reason="numba is not installed")
@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    levels=st.integers(1, 5),
    scale=st.sampled_from([1, 1e-8, 1e25]),
)
def test_with_many_ties_and_at_any_scale_the_sum_is_scipys(rows, columns, seed, levels, scale):
    source = torch.Generator().manual_seed(seed)
    similarity = torch.randint(-levels, levels + 1, (3, rows, columns), generator=source).double() * scale
    found = assign(similarity)
    torch.testing.assert_close(reached(similarity, found), reached(similarity, by_scipy(similarity)))
    for problem in found:
        taken = problem[problem >= 0]
        assert len(taken) == min(rows, columns) == len(set(taken.tolist()))


@pytest.mark.skipif(module.compiled() is None, reason="numba is not installed")
def test_problems_of_196_patches_are_solved_as_scipy_does():
    tokens = torch.nn.functional.normalize(values(4, 196, 64, dtype=torch.float32), dim=-1)
    moved = (
        tokens[:, torch.randperm(196, generator=torch.Generator().manual_seed(1))] + 0.1 * values(4, 196, 64).float()
    )
    similarity = tokens @ moved.mT
    assert torch.equal(assign(similarity), by_scipy(similarity))


@pytest.mark.usefixtures("solver")
def test_threads_do_not_change_the_answer_even_on_ties():
    similarity = torch.randint(0, 3, (37, 11, 11), generator=torch.Generator().manual_seed(0)).float()
    before = torch.get_num_threads()
    answers = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            answers.append(assign(similarity))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])


@pytest.mark.parametrize("method", ["exact", "greedy", "sinkhorn"])
def test_any_batch_any_float_type_and_no_gradient(method):
    similarity = values(2, 3, 5, 5).requires_grad_()
    found = assign(similarity, method)
    assert found.shape == (2, 3, 5)
    assert found.dtype == torch.int64
    assert not found.requires_grad
    assert torch.equal(found.sort(-1).values, torch.arange(5).expand(2, 3, 5))
    assert torch.equal(assign(similarity[0, 0], method), found[0, 0])
    coarse = similarity.bfloat16()
    assert torch.equal(assign(coarse, method), assign(coarse.float(), method))


@pytest.mark.parametrize("method", ["exact", "greedy", "sinkhorn"])
@pytest.mark.parametrize("shape", [(0, 4, 4), (2, 0, 3), (2, 3, 0), (3, 0, 2, 2)])
def test_nothing_to_assign_is_no_error(method, shape):
    found = assign(torch.zeros(shape), method)
    assert found.shape == shape[:-1]
    assert (found == -1).all()


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_greedy_takes_the_most_similar_pair_again_and_again(shape):
    similarity = values(10, *shape)
    assert torch.equal(assign(similarity, "greedy"), torch.stack([plain.greedy(s) for s in similarity]))


def test_greedy_takes_the_first_of_equals():
    similarity = torch.randint(0, 3, (20, 6, 6), generator=torch.Generator().manual_seed(0)).float()
    assert torch.equal(assign(similarity, "greedy"), torch.stack([plain.greedy(s) for s in similarity]))


def test_greedy_can_be_worse_than_exact():
    similarity = torch.tensor([[1.0, 0.9], [0.9, 0.0]])
    assert assign(similarity, "greedy").tolist() == [0, 1]
    assert assign(similarity).tolist() == [1, 0]
    assert assign(similarity, "sinkhorn").tolist() == [1, 0]


def test_the_relaxation_becomes_the_assignment_as_entropy_goes():
    order = torch.tensor([3, 0, 4, 1, 2])
    expected = torch.nn.functional.one_hot(order, 5).double()
    similarity = expected + 0.2 * values(5, 5)
    plans = [soft_assign(similarity, eps=eps, iterations=300) for eps in (1.0, 0.1, 0.02)]
    errors = [float((plan - expected).abs().max()) for plan in plans]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-6 < errors[0]


@pytest.mark.parametrize("scale", [1, 1000])
def test_rounding_the_relaxation_takes_its_greatest_first_at_any_scale(scale):
    similarity = values(6, 8, 8) * scale
    plan = soft_assign(similarity, eps=0.3, iterations=40)
    assert torch.equal(assign(similarity, "sinkhorn", eps=0.3, iterations=40), assign(plan, "greedy"))


def test_the_relaxation_is_doubly_stochastic_and_differentiable():
    similarity = values(4, 4).requires_grad_()
    plan = soft_assign(similarity, eps=0.5, iterations=200)
    torch.testing.assert_close(plan.sum(-1), torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(plan.sum(-2), torch.ones(4, dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda s: soft_assign(s, eps=0.5, iterations=10), (similarity,))


@pytest.mark.parametrize("method", ["exact", "greedy", "sinkhorn"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e200])
def test_what_is_no_number_is_refused(method, bad):
    similarity = torch.zeros(2, 3, 3, dtype=torch.float64)
    similarity[1, 2, 0] = bad
    with pytest.raises(ValueError, match="NaN, infinity"):
        assign(similarity, method)


@pytest.mark.parametrize(
    ("similarity", "method", "message"),
    [
        (torch.zeros(3), "exact", r"floats \(\.\.\., N, M\), got \(3,\)"),
        (torch.zeros(3, 3, dtype=torch.int64), "exact", "got .* of torch.int64"),
        (torch.zeros(3, 3), "hungarian", "expected one of exact, greedy, sinkhorn"),
    ],
)
def test_other_input_is_refused(similarity, method, message):
    with pytest.raises(ValueError, match=message):
        assign(similarity, method)


@pytest.mark.parametrize("method", ["exact", "greedy", "sinkhorn"])
def test_meta_tensors_have_the_answers_shape(method):
    assert assign(torch.empty(2, 3, 4, 4, device="meta"), method).shape == (2, 3, 4)
