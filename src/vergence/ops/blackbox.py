"""Gradients through any combinatorial solver (Vlastelica et al., 2020): the solver is called once more in the backward
pass, with costs moved against the gradient.

The result is the gradient of a piecewise affine interpolation of the loss, whose faithfulness ``strength`` trades
against how often it vanishes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Solver = Callable[..., tuple[Tensor, ...]]
"""Solutions, one tensor for each tensor of costs and of its shape, that minimise the inner products with the costs."""


def through_solver(solver: Solver, strength: float, *costs: Tensor) -> tuple[Tensor, ...]:
    """``solver(*costs)``, with the gradient ``(y(w + strength dL/dy) - y(w)) / strength`` for costs w (Eq. 2)."""
    if not strength > 0:
        raise ValueError(f"the strength of the perturbation is above 0, got {strength}")
    found: tuple[Tensor, ...] = _Through.apply(solver, strength, *costs)  # type: ignore[no-untyped-call]
    return found


class _Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, solver: Solver, strength: float, *costs: Tensor) -> tuple[Tensor, ...]:
        found = tuple(y.to(w) for y, w in zip(solver(*(w.detach() for w in costs)), costs, strict=True))
        ctx.solver, ctx.strength, ctx.count = solver, strength, len(costs)
        ctx.save_for_backward(*costs, *found)
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        costs, found = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        moved = [w if g is None else w + ctx.strength * g for w, g in zip(costs, gradients, strict=True)]
        again = ctx.solver(*moved)
        return None, None, *((y.to(old) - old) / ctx.strength for y, old in zip(again, found, strict=True))
