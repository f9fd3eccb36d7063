"""Affinities: how much every position looks at every other, held so that the N x N matrix is never needed.

A nonlocal block is a graph filter on a fully connected graph (`Unifying Nonlocal Blocks`, ICCV 2021). All it asks of
the graph is the product ``A @ z``. A softmax affinity gives it through fused attention, a product of two thin factors
through two thin products; ``rows`` is for pictures and ``dense`` for checking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor, cat


class Affinity(Protocol):
    """A linear map over positions."""

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., N, C). Differentiable."""
        ...

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, N)."""
        ...


@dataclass(frozen=True)
class SoftmaxAffinity:
    """``A = softmax(query keyᵀ)``: each row sums to one (the embedded Gaussian kernel over its degree)."""

    query: Tensor  # (..., N, r)
    key: Tensor  # (..., M, r)

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, r), through fused attention: memory linear in N."""
        return F.scaled_dot_product_attention(self.query, self.key, z, scale=1.0)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, M)."""
        return (self.query[..., index, :] @ self.key.mT).softmax(-1)

    def dense(self) -> Tensor:
        """The N x M matrix itself."""
        return (self.query @ self.key.mT).softmax(-1)


@dataclass(frozen=True)
class FactoredAffinity:
    """The symmetric, normalised affinity ``A = D^-½ · ½(UVᵀ + VUᵀ) · D^-½``, held as two N x 2r factors."""

    left: Tensor  # (..., N, 2r)
    right: Tensor  # (..., N, 2r)

    @classmethod
    def symmetric(cls, u: Tensor, v: Tensor) -> FactoredAffinity:
        """A from non-negative factors of shape (..., N, r). A position with no weight has degree 0 and stays 0."""
        degree = 0.5 * (u @ v.sum(-2).unsqueeze(-1) + v @ u.sum(-2).unsqueeze(-1))
        seen = degree > 0
        scale = degree.where(seen, 1).rsqrt() * seen  # mask before rsqrt, or a degree of 0 gives NaN gradients
        u, v = u * scale, v * scale
        return cls(cat([u, v], -1), 0.5 * cat([v, u], -1))

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., N, C), in O(N·r·C)."""
        return self.left @ (self.right.mT @ z)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, N)."""
        return self.left[..., index, :] @ self.right.mT

    def dense(self) -> Tensor:
        """The N x N matrix itself."""
        return self.left @ self.right.mT
