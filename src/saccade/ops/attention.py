"""Softmax attention for values that are wider than keys.

PyTorch's fused kernel for CPUs wants queries, keys and values of one width; for others it silently falls back to the
whole matrix, with some care that costs several passes over it. GPUs have fused kernels for both cases here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from saccade.ops.affinity import SoftmaxAffinity


@dataclass(frozen=True)
class WideSoftmaxAffinity(SoftmaxAffinity):
    """``A = softmax(query keyᵀ)`` of many by many positions, whose product with wide values never builds the matrix:
    queries and keys filled up with zeros have the same products."""

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C), in memory linear in N. Differentiable."""
        query, key, missing = self.query, self.key, z.shape[-1] - self.query.shape[-1]
        if z.device.type != "cpu" or missing == 0:
            return F.scaled_dot_product_attention(query, key, z, scale=1.0)
        value = F.pad(z, (0, max(-missing, 0)))
        query, key = (F.pad(t, (0, max(missing, 0))) for t in (query, key))
        return F.scaled_dot_product_attention(query, key, value, scale=1.0)[..., : z.shape[-1]]


@dataclass(frozen=True)
class ThinSoftmaxAffinity(SoftmaxAffinity):
    """``A = softmax(query keyᵀ)`` of few by many positions: the matrix is smaller than the values, and on a CPU writing
    it out takes half the time and memory of filling up queries and keys."""

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C). Differentiable."""
        if z.device.type == "cpu":
            return self.dense() @ z
        return F.scaled_dot_product_attention(self.query, self.key, z, scale=1.0)
