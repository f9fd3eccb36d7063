"""Training settings: phases, optimisers, schedules. Plain data; the engine acts on it.

A config has one field per phase, in the order they run. A phase has one field per optimiser: :class:`Training` has a
single one; adversarial training declares its own::

    @dataclass(frozen=True)
    class Game(Phase):
        generator: Optimiser = Optimiser(every=4)   # steps once while the discriminator steps four times
        discriminator: Optimiser = Optimiser()

By default an optimiser named ``generator`` updates ``model.generator``; a single optimiser updates the whole model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class Schedule:
    """Learning rate schedule: a closed-form function of the position, so that resuming needs no state."""

    kind: Literal["constant", "step", "multistep", "cosine", "polynomial", "exponential"] = "constant"
    """The curve after the warm-up."""
    unit: Literal["step", "epoch"] = "step"
    """Unit of warm-up, milestones and period; with `epoch` the rate is constant within an epoch."""
    warmup: int = 0
    """Linear warm-up over this many units, before the curve begins."""
    warmup_from: float = 0.0
    """Start of the warm-up, as a fraction of the full learning rate."""
    milestones: tuple[int, ...] = ()
    """multistep: multiply by gamma at each of these units (counted with the warm-up)."""
    period: int = 1
    """step: multiply by gamma every N units after the warm-up."""
    gamma: float = 0.1
    """step, multistep, exponential: the factor."""
    power: float = 1.0
    """polynomial: the exponent (1 is a straight line)."""
    floor: float = 0.0
    """cosine, polynomial: final learning rate, as a fraction of the full one."""

    def __post_init__(self) -> None:
        for name in ("warmup", "warmup_from", "gamma", "power", "floor"):
            if not getattr(self, name) >= 0:
                raise VergenceError(f"a schedule's {name} is at least 0, got {getattr(self, name)}")
        if self.period < 1:
            raise VergenceError(f"a schedule's period is at least 1, got {self.period}")

    def factor(self, position: float, total: float) -> float:
        """The factor of the full learning rate at ``position`` of ``total`` units."""
        if position < self.warmup:
            return self.warmup_from + (1 - self.warmup_from) * position / self.warmup
        since, span = position - self.warmup, max(total - self.warmup, 1)
        share = min(since / span, 1.0)
        if self.kind == "step":
            return float(self.gamma ** (since // self.period))
        if self.kind == "multistep":
            return float(self.gamma ** sum(position >= m for m in self.milestones))
        if self.kind == "exponential":
            return float(self.gamma**since)
        if self.kind == "cosine":
            return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * share)) / 2
        if self.kind == "polynomial":
            return float(self.floor + (1 - self.floor) * (1 - share) ** self.power)
        return 1.0


@dataclass(frozen=True)
class Optimiser:
    """An optimiser with its schedule."""

    kind: Literal["sgd", "adam", "adamw"] = "sgd"
    """Update rule."""
    lr: float = 0.1
    """Learning rate."""
    momentum: float = 0.9
    """sgd: momentum."""
    nesterov: bool = False
    """sgd: Nesterov momentum."""
    betas: tuple[float, float] = (0.9, 0.999)
    """adam, adamw: decay of the two moments."""
    weight_decay: float = 0.0
    """Weight decay (decoupled for adamw)."""
    rates: dict[str, float] = field(default_factory=dict)
    """Multipliers of the learning rate by pattern of parameter names, e.g. `backbone.* 0.1`; the first match counts."""
    decays: dict[str, float] = field(default_factory=dict)
    """Multipliers of the weight decay by pattern, e.g. `*.bias 0`."""
    clip: float = 0.0
    """Clip the gradient norm to this value (0: no clipping)."""
    every: int = 1
    """Take a step only every N steps of the phase."""
    schedule: Schedule = Schedule()

    def __post_init__(self) -> None:
        if self.every < 1:
            raise VergenceError(f"an optimiser steps every 1 or more steps, got every={self.every}")
        for name in ("lr", "weight_decay", "clip", "momentum"):
            if not getattr(self, name) >= 0:
                raise VergenceError(f"an optimiser's {name} is at least 0, got {getattr(self, name)}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise VergenceError(f"an optimiser's betas are from 0 to below 1, got {self.betas}")
        if self.kind == "sgd" and self.nesterov and not self.momentum:
            raise VergenceError("nesterov needs a momentum above 0, got 0")


@dataclass(frozen=True)
class Phase:
    """One phase of training with its own data, length and optimisers. Give `epochs` or `steps`."""

    epochs: int = 0
    """Passes over the data; if given, they replace the preset's steps."""
    steps: int = 0
    """Training steps; if given, they replace the preset's epochs."""
    batch: int = 64
    """Batch size, over all processes."""
    accumulate: int = 1
    """Cut each batch into this many pieces and add their gradients: less memory, the same step."""
    drop_last: bool = True
    """Leave out the last, smaller batch of an epoch."""
    evaluate_every: int = 1
    """Evaluate every N epochs (0: only at the end)."""
    log_every: int = 10
    """Write the mean losses every N steps."""
    keep: Literal["last", "best"] = "last"
    """The weights to end with: the last, or the best by the first metric on the validation data."""
    carry: bool = False
    """Keep the optimiser states of the previous phase."""

    def __post_init__(self) -> None:
        for name, least in {
            "epochs": 0,
            "steps": 0,
            "batch": 1,
            "accumulate": 1,
            "evaluate_every": 0,
            "log_every": 1,
        }.items():
            if getattr(self, name) < least:
                raise VergenceError(f"a phase's {name} is at least {least}, got {getattr(self, name)}")
        if self.epochs and self.steps:
            raise VergenceError(f"a phase has epochs or steps, not both (got {self.epochs} and {self.steps})")
        if self.batch % self.accumulate:
            raise VergenceError(f"a batch of {self.batch} cannot be cut into {self.accumulate} equal pieces")

    def optimisers(self) -> dict[str, Optimiser]:
        """The fields that are optimisers, by name."""
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Optimiser)}


@dataclass(frozen=True)
class Training(Phase):
    """A phase with one optimiser."""

    optimiser: Optimiser = Optimiser()


def phases_of(config: Any) -> dict[str, Phase]:
    """A config's phases by field name, in the order they run."""
    found = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    return {name: value for name, value in found.items() if isinstance(value, Phase)}


def one_length(config: Any, given: Mapping[str, Any]) -> Any:
    """The config without the other length of each phase that is given one: with ``train.steps``, ``train.epochs`` is
    0."""
    for name, phase in phases_of(config).items():
        chosen = [field for field in ("epochs", "steps") if given.get(f"{name}.{field}", 0) not in (0, "0")]
        if len(chosen) == 1:
            alone = (
                dataclasses.replace(phase, steps=0) if chosen == ["epochs"] else dataclasses.replace(phase, epochs=0)
            )
            config = dataclasses.replace(config, **{name: alone})
    return config
