"""Low-rank approximation by sampling: ``A ≈ A[:, J] · A[I, J]⁻¹ · A[I, :]`` (Eq. 9 of CSALR, IJCAI 2020).

Exact when the sampled block has the rank of the whole matrix; ``A`` need not be symmetric. Only the product of ``A``
with features is needed, so the block is solved with (never inverted), and the thin factors may be any object that
multiplies, such as softmax factors. For an attention map of n positions and m landmarks nothing is larger than n x m.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from vergence.ops.affinity import SoftmaxAffinity
from vergence.ops.patches import Patches


class Factor(Protocol):
    """A thin matrix, given by its product, its rows and its dense form."""

    def __matmul__(self, z: Tensor) -> Tensor: ...

    def rows(self, index: Tensor) -> Tensor: ...

    def dense(self) -> Tensor: ...


@dataclass(frozen=True)
class LowRank:
    """The n x n matrix ``left · core⁻¹ · right``; without a core, ``left · right``."""

    left: Factor | Tensor  # (..., n, m)
    right: Factor | Tensor  # (..., m, n)
    core: Tensor | None = None  # (..., m, m)

    def __matmul__(self, z: Tensor) -> Tensor:
        """The product with ``z`` (..., n, C), in O(n·m·C). Differentiable."""
        inner = self.right @ z
        return self.left @ (inner if self.core is None else solve(self.core, inner))

    def coefficients(self, index: Tensor) -> Tensor:
        """Rows of ``W = left · core⁻¹`` for positions ``index`` (P,): (..., P, m)."""
        left = self.left[..., index, :] if isinstance(self.left, Tensor) else self.left.rows(index)
        return left if self.core is None else solve(self.core.mT, left.mT).mT

    def rows(self, index: Tensor) -> Tensor:
        """Rows of the matrix for positions ``index`` (P,): (..., P, n)."""
        right = self.right if isinstance(self.right, Tensor) else self.right.dense()
        return self.coefficients(index) @ right

    def dense(self) -> Tensor:
        """The n x n matrix itself: for figures and for tests."""
        left = self.left if isinstance(self.left, Tensor) else self.left.dense()
        return self.rows(torch.arange(left.shape[-2], device=left.device))


def sampled(matrix: Tensor, rows: Tensor, columns: Tensor) -> LowRank:
    """Eq. 9: a square matrix (..., n, n) from its rows and columns with indices (m,) each. Differentiable.

    Exact if the block where they cross has the rank of the matrix; it must not be singular.
    """
    block = matrix[..., rows, :]
    return LowRank(matrix[..., columns], block, block[..., columns])


def solve(core: Tensor, z: Tensor) -> Tensor:
    """``core⁻¹ z`` for (..., m, m) and (..., m, C), in single precision at least; not finite where it is singular."""
    exact = torch.promote_types(core.dtype, torch.float32)
    return torch.linalg.solve_ex(core.to(exact), z.to(exact))[0].to(z.dtype)


@dataclass(frozen=True)
class InPatch:
    """The patch indicator ``S`` (n, m): 1 where a position lies in a patch."""

    patches: Patches
    like: Tensor

    def __matmul__(self, z: Tensor) -> Tensor:
        return self.patches.spread(z)

    def rows(self, index: Tensor) -> Tensor:
        return self.dense()[index]

    def dense(self) -> Tensor:
        return self.patches.indicator(self.like)


@dataclass(frozen=True)
class SoftmaxInPatch:
    """``softmax(query keyᵀ) + S`` (..., n, m), Eq. 15: a position's own patch counts one more."""

    softmax: SoftmaxAffinity
    patches: Patches

    def __matmul__(self, z: Tensor) -> Tensor:
        return self.softmax @ z + self.patches.spread(z)

    def rows(self, index: Tensor) -> Tensor:
        return self.softmax.rows(index) + self.patches.indicator(self.softmax.query)[index]

    def dense(self) -> Tensor:
        return self.softmax.dense() + self.patches.indicator(self.softmax.query)


def landmark_block(query: Tensor, key: Tensor) -> Tensor:
    """Eq. 16, ``softmax(query keyᵀ) + 1`` (..., m, m) for landmarks (..., m, r), in single precision at least.

    A positive matrix whose rows sum to one has no eigenvalue -1, so this one is not singular. A saturated softmax is
    not positive in floating point (two landmarks that attend only to each other give a singular block), so its entries
    are kept above machine epsilon: less than the rounding error of solving.
    """
    softmax = plain_block(query, key)
    unit = torch.finfo(softmax.dtype).eps
    kept = softmax * (1 - unit * softmax.shape[-1]) + unit
    return kept + torch.eye(softmax.shape[-1], dtype=kept.dtype, device=kept.device)


def plain_block(query: Tensor, key: Tensor) -> Tensor:
    """Eq. 12, ``softmax(query keyᵀ)`` (..., m, m), in single precision at least. It can be (nearly) singular."""
    exact, kind = torch.promote_types(query.dtype, torch.float32), query.device.type
    mixed = torch.amp.is_autocast_available(kind)  # not on the meta device
    with torch.autocast(kind, enabled=False) if mixed else nullcontext():
        return (query.to(exact) @ key.to(exact).mT).softmax(-1)
