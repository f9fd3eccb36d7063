"""Helpers for exact claims: seeded float64 noise, modules filled with it, and the largest difference of two results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from vergence.core.seeding import generator

ROUNDING = 1e-10
"""Tolerance between two float64 computations of the same result."""

M = TypeVar("M", bound=nn.Module)


def noise(*shape: int, seed: int | str) -> Tensor:
    """Normal noise in float64, the same for the same shape and seed."""
    return torch.randn(shape, generator=generator("claims", seed), dtype=torch.float64)


def uniform(*shape: int, seed: int | str) -> Tensor:
    """Uniform noise from 0 to 1 in float64, the same for the same shape and seed."""
    return torch.rand(shape, generator=generator("claims", seed), dtype=torch.float64)


def filled(module: M, seed: int | str = "module", scale: float = 0.3) -> M:
    """The module in float64 and evaluation mode with random parameters, so that none has a special value, such as a
    scale of one or a branch that starts at zero.

    Weights of two or more dimensions are scaled by their fan-in, others by ``scale``, centred at one for the weights
    of normalisation layers.
    """
    module.double().eval()
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            drawn = noise(*parameter.shape, seed=f"{seed} {name}")
            if parameter.dim() > 1:
                parameter.copy_(drawn * parameter[0].numel() ** -0.5)
            else:
                parameter.copy_(scale * drawn + (1 if (parameter == 1).all() else 0))
        for name, buffer in sorted(module.named_buffers()):
            if name.endswith(("running_mean", "running_var")):
                drawn = noise(*buffer.shape, seed=f"{seed} {name}")
                buffer.copy_(drawn.abs() + 0.5 if name.endswith("var") else scale * drawn)
    return module


def apart(a: Tensor, b: Tensor, relative: bool = False) -> float:
    """The largest difference of two tensors; ``relative`` divides it by one plus the largest value of the second."""
    if not a.numel():
        return 0.0
    size = float(b.detach().abs().max()) + 1 if relative else 1.0
    return float((a - b).detach().abs().max()) / size


def apart_with_gradients(
    ours: Tensor | Sequence[Tensor],
    theirs: Tensor | Sequence[Tensor],
    leaves: Sequence[Tensor],
    relative: bool = False,
) -> float:
    """The largest difference of two results, and of their gradients with respect to ``leaves`` along a random
    direction. ``relative`` compares gradients relative to their size."""
    one, other = ([side] if isinstance(side, Tensor) else list(side) for side in (ours, theirs))
    pairs = list(zip(one, other, strict=True))
    directions = [noise(*a.shape, seed=f"probe {number}").to(a.dtype) for number, (a, _) in enumerate(pairs)]
    gradients = [
        torch.autograd.grad(list(side), list(leaves), directions, retain_graph=True, allow_unused=True)
        for side in zip(*pairs, strict=True)
    ]
    worst = max(apart(a, b) for a, b in pairs)
    for a, b in zip(*gradients, strict=True):
        if a is None or b is None:  # a leaf that one of them does not depend on
            worst = max(worst, 0.0, *(float(g.abs().max()) for g in (a, b) if g is not None))
        else:
            worst = max(worst, apart(a, b, relative))
    return worst
