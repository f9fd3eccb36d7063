"""The interface of a linear operator, its composition, and any PyTorch function as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from vergence.ops.linear.solve import least_squares

Shape = tuple[int, ...]
DOT_TOLERANCE = 1e-6
"""The relative difference of ``<Hx, y>`` and ``<x, Hᵀy>`` beyond which a function is no adjoint."""


class Operator(ABC):
    """A linear map H from pictures (..., *domain) to measurements (..., *codomain)."""

    domain: Shape
    codomain: Shape
    complex_domain = False
    complex_codomain = False
    closed = True
    """Whether the pseudo-inverse has a closed form; otherwise it is computed to ``tolerance``."""
    tolerance = 1e-8
    """Of conjugate gradients: the final norm of ``Hᵀ(y - Hx)``, relative to that at the start."""
    steps = 500
    """The most iterations of conjugate gradients."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """The measurement ``Hx``."""

    @abstractmethod
    def adjoint(self, y: Tensor) -> Tensor:
        """``Hᵀy`` (the conjugate transpose for complex values)."""

    def pinv(self, y: Tensor) -> Tensor:
        """``H†y``: of all pictures whose measurement is nearest to ``y``, the one of least norm."""
        dims = len(self.domain), len(self.codomain)
        return least_squares(self.forward, self.adjoint, y, dims, self.tolerance, self.steps)

    def range(self, x: Tensor) -> Tensor:
        """``H†Hx``: what the measurement determines."""
        return self.pinv(self.forward(x))

    def null(self, x: Tensor) -> Tensor:
        """``x - H†Hx``: what the measurement does not see."""
        return x - self.range(x)

    def largest(self, rounds: int = 50) -> float:
        """The largest singular value, by power iteration in float64."""
        x = _random(self.domain, self.complex_domain, 0)
        size = 0.0
        for _ in range(rounds):
            x = self.adjoint(self.forward(x / x.abs().square().sum().sqrt()))
            size = float(x.abs().square().sum().sqrt())
        return size**0.5

    def __call__(self, x: Tensor) -> Tensor:
        return self.forward(x)

    def __matmul__(self, other: Operator) -> Composed:
        """``(A @ B)(x) = A(B(x))``."""
        return Composed(self, other)


class Identity(Operator):
    """Everything is measured: nothing is left to invent."""

    def __init__(self, shape: Shape) -> None:
        self.domain = self.codomain = tuple(shape)

    def forward(self, x: Tensor) -> Tensor:
        return x

    def adjoint(self, y: Tensor) -> Tensor:
        return y

    def pinv(self, y: Tensor) -> Tensor:
        return y

    def null(self, x: Tensor) -> Tensor:
        return 0 * x


class Composed(Operator):
    """One operator after another; the pseudo-inverse is by conjugate gradients."""

    closed = False

    def __init__(self, outer: Operator, inner: Operator) -> None:
        if outer.domain != inner.codomain:
            raise ValueError(f"operators do not fit: one gives {inner.codomain}, the next takes {outer.domain}")
        self.outer, self.inner, self.domain, self.codomain = outer, inner, inner.domain, outer.codomain
        self.complex_domain, self.complex_codomain = inner.complex_domain, outer.complex_codomain
        self.tolerance = min(outer.tolerance, inner.tolerance)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer.forward(self.inner.forward(x))

    def adjoint(self, y: Tensor) -> Tensor:
        return self.inner.adjoint(self.outer.adjoint(y))


class Function(Operator):
    """Any linear PyTorch function with its adjoint. A dot test refuses a function that is no adjoint; ``pinv`` may be
    given, and is otherwise computed by conjugate gradients."""

    def __init__(
        self, forward: Callable[[Tensor], Tensor], adjoint: Callable[[Tensor], Tensor], domain: Shape, codomain: Shape,
        pinv: Callable[[Tensor], Tensor] | None = None, complex_domain: bool = False, complex_codomain: bool = False,
        tolerance: float = 1e-8,
    ) -> None:  # fmt: skip
        self._forward, self._adjoint, self._pinv = forward, adjoint, pinv
        self.domain, self.codomain, self.tolerance = tuple(domain), tuple(codomain), tolerance
        self.complex_domain, self.complex_codomain, self.closed = complex_domain, complex_codomain, pinv is not None
        apart = mismatch(self)
        if not apart <= DOT_TOLERANCE:
            raise ValueError(
                f"the adjoint is not one: <Hx, y> and <x, H^T y> differ by {apart:.2g} of their size, more than the "
                f"{DOT_TOLERANCE:g} that rounding explains"
            )

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(x)

    def adjoint(self, y: Tensor) -> Tensor:
        return self._adjoint(y)

    def pinv(self, y: Tensor) -> Tensor:
        return self._pinv(y) if self._pinv is not None else super().pinv(y)


def mismatch(operator: Operator) -> float:
    """The dot test: the difference of ``<Hx, y>`` and ``<x, Hᵀy>`` relative to ``|Hx||y|``, in float64."""
    x = _random(operator.domain, operator.complex_domain, 1)
    y = _random(operator.codomain, operator.complex_codomain, 2)
    image, back = operator.forward(x), operator.adjoint(y)
    if tuple(image.shape) != operator.codomain or tuple(back.shape) != operator.domain:
        raise ValueError(
            f"an operator from {operator.domain} to {operator.codomain} gives {tuple(image.shape)}, and its adjoint "
            f"{tuple(back.shape)}"
        )
    one, two = (complex((a.conj() * b).sum()) for a, b in ((image, y), (x, back)))
    if not (operator.complex_domain and operator.complex_codomain):
        one, two = complex(one.real), complex(two.real)  # a map over the reals, even if its values are complex
    size = float(image.abs().square().sum().sqrt() * y.abs().square().sum().sqrt())
    return abs(one - two) / max(size, torch.finfo(torch.float64).tiny)


def _random(shape: Shape, is_complex: bool, seed: int) -> Tensor:
    source = torch.Generator("cpu").manual_seed(35 + seed)
    kind = torch.complex128 if is_complex else torch.float64
    return torch.randn(shape, generator=source, dtype=kind, device="cpu")
