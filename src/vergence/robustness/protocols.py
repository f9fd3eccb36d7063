"""Settings of robust training and of its evaluation; importing them does not need PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError

AttackName = Literal["deepfool", "bim", "cw", "strongest"]
BUDGETS = {1: 0.25, 2: 0.5, 4: 1.0, 8: 2.0, 16: 3.0, 24: 4.0, 32: 5.0}
"""Budgets of PGD with ten steps and the size of a step (Sect. 5.2; below 8, a quarter of the budget), in 1/255."""


@dataclass(frozen=True)
class Defence:
    """Training against attacks, the rival."""

    kind: Literal["none", "at", "trades"] = "none"
    """none; adversarial training on PGD pictures; or TRADES."""
    eps: float = 8.0
    """Budget in 1/255."""
    steps: int = 10
    """PGD steps per training step."""
    step: float = 2.0
    """Their size in 1/255."""
    targeted: bool = True
    """at: towards random classes, as in the MMC paper's references."""
    weight: float = 6.0
    """trades: weight of the divergence."""

    def __post_init__(self) -> None:
        if not (self.eps > 0 and self.step > 0 and self.weight >= 0) or self.steps < 1:
            raise VergenceError(
                "a defence has eps and step above 0, weight >= 0 and 1 or more steps, got "
                f"{self.eps:g}, {self.step:g}, {self.weight:g} and {self.steps}"
            )


@dataclass(frozen=True)
class Protocol:
    """How robustness is measured."""

    pictures: int = 1000
    """Test pictures that are attacked, the first ones."""
    batch: int = 100
    """Pictures attacked at once."""
    attack: AttackName = "cw"
    """C&W (Foolbox 2's parameters, unless changed), DeepFool, L2-BIM with a search of the radius, or the smallest
    perturbation that DeepFool or C&W finds."""
    searches: int = 5
    """cw: constants tried."""
    steps: int = 1000
    """cw: steps per constant."""
    rate: float = 5e-3
    """cw: Adam's learning rate."""
    constant: float = 1e-2
    """cw: the first constant."""
    budgets: tuple[int, ...] = (8, 16, 24, 32)
    """L-infinity PGD: budgets in 1/255, of 1, 2, 4, 8, 16, 24 and 32; steps are a quarter of it, at most 2 to 5."""

    def __post_init__(self) -> None:
        if min(self.pictures, self.batch, self.searches, self.steps) < 1 or not (self.rate > 0 and self.constant > 0):
            raise VergenceError(
                "a protocol has 1 or more pictures, batch, searches and steps, and a rate and a constant above 0, got "
                f"{self}"
            )
        if not set(self.budgets) <= set(BUDGETS):
            raise VergenceError(f"budgets are of {', '.join(map(str, BUDGETS))}, got {self.budgets}")
