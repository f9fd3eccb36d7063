"""Affinities on part of a grid: criss-cross attention along one axis at a time, and which pairs a support holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from vergence.ops.affinity import product
from vergence.ops.precision import wide

LOG2E = math.log2(math.e)
"""Scores are powers of two: exp is slow where it underflows."""


@dataclass(frozen=True)
class CrissCrossAffinity:
    """Softmax over the positions that differ in at most one coordinate: in an image, those of the same row or column.

    Scores are computed along one axis at a time, N·(H + W) of them in an image, and share one softmax. A position lies
    on all of its axes; only the first one counts it. Second derivatives are not supported.
    """

    query: Tensor  # (..., N, r)
    key: Tensor  # (..., N, r)
    shape: tuple[int, ...]
    """Of the grid, with N positions in total."""

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., N, C)."""
        flat = (t.reshape(-1, *t.shape[-2:]) for t in (self.query, self.key, z))
        found: Tensor = _CrissCross.apply(*flat, self.shape)  # type: ignore[no-untyped-call]
        return found.reshape(z.shape)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, N)."""
        scores = self.query[..., index, :] @ self.key.mT
        return scores.masked_fill(~criss_cross(self.shape, scores.device)[index], -math.inf).softmax(-1)

    def dense(self) -> Tensor:
        """The N x N matrix itself."""
        return self.rows(torch.arange(self.query.shape[-2], device=self.query.device))


class _CrissCross(torch.autograd.Function):
    """The product of a criss-cross affinity with values (B, N, C): a softmax for each axis, with a maximum of its own,
    and their weighted mean.

    For each axis, what is kept for the backward pass are its powers ``2^(s - top)``. The factors that make a softmax of
    them, one number per position, are applied to the gradient of the output, which is narrower than the scores.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, shape: tuple[int, ...]) -> Tensor:
        query = query * LOG2E
        lines = [[_lines(t, shape, axis) for t in (query, key, value)] for axis in range(len(shape))]
        powers, tops, totals, degrees = [], [], [], []
        for axis, (q, k, v) in enumerate(lines):
            score = product(q, k.mT)  # (lines, L, L)
            if axis:  # a position counts itself on the first axis only
                score.flatten(1)[:, :: score.shape[-1] + 1] = -math.inf
            top = score.amax(-1, keepdim=True).clamp_(min=torch.finfo(score.dtype).min)  # finite on lines of one
            power = score.sub_(top).exp2_().to(v.dtype)
            powers.append(power)
            tops.append(_grid(wide(top), shape, axis))
            degrees.append(_grid(power.sum(-1, keepdim=True, dtype=tops[0].dtype), shape, axis))
            totals.append(_grid(product(power, v), shape, axis))
        factors = _factors(tops, degrees)
        out = totals[-1] * factors[-1].to(value.dtype)  # the last axis is contiguous
        for total, factor in zip(totals[:-1], factors[:-1], strict=True):
            out.addcmul_(total, factor.to(value.dtype))
        ctx.shape = shape
        ctx.save_for_backward(out, *factors, *powers, *(t for line in lines for t in line))
        return out.flatten(1, -2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        shape, axes = ctx.shape, len(ctx.shape)
        out, *others = ctx.saved_tensors
        factors, powers, lines = others[:axes], others[axes : 2 * axes], others[2 * axes :]
        grad = grad.unflatten(1, shape)
        inner = (wide(grad) * wide(out)).sum(-1, keepdim=True)
        parts = []
        for axis, (factor, power) in enumerate(zip(factors, powers, strict=True)):
            q, k, v = lines[3 * axis : 3 * axis + 3]
            g = _along(grad * factor.to(grad.dtype), axis)
            for_score = product(g, v.mT).sub_(_along((inner * factor).to(grad.dtype), axis)).mul_(power).to(k.dtype)
            mine = product(for_score, k), product(for_score.mT, q), product(power.mT, g)
            parts.append([_grid(t, shape, axis) for t in mine])
        # Added to the last axis, which is contiguous.
        query, key, value = (reduce(Tensor.add_, each[::-1]).flatten(1, -2) for each in zip(*parts, strict=True))
        return query, key.div_(LOG2E), value, None  # the queries that were kept have this factor


def _factors(tops: list[Tensor], degrees: list[Tensor]) -> list[Tensor]:
    """What turns the powers of each axis into a joint softmax: ``2^(top_a - top) / Σ_b 2^(top_b - top) degree_b``."""
    top = reduce(torch.maximum, tops)
    weights = [(t - top).exp2() for t in tops]
    degree = sum(w * d for w, d in zip(weights, degrees, strict=True))
    return [w / degree for w in weights]


def _lines(t: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
    """Tokens (B, N, c) as lines along an axis: (lines, L, c)."""
    return _along(t.unflatten(1, shape), axis)


def _along(grid: Tensor, axis: int) -> Tensor:
    """A grid (B, *shape, c) as lines along an axis, contiguous: (lines, L, c)."""
    return grid.movedim(axis + 1, -2).flatten(0, -3).contiguous()


def _grid(lines: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
    """The inverse of :func:`_along`: (B, *shape, c)."""
    others = [length for number, length in enumerate(shape) if number != axis]
    return lines.unflatten(0, (-1, *others)).movedim(-2, axis + 1)


def criss_cross(shape: tuple[int, ...], device: torch.device | None = None) -> Tensor:
    """Which pairs of positions of a grid differ in at most one coordinate, the diagonal included: (N, N), boolean."""
    if len(shape) == 1:
        return torch.ones(*shape, *shape, dtype=torch.bool, device=device)
    same = _by_axis(shape, [torch.eye(length, dtype=torch.bool, device=device) for length in shape])
    lines = [[other for number, other in enumerate(same) if number != axis] for axis in range(len(same))]
    return _pairs(shape, reduce(torch.logical_or, [reduce(torch.logical_and, line) for line in lines]))


def window(shape: tuple[int, ...], radius: int, device: torch.device | None = None) -> Tensor:
    """Which pairs of positions of a grid are at most ``radius`` apart in every coordinate: (N, N), boolean."""
    places = [torch.arange(length, device=device) for length in shape]
    near = _by_axis(shape, [(place[:, None] - place).abs() <= radius for place in places])
    return _pairs(shape, reduce(torch.logical_and, near))


def _by_axis(shape: tuple[int, ...], tables: list[Tensor]) -> list[Tensor]:
    """The table (L, L) of each axis, reshaped to broadcast to (*shape, *shape)."""
    ones = [1] * len(shape)
    sides = [[*ones[:axis], length, *ones[axis + 1 :]] for axis, length in enumerate(shape)]
    return [table.reshape(side * 2) for table, side in zip(tables, sides, strict=True)]


def _pairs(shape: tuple[int, ...], table: Tensor) -> Tensor:
    return table.expand(*shape, *shape).reshape(math.prod(shape), math.prod(shape))
