"""Helpers of exact claims find what they should, and fail when they should."""

import pytest
import torch
from torch import nn

from vergence.contract.evidence import apart, apart_with_gradients, filled, noise


def test_a_module_is_filled_the_same_way_whatever_was_drawn_before():
    def module():
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))

    torch.manual_seed(0)
    first = filled(module())
    torch.manual_seed(1)
    second = filled(module())
    for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert not first.training
    assert all(p.dtype == torch.float64 and p.any() for p in first.parameters())
    assert not torch.equal(filled(module(), "other")[0].weight, first[0].weight)
    assert abs(first[1].weight.mean().item() - 1) < 0.6  # scales stay around one
    assert (first[1].running_var > 0).all()


def test_results_and_gradients_are_both_compared():
    x = noise(5, seed="x").requires_grad_()
    assert apart_with_gradients(x**2, x * x, [x]) < 1e-15
    assert apart_with_gradients(x**2, x * x + 1e-3, [x]) == pytest.approx(1e-3)
    detached = x.detach() * x  # the same value, half of the gradient
    assert apart_with_gradients(x**2, detached, [x]) > 0.1
    assert apart_with_gradients([x, x**2], [x, x * x], [x]) < 1e-15


def test_a_leaf_that_only_one_side_depends_on_counts():
    x, y = noise(3, seed="x").requires_grad_(), noise(3, seed="y").requires_grad_()
    assert apart_with_gradients(x + 0 * y, x * 1, [x, y]) == 0
    assert apart_with_gradients(x + y - y.detach(), x * 1, [x, y]) > 0.1


def test_relative_differences_are_held_against_the_size_of_the_second():
    a, b = torch.tensor([1000.0]), torch.tensor([999.0])
    assert apart(a, b) == 1
    assert apart(a, b, relative=True) == pytest.approx(1e-3)
