"""What is published: noise that the budget cuts off is not thrown away but laid around where it was (Eqs. 10-12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.ops.smooth import surroundings
from vergence.robustness.attacks import Diversity, SignAttack


@dataclass(frozen=True)
class Projection:
    """PI: what a pixel would have moved beyond the budget, its neighbours move instead."""

    kernel: int = 3
    """Side of the neighbourhood k_w: 3 against usual networks, 7 against adversarially trained ensembles, 21 against
    denoising ones."""
    gamma: float | None = None
    """How far the neighbours move, in [0, 1] as the budget is; none: as far as a step."""
    remember: Literal["all", "steps"] = "all"
    """What the cumulative noise holds: steps and projections (Alg. 1, line 8), or steps alone, which the authors' code
    advises for ensembles of residual networks."""

    def __post_init__(self) -> None:
        if self.kernel < 3 or self.kernel % 2 == 0:
            raise VergenceError(f"a project kernel has an odd side of at least 3, got {self.kernel}")
        if self.gamma is not None and not 0 <= self.gamma <= 255:
            raise VergenceError(f"a project factor is at least 0, got {self.gamma:g}")

    def start(self, attack: SignAttack) -> Callable[[Tensor], Tensor]:
        """Begin with no cumulative noise."""
        stride = attack.beta / attack.steps
        reach = stride if self.gamma is None else self.gamma / attack.eps
        total: Tensor | None = None

        def project(step: Tensor) -> Tensor:
            # In units of eps, the noise of the paper's settings is made of whole numbers, halves and eighths: it adds
            # up without rounding, and what cancels is zero. For other settings, what rounding may leave (so many
            # additions of so much) is taken off: a sign makes a whole step of any dust.
            nonlocal total
            dust = torch.finfo(step.dtype).eps * attack.steps**2 * (stride + reach)
            total = step if total is None else total + step
            over = F.threshold(total.abs() - 1, dust, 0)  # beyond the budget
            cut = over * total.sign()  # Eq. 10
            around = surroundings(cut, self.kernel)  # Eq. 12, but for the factor, which no sign sees
            projected = reach * F.hardshrink(around, self.kernel * dust).sign()
            if self.remember == "all":
                total = total + projected
            return projected

        return project


def project_kernel(size: int) -> Tensor:
    """Eq. 12: (size, size), zero in the middle, the same everywhere else, with sum 1; float64."""
    kernel = torch.full((size, size), 1 / (size**2 - 1), dtype=torch.float64)
    kernel[size // 2, size // 2] = 0
    return kernel


def pi_fgsm(
    eps: float,
    steps: int = 10,
    beta: float = 10.0,
    projection: Projection = Projection(),
    *,
    diversity: Diversity | None = None,
    smoothing: int = 0,
    momentum: float | None = None,
) -> SignAttack:
    """PI-FGSM (Alg. 1) and its combinations: with ``momentum=1.0`` MPI, with ``diversity=Diversity()`` DPI, with
    ``smoothing=15`` TPI, and so on."""
    return SignAttack(eps, steps, beta, diversity, smoothing, momentum, projection)


def patch_map(noise: Tensor, eps: float, full: Literal["black", "white"] = "black") -> Tensor:
    """Eq. 7 as bytes: ``|noise| * 256 / eps``. At the whole budget that is 256, which a byte holds as 0: black in the
    paper's figures; ``white`` keeps it at 255."""
    values = (noise.detach().abs().float() * 256 / eps + 1e-2).to(torch.int64)
    return (values.remainder(256) if full == "black" else values.clamp(max=255)).to(torch.uint8)
