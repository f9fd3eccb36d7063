"""Settings that systems of this room share, and the values that make sense for them; none of it needs PyTorch."""

from __future__ import annotations

from typing import Literal

from vergence.core.errors import VergenceError

Resize = Literal["nearest", "bilinear"]
"""How input diversity enlarges a picture: as the public TensorFlow code does, or as its PyTorch version does."""


def check_steps(eps: float, steps: int, beta: float) -> None:
    """Refuse a budget outside (0, 1], no steps, or steps of no size."""
    if not 0 < eps <= 1:
        raise VergenceError(f"a budget is above 0 and at most 1 (255 of 255), got {eps:g}")
    if steps < 1 or not beta > 0:
        raise VergenceError(f"an attack has 1 or more steps and a beta above 0, got {steps} and {beta:g}")


def check_smoothing(side: int) -> None:
    """Refuse a Gaussian kernel without a middle."""
    if side < 3 or side % 2 == 0:
        raise VergenceError(f"a kernel to smooth with has an odd side of at least 3, got {side}")


def check_momentum(momentum: float) -> None:
    """Refuse a negative decay."""
    if not momentum >= 0:
        raise VergenceError(f"a momentum is at least 0, got {momentum:g}")


def check_diversity(chance: float, grow: float) -> None:
    """Refuse a chance that is none, and sizes that do not grow."""
    if not (0 <= chance <= 1 and 1 < grow <= 4):
        raise VergenceError(f"DI has a chance from 0 to 1 and grows by 1 to 4, got {chance} and {grow}")
