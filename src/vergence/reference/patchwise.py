"""Algorithm 1 of the patch-wise attack and the kernels around it, written as they are printed."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def project_kernel(size: int) -> Tensor:
    """Eq. 12, entry by entry."""
    kernel = torch.zeros(size, size, dtype=torch.float64)
    for i in range(size):
        for j in range(size):
            if (i, j) != (size // 2, size // 2):
                kernel[i, j] = 1 / (size**2 - 1)
    return kernel


def gaussian_kernel(size: int = 15, reach: float = 3.0) -> Tensor:
    """The TI kernel: a normal density on evenly spaced places, its outer product, with sum 1."""
    from scipy import stats

    density = torch.from_numpy(stats.norm.pdf(torch.linspace(-reach, reach, size, dtype=torch.float64).numpy()))
    kernel = torch.outer(density, density)
    return kernel / kernel.sum()


def depthwise(x: Tensor, kernel: Tensor) -> Tensor:
    """Every channel of ``x`` (N, C, H, W) with the same k x k kernel, zeros beyond the border."""
    channels = x.shape[1]
    weight = kernel.to(x).expand(channels, 1, *kernel.shape)
    return F.conv2d(x, weight, padding=kernel.shape[0] // 2, groups=channels)


def pi_fgsm(
    gradient: Callable[[Tensor], Tensor], x: Tensor, eps: float, steps: int, beta: float, gamma: float, size: int
) -> Tensor:
    """Algorithm 1 with Eq. 10 for line 7 and T iterations; pictures in [0, 1]."""
    kernel = project_kernel(size)
    a = torch.zeros_like(x)
    adversarial = x
    for _ in range(steps):
        sign = torch.sign(gradient(adversarial))
        a = a + beta * eps / steps * sign
        c = torch.clamp(a.abs() - eps, min=0) * torch.sign(a)
        # Rounded: noise that cancels must have no sign, and a kernel of 1/48 leaves one.
        projected = gamma * torch.sign(torch.round(depthwise(c, kernel), decimals=12))
        a = a + projected
        adversarial = adversarial + beta * eps / steps * sign + projected
        adversarial = torch.clamp(torch.min(torch.max(adversarial, x - eps), x + eps), 0, 1)
    return adversarial
