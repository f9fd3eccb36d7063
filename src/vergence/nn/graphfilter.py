"""Graph filters with learned weights: how a nonlocal block aggregates the positions it attends to.

Each is built for a number of inner and outer channels, and called with an affinity ``A``, the node features ``z``
(B, N, inner) and the attended features ``seen`` (B, M, inner), which differ from ``z`` only where keys and values are
sub-sampled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.ops import Affinity, FactoredAffinity, cayley, chebyshev, laplacian_squared


class Neighbours(nn.Module):
    """``A Z W``: the second Chebyshev term alone."""

    def __init__(self, inner: int, channels: int) -> None:
        super().__init__()
        self.w = linear(inner, channels)

    def forward(self, affinity: Affinity, z: Tensor, seen: Tensor) -> Tensor:
        if isinstance(affinity, FactoredAffinity):  # apply W to the few gathered rows, not to all positions
            gathered, weight = affinity.gather(seen), self.w.weight
            return affinity.scatter(F.linear(gathered, weight.to(gathered.dtype))).to(seen.dtype)
        return self.w(affinity @ seen)


class Differences(nn.Module):
    """``A Z W - Z W``: the first order with both weights tied. The public code has the opposite sign."""

    def __init__(self, inner: int, channels: int, reading: Literal["paper", "code"] = "paper") -> None:
        super().__init__()
        self.w = linear(inner, channels)
        self.reading = reading

    def forward(self, affinity: Affinity, z: Tensor, seen: Tensor) -> Tensor:
        near = affinity @ seen
        return self.w(near - z if self.reading == "paper" else z - near)


class Chebyshev(nn.Module):
    """``Σ_k T_k(±A) Z W_k`` to any order: the weights are free, or one matrix times a scalar per term (tied).

    The scaled Laplacian of a symmetric, normalised affinity is ``-A``, and filters are usually written in it.
    """

    def __init__(
        self,
        inner: int,
        channels: int,
        order: int = 1,
        of: Literal["affinity", "laplacian"] = "affinity",
        weights: Literal["free", "tied"] = "free",
    ) -> None:
        super().__init__()
        if order < 0:
            raise VergenceError(f"the order of a Chebyshev filter is at least 0, got {order}")
        self.of, self.order = of, order
        count = 1 if weights == "tied" else order + 1
        self.w = nn.ModuleList(linear(inner, channels) for _ in range(count))
        self.coefficients = nn.Parameter(torch.ones(order + 1)) if weights == "tied" else None

    def forward(self, affinity: Affinity, z: Tensor, seen: Tensor) -> Tensor:
        terms = matrices(self.w) if self.coefficients is None else list(self.coefficients)
        if self.of == "laplacian":  # T_k(-A) = (-1)^k T_k(A)
            terms = [-w if k % 2 else w for k, w in enumerate(terms)]
        out = chebyshev(affinity, z, terms)
        return out if self.coefficients is None else self.w[0](out)


class Stable(nn.Module):
    """``Z W₁ + A Z W₂ + (2A - I) Z W₃``: higher terms under the assumption that ``A² = A`` (gSNL).

    The third weight is redundant: it is folded into the first two and costs nothing.
    """

    def __init__(self, inner: int, channels: int) -> None:
        super().__init__()
        self.w = nn.ModuleList(linear(inner, channels) for _ in range(3))

    def forward(self, affinity: Affinity, z: Tensor, seen: Tensor) -> Tensor:
        first, second, third = matrices(self.w)
        return chebyshev(affinity, z, [first - third, second + 2 * third])


class PrintedCayley(nn.Module):
    """Eq. 22, ``Z W₁ + 2 (L² Z W_h + Z) W₂`` with ``L = I - A``.

    It is not a Cayley filter: the paper's derivation replaces the inverse by a product. The public code computes
    ``Z W₁ + (Z W_h + L² Z) W₂``.
    """

    def __init__(self, inner: int, channels: int, reading: Literal["paper", "code"] = "paper") -> None:
        super().__init__()
        self.w1, self.w2, self.wh = linear(inner, channels), linear(inner, channels), linear(inner, inner)
        self.reading = reading

    def forward(self, affinity: Affinity, z: Tensor, seen: Tensor) -> Tensor:
        w1, w2, wh = (layer.weight.mT for layer in (self.w1, self.w2, self.wh))
        if self.reading == "paper":
            return laplacian_squared(affinity, z, (w1 + 2 * w2, 2 * wh @ w2))
        return laplacian_squared(affinity, z, (w1 + wh @ w2, w2))


class Cayley(nn.Module):
    """Eq. 20, a true Cayley filter of any order with a learned zoom, by a linear solve or by Jacobi iteration."""

    def __init__(
        self,
        inner: int,
        channels: int,
        order: int = 1,
        solver: Literal["exact", "jacobi"] = "exact",
        iterations: int = 20,
    ) -> None:
        super().__init__()
        if order < 1 or iterations < 1:
            raise VergenceError(f"a Cayley filter has order and iterations of at least 1, got {order} and {iterations}")
        self.w = nn.ModuleList(linear(inner, channels) for _ in range(order + 1))
        self.zoom = nn.Parameter(torch.ones(()))
        self.solver: Literal["exact", "jacobi"] = solver
        self.iterations = iterations

    def forward(self, affinity: Affinity, z: Tensor, seen: Tensor) -> Tensor:
        return cayley(affinity, z, matrices(self.w), self.zoom, self.solver, self.iterations)


def matrices(layers: Iterable[nn.Module]) -> list[Tensor]:
    """The weights of linear layers as in the equations: (inputs, outputs)."""
    return [layer.weight.mT for layer in layers if isinstance(layer, nn.Linear)]


def linear(inputs: int, outputs: int, bias: bool = False) -> nn.Linear:
    """A 1x1 convolution over positions, initialised as in the authors' code; a bias starts at zero."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
