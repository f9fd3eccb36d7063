"""Affinities: how strongly every position attends to every other, stored so that the N x N matrix is rarely formed.

A nonlocal block is a graph filter on a graph of positions (`Unifying Nonlocal Blocks`, ICCV 2021). All it needs from
the graph is the product ``A @ z``:

- :class:`SoftmaxAffinity` computes it by fused attention, in memory linear in N;
- :class:`ThinSoftmaxAffinity` writes out the matrix, for a few by many positions;
- :class:`FactoredAffinity` and :class:`MirroredAffinity`, its symmetric form, by two thin products, in time linear
  in N;
- :class:`SortedAffinity`, for ``relu(a_i + b_j)``, by cumulative sums, in the time of a sort;
- :class:`vergence.ops.crisscross.CrissCrossAffinity` along one axis at a time;
- :class:`TiledAffinity`, for other symmetric kernels, a few rows at a time, again in memory linear in N;
- :class:`DenseAffinity` from the matrix.

:func:`vergence.ops.connect` builds the one that suits a kernel, its normalisation and its support. Wherever rows are
divided by a degree, a position whose degree is not positive attends to nothing: its row is zero, and so are its
gradients. Degrees are summed in float32 at least: in half precision the sum over a large map overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, cat

from vergence.ops.precision import full_precision, wide


class Affinity(Protocol):
    """A linear map over positions: N rows, one column per attended position."""

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C): (..., N, C). Differentiable."""
        ...

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, M)."""
        ...

    def dense(self) -> Tensor:
        """The N x M matrix itself."""
        ...


def product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b``; by ``bmm`` for two equal batches of matrices, because ``@`` copies slices."""
    return torch.bmm(a, b) if a.ndim == b.ndim == 3 and a.shape[0] == b.shape[0] else a @ b


def reciprocal(degree: Tensor, power: Callable[[Tensor], Tensor] = torch.reciprocal) -> Tensor:
    """One over a degree (or over its root, with ``torch.rsqrt``); zero, with zero gradient, where it is not positive.

    A degree so small that the gradient of its root would overflow counts as zero: saturated sigmoids leave such sums.
    NaN stays NaN, so that faults are not hidden.
    """
    least = torch.finfo(degree.dtype).tiny ** 0.5
    return power(degree.masked_fill(degree <= least, math.inf))


@dataclass(frozen=True)
class DenseAffinity:
    """An affinity stored as its matrix."""

    matrix: Tensor  # (..., N, M)

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C), in O(N·M·C)."""
        return product(self.matrix.to(z.dtype), z)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, M)."""
        return self.matrix[..., index, :]

    def dense(self) -> Tensor:
        """The matrix."""
        return self.matrix


@dataclass(frozen=True)
class SoftmaxAffinity:
    """``A = softmax(query keyᵀ)``: each row sums to one (the Gaussian kernel over its degree)."""

    query: Tensor  # (..., N, r)
    key: Tensor  # (..., M, r)

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C), through fused attention: memory linear in N.

        The CPU's fused kernel needs four dimensions and the same width for query, key and value; otherwise PyTorch
        forms the whole matrix. Zeros change no score, so the narrower ones are padded.
        """
        width = max(self.query.shape[-1], z.shape[-1])
        query, key, value = (_widened(t, width) for t in (self.query, self.key, z))
        out = F.scaled_dot_product_attention(query, key, value, scale=1.0)
        return out.reshape(*self.query.shape[:-1], width)[..., : z.shape[-1]]

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, M)."""
        return (self.query[..., index, :] @ self.key.mT).softmax(-1)

    def dense(self) -> Tensor:
        """The N x M matrix itself."""
        return (self.query @ self.key.mT).softmax(-1)


@dataclass(frozen=True)
class ThinSoftmaxAffinity(SoftmaxAffinity):
    """``A = softmax(query keyᵀ)`` of a few by many positions, for values wider than keys.

    Here the matrix is smaller than the values: on a CPU, whose fused kernel needs keys as wide as values, writing it
    out takes half the time and memory of padding the keys.
    """

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C). Differentiable."""
        if z.device.type == "cpu":
            return self.dense() @ z
        return F.scaled_dot_product_attention(self.query, self.key, z, scale=1.0)


def _widened(t: Tensor, width: int) -> Tensor:
    """``t`` with its channels zero-padded to ``width``, in four dimensions."""
    t = F.pad(t, (0, width - t.shape[-1])) if t.shape[-1] < width else t
    return t.reshape(*(1,) * (4 - t.ndim), *t.shape)


@dataclass(frozen=True)
class FactoredAffinity:
    """``A = factor · left rightᵀ`` with thin factors: time and memory linear in N."""

    left: Tensor  # (..., N, r)
    right: Tensor  # (..., M, r)
    factor: float = 1.0

    @classmethod
    def symmetric(cls, u: Tensor, v: Tensor) -> MirroredAffinity:
        """``D^-½ · ½(UVᵀ + VUᵀ) · D^-½`` from non-negative factors of shape (..., N, r)."""
        return MirroredAffinity(cat([u, v], -1)).by_roots()

    def by_rows(self) -> FactoredAffinity:
        """Every row divided by its sum."""
        return FactoredAffinity(_scaled(self.left, reciprocal(self.degree())), self.right, self.factor)

    def by_roots(self) -> FactoredAffinity:
        """Rows and columns divided by the roots of the row sums."""
        scale = reciprocal(self.degree(), torch.rsqrt)
        return FactoredAffinity(_scaled(self.left, scale), _scaled(self.right, scale), self.factor)

    def degree(self) -> Tensor:
        """The sum of every row, (..., N, 1)."""
        # Not a matrix product: autocast would compute it in half precision.
        total = self.factor * wide(self.right).sum(-2, keepdim=True)
        return (wide(self.left) * total).sum(-1, keepdim=True)

    def gather(self, z: Tensor) -> Tensor:
        """``factor · rightᵀ z``, (..., r, C), in float32 at least because it sums over all positions."""
        total = product(wide(self.right).mT, wide(z))
        return total if self.factor == 1.0 else self.factor * total

    def scatter(self, y: Tensor) -> Tensor:
        """``left y`` for ``y`` of shape (..., r, C)."""
        return product(self.left, y.to(self.left.dtype))

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C), in O(N·r·C)."""
        return self.scatter(self.gather(z)).to(z.dtype)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, M)."""
        return self.factor * (self.left[..., index, :] @ self.right.mT)

    def dense(self) -> Tensor:
        """The N x M matrix itself."""
        return self.factor * (self.left @ self.right.mT)

    def diagonal(self) -> Tensor:
        """The weight of each position on itself, (..., N)."""
        return self.factor * (self.left * self.right).sum(-1)


class MirroredAffinity(FactoredAffinity):
    """``A = ½(UVᵀ + VUᵀ)`` from U and V side by side, (..., N, 2r): right is left with its halves swapped.

    The right factor is never formed: the swap is applied to the gathered sums, which are small.
    """

    def __init__(self, both: Tensor) -> None:
        super().__init__(both, both, 0.5)

    def by_rows(self) -> FactoredAffinity:
        return FactoredAffinity(_scaled(self.left, reciprocal(self.degree())), _swapped(self.left, -1), 0.5)

    def by_roots(self) -> MirroredAffinity:
        return MirroredAffinity(_scaled(self.left, reciprocal(self.degree(), torch.rsqrt)))

    def degree(self) -> Tensor:
        total = 0.5 * _swapped(wide(self.left).sum(-2, keepdim=True), -1)
        return (wide(self.left) * total).sum(-1, keepdim=True)

    def gather(self, z: Tensor) -> Tensor:
        return _swapped(super().gather(z), -2)

    def rows(self, index: Tensor) -> Tensor:
        return 0.5 * (self.left[..., index, :] @ _swapped(self.left, -1).mT)

    def dense(self) -> Tensor:
        return 0.5 * (self.left @ _swapped(self.left, -1).mT)

    def diagonal(self) -> Tensor:
        return 0.5 * (self.left * _swapped(self.left, -1)).sum(-1)


def _swapped(x: Tensor, dimension: int) -> Tensor:
    """The two halves of a dimension exchanged."""
    return x.roll(x.shape[dimension] // 2, dimension)


def _scaled(x: Tensor, scale: Tensor) -> Tensor:
    """``x * scale``, computed in float32 at least and returned in the type of ``x``."""
    return (wide(x) * scale).to(x.dtype)


@dataclass(frozen=True)
class SortedAffinity:
    """``A_ij = s_i relu(a_i + b_j)``, the concatenation kernel, in O((N + M) log M) instead of O(N·M).

    With b in descending order, the j with a non-zero weight for i are a prefix. Its sum is ``a_i Σ z_j + Σ b_j z_j``:
    two cumulative sums and a look-up.
    """

    query: Tensor  # (..., N, 1): a
    key: Tensor  # (..., M, 1): b
    scale: Tensor | float = 1.0  # (..., N, 1)

    def by_degree(self) -> SortedAffinity:
        """Every row divided by its sum."""
        degree = self @ torch.ones_like(wide(self.key))
        return SortedAffinity(self.query, self.key, reciprocal(degree))

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C)."""
        query, key, values = wide(self.query), wide(self.key), wide(z)
        ordered, order = key.squeeze(-1).sort(-1, descending=True)
        # How many b_j are above -a_i; ties add nothing either way.
        count = torch.searchsorted(-ordered.detach().contiguous(), query.detach().squeeze(-1).contiguous())
        values = values.gather(-2, order.unsqueeze(-1).expand_as(values))
        sums = cat([values, ordered.unsqueeze(-1) * values], -1).cumsum(-2)
        sums = F.pad(sums, (0, 0, 1, 0))  # the empty sum
        plain, weighted = sums.gather(-2, count.unsqueeze(-1).expand(*count.shape, sums.shape[-1])).chunk(2, -1)
        return (self.scale * (query * plain + weighted)).to(z.dtype)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, M)."""
        scale = self.scale[..., index, :] if isinstance(self.scale, Tensor) else self.scale
        return scale * (self.query[..., index, :] + self.key.mT).relu()

    def dense(self) -> Tensor:
        """The N x M matrix itself."""
        return self.scale * (self.query + self.key.mT).relu()


@dataclass(frozen=True)
class TiledAffinity:
    """``A = D^-½ · ½(M + Mᵀ) · D^-½`` with ``M_ij = f(query_i·key_j)``, a few rows of M at a time.

    Products take O(N²·C), but the rows stay in the cache and are not stored: the backward pass recomputes them. Second
    derivatives are not supported.
    """

    query: Tensor  # (..., N, r), in float32 at least
    key: Tensor  # (..., N, r)
    kind: Literal["sigmoid", "gaussian"]
    shift: Tensor  # (..., 1, 1): subtracted from a Gaussian's scores so that exp does not overflow; it cancels
    scale: Tensor  # (..., N, 1)

    @classmethod
    def normalised(cls, query: Tensor, key: Tensor, kind: Literal["sigmoid", "gaussian"]) -> TiledAffinity:
        """The affinity of embeddings (..., N, r)."""
        query, key = wide(query), wide(key)
        with full_precision(query):
            shift = query.new_zeros(*query.shape[:-2], 1, 1)
            if kind == "gaussian":
                with torch.no_grad():
                    tops = [(query[..., rows, :] @ key.mT).amax((-2, -1), True) for rows in _tiles(query)]
                    shift = torch.stack(tops).amax(0)
            ones = query.new_ones(*query.shape[:-1], 1)
            degree = _symmetric_product(query, key, ones, shift, kind)
            return cls(query, key, kind, shift, reciprocal(degree, torch.rsqrt))

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., N, C)."""
        with full_precision(z):
            mixed = _symmetric_product(self.query, self.key, self.scale * wide(z), self.shift, self.kind)
            return (self.scale * mixed).to(z.dtype)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for positions ``index`` (P,): (..., P, N)."""
        with full_precision(self.query):
            ahead = _apply(self.query[..., index, :] @ self.key.mT, self.shift, self.kind)
            back = _apply(self.key[..., index, :] @ self.query.mT, self.shift, self.kind)
            return 0.5 * self.scale[..., index, :] * (ahead + back) * self.scale.mT

    def dense(self) -> Tensor:
        """The N x N matrix itself."""
        return self.rows(torch.arange(self.query.shape[-2], device=self.query.device))


TILE = 2**18
"""Entries of the rows held at a time: 1 MB of float32, which stays in the cache."""


def _tiles(query: Tensor) -> list[slice]:
    positions = query.shape[-2]
    rows = max(TILE // max(query.shape[:-1].numel(), 1), 16)
    return [slice(first, min(first + rows, positions)) for first in range(0, positions, rows)]


def _apply(scores: Tensor, shift: Tensor, kind: Literal["sigmoid", "gaussian"]) -> Tensor:
    return scores.sigmoid() if kind == "sigmoid" else (scores - shift).exp()


class _SymmetricProduct(torch.autograd.Function):
    """``½(M + Mᵀ) x``; query, key and x are (B, N, ...)."""

    @staticmethod
    def forward(query: Tensor, key: Tensor, x: Tensor, shift: Tensor, kind: Literal["sigmoid", "gaussian"]) -> Tensor:
        out = torch.zeros_like(x)
        for rows in _tiles(query):
            tile = _apply(query[:, rows] @ key.mT, shift, kind)
            out[:, rows].baddbmm_(tile, x)
            out.baddbmm_(tile.mT, x[:, rows])
        return out.mul_(0.5)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *tensors, ctx.kind = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        query, key, x, shift = ctx.saved_tensors
        grad = 0.5 * grad
        for_query, for_key, for_x = (torch.zeros_like(t) for t in (query, key, x))
        ahead, back = cat([grad, x], -1), cat([x, grad], -1)
        for rows in _tiles(query):
            tile = _apply(query[:, rows] @ key.mT, shift, ctx.kind)
            if ctx.needs_input_grad[2]:
                for_x[:, rows].baddbmm_(tile, grad)
                for_x.baddbmm_(tile.mT, grad[:, rows])
            for_scores = (ahead[:, rows] @ back.mT).mul_(tile)  # the gradient of M, times the kernel's derivative
            if ctx.kind == "sigmoid":
                for_scores.addcmul_(for_scores, tile, value=-1)
            for_query[:, rows] = for_scores @ key
            for_key.baddbmm_(for_scores.mT, query[:, rows])
        return for_query, for_key, for_x, None, None


def _symmetric_product(
    query: Tensor, key: Tensor, x: Tensor, shift: Tensor, kind: Literal["sigmoid", "gaussian"]
) -> Tensor:
    flat = (t.reshape(-1, *t.shape[-2:]) for t in (query, key, x, shift))
    found: Tensor = _SymmetricProduct.apply(*flat, kind)  # type: ignore[no-untyped-call]
    return found.reshape(x.shape)
