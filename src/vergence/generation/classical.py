"""Restoration without learning: Landweber iterations, total variation, Wiener and biharmonic inpainting."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.ops.linear import Operator


def landweber(operator: Operator, y: Tensor, steps: int = 30, largest: float | None = None) -> Tensor:
    """Gradient steps of 1.8 / |H|² on ``|Hx - y|²`` from zero. Many steps give the pseudo-inverse."""
    length = 1.8 / (largest or operator.largest(20)) ** 2
    x = torch.zeros_like(operator.adjoint(y))
    for _ in range(steps):
        x = x - length * operator.adjoint(operator.forward(x) - y)
    return x


def total_variation(z: Tensor, noise: float) -> Tensor:
    """scikit-image's total variation (Chambolle) on pictures (B, C, H, W), weighted by the noise level."""
    from skimage import restoration

    method: Any = restoration.denoise_tv_chambolle
    smooth = [method(image.double().cpu().numpy(), weight=max(noise, 1e-3), channel_axis=0) for image in z]
    return torch.from_numpy(np.stack(smooth)).to(z)


def wiener(y: Tensor, kernel: Tensor, balance: float) -> Tensor:
    """scikit-image's Wiener deconvolution of a picture (H, W)."""
    from skimage import restoration

    method: Any = restoration.wiener
    restored = method(y.double().cpu().numpy(), kernel.double().cpu().numpy(), balance, clip=False)
    return torch.from_numpy(np.ascontiguousarray(restored)).to(y)


def biharmonic(y: Tensor, known: Tensor) -> Tensor:
    """scikit-image's biharmonic inpainting of a picture (H, W)."""
    from skimage import restoration

    method: Any = restoration.inpaint_biharmonic
    return torch.from_numpy(method(y.double().cpu().numpy(), (~known).cpu().numpy())).to(y)
