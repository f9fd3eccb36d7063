"""Plans solve the problem they say they solve: against its equations, its limits and POT."""

import math

import numpy as np
import ot
import pytest
import torch

from vergence.ops.transport import (
    barycentres,
    cosine_cost,
    cosine_kernel,
    gibbs,
    log_sinkhorn,
    optimal_plan,
    relaxation,
    scalings,
    sinkhorn,
    unit,
    within,
)

N, M, EPS, MASS = 13, 9, 0.3, 0.7


def cost(*shape, seed=0):
    source = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(*(shape or (N, M)), generator=source, dtype=torch.float64)


def marginal(count, seed):
    made = 0.5 + torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made / made.sum()


def both(plan):
    return plan.sum(-1), plan.sum(-2)


SOLVERS = [
    lambda c, eps, mass=math.inf, **kw: sinkhorn(c, eps, mass, 3000, **kw),
    lambda c, eps, mass=math.inf, **kw: log_sinkhorn(c, eps, mass, 3000, **kw),
    lambda c, eps, mass=math.inf, **kw: optimal_plan(c, eps, mass, tolerance=1e-12, **kw),
]
ids = ["plain", "log", "converged"]


@pytest.mark.filterwarnings("ignore:If reg_type = entropy")  # entropy is intended
@pytest.mark.parametrize("solve", SOLVERS, ids=ids)
def test_the_unbalanced_plan_is_pots(solve):
    c, mu, nu = cost(), marginal(N, 1), marginal(M, 2)
    theirs = ot.unbalanced.sinkhorn_unbalanced(
        mu.numpy(), nu.numpy(), c.numpy(), EPS, MASS, method="sinkhorn", reg_type="entropy",
        numItermax=10_000, stopThr=1e-14,
    )  # fmt: skip
    np.testing.assert_allclose(solve(c, EPS, MASS, rows=mu, columns=nu).numpy(), theirs, atol=1e-9)


@pytest.mark.parametrize("solve", SOLVERS, ids=ids)
def test_the_balanced_plan_is_pots(solve):
    c, mu, nu = cost(), marginal(N, 1), marginal(M, 2)
    theirs = ot.sinkhorn(mu.numpy(), nu.numpy(), c.numpy(), EPS, numItermax=10_000, stopThr=1e-14)
    np.testing.assert_allclose(solve(c, EPS, rows=mu, columns=nu).numpy(), theirs, atol=1e-9)


@pytest.mark.parametrize("solve", SOLVERS, ids=ids)
def test_the_plan_meets_the_conditions_of_its_optimum(solve):
    c = cost()
    plan = solve(c, EPS, MASS)
    rows, columns = both(plan)
    slope = c + EPS * plan.log() + MASS * (N * rows).log()[:, None] + MASS * (M * columns).log()
    assert slope.abs().max() < 1e-8


@pytest.mark.parametrize("solve", SOLVERS, ids=ids)
def test_mass_without_limit_is_the_balanced_plan_and_none_the_kernel(solve):
    c = cost()
    rows, columns = both(solve(c, EPS, 1e9))
    torch.testing.assert_close(rows, torch.full_like(rows, 1 / N), atol=1e-7, rtol=0)
    torch.testing.assert_close(columns, torch.full_like(columns, 1 / M), atol=1e-7, rtol=0)
    torch.testing.assert_close(solve(c, EPS, 0.0), (-c / EPS).exp())


def test_plain_and_log_agree_after_any_number_of_iterations():
    for iterations in (0, 1, 2, 5):
        torch.testing.assert_close(sinkhorn(cost(), EPS, MASS, iterations), log_sinkhorn(cost(), EPS, MASS, iterations))


def test_the_log_domain_is_good_where_the_kernel_underflows():
    c = cost().float() + 100  # a constant changes nothing in a balanced plan
    assert (gibbs(c, EPS) == 0).all()
    torch.testing.assert_close(log_sinkhorn(c, EPS), log_sinkhorn(cost(), EPS).float(), atol=1e-6, rtol=1e-3)


def test_a_batch_is_its_samples():
    c = cost(3, N, M)
    eps = torch.tensor([0.2, 0.4, 0.8], dtype=torch.float64).view(3, 1, 1)
    for solve in SOLVERS:
        together = solve(c, eps, MASS)
        for i in range(3):
            torch.testing.assert_close(together[i], solve(c[i], float(eps[i]), MASS), atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("solve", SOLVERS, ids=ids)
def test_outside_the_support_there_is_no_mass_whatever_the_cost(solve):
    support = torch.rand(N, M, generator=torch.Generator().manual_seed(3)) < 0.7
    support[2], support[:, 4] = False, False
    c = cost().masked_fill(~support, math.inf).requires_grad_()
    eps = torch.tensor(EPS, dtype=torch.float64, requires_grad=True)
    plan = solve(c, eps, MASS, support=support)
    assert (plan[~support] == 0).all()
    assert (plan[support] > 0).all()
    (grad,) = torch.autograd.grad((plan * cost(seed=5)).sum(), c)
    assert grad.isfinite().all()
    # The same as the problem without the empty row and column, up to the marginals' share.
    kept = [i for i in range(N) if i != 2], [j for j in range(M) if j != 4]
    small = support[kept[0]][:, kept[1]]
    mu, nu = torch.full((N - 1,), 1 / N), torch.full((M - 1,), 1 / M)
    theirs = solve(cost()[kept[0]][:, kept[1]], EPS, MASS, support=small, rows=mu.double(), columns=nu.double())
    torch.testing.assert_close(plan[kept[0]][:, kept[1]], theirs, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("solve", SOLVERS[:2], ids=ids[:2])
def test_gradients_of_unrolled_iterations(solve):
    plain = {0: sinkhorn, 1: log_sinkhorn}[SOLVERS.index(solve)]
    eps, mass = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (EPS, MASS))
    mu, nu = marginal(5, 1).requires_grad_(), marginal(4, 2).requires_grad_()
    c = cost(2, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda *a: plain(*a[:3], 3, *a[3:]), (c, eps, mass, mu, nu))


def test_gradients_at_convergence_are_those_of_the_optimum():
    eps, mass = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (EPS, MASS))
    mu, nu = marginal(5, 1).requires_grad_(), marginal(4, 2).requires_grad_()
    c = cost(2, 5, 4).requires_grad_()
    solve = lambda *a: optimal_plan(*a, tolerance=1e-13)  # noqa: E731
    assert torch.autograd.gradcheck(solve, (c, eps, mass, mu, nu))
    assert torch.autograd.gradcheck(lambda c, eps: optimal_plan(c, eps, tolerance=1e-13), (c, eps))


def test_what_cannot_converge_says_so():
    support = torch.tensor([[True, True], [False, False]])
    with pytest.raises(RuntimeError, match="did not converge"):
        optimal_plan(cost(2, 2), 0.01, tolerance=1e-300, limit=5, support=support)


def test_one_zero_a_row_and_column_gives_the_permutation():
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    c = torch.full((12, 12), 2.0).double()
    c[torch.arange(12), order] = 0
    q = torch.randn(12, 3, dtype=torch.float64)
    for mass in (1e-3, 0.1, 10.0, math.inf):
        kernel = gibbs(c, 0.03)
        _, b = scalings(kernel, relaxation(0.03, mass), 1)
        torch.testing.assert_close(barycentres(kernel, b, q)[0], q[order])


def test_the_average_needs_no_row_scalings():
    c, q = cost(), torch.randn(M, 3, dtype=torch.float64)
    kernel = gibbs(c, EPS)
    a, b = scalings(kernel, relaxation(EPS, MASS), 4)
    plan = a * kernel * b.mT
    average, seen = barycentres(kernel, b, q)
    torch.testing.assert_close(average, plan @ q / plan.sum(-1, keepdim=True))
    assert seen.all()


def test_rows_without_mass_have_no_average_and_finite_gradients():
    c, q = cost().requires_grad_(), torch.randn(M, 3, dtype=torch.float64)
    support = torch.ones(N, M, dtype=torch.bool)
    support[3] = False
    kernel = gibbs(c, EPS, support)
    _, b = scalings(kernel, 0.5, 2)
    average, seen = barycentres(kernel, b, q)
    assert seen[:, 0].tolist() == [i != 3 for i in range(N)]
    assert (average[3] == 0).all()
    assert torch.autograd.grad(average.sum(), c)[0].isfinite().all()


def test_costs_and_supports_are_their_definitions():
    x, y = torch.randn(2, 7, 4, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    cosine = torch.nn.functional.cosine_similarity(x[:, :, None], y[:, None], dim=-1)
    torch.testing.assert_close(cosine_cost(x, y, guard=0), 1 - cosine)
    eps = torch.tensor([0.1], dtype=torch.float64)
    torch.testing.assert_close(cosine_kernel(unit(x, 0), unit(y, 0), eps), ((cosine - 1) / 0.1).exp())
    assert (within(x, y, 2.0) == ((x[:, :, None] - y[:, None]).norm(dim=-1) < 2.0)).all()


def test_a_cloud_far_from_the_origin_has_the_same_support():
    p, q = torch.rand(50, 3), torch.rand(40, 3)
    far = torch.tensor([4096.0, 0, -2048])  # steps of half a millimetre remain
    p, q = (p + far) - far, (q + far) - far
    assert (within(p, q, 0.5) == within(p + far, q + far, 0.5)).all()
