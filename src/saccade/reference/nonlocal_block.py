"""Nonlocal operators straight from their definitions, with every N x N matrix written out.

Tokens ``x`` are (B, N, C); the weights of embeddings are (m, C), those of outputs (C, m), as ``nn.Linear`` keeps them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def softmax_affinity(x: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
    """Eq. 3: ``exp(θ_i·φ_j)`` over its row sum, (B, N, N)."""
    scores = (x @ theta.mT) @ (x @ phi.mT).mT
    kernel = (scores - scores.amax(-1, keepdim=True)).exp()  # the factor cancels; without it float32 overflows
    return kernel / kernel.sum(-1, keepdim=True)


def spectral_affinity(x: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
    """Eq. 23's constraint: ``relu(θ_i)·relu(φ_j)``, symmetrised, then divided by ``√(d_i d_j)``; (B, N, N)."""
    m = (x @ theta.mT).relu() @ (x @ phi.mT).relu().mT
    m = (m + m.mT) / 2
    degree = m.sum(-1)
    product = (degree[..., :, None] * degree[..., None, :]).sqrt()
    return torch.where(product > 0, m / product.where(product > 0, 1), 0)


def nl(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """Eq. 1, a row at a time: the mean of ``g(x_j)`` weighted by ``f(x_i, x_j)``, times W."""
    z = x @ g.mT
    rows = []
    for i in range(x.shape[-2]):
        scores = ((x @ theta.mT)[..., i : i + 1, :] * (x @ phi.mT)).sum(-1, keepdim=True)
        f = (scores - scores.amax(-2, keepdim=True)).exp()
        rows.append((f * z).sum(-2) / f.sum(-2))
    return torch.stack(rows, -2) @ w.mT


def ns(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """Eq. 6: the mean of the differences ``z_j - z_i`` weighted by ``f(x_i, x_j)``, times W."""
    z = x @ g.mT
    differences = z[..., None, :, :] - z[..., :, None, :]  # (B, N, N, m)
    return (softmax_affinity(x, theta, phi)[..., None] * differences).sum(-2) @ w.mT


def snl(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """``Z W₁ + A Z W₂`` with the dense matrix."""
    z = x @ g.mT
    return z @ w1.mT + spectral_affinity(x, theta, phi) @ z @ w2.mT
