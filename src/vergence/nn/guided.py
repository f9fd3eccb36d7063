"""Guided backpropagation (Springenberg et al., 2014): which pixels raise an output, through ReLUs that let only
positive gradients pass."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def guided_gradient(model: nn.Module, score: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The guided gradient of the sum of ``score(x)`` with respect to ``x``. The ReLUs of ``model`` must be modules."""

    def positive(_: nn.Module, inner: tuple[Tensor, ...], __: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(gradient.clamp(min=0) for gradient in inner)

    hooks = [m.register_full_backward_hook(positive) for m in model.modules() if isinstance(m, nn.ReLU)]
    try:
        with torch.enable_grad():
            pixels = x.detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(score(pixels).sum(), pixels)
    finally:
        for hook in hooks:
            hook.remove()
    return gradient


def active_pixels(gradient: Tensor) -> Tensor:
    """A gradient video (..., T, 3, H, W) as maps (..., T, H, W): the absolute difference from the median of each frame,
    the largest of the three channels."""
    flat = gradient.flatten(-3)
    centred = (flat - flat.median(-1, keepdim=True).values).unflatten(-1, gradient.shape[-3:])
    return centred.abs().amax(-3)
