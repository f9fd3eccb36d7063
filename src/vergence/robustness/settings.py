"""Settings shared by robustness systems, and their checks; importing them does not need PyTorch."""

from __future__ import annotations

from typing import Literal

from vergence.core.errors import VergenceError

Resize = Literal["nearest", "bilinear"]
"""Interpolation in input diversity: nearest as in the public TensorFlow code, bilinear as in its PyTorch version."""


def check_steps(eps: float, steps: int, beta: float) -> None:
    """Raises an error unless eps is in (0, 1], steps at least 1 and beta above 0."""
    if not 0 < eps <= 1:
        raise VergenceError(f"a budget is above 0 and at most 1 (255 of 255), got {eps:g}")
    if steps < 1 or not beta > 0:
        raise VergenceError(f"an attack has 1 or more steps and a beta above 0, got {steps} and {beta:g}")


def check_smoothing(side: int) -> None:
    """Raises an error unless the side of a Gaussian kernel is odd and at least 3."""
    if side < 3 or side % 2 == 0:
        raise VergenceError(f"a kernel to smooth with has an odd side of at least 3, got {side}")


def check_momentum(momentum: float) -> None:
    """Raises an error for a negative decay."""
    if not momentum >= 0:
        raise VergenceError(f"a momentum is at least 0, got {momentum:g}")


def check_diversity(chance: float, grow: float) -> None:
    """Raises an error unless the probability is in [0, 1] and the growth in (1, 4]."""
    if not (0 <= chance <= 1 and 1 < grow <= 4):
        raise VergenceError(f"DI has a chance from 0 to 1 and grows by 1 to 4, got {chance} and {grow}")
