"""Graph filters: functions of an affinity applied to node features.

A filter is a sum of signals, each a function of ``A`` applied to ``z`` and mixed by a weight. When ``A = U Vᵀ`` is a
product of thin factors, all these signals lie in the span of ``z`` and the few columns of ``U``:
``A (c z + U y) = U (c Vᵀz + VᵀU y)``. So a filter of any order, even a rational one, passes over the N positions three
times (for ``Vᵀz``, ``VᵀU`` and the last sum) and does the rest on matrices of the size of the rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from vergence.ops.affinity import Affinity, DenseAffinity, FactoredAffinity, MirroredAffinity
from vergence.ops.precision import full_precision, wide


def chebyshev(affinity: Affinity | Tensor, z: Tensor, weights: Sequence[Tensor | None]) -> Tensor:
    """The Chebyshev filter ``Σ_k T_k(A) z W_k`` by the three-term recurrence. Differentiable.

    ``z`` is (..., N, C), each weight (C, D), the result (..., N, D). Weights of shape () are scalars, and D is C; None
    leaves a term out. Two weights are the first order that the spectral nonlocal block uses.
    """
    nodes = _nodes(affinity, z)
    return nodes.mix(_chebyshev(nodes.start, nodes.step, len(weights)), weights)


def laplacian_squared(affinity: Affinity | Tensor, z: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
    """``z W_0 + L² z W_1`` with ``L = I - A``, computed as ``L (L z)``. Differentiable.

    ``z`` is (..., N, C), each weight (C, D) or (), the result (..., N, D).
    """
    nodes = _nodes(affinity, z)
    once = nodes.start - nodes.step(nodes.start)
    return nodes.mix([nodes.start, once - nodes.step(once)], weights)


def cayley(
    affinity: Affinity | Tensor,
    z: Tensor,
    weights: Sequence[Tensor],
    zoom: Tensor | float = 1.0,
    solver: Literal["exact", "jacobi"] = "exact",
    iterations: int = 20,
) -> Tensor:
    """The Cayley filter ``z W_0 + 2 Re Σ_j C^j z W_j`` with ``C = (hL - iI)(hL + iI)^-1``. Differentiable.

    ``L = I - A``, ``h`` is the zoom, and weights are as in :func:`chebyshev`. The real parts of the powers of ``C`` are
    Chebyshev polynomials of the first of them: ``Re C^j = T_j(P)`` with ``P = I - 2 (I + h²L²)^-1``. So the exact
    solver needs real numbers only and factorises one matrix, N x N or, for a factored affinity, rank x rank. ``jacobi``
    solves ``(hL + iI) y = b`` by the given number of iterations, using products only.
    """
    with full_precision(z):
        features = wide(z)
        zoom = torch.as_tensor(zoom, dtype=features.dtype, device=z.device)
        mixed = [wide(weights[0]), *(2 * wide(w) for w in weights[1:])]
        if solver == "jacobi":
            plain = _Plain(_wide(affinity), features)
            return plain.mix(_jacobi(plain, zoom, len(weights), iterations), mixed).to(z.dtype)
        nodes = _nodes(_wide(affinity), features)
        inverse = nodes.inverse(zoom**2)
        signals = _chebyshev(nodes.start, lambda s: s - 2 * inverse(s), len(weights))
        return nodes.mix(signals, mixed).to(z.dtype)


class _Nodes(Protocol):
    """Signals on the nodes of a graph, which can be added and scaled; each class has its own representation."""

    @property
    def start(self) -> Any: ...
    def step(self, signal: Any, /) -> Any:
        """A times a signal."""

    def inverse(self, squared: Tensor, /) -> Callable[[Any], Any]:
        """A function that applies ``(I + squared · (I - A)²)^-1``."""

    def mix(self, signals: Sequence[Any], weights: Sequence[Tensor | None], /) -> Tensor:
        """The sum of signals times weights; None leaves one out."""


@dataclass
class _Plain:
    """Signals as tensors (..., N, C)."""

    affinity: Affinity
    start: Tensor

    def step(self, signal: Tensor) -> Tensor:
        return self.affinity @ signal

    def inverse(self, squared: Tensor) -> Callable[[Tensor], Tensor]:
        matrix = self.affinity.dense()
        eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        laplacian = eye - matrix
        factors = torch.linalg.lu_factor(eye + squared * (laplacian @ laplacian))
        return lambda signal: torch.linalg.lu_solve(*factors, signal)

    def mix(self, signals: Sequence[Tensor], weights: Sequence[Tensor | None]) -> Tensor:
        return _total([_weighted(s, w) for s, w in zip(signals, weights, strict=True) if w is not None])


@dataclass(frozen=True)
class _Span:
    """``c z + U y``; a ``y`` of None is zero."""

    c: Tensor | float
    y: Tensor | None  # (..., r, C)

    def __add__(self, other: _Span) -> _Span:
        if self.y is None or other.y is None:
            return _Span(self.c + other.c, other.y if self.y is None else self.y)
        return _Span(self.c + other.c, self.y + other.y)

    def __sub__(self, other: _Span) -> _Span:
        return self + -1.0 * other

    def __rmul__(self, factor: float) -> _Span:
        return self.times(factor)

    def times(self, factor: float | Tensor) -> _Span:
        return _Span(factor * self.c, None if self.y is None else factor * self.y)


@dataclass
class _Thin:
    """Signals in the span of the features and of the columns of the left factor."""

    affinity: FactoredAffinity
    z: Tensor
    _seen: Tensor | None = None
    _overlap: Tensor | None = None

    @property
    def start(self) -> _Span:
        return _Span(1.0, None)

    @property
    def seen(self) -> Tensor:
        """``Vᵀz``."""
        if self._seen is None:
            self._seen = self.affinity.gather(self.z)
        return self._seen

    @property
    def overlap(self) -> Tensor:
        """``VᵀU``."""
        if self._overlap is None:
            self._overlap = self.affinity.gather(self.affinity.left)
        return self._overlap

    def step(self, signal: _Span) -> _Span:
        return _Span(0.0, self._project(signal))

    def _project(self, signal: _Span) -> Tensor:
        """``Vᵀ (c z + U y)``."""
        if signal.y is None:
            return self.seen if _is(signal.c, 1.0) else signal.c * self.seen
        inner = self.overlap @ signal.y
        return inner if _is(signal.c, 0.0) else inner + signal.c * self.seen

    def inverse(self, squared: Tensor) -> Callable[[_Span], _Span]:
        # I + h²(I - A)² = a I + U K Vᵀ, inverted by Woodbury's identity with a solve of the size of the rank.
        a = 1 + squared
        eye = torch.eye(self.overlap.shape[-1], dtype=self.overlap.dtype, device=self.overlap.device)
        k = squared * (self.overlap - 2 * eye)
        correction = torch.linalg.solve(a * eye + k @ self.overlap, k)

        def apply(signal: _Span) -> _Span:
            return (signal - _Span(0.0, correction @ self._project(signal))).times(1 / a)

        return apply

    def mix(self, signals: Sequence[_Span], weights: Sequence[Tensor | None]) -> Tensor:
        pairs = [(s, w) for s, w in zip(signals, weights, strict=True) if w is not None]
        of_features = [w if _is(s.c, 1.0) else s.c * w for s, w in pairs if not _is(s.c, 0.0)]
        of_columns = [_weighted(s.y, w) for s, w in pairs if s.y is not None]
        parts = [_weighted(self.z, _total(of_features))] if of_features else []
        if of_columns:
            parts.append(self.affinity.scatter(_total(of_columns)).to(self.z.dtype))
        return _total(parts)


def _nodes(affinity: Affinity | Tensor, z: Tensor) -> _Nodes:
    if isinstance(affinity, FactoredAffinity) and affinity.left.shape[-2] == affinity.right.shape[-2]:
        return _Thin(affinity, z)
    return _Plain(DenseAffinity(affinity) if isinstance(affinity, Tensor) else affinity, z)


def _chebyshev(start: Any, step: Callable[[Any], Any], count: int) -> list[Any]:
    """``T_0 z, T_1 z, ...`` of a linear map."""
    signals = [start]
    if count > 1:
        signals.append(step(start))
    while len(signals) < count:
        signals.append(2.0 * step(signals[-1]) - signals[-2])
    return signals


def _jacobi(nodes: _Plain, zoom: Tensor, count: int, iterations: int) -> list[Tensor]:
    """Real parts of ``C^j z``: complex numbers as two real columns, ``(hL + iI)^-1`` by Jacobi iterations."""
    diagonal = _diagonal(nodes.affinity).unsqueeze(-1)
    pull = zoom * (1 - diagonal)  # the diagonal of hL

    def divide(real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
        """A complex signal divided by the diagonal, ``pull + i``."""
        size = pull**2 + 1
        return (pull * real + imaginary) / size, (pull * imaginary - real) / size

    def pulled(real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
        """A times both parts."""
        both = nodes.affinity @ torch.cat([real, imaginary], -1)
        return both.tensor_split(2, -1)  # type: ignore[return-value]

    real, imaginary = nodes.start, torch.zeros_like(nodes.start)
    signals = [real]
    for _ in range(count - 1):
        ahead = pulled(real, imaginary)
        target = zoom * (real - ahead[0]) + imaginary, zoom * (imaginary - ahead[1]) - real  # (hL - iI) times it
        real, imaginary = divide(*target)
        for _ in range(iterations):
            ahead = pulled(real, imaginary)
            real, imaginary = divide(
                target[0] + zoom * (ahead[0] - diagonal * real), target[1] + zoom * (ahead[1] - diagonal * imaginary)
            )
        signals.append(real)
    return signals


def _diagonal(affinity: Affinity) -> Tensor:
    if isinstance(affinity, FactoredAffinity):
        return affinity.diagonal()
    return affinity.dense().diagonal(dim1=-2, dim2=-1)


def _wide(affinity: Affinity | Tensor) -> Affinity:
    if isinstance(affinity, MirroredAffinity):
        return MirroredAffinity(wide(affinity.left))
    if isinstance(affinity, FactoredAffinity):
        return FactoredAffinity(wide(affinity.left), wide(affinity.right), affinity.factor)
    return DenseAffinity(wide(affinity if isinstance(affinity, Tensor) else affinity.dense()))


def _weighted(signal: Tensor, weight: Tensor) -> Tensor:
    weight = weight if weight.dtype == signal.dtype else weight.to(signal.dtype)
    return signal @ weight if weight.ndim else signal * weight


def _is(c: Tensor | float, value: float) -> bool:
    return isinstance(c, float) and c == value


def _total(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
