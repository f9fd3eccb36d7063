"""Deformable convolution (Dai et al. 2017; with a mask, Zhu et al. 2019): taps that move with the picture.

All taps are interpolated at once, as weighted sums of whole pixels, and one matrix product follows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.ops.rows import bilinear_rows, weighted_rows


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
    y, x_ = _places(offset.reshape(batch, sets, taps, 2, rows, columns), (tall, wide), stride, padding, dilation)
    index, share = bilinear_rows(y, x_, height, width)
    if mask is not None:
        share = share * mask.reshape(batch, sets, taps, rows, columns).reshape(-1, 1)
    # Maps of all pictures and groups of channels one below the other.
    table = x.reshape(batch * sets, channels // sets, height * width).mT.reshape(-1, channels // sets)
    first = torch.arange(batch * sets, device=x.device) * height * width
    index = index + first.repeat_interleave(taps * rows * columns).unsqueeze(1)
    sampled = weighted_rows(table, index, share).reshape(batch, sets, taps, rows * columns, channels // sets)
    columns_of = sampled.permute(0, 1, 4, 2, 3).reshape(batch, channels // inner, inner * taps, rows * columns)
    filters = weight.reshape(channels // inner, -1, inner * taps)
    result = (filters @ columns_of).reshape(batch, outer, rows, columns)
    return result if bias is None else result + bias.view(-1, 1, 1)


def _places(moved: Tensor, kernel: tuple[int, int], stride: int, padding: int, dilation: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of all taps, (B * G * taps * H' * W',) each."""
    rows, columns = moved.shape[-2:]

    def axis(length: int, step: int) -> Tensor:
        return torch.arange(length, device=moved.device, dtype=moved.dtype) * step

    tap_y, tap_x = torch.meshgrid(axis(kernel[0], dilation), axis(kernel[1], dilation), indexing="ij")
    y = axis(rows, stride).view(1, -1, 1) - padding + tap_y.reshape(-1, 1, 1) + moved[:, :, :, 0]
    x = axis(columns, stride).view(1, 1, -1) - padding + tap_x.reshape(-1, 1, 1) + moved[:, :, :, 1]
    return y.reshape(-1), x.reshape(-1)
