"""Deformable convolution (Dai et al. 2017; with a mask, Zhu et al. 2019): taps that move with the picture.

All taps are interpolated by one call of ``grid_sample``, and one matrix product follows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def deformable_convolution(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    mask: Tensor | None = None,
) -> Tensor:
    """Convolution of ``x`` (B, C, H, W) with ``weight`` (O, C / groups, k_y, k_x), whose taps are moved by ``offset``.

    ``offset`` (B, 2 G k_y k_x, H', W') holds the shift down and to the right of every tap, for each of G groups of
    channels, in the order of torchvision; ``mask`` (B, G k_y k_x, H', W') scales the taps. Samples outside are zero.
    With zero offsets it is the plain convolution. Differentiable in all arguments.
    """
    batch, channels, height, width = x.shape
    outer, inner, tall, wide = weight.shape
    taps = tall * wide
    sets = offset.shape[1] // (2 * taps)
    rows = (height + 2 * padding - dilation * (tall - 1) - 1) // stride + 1
    columns = (width + 2 * padding - dilation * (wide - 1) - 1) // stride + 1
    if offset.shape != (batch, 2 * sets * taps, rows, columns) or sets < 1 or channels % sets or channels % inner:
        raise ValueError(
            f"offsets of a map of {rows} x {columns} with {taps} taps are expected, got {tuple(offset.shape)} for "
            f"{channels} channels and weights {tuple(weight.shape)}"
        )
    moved = offset.reshape(batch, sets, taps, 2, rows, columns)
    grid = _grid(moved, (tall, wide), (height, width), stride, padding, dilation)
    flat = x.reshape(batch * sets, channels // sets, height, width)
    sampled = F.grid_sample(flat, grid.reshape(batch * sets, taps * rows, columns, 2), align_corners=False)
    sampled = sampled.reshape(batch, sets, channels // sets, taps, rows * columns)
    if mask is not None:
        sampled = sampled * mask.reshape(batch, sets, 1, taps, rows * columns)
    groups = channels // inner
    columns_of = sampled.reshape(batch, groups, inner * taps, rows * columns)
    filters = weight.reshape(groups, outer // groups, inner * taps)
    result = (filters @ columns_of).reshape(batch, outer, rows, columns)
    return result if bias is None else result + bias.view(-1, 1, 1)


def _grid(
    moved: Tensor, kernel: tuple[int, int], size: tuple[int, int], stride: int, padding: int, dilation: int
) -> Tensor:
    """Places of all taps (B, G, taps, H', W', 2) in the coordinates of ``grid_sample``."""
    rows, columns = moved.shape[-2:]
    height, width = size

    def axis(length: int, step: int) -> Tensor:
        return torch.arange(length, device=moved.device, dtype=moved.dtype) * step

    tap_y, tap_x = torch.meshgrid(axis(kernel[0], dilation), axis(kernel[1], dilation), indexing="ij")
    y = axis(rows, stride).view(1, -1, 1) - padding + tap_y.reshape(-1, 1, 1) + moved[:, :, :, 0]
    x = axis(columns, stride).view(1, 1, -1) - padding + tap_x.reshape(-1, 1, 1) + moved[:, :, :, 1]
    return torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)
