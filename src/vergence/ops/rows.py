"""Weighted sums of rows of a table, which is what interpolation between pixels, voxels and points comes down to.

PyTorch's ``embedding_bag`` reads whole rows, so it interpolates many channels several times as fast as ``grid_sample``,
which reads them one by one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def weighted_rows(table: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Sums (M, C) of rows of ``table`` (N, C) chosen by ``index`` (M, K), times ``weight`` (M, K). Differentiable in
    table and weight."""
    if not len(index):
        return table.new_zeros(0, table.shape[1])
    return F.embedding_bag(index, table, per_sample_weights=weight.to(table.dtype), mode="sum")


def bilinear_rows(y: Tensor, x: Tensor, height: int, width: int, border: bool = False) -> tuple[Tensor, Tensor]:
    """Rows (M, 4) of a map flattened to (height * width, C), and their weights, for points (M,) between its pixels.

    Beyond the border the map is zero, or with ``border`` the nearest pixel. Weights are differentiable in the points.
    """
    if border:
        y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    top, left = y.floor(), x.floor()
    down, right = y - top, x - left
    index, weight = [], []
    for row, by_row in ((top, 1 - down), (top + 1, down)):
        for column, by_column in ((left, 1 - right), (left + 1, right)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            place = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
            index.append(place.long())
            weight.append(torch.where(inside, by_row * by_column, 0))
    return torch.stack(index, 1), torch.stack(weight, 1)
