"""One loop that trains everything.

A run is a sequence of phases; a phase is a sequence of epochs; all that a step depends on is the weights, the optimiser
states and its :class:`Place`. So a run that was stopped anywhere goes on to the same bits.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from saccade import catalogue
from saccade.config import to_json
from saccade.context import Context
from saccade.data.loader import Data, Plan
from saccade.engine import checkpoint
from saccade.engine.evaluate import run_evaluation
from saccade.engine.optimisers import build_optimiser, load_state_by_name, set_rate, state_by_name
from saccade.engine.record import Recorder
from saccade.engine.signals import Stop
from saccade.engine.weights import Identity, insert, insert_what_fits
from saccade.errors import Cancelled, Diverged, Interrupted, SaccadeError
from saccade.files import load_tensors, save_tensors, write_json
from saccade.progress import Progress
from saccade.run import Order, Run
from saccade.seeding import derive, seed_everything
from saccade.system import System
from saccade.training import Optimiser, Phase, phases_of


@dataclass
class Place:
    """Where a run is. With the weights and optimisers, all that a checkpoint holds."""

    phase: int = 0
    epoch: int = 0
    batch: int = 0
    step: int = 0
    """Of the phase; ``total`` counts over all."""
    total: int = 0
    evaluated: int = -1
    """The step of the phase at which it was last evaluated."""
    best: float | None = None
    """Of the first metric, in this phase."""
    seconds: float = 0.0
    """Spent on steps."""
    records: int = 0
    """Lines written to ``metrics.jsonl``."""
    sums: dict[str, float] = field(default_factory=dict)
    """Of the losses since they were last recorded."""

    def next_phase(self) -> None:
        self.phase, self.epoch, self.batch, self.step, self.evaluated, self.best = self.phase + 1, 0, 0, 0, -1, None
        self.sums = {}


class Fit:
    """A training in progress."""

    def __init__(self, run: Run, fabric: Fabric, progress: Progress, stop: Stop) -> None:
        self.run, self.fabric, self.progress, self.stop = run, fabric, progress, stop
        self.order: Order = run.order
        self.system: System[Any, Any] = catalogue.load(self.order.system)
        if not self.system.trains:
            raise self.system.not_offered("training")
        self.place = Place()
        self.rebuilt: Mapping[str, Tensor] | None = None
        self.carried: dict[str, Any] = {}
        self.optimisers: dict[str, Any] = {}
        self.plain_optimisers: dict[str, torch.optim.Optimizer] = {}
        self.model: nn.Module
        self.saved = time.monotonic()
        self.ctx: Context[Any, Any] = Context(
            config=self.order.config,
            folder=run.folder,
            device=fabric.device,
            generator=torch.Generator(fabric.device),
            progress=progress,
            cancelled=stop,
            workers=self.order.runtime.workers,
            rank=fabric.global_rank,
            world=fabric.world_size,
        )

    # The whole ---------------------------------------------------------------------------------------------------

    def __call__(self) -> nn.Module:
        """Train to the end, from the last checkpoint if there is one; the trained model."""
        found = checkpoint.latest(self.run.folder, self.progress.say)
        data: Data | None = None
        if found is None:
            data = self._begin()
        else:
            self._go_on(found)
        write_json(self.run.folder / "facts.json", to_json(self.ctx.facts))
        self.recorder = Recorder(self.run, self.place.total)
        try:
            self._run_phases(data)
        except Cancelled:
            self._look_up()  # saves and says how to go on
            raise
        finally:
            self.recorder.close()
        write_json(self.run.folder / "facts.json", to_json(self.ctx.facts))
        return self.model.eval()

    def _run_phases(self, data: Data | None) -> None:
        phases = list(self.system.phases(self.order.config, self.ctx.facts).items())
        resumed = self.place.step > 0
        while self.place.phase < len(phases):
            self._run_phase(*phases[self.place.phase], data, resumed)
            data, resumed = None, False

    def _begin(self) -> Data | None:
        self.run.rewind(0)
        # When the data decides the phases, it is looked at before the first one has a name.
        known = not self.system.offers("phases")
        self.ctx.phase = next(iter(phases_of(self.order.config)), "") if known else ""
        data = self._data()
        self.ctx.facts = self.system.facts(self.ctx, data)
        seed_everything(self.ctx.device, self.order.config.seed, "build")
        self.model = self.system.build(self.order.config, self.ctx.facts)
        if self.order.init:
            self.progress.say(insert_what_fits(self.model, Path(self.order.init)))
        return data if known else None

    def _go_on(self, found: checkpoint.Checkpoint) -> None:
        identity = Identity.read(found.metadata, found.folder)
        self.ctx.facts = identity.facts
        self.model = self.system.build(self.order.config, self.ctx.facts)
        insert(self.model, found.weights, found.folder)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name not in found.state["frozen"])
        self.place = Place(**found.state["place"])
        self.rebuilt = found.state["rebuilt"]
        self.carried = found.state["optimisers"]
        self.run.rewind(self.place.records)
        self.progress.say(f"{self.run.folder.name} goes on from step {self.place.total}")

    # A phase ------------------------------------------------------------------------------------------------------

    def _run_phase(self, name: str, phase: Phase, data: Data | None, resumed: bool) -> None:
        ctx, place = self.ctx, self.place
        ctx.phase, ctx.epoch, ctx.step = name, place.epoch, place.step
        base = self._data() if data is None else data
        if not resumed:
            self.rebuilt = None
            self._seed("start", name)
            self.model = self.system.start(ctx, self.model)
        self._make_optimisers(phase, resumed)
        task = self.progress.start(self._label(name), phase.steps or None)
        try:
            self._run_epochs(phase, base, task)
        finally:
            self.progress.finish(task)
        self._end_phase(phase)

    def _run_epochs(self, phase: Phase, base: Data, task: int) -> None:
        ctx, place = self.ctx, self.place
        held_out: Data | None = None
        plan: Plan | None = None
        while True:
            finished = self._finished(phase)
            if self._evaluation_is_due(phase, finished):
                if held_out is None:
                    held_out = self.system.prepare(ctx, self.system.data(ctx, "val"))
                self._evaluate(held_out)
            if finished:
                return
            if (place.batch == 0 and self._rebuild(base)) or plan is None:
                current = base if self.rebuilt is None else self.system.rebuilt(ctx, base, self.rebuilt)
                plan = Plan(current, phase.batch, (self.order.config.seed, ctx.phase), phase.drop_last)
                share = {"rank": ctx.rank, "world": ctx.world, "workers": ctx.workers}
                stream = plan.stream(place.epoch, place.batch, pieces=phase.accumulate, **share)
            self._run_epoch(phase, plan, stream, task)

    def _run_epoch(self, phase: Phase, plan: Plan, stream: Iterator[Any], task: int) -> None:
        ctx, place = self.ctx, self.place
        batches = len(plan.epoch(place.epoch))
        length = phase.steps or place.step + (phase.epochs - place.epoch) * batches - place.batch
        while not self._finished(phase):
            began = time.perf_counter()
            losses = self._step(phase, [ctx.to_device(next(stream)) for _ in range(phase.accumulate)], length, batches)
            place.batch, place.step, place.total = place.batch + 1, place.step + 1, place.total + 1
            place.seconds += time.perf_counter() - began
            ends = place.batch == batches
            self._record(phase, losses, now=ends)
            self.progress.update(task, place.step, self._note(losses), length)
            if ends:
                place.epoch, place.batch = place.epoch + 1, 0
            self._look_up()
            if ends:
                return

    def _look_up(self) -> None:
        """Between two steps: save if it is time, leave if asked to."""
        if self.stop():
            if self.place.step:  # before the first step there is nothing to keep, and `start` must run again
                self._save()
            raise Interrupted(
                f"stopped after step {self.place.total}; go on with: saccade train --resume {self.run.folder}",
                self.stop.signal_number,
            )
        if time.monotonic() - self.saved >= self.order.runtime.save_every:
            self._save()

    def _end_phase(self, phase: Phase) -> None:
        best = self.run.folder / "best.safetensors"
        if phase.keep == "best" and self.place.best is not None:
            insert(self.model, load_tensors(best)[0], best)
        self.place.next_phase()
        self._save()
        self.carried = self._optimiser_states()

    # A step -------------------------------------------------------------------------------------------------------

    def _step(self, phase: Phase, pieces: list[Any], length: int, batches: int) -> dict[str, float]:
        ctx, place = self.ctx, self.place
        ctx.epoch, ctx.step, ctx.scalars = place.epoch, place.step, {}
        self._seed(ctx.phase, place.step)
        specs = phase.optimisers()
        for name, spec in specs.items():
            set_rate(self.optimisers[name], self._rate(spec, phase, length, batches))
        if self.system.offers("update"):
            named = self.system.update(ctx, self.wrapped, pieces[0])
            return self._finite(_floats(named)) | ctx.scalars
        seen: dict[str, float] = {}
        for name, spec in specs.items():
            if (place.step + 1) % spec.every == 0:
                ctx.turn = name
                seen |= self._descend(name, spec, pieces)
        return seen | ctx.scalars

    def _descend(self, name: str, spec: Optimiser, pieces: list[Any]) -> dict[str, float]:
        optimiser = self.optimisers[name]
        seen: dict[str, float] = {}
        optimiser.zero_grad(set_to_none=True)
        for piece in pieces:
            named = self.system.losses(self.ctx, self.wrapped, piece)
            for key, value in self._finite(_floats(named)).items():
                seen[key] = seen.get(key, 0.0) + value / len(pieces)
            self.fabric.backward(torch.stack(list(named.values())).sum() / len(pieces))
        if spec.clip:
            self.fabric.clip_gradients(self.wrapped, optimiser, max_norm=spec.clip, error_if_nonfinite=False)
        optimiser.step()
        return seen

    def _finite(self, losses: dict[str, float]) -> dict[str, float]:
        for name, value in losses.items():
            if not math.isfinite(value):
                found = checkpoint.latest(self.run.folder, self.progress.say)
                kept = f"the last good checkpoint is {found.folder}" if found else "no checkpoint had been written yet"
                raise Diverged(
                    f"the loss {name!r} is {value} at step {self.place.step + 1} of phase {self.ctx.phase!r}; {kept}"
                )
        return losses

    def _rate(self, spec: Optimiser, phase: Phase, length: int, batches: int) -> float:
        if spec.schedule.unit == "step":
            return spec.lr * spec.schedule.factor(self.place.step, length)
        return spec.lr * spec.schedule.factor(self.place.epoch, phase.epochs or math.ceil(phase.steps / batches))

    # Around it ----------------------------------------------------------------------------------------------------

    def _data(self) -> Data:
        return self.system.prepare(self.ctx, self.system.data(self.ctx, "train"))

    def _make_optimisers(self, phase: Phase, resumed: bool) -> None:
        specs = phase.optimisers()
        if self.system.offers("update") and phase.accumulate > 1:
            raise SaccadeError(f"{self.order.system} makes its updates by hand: accumulate must be 1")
        if (phase.epochs or phase.steps) and not specs and not self.system.offers("update"):
            raise SaccadeError(f"the phase {self.ctx.phase!r} has no optimiser")
        self.fabric.to_device(self.model.train())
        made = {
            name: build_optimiser(spec, self.system.parameters(self.model, name, alone=len(specs) == 1))
            for name, spec in specs.items()
        }
        self.plain_optimisers = made
        setup = self.fabric.setup(self.model, *made.values())
        self.wrapped: nn.Module = setup[0] if made else setup
        self.optimisers = dict(zip(made, setup[1:] if made else (), strict=True))
        if resumed or phase.carry:
            for name, optimiser in made.items():
                load_state_by_name(optimiser, self.model, self.carried.get(name, {}))
        self.ctx.optimisers, self.ctx.backward = self.optimisers, self.fabric.backward

    def _rebuild(self, base: Data) -> bool:
        if not self.system.offers("rebuild"):
            return False
        self._seed("rebuild", self.ctx.phase, self.place.epoch)
        self.ctx.epoch = self.place.epoch
        self.model.eval()
        with torch.no_grad():
            state = self.system.rebuild(self.ctx, self.model, base, self.place.epoch)
        self.model.train()
        if state is None:
            return False
        self.rebuilt = {name: tensor.detach().cpu() for name, tensor in state.items()}
        return True

    def _evaluation_is_due(self, phase: Phase, finished: bool) -> bool:
        place = self.place
        if place.step in (0, place.evaluated) or not self.system.offers("evaluate"):
            return False
        between = place.batch == 0 and phase.evaluate_every > 0 and place.epoch % phase.evaluate_every == 0
        return finished or between

    def _evaluate(self, data: Data) -> None:
        place, ctx = self.place, self.ctx
        found = run_evaluation(self.system, ctx, self.model, data, self.fabric)
        self.model.train()
        self._write(split="val", metrics=found)
        name, metric = next(iter(self.system.metrics.items()))
        if place.best is None or metric.better(found[name], place.best):
            place.best = found[name]
            save_tensors(self.run.folder / "best.safetensors", self.model.state_dict(), self._metadata())
        place.evaluated = place.step

    def _record(self, phase: Phase, losses: dict[str, float], now: bool) -> None:
        place = self.place
        for name, value in losses.items():
            place.sums[name] = place.sums.get(name, 0.0) + value
            place.sums[f"#{name}"] = place.sums.get(f"#{name}", 0.0) + 1  # a loss may be absent from some steps
        if now or place.step % phase.log_every == 0:
            means = {k: v / place.sums[f"#{k}"] for k, v in place.sums.items() if not k.startswith("#")}
            rates = {name: o.param_groups[0]["lr"] for name, o in self.optimisers.items()}
            self._write(losses=means, rates=rates)
            place.sums = {}

    def _write(self, **values: Any) -> None:
        place = self.place
        self.recorder.write(total=place.total, phase=self.ctx.phase, epoch=place.epoch, **values)
        place.records += 1

    def _save(self) -> None:
        state = {
            "place": dataclasses.asdict(self.place),
            "optimisers": self._optimiser_states(),
            "rebuilt": dict(self.rebuilt) if self.rebuilt is not None else None,
            "frozen": [name for name, p in self.model.named_parameters() if not p.requires_grad],
        }
        checkpoint.save(self.run.folder, self.model.state_dict(), self._metadata(), state)
        self.saved = time.monotonic()

    def _optimiser_states(self) -> dict[str, Any]:
        return {name: state_by_name(optimiser, self.model) for name, optimiser in self.plain_optimisers.items()}

    def _metadata(self) -> dict[str, str]:
        order = self.order
        return Identity(order.system, order.preset, order.variant, order.config, self.ctx.facts).metadata(self.system)

    def _seed(self, *where: int | str) -> None:
        """All randomness from here on is a function of the seed and the place."""
        seed_everything(self.ctx.device, self.order.config.seed, self.ctx.rank, *where)
        self.ctx.generator.manual_seed(derive(self.order.config.seed, self.ctx.rank, "own", *where))

    def _finished(self, phase: Phase) -> bool:
        return self.place.epoch >= phase.epochs if phase.epochs else self.place.step >= phase.steps

    def _note(self, losses: Mapping[str, float]) -> str:
        rates = {optimiser.param_groups[0]["lr"] for optimiser in self.optimisers.values()}
        shown = [f"{name} {value:.4g}" for name, value in losses.items()] + [f"lr {rate:.2g}" for rate in rates]
        return "  ".join(shown)

    def _label(self, phase: str) -> str:
        return f"{self.order.system} {self.order.variant} s{self.order.config.seed} {phase}"


def _floats(losses: Mapping[str, Tensor]) -> dict[str, float]:
    if not losses:
        raise SaccadeError("a training step gave no losses")
    values = torch.stack([value.detach().float() for value in losses.values()]).tolist()  # one transfer for all
    return dict(zip(losses, values, strict=True))
