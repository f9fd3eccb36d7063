"""A strided 1x1 convolution by taking pixels first."""

import pytest
import torch
import torch.nn.functional as F

from vergence.nn.pointwise import Pointwise


@pytest.mark.parametrize(("stride", "size"), [(1, 8), (2, 8), (2, 7), (3, 8)])
def test_it_is_the_strided_convolution_forward_and_backward(stride, size):
    layer = Pointwise(5, 6, stride).double()
    x = torch.randn(2, 5, size, size + 1, dtype=torch.float64, requires_grad=True)
    ours, plain = layer(x), F.conv2d(x, layer.weight, stride=stride)
    torch.testing.assert_close(ours, plain)
    probe = torch.randn_like(plain)
    for a, b in zip(
        torch.autograd.grad(ours, (x, layer.weight), probe),
        torch.autograd.grad(plain, (x, layer.weight), probe),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_few_channels_that_lie_channels_last_can_be_trained():
    layer = Pointwise(8, 16, 2).to(memory_format=torch.channels_last)
    x = torch.randn(30, 8, 56, 56).contiguous(memory_format=torch.channels_last).requires_grad_()
    layer(x).sum().backward()
    assert x.grad.isfinite().all()
