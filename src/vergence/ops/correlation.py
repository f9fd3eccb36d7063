"""Matching a template in a search region: cross-correlation, and its scale-equivariant form (`Scale Equivariance
Improves Siamese Tracking`, WACV 2021, Eq. 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

CUBIC = -0.75
"""The coefficient of PyTorch's and OpenCV's bicubic interpolation."""


def cross_correlation(template: Tensor, search: Tensor) -> Tensor:
    """Correlation of each ``template`` (B, C, h, w) with its ``search`` (B, C, H, W): (B, H - h + 1, W - w + 1). A
    single template is used for all search regions. Differentiable."""
    if len(template) not in (1, len(search)):
        raise ValueError(f"{len(template)} templates for {len(search)} searches: give one, or one each")
    real = type(search) is Tensor and not search.is_meta
    if real and not (torch.is_grad_enabled() or torch.compiler.is_compiling()):
        return _diagonal_sums(template.expand(len(search), -1, -1, -1), search)
    if len(template) == 1:
        return F.conv2d(search, template)[:, 0]
    stacked = search.reshape(1, -1, *search.shape[-2:])
    return F.conv2d(stacked, template, groups=len(template))[0]


def _diagonal_sums(template: Tensor, search: Tensor) -> Tensor:
    """The same by one matrix product of all search positions with all template positions: convolutions with a single
    output channel are slow in PyTorch."""
    batch, _, height, width = search.shape
    h, w = template.shape[-2:]
    products = torch.bmm(search.flatten(2).mT, template.flatten(2)).view(batch, height, width, h, w)
    image, row, column, i, j = products.stride()
    shape = batch, height - h + 1, width - w + 1, h, w
    return products.as_strided(shape, (image, row, column, row + i, column + j)).sum((3, 4))


def rescale(x: Tensor, factor: float, size: Sequence[int] | None = None) -> Tensor:
    """Maps (..., H, W) enlarged by ``factor`` about their centre, ``L_s[f](t) = f(t / s)``, on a grid of ``size`` (by
    default, large enough to hold them). Bicubic with a replicated border and zeros beyond it. Differentiable.

    Two small matrix products, one per axis. Equals PyTorch's ``align_corners=True`` where that keeps the factor; for
    other sizes PyTorch rounds it.
    """
    sizes = size or [_covering(side, factor) for side in x.shape[-2:]]
    rows, columns = (_resampling(side, new, factor).to(x) for side, new in zip(x.shape[-2:], sizes, strict=True))
    return rows @ x @ columns.mT


def _covering(side: int, factor: float) -> int:
    """The size that holds ``side`` after scaling, of the same parity, so that the centre stays on the grid."""
    return side + 2 * math.ceil((side - 1) * (factor - 1) / 2 - 1e-9)


def _resampling(side: int, new: int, factor: float) -> Tensor:
    """The resampling matrix (new, side), in float64."""
    return torch.tensor(_weights(side, new, factor), dtype=torch.float64, device="cpu")


@lru_cache(256)
def _weights(side: int, new: int, factor: float) -> list[list[float]]:
    """Computed by NumPy, so that exported programs contain the numbers: in float32, a position on the border might be
    rounded to lie outside."""
    place = (np.arange(new) - (new - 1) / 2) / factor + (side - 1) / 2
    inside = (place > -1e-9) & (place < side - 1 + 1e-9)
    first = np.floor(place).clip(0, side - 1)
    t = (place - first).clip(0, 1)
    matrix = np.zeros((new, side))
    for offset in range(-1, 3):
        column = (first.astype(int) + offset).clip(0, side - 1)
        np.add.at(matrix, (np.arange(new), column), _cubic(np.abs(t - offset)) * inside)
    rows: list[list[float]] = matrix.tolist()
    return rows


def _cubic(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance**2 + 1
    far = CUBIC * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def nonparametric_scale_convolution(
    template: Tensor, search: Tensor, factors: Sequence[float], step: float | None = None
) -> Tensor:
    """``[f1 ⋆ f2](s, t) = L_{1/s}[L_s[f1] ⋆ f2](t)`` (Eq. 2) with f1 the ``search`` and f2 the ``template``, at the
    ``factors`` s: (B, factors, H - h + 1, W - w + 1). Differentiable.

    Both are functions of place (B, C, h, w), or of scale and place (B, C, S, h, w) with scales that grow by ``step``.
    Then ``L_s`` shifts scales too, by a whole number of steps; scales that leave the grid are dropped, and the others
    are weighted up to compensate.
    """
    size = [big - small + 1 for big, small in zip(search.shape[-2:], template.shape[-2:], strict=True)]
    if min(size) < 1:
        raise ValueError(f"a template of {tuple(template.shape[-2:])} does not fit in {tuple(search.shape[-2:])}")
    return torch.stack([_at_factor(template, search, s, step, size) for s in factors], 1)


def _at_factor(template: Tensor, search: Tensor, factor: float, step: float | None, size: Sequence[int]) -> Tensor:
    if search.dim() == 5:
        template, search = _moved(template, search, factor, step)
    if factor == 1:
        return cross_correlation(template, search)
    # Large enough for the response to be resampled by 1 / factor.
    wide = [_covering(out, factor) + kernel - 1 for out, kernel in zip(size, template.shape[-2:], strict=True)]
    return rescale(cross_correlation(template, rescale(search, factor, wide)), 1 / factor, size)


def _moved(template: Tensor, search: Tensor, factor: float, step: float | None) -> tuple[Tensor, Tensor]:
    """The scales that the rescaled search and the template have in common, as channels."""
    scales = search.shape[2]
    steps = math.log(factor) / math.log(step) if step else 0.0
    if not step or abs(steps - round(steps)) > 1e-6 or abs(round(steps)) >= scales:
        raise ValueError(f"a factor of {factor:g} does not move {scales} scales by a whole number of steps of {step}")
    up = round(steps)  # enlarging moves scale i to scale i + up
    old, new = search[:, :, max(-up, 0) : scales - max(up, 0)], template[:, :, max(up, 0) : scales + min(up, 0)]
    weight = scales / (scales - abs(up))
    return new.flatten(1, 2) * weight, old.flatten(1, 2)
