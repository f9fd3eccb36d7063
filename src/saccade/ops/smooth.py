"""Smoothing of maps: every channel by itself, zeros beyond the border, the size kept.

Both kernels are products of a row and a column, so a pixel costs ``2k`` additions and not ``k²``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def surroundings(x: Tensor, size: int) -> Tensor:
    """The sum of what is around each pixel of ``x`` (N, C, H, W), within ``size`` x ``size``, itself left out.

    Sums of whole numbers (and of halves, quarters, ...) are exact: what cancels gives zero and no dust. Differentiable.
    """
    half = _half(size)
    columns = F.avg_pool2d(x, (size, 1), 1, (half, 0), divisor_override=1)
    return F.avg_pool2d(columns, (1, size), 1, (0, half), divisor_override=1) - x


def gaussian_profile(size: int, reach: float = 3.0) -> Tensor:
    """A normal density at ``size`` places from ``-reach`` to ``reach`` deviations, with sum 1, (size,), float64."""
    _half(size)
    places = torch.linspace(-reach, reach, size, dtype=torch.float64)
    density = torch.exp(-places.square() / 2)
    return density / density.sum()


def gaussian_smooth(x: Tensor, size: int, reach: float = 3.0) -> Tensor:
    """``x`` (N, C, H, W) smoothed by the outer product of two Gaussian profiles. Differentiable."""
    half = _half(size)
    profile = gaussian_profile(size, reach).to(x)
    maps = x.flatten(0, 1).unsqueeze(1)  # (N C, 1, H, W): no channel meets another
    maps = F.conv2d(maps, profile.view(1, 1, -1, 1), padding=(half, 0))
    return F.conv2d(maps, profile.view(1, 1, 1, -1), padding=(0, half)).view_as(x)


def _half(size: int) -> int:
    if size < 3 or size % 2 == 0:
        raise ValueError(f"a kernel has an odd side of at least 3, got {size}")
    return size // 2
