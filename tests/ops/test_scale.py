"""Scale-convolution is the published one, and moves with its input in scale and place."""

import math

import pytest
import torch
import torch.nn.functional as F

from vergence.ops.scale import (
    add_pointwise,
    bordered_convolution,
    halved,
    hermite_basis,
    hermite_sides,
    kernel_sizes,
    kernel_weights,
    lift,
    over_scales,
    pictures,
    pointwise,
    pointwise_scale_convolution,
    scale_convolution,
    scale_kernels,
    scale_pool,
    separable_convolution,
    wrapped,
)
from vergence.reference import scale as plain

SCALES = (0.9, 1.26, 1.764)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def padded(basis, size):
    margins = [(size - b.shape[-1]) // 2 for b in basis]
    return torch.stack([F.pad(b, (m,) * 4) for b, m in zip(basis, margins, strict=True)], 1)


@pytest.mark.parametrize(
    ("size", "scales", "order"), [(9, SCALES, 7), (5, SCALES, 3), (9, (1, math.sqrt(2), 2), 5), (3, (1.0,), 3)]
)
def test_the_basis_is_the_published_one_without_its_zeros(size, scales, order):
    torch.testing.assert_close(
        padded(hermite_basis(size, scales, order), size), plain.hermite_basis(size, scales, order)
    )


def test_kernels_have_the_published_sizes():
    assert kernel_sizes(9, SCALES) == (5, 7, 9)
    assert kernel_sizes(5, SCALES) == (3, 3, 5)
    assert kernel_sizes(13, SCALES) == (7, 9, 13)
    assert kernel_sizes(7, (0.3,)) == (7,)


def test_the_basis_that_holds_a_7x7_stem_has_side_13():
    ranks = {size: torch.linalg.matrix_rank(hermite_basis(size, SCALES, 7)[0].flatten(1)) for size in (9, 13)}
    assert ranks == {9: 25, 13: 49}


@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize(
    ("stride", "padding", "border"), [(1, 0, "zeros"), (2, 1, "zeros"), (1, 3, "zeros"), (2, 2, "circular")]
)
def test_values_and_gradients_are_those_of_padded_grouped_convolutions(separable, stride, padding, border):
    size, order = 5, 2
    sides, basis = hermite_sides(size, SCALES, order), plain.hermite_basis(size, SCALES, order)
    apart = [separable] * 3
    pixels, first, second = (
        normal(*shape, seed=i).requires_grad_() for i, shape in enumerate([(2, 3, 12, 13), (4, 3, 4), (5, 4, 2, 4)])
    )
    conv = (stride, padding, border)
    ours = over_scales(torch.cat([*lift(pixels, scale_kernels(first, sides, apart), sides, None, *conv)]), 3)
    ours = over_scales(torch.cat([*scale_convolution(ours, scale_kernels(second, sides, apart), sides, None, 1, 2)]), 3)
    theirs = plain.scale_convolution(plain.lift(pixels, first, basis, *conv), second, basis, 1, 2)
    torch.testing.assert_close(ours, theirs)
    probe, leaves = normal(*ours.shape, seed=9), (pixels, first, second)
    for a, b in zip(*(torch.autograd.grad(r, leaves, probe) for r in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)
    with torch.no_grad():  # where products are accumulated in place
        again = over_scales(torch.cat([*lift(pixels, scale_kernels(first, sides, apart), sides, None, *conv)]), 3)
        torch.testing.assert_close(again, plain.lift(pixels, first, basis, *conv))


def test_a_separable_convolution_has_right_gradients():
    x, weight, bias = normal(1, 2, 5, 6).requires_grad_(), normal(3, 2, 4).requires_grad_(), normal(3).requires_grad_()
    side = normal(2, 3, seed=3)
    assert torch.autograd.gradcheck(lambda *a: separable_convolution(a[0], a[1], side, a[2], 2, 1), (x, weight, bias))


@pytest.mark.parametrize("extent", [1, 2, 3, 5])
def test_a_1x1_convolution_reaches_up_in_scale(extent):
    x, weight, bias = normal(2, 3, 3, 4, 5), normal(6, 3, extent), normal(6)
    ours = pointwise_scale_convolution(x, weight, bias)
    torch.testing.assert_close(ours, plain.pointwise(x, weight) + bias.view(-1, 1, 1, 1))
    delta = torch.ones(1, 1, dtype=torch.float64)  # a basis of one function at one place
    kernels = [weight[..., None, None]] * 3
    torch.testing.assert_close(ours, over_scales(torch.cat([*scale_convolution(x, kernels, [delta] * 3, bias)]), 3))


def test_adding_a_1x1_convolution_is_adding_it():
    weight, x = normal(5, 3), normal(2, 3, 4, 4)
    for out in (normal(2, 5, 4, 4), normal(2, 5, 4, 4).contiguous(memory_format=torch.channels_last)):
        expected = out + F.conv2d(x, weight[..., None, None])
        torch.testing.assert_close(add_pointwise(out.clone(memory_format=torch.preserve_format), x, weight), expected)
        with torch.no_grad():
            torch.testing.assert_close(add_pointwise(out, x, weight), expected)


def test_a_1x1_convolution_takes_any_layout():
    x, weight, bias = normal(2, 3, 6, 5), normal(4, 3), normal(4)
    expected = F.conv2d(x, weight[..., None, None], bias)
    for view in (x, x.contiguous(memory_format=torch.channels_last)):
        torch.testing.assert_close(pointwise(view, weight, bias), expected)
    torch.testing.assert_close(pointwise(x[..., 1:-1, 1:-1], weight, bias), expected[..., 1:-1, 1:-1])


def test_negative_padding_cuts_off():
    x, kernel = normal(1, 2, 9, 9), normal(3, 2, 3, 3)
    torch.testing.assert_close(bordered_convolution(x, kernel, padding=-2), F.conv2d(x, kernel)[..., 2:-2, 2:-2])


def test_circular_padding_is_pytorchs():
    x = normal(2, 3, 5, 6)
    torch.testing.assert_close(wrapped(x, 3), F.pad(x, (3,) * 4, mode="circular"))
    with pytest.raises(ValueError, match="circular padding by 6 needs pictures that large"):
        wrapped(x, 6)


def test_pictures_and_scales_are_views_of_each_other():
    x = over_scales(normal(6, 4, 5, 5).contiguous(memory_format=torch.channels_last), 3)
    assert x.shape == (2, 4, 3, 5, 5)
    assert pictures(x).data_ptr() == x.data_ptr()
    assert pictures(x).is_contiguous(memory_format=torch.channels_last)
    y = normal(2, 4, 3, 5, 5)  # from elsewhere
    torch.testing.assert_close(over_scales(pictures(y), 3), y)
    torch.testing.assert_close(pictures(y)[2], y[0, :, 1])


def test_pooling_over_scales_forgets_their_order():
    x = normal(2, 3, 4, 5, 5)
    torch.testing.assert_close(scale_pool(x), x.amax(2))
    torch.testing.assert_close(scale_pool(x[:, :, [2, 0, 3, 1]]), scale_pool(x))
    torch.testing.assert_close(scale_pool(x, "first"), x[:, :, 0])


def test_a_plain_kernel_is_drawn_exactly_at_the_smallest_scale():
    for size, order, wanted in [(5, 3, 3), (13, 7, 7), (13, 7, 5)]:
        kernel, basis = normal(4, 2, wanted, wanted), hermite_basis(size, SCALES, order)[0]
        drawn = torch.einsum("oif,fxy->oixy", kernel_weights(kernel, basis), basis)
        margin = (drawn.shape[-1] - wanted) // 2
        torch.testing.assert_close(drawn, F.pad(kernel, (margin,) * 4), atol=1e-11, rtol=0)


def test_the_released_stem_keeps_no_more_than_the_centre_of_a_7x7_kernel():
    kernel, basis = normal(4, 3, 7, 7), hermite_basis(9, SCALES, 7)[0]
    drawn = torch.einsum("oif,fxy->oixy", kernel_weights(kernel, basis), basis)
    torch.testing.assert_close(drawn, kernel[..., 1:-1, 1:-1], atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernel_sizes(4, (1.0,)), "odd side, got 4"),
        (lambda: kernel_sizes(5, (2.0, 1.0)), "positive and grow"),
        (lambda: kernel_sizes(5, ()), "positive and grow"),
        (lambda: hermite_sides(5, (1.0,), 0), "at least one function"),
        (lambda: hermite_sides(3, (1.0, 4.0), 2), "order 2 needs a kernel side above 1 at scale 1"),
        (lambda: [*scale_convolution(normal(1, 2, 3, 4, 4), [normal(2, 2, 1, 1, 1)], [normal(1, 1)])], "3 scales"),
        (lambda: kernel_weights(normal(1, 1, 4, 4), normal(9, 3, 3)), "no centre"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("sides", [(8, 6), (7, 9), (2, 3)])
def test_halving_is_max_pooling_by_two(sides):
    x = normal(2, 3, *sides)
    assert (halved(x) == F.max_pool2d(x, 2)).all()
