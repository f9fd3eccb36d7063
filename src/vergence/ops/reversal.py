"""Gradient reversal (Ganin and Lempitsky, 2015): what is behind it learns against what is in front of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return -ctx.scale * slopes[0], None


def reversed_gradient(x: Tensor, scale: float = 1.0) -> Tensor:
    """``x`` itself; in the backward pass its gradient is multiplied by ``-scale``."""
    result: Tensor = _Reversed.apply(x, scale)  # type: ignore[no-untyped-call]
    return result
