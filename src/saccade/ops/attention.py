"""Softmax attention for values that are wider than keys, without the matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from saccade.ops.affinity import SoftmaxAffinity


@dataclass(frozen=True)
class WideSoftmaxAffinity(SoftmaxAffinity):
    """``A = softmax(query keyᵀ)`` whose product with wide values never builds the N x N matrix.

    PyTorch's fused kernel for CPUs wants queries, keys and values of one width and silently falls back to the whole
    matrix otherwise. Queries and keys filled up with zeros have the same products. (When one side is short the matrix
    is thin and cheaper than the filling: :class:`SoftmaxAffinity` is right there.)
    """

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C), in memory linear in N. Differentiable."""
        query, key, missing = self.query, self.key, z.shape[-1] - self.query.shape[-1]
        if z.device.type != "cpu" or missing == 0:
            return F.scaled_dot_product_attention(query, key, z, scale=1.0)
        value = F.pad(z, (0, max(-missing, 0)))
        query, key = (F.pad(t, (0, max(missing, 0))) for t in (query, key))
        return F.scaled_dot_product_attention(query, key, value, scale=1.0)[..., : z.shape[-1]]
