"""How near a restored picture is to the true one: PSNR, SSIM and NMSE, per picture of a batch (B, C, H, W)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

EACH = (1, 2, 3)


def psnr(restored: Tensor, truth: Tensor, data_range: float = 1.0) -> Tensor:
    """``10 log10(range² / MSE)`` in decibels, (B,); infinite for equal pictures."""
    return 10 * torch.log10(data_range**2 / (restored - truth).square().mean(EACH))


def nmse(restored: Tensor, truth: Tensor) -> Tensor:
    """``|x̂ - x|² / |x|²``, (B,)."""
    return (restored - truth).square().sum(EACH) / truth.square().sum(EACH)


def ssim(restored: Tensor, truth: Tensor, data_range: float = 1.0, window: int = 7) -> Tensor:
    """The mean structural similarity, (B,): uniform windows that lie inside of the picture, and sample covariances, as
    scikit-image has it by default."""
    if min(truth.shape[-2:]) < window:
        raise ValueError(f"SSIM needs pictures of at least {window} x {window} pixels, got {tuple(truth.shape[-2:])}")
    channels = truth.shape[1]
    box = truth.new_full((channels, 1, window, window), window**-2)

    def mean(x: Tensor) -> Tensor:
        return F.conv2d(x, box, groups=channels)

    one, two = mean(restored), mean(truth)
    share = window**2 / (window**2 - 1)
    spread, other, common = (
        share * (mean(a * b) - c * d)
        for a, b, c, d in ((restored, restored, one, one), (truth, truth, two, two), (restored, truth, one, two))
    )
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    similar = (2 * one * two + c1) * (2 * common + c2) / ((one**2 + two**2 + c1) * (spread + other + c2))
    return similar.mean(EACH)
