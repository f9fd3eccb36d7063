"""Operators that sample: block averages, bicubic reduction, masks and dense matrices."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.linear.base import Operator, Shape

Inverse = Literal["exact", "approx"]
BLOCK = 96
"""Rows of a banded matrix that are multiplied at once."""


class Average(Operator):
    """Means of blocks of ``factor`` x ``factor`` pixels; the pseudo-inverse repeats each mean over its block."""

    def __init__(self, size: tuple[int, int], factor: int) -> None:
        _divisible(size, factor)
        self.factor, self.domain = factor, tuple(size)
        self.codomain = (size[0] // factor, size[1] // factor)

    def forward(self, x: Tensor) -> Tensor:
        lead, (height, width) = x.shape[:-2], self.codomain
        return x.reshape(*lead, height, self.factor, width, self.factor).mean((-3, -1))

    def adjoint(self, y: Tensor) -> Tensor:
        return self.pinv(y) / self.factor**2

    def pinv(self, y: Tensor) -> Tensor:
        return y.repeat_interleave(self.factor, -2).repeat_interleave(self.factor, -1)


class Bicubic(Operator):
    """Bicubic reduction by ``factor``, with or without anti-aliasing, as PyTorch's ``interpolate`` does it.

    It is a matrix A for each axis, so that ``exact`` has ``H†Y = A†YA†ᵀ``. ``approx`` takes bicubic enlargement for H†,
    as the paper does: its projections are none, they miss idempotence by a few percent.
    """

    def __init__(self, size: tuple[int, int], factor: int, antialias: bool = True, inverse: Inverse = "exact") -> None:
        _divisible(size, factor)
        self.factor, self.closed, self.domain = factor, inverse == "exact", tuple(size)
        self.codomain = (size[0] // factor, size[1] // factor)
        self._down = [_banded(side, factor, antialias, "down") for side in size]
        self._up = [_banded(side, factor, antialias, "pinv" if self.closed else "up") for side in size]

    def forward(self, x: Tensor) -> Tensor:
        return self._down[1](self._down[0](x, -2), -1)

    def adjoint(self, y: Tensor) -> Tensor:
        return self._down[1].transposed(self._down[0].transposed(y, -2), -1)

    def pinv(self, y: Tensor) -> Tensor:
        return self._up[1](self._up[0](y, -2), -1)


class Mask(Operator):
    """Some pixels are measured, the others are zero; ``known`` has the shape of a picture, or broadcasts with one."""

    def __init__(self, known: Tensor, domain: Shape | None = None) -> None:
        self.known = known.bool()
        self.domain = self.codomain = tuple(domain if domain is not None else known.shape)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.known.to(x.device)

    def adjoint(self, y: Tensor) -> Tensor:
        return self.forward(y)

    def pinv(self, y: Tensor) -> Tensor:
        return self.forward(y)

    def range(self, x: Tensor) -> Tensor:
        return self.forward(x)


class Dense(Operator):
    """Any matrix (measurements, pixels) over flattened pictures; its pseudo-inverse is computed once."""

    def __init__(self, matrix: Tensor, domain: Shape) -> None:
        if matrix.shape[-1] != math.prod(domain):
            raise ValueError(f"a matrix for pictures {domain} has {math.prod(domain)} columns, got {matrix.shape[-1]}")
        self.domain, self.codomain = tuple(domain), (matrix.shape[0],)
        self._matrix, self._pinv = matrix.double(), torch.linalg.pinv(matrix.double())

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(x.dim() - len(self.domain)) @ self._matrix.to(x).mT

    def adjoint(self, y: Tensor) -> Tensor:
        return (y @ self._matrix.to(y)).unflatten(-1, self.domain)

    def pinv(self, y: Tensor) -> Tensor:
        return (y @ self._pinv.to(y).mT).unflatten(-1, self.domain)


def random_projection(domain: Shape, count: int, generator: torch.Generator) -> Dense:
    """``count`` Gaussian measurements of a picture, as in compressive sensing."""
    columns = math.prod(domain)
    if not 1 <= count <= columns:
        raise ValueError(f"a picture of {columns} pixels has 1 to {columns} random measurements, got {count}")
    return Dense(torch.randn(count, columns, generator=generator, dtype=torch.float64) / count**0.5, domain)


# Bicubic matrices -----------------------------------------------------------------------------------------------------


def resampling(length: int, out: int, antialias: bool) -> Tensor:
    """The bicubic matrix (out, length) of PyTorch's ``interpolate``: Keys' kernel with a = -0.75, or with anti-aliasing
    a = -0.5, widened by the reduction."""
    step = length / out
    places = torch.arange(length, dtype=torch.float64, device="cpu")
    if antialias and step > 1:
        centre = (torch.arange(out, dtype=torch.float64, device="cpu")[:, None] + 0.5) * step
        first = (centre - 2 * step + 0.5).floor().clamp_min(0)  # the taps that PyTorch and Pillow count in
        last = (centre + 2 * step + 0.5).floor().clamp_max(length)
        weights = _keys((places + 0.5 - centre) / step, -0.5)
        weights = torch.where((places >= first) & (places < last), weights, 0)
        return weights / weights.sum(1, keepdim=True)
    a = -0.5 if antialias else -0.75
    centre = (torch.arange(out, dtype=torch.float64, device="cpu") + 0.5) * step - 0.5
    start = centre.floor()
    matrix = torch.zeros(out, length, dtype=torch.float64, device="cpu")
    for tap in range(-1, 3):  # pixels beyond the border are those at the border
        column = (start + tap).clamp(0, length - 1).long()
        matrix.scatter_add_(1, column[:, None], _keys(start + tap - centre, a)[:, None])
    return matrix


def _keys(t: Tensor, a: float) -> Tensor:
    t = t.abs()
    near = ((a + 2) * t - (a + 3)) * t**2 + 1
    far = a * (((t - 5) * t + 8) * t - 4)
    return torch.where(t <= 1, near, torch.where(t < 2, far, 0))


class _Banded:
    """A matrix along one axis, whose rows are multiplied in blocks that leave zeros out.

    The inverse of a well-conditioned band matrix decays exponentially away from the band, so that A† costs some dozen
    products per pixel instead of one per row of the picture.
    """

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix
        self._parts: dict[tuple[torch.dtype, torch.device, bool], list[tuple[slice, Tensor]]] = {}

    def __call__(self, x: Tensor, axis: int) -> Tensor:
        return self._apply(x, axis, False)

    def transposed(self, x: Tensor, axis: int) -> Tensor:
        """The product with the transposed matrix."""
        return self._apply(x, axis, True)

    def _apply(self, x: Tensor, axis: int, turned: bool) -> Tensor:
        key = x.dtype, x.device, turned
        if key not in self._parts:
            self._parts[key] = list(_blocks(self._matrix.mT if turned else self._matrix, x))
        if axis == -2:
            return torch.cat([block @ x[..., columns, :] for columns, block in self._parts[key]], -2)
        return torch.cat([x[..., columns] @ block.mT for columns, block in self._parts[key]], -1)


def _blocks(matrix: Tensor, like: Tensor) -> list[tuple[slice, Tensor]]:
    negligible = float(matrix.abs().max()) * torch.finfo(like.dtype).eps * 0.01
    parts = []
    for rows in matrix.split(BLOCK):
        used = (rows.abs() > negligible).any(0).nonzero()
        columns = slice(int(used.min()), int(used.max()) + 1)
        parts.append((columns, rows[:, columns].contiguous().to(like)))
    return parts


@lru_cache(maxsize=24)
def _banded(length: int, factor: int, antialias: bool, which: Literal["down", "up", "pinv"]) -> _Banded:
    if which == "up":
        return _Banded(resampling(length // factor, length, False))
    down = resampling(length, length // factor, antialias)
    if which == "down":
        return _Banded(down)
    # Rows are independent, and their condition number is below 2: the normal equations lose nothing.
    return _Banded(torch.cholesky_solve(down, torch.linalg.cholesky(down @ down.mT)).mT)


@lru_cache(maxsize=8)
def bicubic(height: int, width: int, factor: int, antialias: bool = True, inverse: Inverse = "exact") -> Bicubic:
    """A :class:`Bicubic`, built once for each size."""
    return Bicubic((height, width), factor, antialias, inverse)


def _divisible(size: tuple[int, int], factor: int) -> None:
    if factor < 1 or min(size) < factor or any(side % factor for side in size):
        raise ValueError(f"a picture to reduce by {factor} has sides that are multiples of it, got {tuple(size)}")


def enlarged(x: Tensor, factor: int) -> Tensor:
    """Bicubic enlargement of (..., H, W), as a picture viewer does it."""
    flat = x.reshape(-1, 1, *x.shape[-2:])
    large = F.interpolate(flat, scale_factor=factor, mode="bicubic", align_corners=False)
    return large.view(*x.shape[:-2], *large.shape[-2:])
