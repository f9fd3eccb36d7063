"""Tiled convolutions are convolutions."""

import threading

import pytest
import torch
import torch.nn.functional as F

from vergence.ops import winograd
from vergence.ops.winograd import tiled_convolution, tiled_kernel


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("side", [3, 5])
@pytest.mark.parametrize(("height", "width", "padding"), [(13, 18, 1), (8, 8, 0), (5, 7, 2), (6, 5, 0), (30, 21, 3)])
def test_a_tiled_convolution_is_a_convolution(side, height, width, padding):
    x, kernel, bias = normal(2, 6, height, width), normal(5, 6, side, side, seed=1), normal(5, seed=2)
    expected = F.conv2d(x, kernel, bias, padding=padding)
    made = tiled_convolution(x, tiled_kernel(kernel), bias, padding)
    torch.testing.assert_close(made, expected, atol=1e-11, rtol=0)
    torch.testing.assert_close(
        tiled_convolution(x, tiled_kernel(kernel), None, padding) + bias[:, None, None], expected
    )


@pytest.mark.parametrize("side", [3, 5])
def test_gradients_of_the_prepared_kernel_are_those_of_finite_differences(side):
    assert torch.autograd.gradcheck(tiled_kernel, (normal(2, 1, side, side).requires_grad_(),))


@pytest.mark.parametrize("side", [3, 5])
def test_rounding_is_that_of_single_precision(side):
    """A dozen times that of a plain convolution at most: both against double precision."""
    x, kernel = normal(1, 64, 20, 20), normal(64, 64, side, side, seed=1) / (8 * side)
    exact = F.conv2d(x, kernel)
    made = tiled_convolution(x.float(), tiled_kernel(kernel.float()))
    assert (made - exact).square().mean().sqrt() < 3e-6 * exact.square().mean().sqrt()


def test_pictures_may_lie_in_memory_in_any_order_and_results_have_channels_last():
    x, kernel = normal(2, 6, 9, 10), normal(5, 6, 3, 3, seed=1)
    last = x.contiguous(memory_format=torch.channels_last)
    made = tiled_convolution(last, tiled_kernel(kernel))
    torch.testing.assert_close(made, F.conv2d(x, kernel), atol=1e-11, rtol=0)
    assert made.stride(1) == 1
    turned = last[..., 1:-1, 2:].mT
    torch.testing.assert_close(
        tiled_convolution(turned, tiled_kernel(kernel)), F.conv2d(turned, kernel), atol=1e-11, rtol=0
    )


def test_a_result_stays_when_the_next_one_is_made(monkeypatch):
    kernel = tiled_kernel(normal(5, 6, 5, 5))
    first = tiled_convolution(normal(1, 6, 12, 12), kernel)
    kept = first.clone()
    tiled_convolution(normal(1, 6, 12, 12, seed=3), kernel)
    assert (first == kept).all()
    monkeypatch.setattr(winograd, "LARGEST", 10)  # large buffers are not kept
    assert (tiled_convolution(normal(1, 6, 12, 12), kernel) == kept).all()


def test_threads_and_modes_do_not_write_into_each_others_memory():
    kernel, pictures = tiled_kernel(normal(8, 6, 3, 3)), [normal(1, 6, 40, 40, seed=seed) for seed in range(4)]
    expected = [tiled_convolution(x, kernel) for x in pictures]
    wrong = []

    def work(which):
        with torch.inference_mode(which % 2 == 0):
            for _ in range(10):
                if not torch.equal(tiled_convolution(pictures[which], kernel), expected[which]):
                    wrong.append(which)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with torch.inference_mode():
        tiled_convolution(normal(1, 6, 90, 90), kernel)
    tiled_convolution(pictures[0], kernel)


def test_other_kernels_are_refused():
    with pytest.raises(ValueError, match="a side of 3 or 5, got 7"):
        tiled_kernel(normal(2, 2, 7, 7))


def test_a_gradient_that_it_does_not_have_is_refused_in_a_sentence():
    x, kernel = normal(1, 6, 9, 9), tiled_kernel(normal(4, 6, 3, 3))
    plain = tiled_convolution(x, kernel)
    with pytest.raises(ValueError, match="tiled_convolution has no gradient: call it under torch.no_grad"):
        tiled_convolution(x.requires_grad_(), kernel)
    with torch.no_grad():
        assert torch.equal(tiled_convolution(x, kernel), plain)
