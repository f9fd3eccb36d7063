"""PSNR, SSIM and NMSE in closed form on perfect and wrong input; the checks of ddn compare them with scikit-image."""

import math

import pytest
import torch

from vergence.metrics.fidelity import nmse, psnr, ssim


def test_equal_pictures_are_perfect():
    x = torch.rand(2, 1, 9, 9)
    assert psnr(x, x).isinf().all()
    torch.testing.assert_close(ssim(x, x), torch.ones(2))
    assert not nmse(x, x).any()


def test_a_constant_error_has_a_known_psnr():
    x = torch.full((1, 3, 8, 8), 0.5)
    assert float(psnr(x + 0.1, x)) == pytest.approx(20.0, abs=1e-4)
    assert float(nmse(x + 0.1, x)) == pytest.approx(0.04, abs=1e-6)
    assert float(psnr(255 * x + 1, 255 * x, 255.0)) == pytest.approx(20 * math.log10(255), abs=1e-3)


def test_pictures_smaller_than_a_window_have_no_ssim():
    with pytest.raises(ValueError, match="at least 7 x 7"):
        ssim(torch.zeros(1, 1, 6, 9), torch.zeros(1, 1, 6, 9))
