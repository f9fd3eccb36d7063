"""Overhead of the engine: its training step against that of a bare PyTorch loop."""

from __future__ import annotations

import dataclasses
import operator
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from vergence import catalogue
from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.loader import collator
from vergence.contract.system import AnySystem
from vergence.contract.training import Phase, phases_of
from vergence.core.progress import Note, Progress
from vergence.core.seeding import seed_everything
from vergence.engine.bench import core_share, fixed_threads
from vergence.engine.devices import make_fabric
from vergence.engine.fit import Fit
from vergence.engine.optimisers import build_optimiser
from vergence.engine.signals import Stop
from vergence.runs.folder import Run
from vergence.runs.machine import Runtime
from vergence.runs.order import Order

WARM = 3
"""Warm-up steps, which are not timed."""
ROUND = 1.5
"""Seconds after which a round ends; it has at least `WARM` timed steps of each."""
LONGEST = 12.0
"""Seconds after which no further round begins; there are at least two."""


@dataclass(frozen=True)
class Overhead:
    """Seconds per step: the median over rounds of each round's median."""

    system: str
    engine: float
    bare: float
    extra: tuple[float, ...]
    """Seconds that the engine adds, one value per round."""
    core: float

    @property
    def allowed(self) -> float:
        """3 % of a bare step or 0.3 ms, whichever is more."""
        return max(0.03 * self.bare, 0.3e-3)

    @property
    def added(self) -> float:
        return statistics.median(self.extra)


def has_bare_loop(system: AnySystem) -> bool:
    """Whether its training is a single optimiser on the sum of the losses."""
    phases = list(phases_of(system.configure("tiny")).values())
    plain = bool(phases) and len(phases[0].optimisers()) == 1
    return plain and system.offers("losses") and not system.offers("update") and not system.offers("phases")


def overhead(name: str, rounds: int, steps: int = 30, threads: int = 1) -> Overhead:
    """Train with the engine and with a bare loop from the same start, one step of each in turn. There are fewer rounds
    and steps where they are long."""
    system = catalogue.load(name)
    whole = system.configure("tiny")
    first, phase = next(iter(phases_of(whole).items()))
    # No accumulation or clipping, as in the bare loop; a learning rate of 0 keeps it from diverging without them.
    ((optimiser, spec),) = phase.optimisers().items()
    plain: dict[str, Any] = {optimiser: dataclasses.replace(spec, clip=0.0, lr=0.0)}
    short = dataclasses.replace(phase, epochs=0, steps=WARM + steps, accumulate=1, **plain)
    config = dataclasses.replace(whole, **{first: short})
    engine, bare, shares, began = [], [], [], time.perf_counter()
    extra: list[float] = []
    with tempfile.TemporaryDirectory() as scratch, fixed_threads(threads):
        while len(extra) < rounds and not (len(extra) >= 2 and time.perf_counter() - began > LONGEST):
            shares.append(core_share())
            bout = _Bout(_bare_steps(system, config, first, WARM + steps, Path(scratch)))
            _train(name, config, Path(scratch), threads, bout)
            engine.append(statistics.median(bout.engine[WARM:]))
            bare.append(statistics.median(bout.bare[WARM:]))
            # Neighbouring steps meet the same machine: the difference of their times varies less than the times do.
            extra.append(statistics.median(map(operator.sub, bout.engine[WARM:], bout.bare[WARM:])))
    return Overhead(name, statistics.median(engine), statistics.median(bare), tuple(extra), statistics.median(shares))


class _Enough(Exception):
    """Enough steps have been timed."""


class _Bout(Progress):
    """Times of training steps: takes a bare step after each step that the engine reports."""

    def __init__(self, steps: Iterator[None]) -> None:
        self.steps, self.began = steps, time.perf_counter()
        self.engine: list[float] = []
        self.bare: list[float] = []

    def update(self, task: int, done: int, note: Note = "", total: int | None = None) -> None:
        if total is None:
            return
        self.engine.append(self._lap())
        next(self.steps)
        self.bare.append(self._lap())
        timed = self.engine[WARM:] + self.bare[WARM:]
        if done == total or (len(timed) >= 2 * WARM and sum(timed) > ROUND):
            raise _Enough

    def _lap(self) -> float:
        ended = time.perf_counter()
        spent, self.began = ended - self.began, ended
        return spent


def _train(name: str, config: Any, root: Path, threads: int, progress: Progress) -> None:
    runtime = Runtime(device="cpu", threads=threads)
    run = Run.create(Order(name, "tiny", "bench", config, runtime), root)
    with suppress(_Enough):
        Fit(run, make_fabric(runtime), progress, Stop(), runtime)()


def _bare_steps(system: AnySystem, config: Any, first: str, steps: int, folder: Path) -> Iterator[None]:
    ctx: Context[Any, Any] = Context(config, folder, phase=first)
    data = system.prepare(ctx, system.data(ctx, "train"))
    ctx.facts = system.facts(ctx, data)
    seed_everything(ctx.device, config.seed, "build")  # the engine's weights: the time of a pooling depends on them
    model: nn.Module = system.start(ctx, system.build(config, ctx.facts)).train()
    phase: Phase = getattr(config, first)
    (spec,) = phase.optimisers().values()
    optimiser = build_optimiser(spec, model)
    for batch in _batches(data, phase, steps):
        optimiser.zero_grad(set_to_none=True)
        losses = system.losses(ctx, model, batch)
        torch.stack(list(losses.values())).sum().backward()
        optimiser.step()
        yield


def _batches(data: Data, phase: Phase, count: int) -> Iterator[Any]:
    loader: DataLoader[Any] = DataLoader(
        _Drawn(data),  # type: ignore[arg-type]
        phase.batch,
        shuffle=True,
        drop_last=True,
        collate_fn=collator(data),
    )
    while True:
        for batch in loader:
            yield batch
            count -= 1
            if not count:
                return


@dataclass(frozen=True)
class _Drawn:
    """Training samples, all from one generator."""

    data: Data
    generator: torch.Generator = dataclasses.field(default_factory=torch.Generator)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        draw = getattr(self.data, "draw", None)
        return self.data[index] if draw is None else draw(index, self.generator)
