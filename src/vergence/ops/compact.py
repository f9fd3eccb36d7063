"""The graph of the compact generalised nonlocal block (CGNL): one node for every channel of every position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from vergence.ops.affinity import FactoredAffinity, product


def compact(
    theta: Tensor,
    phi: Tensor,
    groups: int = 1,
    kernel: Literal["dot", "rbf"] = "dot",
    order: int = 2,
    gamma: float = 1e-4,
    normalise: Literal["none", "row", "size"] = "none",
) -> FactoredAffinity | SeriesAffinity:
    """The graph of the compact generalised nonlocal block. Differentiable.

    Embeddings (..., N, m) become (..., groups, N·m/groups) nodes, and two nodes of a group are compared by the product
    ``t p`` of their values, or by ``exp(-γ (t - p)²)`` with ``t² = p² = 1`` as its authors put it:
    ``exp(-2γ) exp(2γ t p)``, of which a Taylor series is kept to ``order``. Either is a product of thin factors.
    """
    t, p = (vectorise(x, groups) for x in (theta, phi))
    size = t.shape[-2] if normalise == "size" else 1
    if kernel == "dot":
        nodes = _NodeAffinity(t, p, 1 / size)
        return nodes.by_rows() if normalise == "row" else nodes
    terms = (math.exp(-2 * gamma) * (2 * gamma) ** k / math.factorial(k) / size for k in range(order + 1))
    series = SeriesAffinity(t, p, tuple(terms))
    return series.factored().by_rows() if normalise == "row" else series


class _NodeAffinity(FactoredAffinity):
    """A factored affinity of few columns, each contiguous in memory."""

    def scatter(self, y: Tensor) -> Tensor:
        # Transposed, so that the gradient has the columns' memory layout: many times as fast as the usual order.
        return product(y.to(self.left.dtype).mT, self.left.mT).mT


@dataclass(frozen=True)
class SeriesAffinity:
    """``A_ij = Σ_k c_k (t_i p_j)^k`` for nodes t and p.

    The product with one column z is a polynomial of t, whose coefficients are the moments ``Σ_j p_j^k z_j``: no powers
    are stored. It supports no second derivatives.
    """

    t: Tensor  # (..., M, 1)
    p: Tensor  # (..., M, 1)
    series: tuple[float, ...]
    """The coefficients c, from k = 0 on, at least two."""

    def factored(self) -> FactoredAffinity:
        """The same with factors of one column per power."""
        return _NodeAffinity(_powers(self.t, self.series), _powers(self.p, [1.0] * len(self.series)))

    def __matmul__(self, z: Tensor) -> Tensor:
        """``A @ z`` for ``z`` of shape (..., M, C)."""
        if z.shape[-1] != 1:
            return self.factored() @ z
        nodes = (x.to(self.t.dtype).squeeze(-1) for x in (self.t, self.p, z))
        found: Tensor = _Series.apply(*nodes, self.series)  # type: ignore[no-untyped-call]
        return found.unsqueeze(-1).to(z.dtype)

    def rows(self, index: Tensor) -> Tensor:
        """Rows of A for nodes ``index`` (P,): (..., P, M)."""
        return self.factored().rows(index)

    def dense(self) -> Tensor:
        """The M x M matrix itself."""
        return self.factored().dense()


class _Series(torch.autograd.Function):
    """``Σ_k c_k t^k Σ_j p_j^k z_j`` for t, p and z of shape (..., M)."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, p: Tensor, z: Tensor, series: tuple[float, ...]) -> Tensor:
        coefficients = _moments(z, p, series)
        ctx.series = series
        ctx.save_for_backward(t, p, z, *coefficients)
        return _horner(coefficients, t)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        t, p, z, *coefficients = ctx.saved_tensors
        moments = _moments(grad, t, ctx.series)
        for_t = _horner(_derived(coefficients), t) * grad
        for_p = _horner(_derived(moments), p) * z
        return for_t, for_p, _horner(moments, p), None


def _moments(values: Tensor, nodes: Tensor, series: Sequence[float]) -> list[Tensor]:
    """``c_k Σ_j n_j^k v_j``, one (..., 1) for each k."""
    found = []
    for k, scale in enumerate(series):
        values = values * nodes if k else values
        found.append(values.sum(-1, keepdim=True) * scale)
    return found


def _horner(coefficients: Sequence[Tensor], x: Tensor) -> Tensor:
    """``Σ_k a_k x^k`` by Horner's rule; coefficients are (..., 1)."""
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = torch.addcmul(coefficient, total, x)
    return total


def _derived(coefficients: Sequence[Tensor]) -> list[Tensor]:
    """Coefficients of the derivative of a polynomial."""
    return [k * coefficient for k, coefficient in enumerate(coefficients)][1:]


def _powers(nodes: Tensor, scales: Sequence[float]) -> Tensor:
    """Scaled powers of nodes (..., M, 1) from 0 on: (..., M, K). Each power is contiguous in memory, which is fastest
    for products with so few columns."""
    x = nodes.squeeze(-1)
    powers = [torch.ones_like(x)]
    for _ in scales[1:]:
        powers.append(x if len(powers) == 1 else powers[-1] * x)
    scaled = [power if scale == 1.0 else scale * power for scale, power in zip(scales, powers, strict=True)]
    return torch.stack(scaled, -2).mT


def vectorise(x: Tensor, groups: int) -> Tensor:
    """(..., N, m) as nodes (..., groups, N·m/groups, 1)."""
    parts = x.unflatten(-1, (groups, -1)).movedim(-2, -3)  # (..., groups, N, m / groups)
    return parts.flatten(-2).unsqueeze(-1)


def devectorise(nodes: Tensor, positions: int) -> Tensor:
    """Nodes (..., groups, N·m/groups, 1) as (..., N, m)."""
    return nodes.squeeze(-1).unflatten(-1, (positions, -1)).movedim(-3, -2).flatten(-2)
