"""Gradient reversal."""

import torch

from vergence.ops.reversal import reversed_gradient


def test_values_stay_and_gradients_turn_around():
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = reversed_gradient(x, 0.25)
    assert torch.equal(y, x)
    (slope,) = torch.autograd.grad((3 * y).sum(), x)
    torch.testing.assert_close(slope, torch.full_like(x, -0.75))


def test_it_works_twice_and_in_low_precision():
    x = torch.randn(5, dtype=torch.bfloat16, requires_grad=True)
    (slope,) = torch.autograd.grad(reversed_gradient(reversed_gradient(x)).sum(), x)
    assert torch.equal(slope, torch.ones_like(x))
