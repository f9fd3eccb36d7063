"""Weights and sums of query expansion against definitions, a general solver, and finite differences."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from vergence.ops.expansion import aggregate, alpha_weights, aqe_weights, aqewd_weights, svm_duals


def units(*shape):
    drawn = torch.randn(shape, dtype=torch.float64)
    return drawn / drawn.norm(dim=-1, keepdim=True)


def test_the_sum_and_its_gradients_are_those_of_the_formula():
    torch.manual_seed(0)
    inputs = [t.requires_grad_() for t in (units(2, 5), units(2, 3, 5), torch.rand(2, 4, dtype=torch.float64))]
    torch.testing.assert_close(
        aggregate(*inputs)[1],
        torch.nn.functional.normalize((inputs[2][1][:, None] * torch.cat([inputs[0][1:], inputs[1][1]])).sum(0), dim=0),
    )
    assert torch.autograd.gradcheck(aggregate, inputs)


def test_a_sum_that_vanishes_leaves_the_query_and_a_finite_gradient():
    query = units(1, 4).requires_grad_()
    made = aggregate(query, query.detach()[:, None], torch.tensor([[1.0, -1.0]], dtype=torch.float64))
    assert torch.equal(made, query)
    made.sum().backward()
    assert query.grad.isfinite().all()


def test_padding_counts_nothing_and_shortens_the_decay():
    similarities = torch.tensor([[0.9, 0.8, 0.7, 0.6]])
    padding = torch.tensor([[False, False, True, True]])
    assert aqe_weights(similarities, padding).tolist() == [[1, 1, 1, 0, 0]]
    assert aqewd_weights(similarities, padding).tolist() == [[1, 0.5, 0, 0, 0]]
    torch.testing.assert_close(alpha_weights(similarities, 2.0, padding), torch.tensor([[1, 0.81, 0.64, 0, 0]]))


def test_negative_cosines_have_no_power():
    assert alpha_weights(torch.tensor([[0.5, -0.5]]), 3.0).tolist() == [[1, 0.125, 0]]


@pytest.mark.parametrize("c", [0.1, 1.0, 100.0])
def test_duals_are_those_of_a_general_solver(c):
    torch.manual_seed(int(c * 10))
    vectors = units(3, 8, 5)
    labels = torch.tensor([1.0, 1, 1, 1, 1, -1, -1, -1], dtype=torch.float64).expand(3, 8)
    ours = svm_duals(vectors, labels, c, tolerance=1e-12, sweeps=20000)
    for row in range(3):
        x = np.hstack([vectors[row].numpy(), np.ones((8, 1))]) * labels[row].numpy()[:, None]
        gram = x @ x.T
        solved = minimize(
            lambda a, g=gram: a @ g @ a / 2 - a.sum(),
            np.full(8, c / 2),
            jac=lambda a, g=gram: g @ a - 1,
            bounds=[(0, c)] * 8,
            method="L-BFGS-B",
            options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 10000},
        )
        # The duals may not be unique, the normal is.
        normal = np.append((ours[row][:, None] * vectors[row]).sum(0).numpy(), float(ours[row].sum()))
        np.testing.assert_allclose(normal, solved.x @ x, atol=1e-5 * max(c, 1))


def test_what_is_not_there_has_no_dual():
    torch.manual_seed(0)
    vectors, labels = units(1, 6, 4), torch.tensor([[1.0, 1, 0, -1, 0, -1]], dtype=torch.float64)
    duals = svm_duals(vectors, labels, 1.0)
    there = labels[0] != 0
    assert (duals[0, ~there] == 0).all()
    torch.testing.assert_close(duals[:, there], svm_duals(vectors[:, there], labels[:, there], 1.0))
