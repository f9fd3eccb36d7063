"""A kernel in blocks is the dense kernel: same products, same gradients, less in memory."""

import pytest
import torch

from vergence.ops.support import Blocks
from vergence.ops.transport import relaxation, scalings


def case(n=90, m=70, spread=6.0):
    source = torch.Generator().manual_seed(0)
    p = spread * torch.rand(n, 3, generator=source, dtype=torch.float64)
    q = spread * torch.rand(m, 3, generator=source, dtype=torch.float64)
    weight = torch.rand(n, m, generator=source, dtype=torch.float64).requires_grad_()
    return p, q, weight, torch.cdist(p, q) < 2.0


def blocks(p, q, weight, block=16):
    return Blocks.within(p, q, 2.0, lambda i, j: weight[i][:, j], block)


@pytest.mark.parametrize("block", [1, 16, 1000])
def test_products_and_gradients_are_those_of_the_dense_kernel(block):
    p, q, weight, near = case()
    kernel, dense = blocks(p, q, weight, block), weight * near
    torch.testing.assert_close(kernel.dense(), dense)
    x, y = torch.randn(70, 4, dtype=torch.float64), torch.randn(90, 2, dtype=torch.float64)
    torch.testing.assert_close(kernel @ x, dense @ x)
    torch.testing.assert_close(kernel.mT @ y, dense.mT @ y)
    ours, theirs = (torch.autograd.grad((k @ x).sum() + (k.mT @ y).square().sum(), weight) for k in (kernel, dense))
    torch.testing.assert_close(ours, theirs)


def test_gradients_of_products_are_those_of_finite_differences():
    p, q, weight, near = case(6, 5, spread=3.0)
    assert near.any()
    assert not near.all()
    source = torch.Generator().manual_seed(1)
    x = torch.randn(5, 1, generator=source, dtype=torch.float64, requires_grad=True)
    y = torch.randn(6, 1, generator=source, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w, x: blocks(p, q, w, 2) @ x, (weight, x))
    assert torch.autograd.gradcheck(lambda w, y: blocks(p, q, w, 2).mT @ y, (weight, y))
    assert torch.autograd.gradcheck(lambda w: blocks(p, q, w, 2).dense(), (weight,))


def test_sinkhorn_cannot_tell_the_difference():
    p, q, weight, near = case()
    power = relaxation(0.3, 0.5)
    for ours, theirs in zip(scalings(blocks(p, q, weight), power, 5), scalings(weight * near, power, 5), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_far_pairs_are_not_kept():
    p, q, weight, near = case(spread=30.0)
    kept = sum(values.numel() for values in blocks(p, q, weight).values)
    assert near.sum() <= kept < 0.5 * weight.numel()


def test_points_with_nothing_near_have_empty_rows():
    p, q, weight, _ = case()
    kernel = blocks(p + 100, q, weight)
    assert (kernel @ torch.ones(70, 1, dtype=torch.float64) == 0).all()
    assert (kernel.mT @ torch.ones(90, 1, dtype=torch.float64) == 0).all()
