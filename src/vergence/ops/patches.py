"""A map cut into patches: every position belongs to exactly one, also where the sizes do not divide.

Adaptive pooling lets its windows overlap when a size does not divide; a patch *indicator* needs a partition. Position
``i`` of ``n`` belongs to patch ``⌊i·p/n⌋`` of ``p``, so sizes differ by at most one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Patches:
    """``height x width`` positions, counted row by row, in ``rows x columns`` patches, counted row by row."""

    height: int
    width: int
    rows: int
    columns: int

    def __post_init__(self) -> None:
        if not (1 <= self.rows <= self.height and 1 <= self.columns <= self.width):
            raise ValueError(
                f"{self.rows} x {self.columns} patches do not fit a map of {self.height} x {self.width} positions"
            )

    @property
    def count(self) -> int:
        return self.rows * self.columns

    def index(self, device: torch.device | None = None) -> Tensor:
        """The patch of each position, (N,)."""
        row = torch.arange(self.height, device=device) * self.rows // self.height
        column = torch.arange(self.width, device=device) * self.columns // self.width
        return (row[:, None] * self.columns + column).flatten()

    def indicator(self, like: Tensor) -> Tensor:
        """One where a position lies in a patch, else zero, (N, m); of the type and on the device of ``like``."""
        return torch.nn.functional.one_hot(self.index(like.device), self.count).to(like.dtype)

    def mean(self, z: Tensor) -> Tensor:
        """The mean of each patch: (..., N, C) to (..., m, C). Differentiable."""
        if self.even:
            return z.unflatten(-2, self._cut).mean((-4, -2)).flatten(-3, -2)
        z = z.unflatten(-2, (self.height, self.width))
        down, across = (_averaging(n, p, z) for n, p in ((self.height, self.rows), (self.width, self.columns)))
        return torch.einsum("yh,...hwc,xw->...yxc", down, z, across).flatten(-3, -2)

    def spread(self, z: Tensor) -> Tensor:
        """Gives each position the value of its patch: (..., m, C) to (..., N, C). Differentiable."""
        if self.even:  # many times as fast as indexing, especially backward
            rows, height, columns, width = self._cut
            spread = z.unflatten(-2, (rows, 1, columns, 1)).expand(*z.shape[:-2], rows, height, columns, width, -1)
            return spread.flatten(-5, -2)
        return z.index_select(-2, self.index(z.device))

    @property
    def even(self) -> bool:
        """Whether all patches have the same size."""
        return self.height % self.rows == 0 and self.width % self.columns == 0

    @property
    def _cut(self) -> tuple[int, int, int, int]:
        return self.rows, self.height // self.rows, self.columns, self.width // self.columns


def _averaging(count: int, patches: int, like: Tensor) -> Tensor:
    """The matrix (patches, count) that averages runs of positions."""
    index = torch.arange(count, device=like.device) * patches // count
    member = torch.nn.functional.one_hot(index, patches).mT.to(like.dtype)
    return member / member.sum(1, keepdim=True)
