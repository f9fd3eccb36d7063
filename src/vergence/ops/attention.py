"""Softmax attention of few by many positions, for values that are wider than keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from vergence.ops.affinity import SoftmaxAffinity


@dataclass(frozen=True)
class ThinSoftmaxAffinity(SoftmaxAffinity):
    """``A = softmax(query keyᵀ)`` of few by many positions: the matrix is smaller than the values, and on a CPU, whose
    fused kernel wants keys as wide as values, writing it out takes half the time and memory of filling up keys."""

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C). Differentiable."""
        if z.device.type == "cpu":
            return self.dense() @ z
        return F.scaled_dot_product_attention(self.query, self.key, z, scale=1.0)
