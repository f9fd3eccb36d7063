"""Kernels between points with a limited radius, stored as dense blocks of the pairs that may be within it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.ops.transport import distances

BLOCK = 128
"""Number of rows in a block."""


@dataclass(frozen=True)
class Blocks:
    """An N x M kernel that is 0 outside its blocks: ``values[b][r, c]`` stands at ``rows[b][r]``, ``columns[b][c]``.

    Every row is in exactly one block; a block has the columns that any of its rows can reach. Multiplies like the dense
    matrix, at the cost of the blocks only. Differentiable in the values.
    """

    rows: tuple[Tensor, ...]
    columns: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    shape: tuple[int, int]

    @classmethod
    def within(
        cls, p: Tensor, q: Tensor, radius: float, kernel: Callable[[Tensor, Tensor], Tensor], block: int = BLOCK
    ) -> Blocks:
        """The kernel of pairs of points (N, D) and (M, D) nearer than ``radius``.

        ``kernel(rows, columns)`` gives its values for index vectors, (len(rows), len(columns)).
        """
        p, q = p.detach(), q.detach()
        rows = tuple(_parcels(p, torch.arange(len(p), device=p.device), block))
        columns, values = [], []
        for parcel in rows:
            points = p[parcel]
            outside = (points.amin(0) - q).clamp_min(0) + (q - points.amax(0)).clamp_min(0)  # to the parcel's box
            near = (outside.square().sum(1) < radius**2).nonzero()[:, 0]
            # A float mask: products with booleans are several times slower.
            mask = distances(points, q[near]).lt_(radius)
            columns.append(near)
            values.append(kernel(parcel, near) * mask)
        return cls(rows, tuple(columns), tuple(values), (len(p), len(q)))

    def __matmul__(self, z: Tensor) -> Tensor:
        """(N, M) @ (M, C)."""
        parts = [value @ z.index_select(0, near) for value, near in zip(self.values, self.columns, strict=True)]
        return torch.cat(parts).index_select(0, torch.cat(self.rows).argsort())

    @property
    def mT(self) -> _Transposed:
        return _Transposed(self)

    def new_full(self, size: tuple[int, ...], fill_value: float) -> Tensor:
        return self.values[0].new_full(size, fill_value)

    def dense(self) -> Tensor:
        """The N x M matrix itself."""
        matrix = self.new_full(self.shape, 0)
        for rows, columns, values in zip(self.rows, self.columns, self.values, strict=True):
            matrix = matrix.index_put((rows[:, None], columns), values)
        return matrix


@dataclass(frozen=True)
class _Transposed:
    of: Blocks

    def __matmul__(self, z: Tensor) -> Tensor:
        """(M, N) @ (N, C)."""
        product = z.new_zeros(self.of.shape[1], z.shape[1])
        for rows, columns, values in zip(self.of.rows, self.of.columns, self.of.values, strict=True):
            product = product.index_add(0, columns, values.mT @ z.index_select(0, rows))
        return product


def _parcels(points: Tensor, index: Tensor, most: int) -> list[Tensor]:
    """Points split at the median of their widest side until no group has more than ``most``."""
    if len(index) <= most:
        return [index]
    group = points[index]
    widest = int((group.amax(0) - group.amin(0)).argmax())
    order = index[group[:, widest].argsort()]
    half = len(order) // 2
    return _parcels(points, order[:half], most) + _parcels(points, order[half:], most)
