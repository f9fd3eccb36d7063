"""Deformable convolution (Dai et al. 2017; with a mask, Zhu et al. 2019): taps that move with the picture.

All taps are interpolated by one ``grid_sample``, as rows of one tall map, whose result is what the one matrix product
that follows reads: nothing is rearranged in between.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.precision import wide


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
    outer, inner, tall, across = weight.shape
    taps = tall * across
    sets = offset.shape[1] // (2 * taps)
    rows = (height + 2 * padding - dilation * (tall - 1) - 1) // stride + 1
    columns = (width + 2 * padding - dilation * (across - 1) - 1) // stride + 1
    if offset.shape != (batch, 2 * sets * taps, rows, columns) or sets < 1 or channels % sets or channels % inner:
        raise ValueError(
            f"offsets of a map of {rows} x {columns} with {taps} taps are expected, got {tuple(offset.shape)} for "
            f"{channels} channels and weights {tuple(weight.shape)}"
        )
    grid = _grid(
        wide(offset).reshape(batch * sets, taps, 2, rows, columns), weight.shape[2:], stride, padding, dilation
    )
    grid = (2 * grid + 1) / grid.new_tensor([width, height]) - 1
    parts = wide(x).reshape(batch * sets, channels // sets, height, width)
    sampled = F.grid_sample(parts, grid.flatten(1, 2).to(parts.dtype), "bilinear", "zeros", align_corners=False)
    sampled = sampled.to(x.dtype).view(batch, sets, channels // sets, taps, rows * columns)
    if mask is not None:
        sampled = sampled * mask.reshape(batch, sets, 1, taps, rows * columns)
    filters = weight.reshape(channels // inner, -1, inner * taps)
    result = filters @ sampled.reshape(batch, channels // inner, inner * taps, rows * columns)
    result = result.reshape(batch, outer, rows, columns)
    return result if bias is None else result + bias.view(-1, 1, 1)


def _grid(moved: Tensor, kernel: torch.Size, stride: int, padding: int, dilation: int) -> Tensor:
    """Where all taps are, (N, taps, H', W', 2) as x, y in pixels, for shifts (N, taps, 2, H', W') down and right."""
    rows, columns = moved.shape[-2:]

    def axis(length: int, step: int) -> Tensor:
        return torch.arange(length, device=moved.device, dtype=moved.dtype) * step

    tap_y, tap_x = torch.meshgrid(axis(kernel[0], dilation), axis(kernel[1], dilation), indexing="ij")
    y = axis(rows, stride).view(-1, 1) - padding + tap_y.reshape(-1, 1, 1) + moved[:, :, 0]
    x = axis(columns, stride) - padding + tap_x.reshape(-1, 1, 1) + moved[:, :, 1]
    return torch.stack([x, y], -1)
