"""The least-squares solution of least norm, by conjugate gradients, for operators without a closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]


def least_squares(
    forward: Map, adjoint: Map, y: Tensor, dims: tuple[int, int], tolerance: float = 1e-8, steps: int = 500
) -> Tensor:
    """``H†y`` by conjugate gradients on the normal equations (CGLS), differentiable in ``y``.

    They start at zero and so stay in the range of the adjoint: the limit is the pseudo-inverse. Iterations end once
    ``|Hᵀ(y - Hx)|`` is below ``tolerance`` of its start for every sample, or after ``steps``. ``dims`` are the numbers
    of trailing dimensions of a picture and of a measurement.
    """
    solution: Tensor = _Solve.apply(y, forward, adjoint, dims, tolerance, steps)  # type: ignore[no-untyped-call]
    return solution


class _Solve(torch.autograd.Function):
    """Gradients are ``(H†)ᵀg = (Hᵀ)†g``: the same iterations with forward and adjoint exchanged."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, forward: Map, adjoint: Map, dims: tuple[int, int], tolerance: float, steps: int
    ) -> Tensor:
        ctx.problem = forward, adjoint, dims, tolerance, steps
        with torch.no_grad():
            return _iterate(forward, adjoint, y.detach(), dims, tolerance, steps)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        forward, adjoint, dims, tolerance, steps = ctx.problem
        return least_squares(adjoint, forward, gradient, dims[::-1], tolerance, steps), None, None, None, None, None


def _iterate(forward: Map, adjoint: Map, y: Tensor, dims: tuple[int, int], tolerance: float, steps: int) -> Tensor:
    residual = y.clone()
    gradient = adjoint(residual)
    x, direction, size = torch.zeros_like(gradient), gradient.clone(), _squared(gradient, dims[0])
    enough = (tolerance**2) * size
    for _ in range(steps):
        if bool((size <= enough).all()):
            break
        image = forward(direction)
        length = _share(size, _squared(image, dims[1]))
        x = x + _spread(length, dims[0]) * direction
        residual = residual - _spread(length, dims[1]) * image
        gradient = adjoint(residual)
        before, size = size, _squared(gradient, dims[0])
        direction = gradient + _spread(_share(size, before), dims[0]) * direction
    return x


def _squared(x: Tensor, dims: int) -> Tensor:
    """Squared norm over the last dimensions."""
    return (x.real**2 + x.imag**2 if x.is_complex() else x**2).sum(tuple(range(-dims, 0)))


def _share(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(b > 0, a / b.clamp_min(torch.finfo(b.dtype).tiny), 0)


def _spread(value: Tensor, dims: int) -> Tensor:
    return value.view(*value.shape, *[1] * dims)
