"""How a training fits itself to data of the user's own that is smaller than its preset expects.

The rule, which ``docs/pages/training.md`` states too: at least :data:`STEPS_PER_EPOCH` steps per epoch, by smaller
batches; at least :data:`LEAST_STEPS` steps in all, by more epochs; and a warm-up of at most :data:`WARMUP` of them. A
value that differs from the preset's was chosen by the user and stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from vergence.contract.training import Optimiser, Phase
from vergence.core.errors import VergenceError

STEPS_PER_EPOCH = 8
LEAST_BATCH = 8
LEAST_STEPS = 200
WARMUP = 0.25
STRETCH = ("constant", "cosine", "polynomial")
"""Schedules that keep their shape in a longer training."""


@dataclass(frozen=True)
class Extent:
    """How long a phase trains, in words and numbers."""

    samples: int
    batch: int
    steps_per_epoch: int
    steps: int
    warmup: int
    """In steps; the longest of its optimisers."""
    changed: tuple[str, ...] = ()
    """What was fitted to small data, one phrase per field."""

    def __str__(self) -> str:
        text = (
            f"{_count(self.samples, 'sample')}, {_count(self.steps_per_epoch, 'step')} per epoch "
            f"(batch {self.batch:,}), {_count(self.steps, 'step')} in all"
        )
        if self.changed:
            text += f"; fitted to small data: {', '.join(self.changed)}"
        elif self.warmup >= self.steps > 0:
            text += f"; its warm-up of {_count(self.warmup, 'step')} does not end: lower schedule.warmup"
        return text


def extent(phase: Phase, samples: int, batches: int, usual: Phase | None = None) -> Extent:
    """The extent of a phase with this number of batches per epoch; ``usual`` is what it was before it was fitted."""
    steps = phase.steps or phase.epochs * batches
    warmup = max((_warmup(spec, batches) for spec in phase.optimisers().values()), default=0)
    return Extent(samples, phase.batch, batches, steps, warmup, _changes(usual, phase) if usual else ())


def fitted(name: str, phase: Phase, usual: Phase, samples: int, batches: Callable[[Phase], int], free: bool) -> Phase:
    """The phase as it trains on ``samples`` of the user's own.

    ``batches`` counts those of an epoch; data that makes its own batches is not ``free`` to have smaller ones.
    """
    if free and phase.batch == usual.batch and samples < STEPS_PER_EPOCH * phase.batch:
        phase = _with_batch(phase, samples)
    per_epoch = batches(phase)
    own_length = (phase.epochs, phase.steps) != (usual.epochs, usual.steps)
    stretches = all(spec.schedule.kind in STRETCH for spec in phase.optimisers().values())
    if phase.epochs and not own_length and stretches and phase.epochs * per_epoch < LEAST_STEPS:
        phase = replace(phase, epochs=math.ceil(LEAST_STEPS / per_epoch))
    length = phase.steps or phase.epochs * per_epoch
    for field, spec in phase.optimisers().items():
        warmup = _warmup(spec, per_epoch)
        before = usual.optimisers().get(field, spec)
        if warmup > WARMUP * length and spec.schedule.warmup == before.schedule.warmup:
            unit = 1 if spec.schedule.unit == "step" else per_epoch
            schedule = replace(spec.schedule, warmup=int(WARMUP * length / unit))
            phase = replace(phase, **{field: replace(spec, schedule=schedule)})  # type: ignore[arg-type]
        elif warmup >= length > 0:
            raise VergenceError(
                f"the warm-up of {spec.schedule.warmup} {spec.schedule.unit}s does not end in {_count(length, 'step')} "
                f"({samples} samples, {_count(per_epoch, 'step')} per epoch): lower --{name}.{field}.schedule.warmup "
                f"or raise --{name}.{'steps' if phase.steps else 'epochs'}"
            )
    return phase


def _with_batch(phase: Phase, samples: int) -> Phase:
    """The largest power of two that gives enough steps per epoch, within limits."""
    size = 2 ** int(math.log2(max(samples // STEPS_PER_EPOCH, 1)))
    size = max(min(max(size, LEAST_BATCH), phase.batch, samples), 1)
    return replace(phase, batch=size, accumulate=math.gcd(size, phase.accumulate))


def _warmup(spec: Optimiser, batches: int) -> int:
    return spec.schedule.warmup * (1 if spec.schedule.unit == "step" else batches)


def _changes(usual: Phase, phase: Phase) -> tuple[str, ...]:
    changed = []
    for name in ("batch", "epochs"):
        before, now = getattr(usual, name), getattr(phase, name)
        if before != now:
            changed.append(f"{name} {now} instead of {before}")
    for field, spec in phase.optimisers().items():
        before = usual.optimisers()[field].schedule
        if before.warmup != spec.schedule.warmup:
            changed.append(f"a warm-up of {_count(spec.schedule.warmup, before.unit)} instead of {before.warmup}")
    return tuple(changed)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
