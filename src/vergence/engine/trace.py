"""Traces: the losses of a training's first steps, and the metrics after them on a part of the test data.

Code that reproduces a trace still computes the same as when the trace was recorded, even if it was rewritten.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from torch import nn

from vergence import catalogue
from vergence.contract.config import digest
from vergence.contract.training import Phase
from vergence.core.progress import Progress
from vergence.engine.contexts import undisturbed, working
from vergence.engine.devices import make_fabric
from vergence.engine.evaluate import run_evaluation
from vergence.engine.fit import Fit
from vergence.engine.signals import Stop
from vergence.runs.folder import Run
from vergence.runs.order import Order

STEPS = 5
"""Steps of a trace; a shorter training is traced whole."""
LOSSES, METRICS = 1e-3, 0.05
"""Relative tolerances of losses and metrics on another machine, or with other versions of packages."""


@dataclass(frozen=True)
class Trace:
    """Losses of the first training steps, and metrics after them."""

    losses: tuple[dict[str, float], ...]
    """One per step."""
    metrics: dict[str, float | None]
    """After the last of these steps; None where a value is not finite."""

    @property
    def digest(self) -> str:
        """Equal for traces that are equal to the bit."""
        return digest(self)

    def difference(self, other: Trace, same_machine: bool) -> str:
        """Where another trace first differs from this one, in words; empty if it does not."""
        for step, (ours, theirs) in enumerate(zip(self.losses, other.losses, strict=False), 1):
            apart = _apart(ours, theirs, 0.0 if same_machine else LOSSES)
            if apart:
                return f"step {step}: {apart}"
        if len(self.losses) != len(other.losses):
            return f"{len(other.losses)} steps instead of {len(self.losses)}"
        apart = _apart(self.metrics, other.metrics, 0.0 if same_machine else METRICS)
        return f"after {len(self.losses)} steps: {apart}" if apart else ""


def _apart(ours: Mapping[str, float | None], theirs: Mapping[str, float | None], tolerance: float) -> str:
    for name in dict.fromkeys([*ours, *theirs]):
        if name not in ours or name not in theirs:
            return f"{name} is {'new' if name in theirs else 'gone'}"
        a, b = ours[name], theirs[name]
        if a != b and (a is None or b is None or abs(a - b) > tolerance * max(abs(a), abs(b))):
            return f"{name} is {b!r}, was {a!r}"
    return ""


def record(order: Order) -> Trace:
    """Train the first steps of an order, then evaluate; no files are kept."""
    system, runtime, losses = catalogue.load(order.system), order.runtime, list[dict[str, float]]()
    with tempfile.TemporaryDirectory() as scratch, undisturbed():
        model: nn.Module | None = None
        facts = None
        if system.trains:
            run = Run.create(order, Path(scratch))
            fit = _FirstSteps(run, make_fabric(runtime), Progress(), Stop(), runtime)
            fit.seen = losses
            with suppress(_Enough):
                fit()
            model, facts = fit.model, fit.ctx.facts
        with working(system, order.config, Path(scratch), runtime, Progress(), facts) as ctx:
            data = system.slice(system.prepare(ctx, system.data(ctx, "test")))
            if model is None and system.offers("build"):
                ctx.facts = system.facts(ctx, data)
                model = cast(nn.Module, system.build(order.config, ctx.facts))
            metrics = run_evaluation(system, ctx, model, data)
    return Trace(tuple(losses), {k: v if math.isfinite(v) else None for k, v in metrics.items()})


class _Enough(Exception):
    """All steps of a trace have been made."""


class _FirstSteps(Fit):
    """A training that ends after the steps of a trace."""

    seen: list[dict[str, float]]

    def _record(self, phase: Phase, losses: dict[str, float], now: bool) -> None:
        self.seen.append(dict(losses))
        if len(self.seen) >= STEPS:
            raise _Enough
