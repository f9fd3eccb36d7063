"""Smoothing, against SciPy and against the kernels written out."""

import numpy as np
import pytest
import torch
from scipy import ndimage, signal

from vergence.ops.smooth import gaussian_profile, gaussian_smooth, surroundings


def _maps(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("size", [3, 7, 21])
def test_surroundings_are_scipys_correlation_with_an_empty_centre(size):
    x = _maps(2, 3, 11, 9)
    kernel = np.ones((size, size))
    kernel[size // 2, size // 2] = 0
    expected = ndimage.correlate(x.numpy(), kernel[None, None], mode="constant")
    np.testing.assert_allclose(surroundings(x, size), expected, atol=1e-12)


def test_surroundings_of_whole_numbers_cancel_exactly_in_float32():
    x = torch.randint(-9, 10, (2, 3, 30, 30), generator=torch.Generator().manual_seed(0))
    exact = surroundings(x.double(), 21)
    assert torch.equal(surroundings(x.float() / 8, 21) * 8, exact.float())
    assert (exact == 0).any()


def test_a_kernel_larger_than_the_map_still_sums_it():
    x = _maps(1, 1, 2, 3)
    torch.testing.assert_close(surroundings(x, 7), x.sum() - x)


@pytest.mark.parametrize("size", [3, 15])
def test_gaussian_smoothing_is_scipys_convolution_with_the_kernel_written_out(size):
    x = _maps(1, 2, 20, 17)
    density = signal.windows.gaussian(size, std=(size - 1) / 6)  # from -3 to 3 deviations
    kernel = np.outer(density, density)
    expected = ndimage.correlate(x.numpy(), (kernel / kernel.sum())[None, None], mode="constant")
    np.testing.assert_allclose(gaussian_smooth(x, size), expected, atol=1e-12)
    assert float(gaussian_profile(size).sum()) == pytest.approx(1, abs=1e-14)


def test_gradients_are_right():
    x = _maps(1, 2, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: surroundings(v, 3), x)
    assert torch.autograd.gradcheck(lambda v: gaussian_smooth(v, 5), x)


@pytest.mark.parametrize("size", [1, 2, 4, -3])
def test_sides_that_are_even_or_too_small_are_refused(size):
    for smooth in (surroundings, gaussian_smooth):
        with pytest.raises(ValueError, match="odd side of at least 3"):
            smooth(torch.zeros(1, 1, 4, 4), size)
