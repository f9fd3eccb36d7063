"""The training loop of all systems.

A run is a sequence of phases; a phase is a sequence of epochs; a step depends only on the weights, the optimiser states
and its :class:`Place`. So a run that was stopped anywhere resumes to the same bits.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vergence import catalogue
from vergence.contract.assets import resolve
from vergence.contract.config import to_json
from vergence.contract.data import EMBEDDED, Data, source_of, told_by
from vergence.contract.identity import Identity
from vergence.contract.loader import BatchPlan
from vergence.contract.system import AnySystem
from vergence.contract.training import Optimiser, Phase, phases_of
from vergence.core.errors import Cancelled, Diverged, Interrupted, VergenceError
from vergence.core.files import save_tensors, write_json
from vergence.core.progress import Progress
from vergence.core.seeding import derive, seed_everything
from vergence.engine import checkpoint
from vergence.engine.contexts import make_context
from vergence.engine.devices import over_processes
from vergence.engine.evaluate import run_evaluation
from vergence.engine.record import Recorder
from vergence.engine.signals import Stop
from vergence.engine.small import Extent, extent, fitted
from vergence.engine.stepper import NotFinite, Stepper
from vergence.engine.weights import load_matching_weights, load_weights, metadata, read_identity
from vergence.reading.tables import read_json
from vergence.reading.weights import load_state, load_tensors
from vergence.runs.folder import Run
from vergence.runs.machine import Runtime
from vergence.runs.order import Order

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass
class Place:
    """The position in a run. With the weights and optimisers, all that a checkpoint holds."""

    phase: int = 0
    epoch: int = 0
    batch: int = 0
    step: int = 0
    """Step of the phase; ``total`` counts over all phases."""
    total: int = 0
    evaluated: int = -1
    """The step of the last evaluation in this phase."""
    best: float | None = None
    """Best value of the first metric in this phase."""
    step_seconds: float = 0.0
    """Time spent on steps."""
    seconds: float = 0.0
    """Time spent in all, including that before the run was resumed."""
    records: int = 0
    """Lines written to ``metrics.jsonl``."""
    sums: dict[str, float] = field(default_factory=dict)
    """Sums of the losses since the last record."""

    def next_phase(self) -> None:
        self.phase, self.epoch, self.batch, self.step, self.evaluated, self.best = self.phase + 1, 0, 0, 0, -1, None
        self.sums = {}


class Fit:
    """A training in progress."""

    def __init__(self, run: Run, fabric: Fabric, progress: Progress, stop: Stop, runtime: Runtime) -> None:
        self.run, self.fabric, self.progress, self.stop, self.runtime = run, fabric, progress, stop, runtime
        self.order: Order = run.order
        self.system: AnySystem = catalogue.load(self.order.system)
        if not self.system.trains:
            raise self.system.not_offered("training")
        self.place = Place()
        self.memories: dict[str, Any] = {}
        self.model: nn.Module
        self.stepper: Stepper
        self.began = self.saved = time.monotonic()
        self.ctx = make_context(self.order.config, run.folder, fabric, runtime, progress, "fit")
        self.ctx.cancelled = stop if fabric.world_size == 1 else bool  # several processes stop together, between steps

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes."""
        return self.ctx.rank == 0

    # The whole run ----------------------------------------------------------------------------------------------------

    def __call__(self) -> nn.Module:
        """Train to the end, from the last checkpoint if there is one, and return the model."""
        stored = checkpoint.latest(self.run.folder, self.progress.say)
        self.fabric.barrier()  # all have read before one writes
        data: Data | None = None
        if stored is None:
            data = self._begin()
        else:
            self._go_on(stored)
        if self.leads:
            self.place.records = self.run.rewind(self.place.records)  # the disk may have lost some
            write_json(self.run.folder / "facts.json", to_json(self.ctx.facts))
        with Recorder(self.run if self.leads else None, self.place.total) as self.recorder:
            try:
                self._run_phases(data)
            except Cancelled:
                self._leave_if_asked()
                raise
        if self.leads:
            write_json(self.run.folder / "facts.json", to_json(self.ctx.facts))
        return self.model.eval()

    def _run_phases(self, data: Data | None) -> None:
        phases = list(self.system.phases(self.order.config, self.ctx.facts).items())
        resumed = self.place.step > 0
        while self.place.phase < len(phases):
            self._run_phase(*phases[self.place.phase], data, resumed)
            data, resumed = None, False

    def _begin(self) -> Data | None:
        # If the data decides the phases, it is read before the first phase is known.
        phases_known = not self.system.offers("phases")
        self.ctx.phase = next(iter(phases_of(self.order.config)), "") if phases_known else ""
        data = self._data("train")
        self.ctx.facts = self.system.facts(self.ctx, data)
        self._build()
        if self.order.init:
            self.progress.say(load_matching_weights(self.model, Path(self.order.init)))
        pretrained = getattr(self.order.config, "pretrained", "")
        if pretrained:
            path = resolve(pretrained, self.system.settings.assets)
            try:
                summary = self.system.load_pretrained(self.order.config, self.model, load_state(path))
            except VergenceError as error:
                raise error if str(path) in str(error) else VergenceError(f"{path}: {error}") from None
            self.progress.say(f"{summary} ({path})")
        return data if phases_known else None

    def _go_on(self, stored: checkpoint.Checkpoint) -> None:
        self.ctx.facts = read_identity(stored.metadata, stored.folder).facts
        self._build()
        load_weights(self.model, stored.weights, stored.folder)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name not in stored.state["frozen"])
        known = {f.name for f in dataclasses.fields(Place)}
        self.place = Place(**{name: value for name, value in stored.state["place"].items() if name in known})
        self.ctx.rebuilt = stored.state["rebuilt"]
        self.memories = stored.state["optimisers"]
        self.progress.say(f"{self.run.folder.name} resumes from step {self.place.total}")

    def _build(self) -> None:
        seed_everything(self.ctx.device, self.order.config.seed, "build")
        self.model = self.system.build(self.order.config, self.ctx.facts)
        if self.ctx.float_type is not None:
            self.model.to(self.ctx.float_type)

    # A phase ----------------------------------------------------------------------------------------------------------

    def _run_phase(self, name: str, phase: Phase, data: Data | None, resumed: bool) -> None:
        ctx, place = self.ctx, self.place
        ctx.phase, ctx.epoch, ctx.step = name, place.epoch, place.step
        base = self._data("train") if data is None else data
        declared, phase = phase, self._fitted(name, phase, base)
        if not resumed:
            ctx.rebuilt = None
            self._seed("start", name)
            self.model = self.system.start(ctx, self.model)
        memories = self.memories if resumed or phase.carry else {}
        self.stepper = Stepper(self.system, ctx, self.model, phase, self.fabric, memories)
        task = self.progress.start(self._label(name), phase.steps or None)
        try:
            self._run_epochs(phase, declared, base, task)
        finally:
            self.progress.finish(task)
        self._end_phase(phase)

    def _fitted(self, name: str, phase: Phase, base: Data) -> Phase:
        """The phase, fitted to its data if that is the user's own and small: embedded data trains as declared."""
        if source_of(self.order.config) in (None, EMBEDDED) or not len(base) or self.system.offers("rebuild"):
            return phase
        settings = self.system.settings
        variant = self.order.variant if self.order.variant in settings.variants else None
        known = self.order.preset in settings.presets
        usual = phases_of(settings.configure(self.order.preset, variant)).get(name, phase) if known else phase
        free = getattr(base, "batches", None) is None
        return fitted(name, phase, usual, len(base), lambda each: len(self._plan(each, base).epoch(0)), free)

    def _plan(self, phase: Phase, data: Data) -> BatchPlan:
        ctx, seed = self.ctx, (self.order.config.seed, self.ctx.phase)
        return BatchPlan(data, phase.batch, seed, phase.drop_last, phase.accumulate, ctx.rank, ctx.world)

    def _run_epochs(self, phase: Phase, declared: Phase, base: Data, task: int) -> None:
        ctx, place = self.ctx, self.place
        held_out: Data | None = None
        plan: BatchPlan | None = None
        while True:
            finished = self._finished(phase)
            if self._evaluation_is_due(phase, finished):
                held_out = self._data("val") if held_out is None else held_out
                self._evaluate(held_out)
            if finished:
                return
            if (place.batch == 0 and self._rebuild(base)) or plan is None:
                current = base if ctx.rebuilt is None else self.system.rebuilt(ctx, base, ctx.rebuilt)
                first, plan = plan is None, self._plan(phase, current)
                if first:
                    self._say_extent(extent(phase, len(current), len(plan.epoch(place.epoch)), declared))
                stream = plan.stream(place.epoch, place.batch, ctx.workers)
            self._run_epoch(phase, plan, stream, task)

    def _say_extent(self, found: Extent) -> None:
        self.progress.say(f"{self._label(self.ctx.phase)}: {found}")
        if self.leads:
            path = self.run.folder / "training.json"
            before = read_json(path) if path.exists() else {}
            write_json(path, {**before, self.ctx.phase: to_json(found)})

    def _run_epoch(self, phase: Phase, plan: BatchPlan, stream: Iterator[Any], task: int) -> None:
        ctx, place = self.ctx, self.place
        batches = len(plan.epoch(place.epoch))
        length = phase.steps or place.step + (phase.epochs - place.epoch) * batches - place.batch
        while not self._finished(phase):
            began = time.perf_counter()
            pieces = [(weight, ctx.to_device(next(stream))) for weight in plan.weights(place.epoch, place.batch)]
            losses = self._step(phase, pieces, length, batches)
            place.batch, place.step, place.total = place.batch + 1, place.step + 1, place.total + 1
            place.step_seconds += time.perf_counter() - began
            ends = place.batch == batches
            self._record(phase, losses, now=ends)
            self.progress.update(task, place.step, partial(self._note, losses), length)
            if ends:
                place.epoch, place.batch = place.epoch + 1, 0
            self._leave_if_asked()
            if time.monotonic() - self.saved >= self.runtime.save_every:
                self._save()
            if ends:
                return

    def _step(self, phase: Phase, pieces: list[tuple[float, Any]], length: int, batches: int) -> dict[str, float]:
        ctx, place = self.ctx, self.place
        ctx.epoch, ctx.step, ctx.scalars = place.epoch, place.step, {}
        self._seed(ctx.phase, place.step, ctx.rank)

        def rate(spec: Optimiser) -> float:
            if spec.schedule.unit == "step":
                return spec.lr * spec.schedule.factor(place.step, length)
            return spec.lr * spec.schedule.factor(place.epoch, phase.epochs or math.ceil(phase.steps / batches))

        try:
            return self.stepper(pieces, place.step, rate) | ctx.scalars
        except NotFinite as bad:
            raise Diverged(
                f"the loss {bad.name!r} is {bad.value} at step {place.step + 1} of phase {ctx.phase!r}; {self._kept()}"
            ) from None

    def _leave_if_asked(self) -> None:
        """Between two steps: save and raise Interrupted if the run was asked to stop."""
        asked = self.stop.signal_number
        if self.ctx.world > 1:  # all stop together, or the others would wait for ever
            asked = int(over_processes(self.fabric, torch.tensor(float(asked), device=self.ctx.device), "max"))
        if asked:
            if self.place.step:  # before the first step there is nothing to keep, and `start` must run again
                self._save()
            hint = f"resume with: vergence train --resume {self.run.folder}"
            raise Interrupted(f"stopped after step {self.place.total}; {hint}", asked)

    def _end_phase(self, phase: Phase) -> None:
        if phase.keep == "best" and self.place.best is not None:
            self.fabric.barrier()
            load_weights(self.model, load_tensors(self._best)[0], self._best)
        self.place.next_phase()
        self._save()
        self.memories = self.stepper.memories() or self.memories

    # Data, evaluation, records and checkpoints ------------------------------------------------------------------------

    def _data(self, split: str) -> Data:
        data = self.system.data(self.ctx, split)
        if split == "train" and self.place.total == 0 and told_by(data, "note"):
            self.progress.say(told_by(data, "note"))
        return self.system.prepare(self.ctx, data)

    def _rebuild(self, base: Data) -> bool:
        if not self.system.offers("rebuild"):
            return False
        self._seed("rebuild", self.ctx.phase, self.place.epoch)
        self.ctx.epoch, self.ctx.step = self.place.epoch, self.place.step
        self.model.eval()
        with torch.no_grad(), self.ctx.autocast():
            state = self.system.rebuild(self.ctx, self.model, base, self.place.epoch)
        self.model.train()
        state = self.ctx.agree(state)  # one answer for all, even where they would differ by rounding
        if state is None:
            return False
        self.ctx.rebuilt = {name: tensor.detach().cpu() for name, tensor in state.items()}
        return True

    def _evaluation_is_due(self, phase: Phase, finished: bool) -> bool:
        place = self.place
        if place.step in (0, place.evaluated) or not self.system.offers("evaluate"):
            return False
        between = place.batch == 0 and phase.evaluate_every > 0 and place.epoch % phase.evaluate_every == 0
        return finished or between

    def _evaluate(self, data: Data) -> None:
        place, ctx = self.place, self.ctx
        ctx.epoch, ctx.step, ctx.stage = place.epoch, place.step, "validate"
        metrics = run_evaluation(self.system, ctx, self.model, data)
        ctx.stage = "fit"
        self.model.train()
        self._write(split="val", metrics=metrics)
        name = self.system.judged_by(ctx.config)
        metric = self.system.metrics[name]
        if math.isfinite(metrics[name]) and (place.best is None or metric.better(metrics[name], place.best)):
            place.best = metrics[name]
            if self.leads:
                save_tensors(self._best, self.model.state_dict(), self._metadata())
                checkpoint.publish(self._best, self.run.folder / "best.safetensors")
        place.evaluated = place.step

    @property
    def _best(self) -> Path:
        """The best weights of this phase; each phase has its own, so that resuming in an earlier one finds them."""
        return self.run.folder / "checkpoints" / f"best-{self.place.phase}.safetensors"

    def _record(self, phase: Phase, losses: dict[str, float], now: bool) -> None:
        place = self.place
        for name, value in losses.items():
            place.sums[name] = place.sums.get(name, 0.0) + value
            place.sums[f"#{name}"] = place.sums.get(f"#{name}", 0.0) + 1  # a loss may be absent from some steps
        if now or place.step % phase.log_every == 0:
            means = {k: v / place.sums[f"#{k}"] for k, v in place.sums.items() if not k.startswith("#")}
            self._write(losses=means, rates=self.stepper.rates())
            place.sums = {}

    def _write(self, **values: Any) -> None:
        place = self.place
        self.recorder.write(total=place.total, phase=self.ctx.phase, epoch=place.epoch, **values)
        place.records += 1

    def _save(self) -> None:
        now = time.monotonic()
        self.place.seconds, self.began, self.saved = self.place.seconds + now - self.began, now, now
        if not self.leads:
            return
        weights = self.model.state_dict()
        self._refuse_weights_that_are_not_finite(weights)
        state = {
            "place": dataclasses.asdict(self.place),
            "optimisers": self.stepper.memories() or self.memories,
            "rebuilt": dict(self.ctx.rebuilt) if self.ctx.rebuilt is not None else None,
            "frozen": [name for name, p in self.model.named_parameters() if not p.requires_grad],
        }
        checkpoint.save(self.run.folder, weights, self._metadata(), state)

    def _refuse_weights_that_are_not_finite(self, weights: Mapping[str, Tensor]) -> None:
        """A finite loss can have a gradient that is not: such weights must not replace the last good ones."""
        for name, tensor in weights.items():
            if tensor.is_floating_point() and not tensor.isfinite().all():
                raise Diverged(
                    f"the weight {name!r} is not finite after step {self.place.step} of phase {self.ctx.phase!r} "
                    f"(the losses were, but a gradient was not); {self._kept()}"
                )

    def _kept(self) -> str:
        found = checkpoint.latest(self.run.folder, self.progress.say)
        return f"the last good checkpoint is {found.folder}" if found else "no checkpoint had been written yet"

    def _metadata(self) -> dict[str, str]:
        order = self.order
        identity = Identity(order.system, order.preset, order.variant, order.config, self.ctx.facts)
        return metadata(identity, self.system)

    def _seed(self, *where: int | str) -> None:
        """Seed all generators from the run's seed and the position ``where``."""
        seed_everything(self.ctx.device, self.order.config.seed, *where)
        self.ctx.generator.manual_seed(derive(self.order.config.seed, "own", *where))

    def _finished(self, phase: Phase) -> bool:
        return self.place.epoch >= phase.epochs if phase.epochs else self.place.step >= phase.steps

    def _note(self, losses: Mapping[str, float]) -> str:
        rates = dict.fromkeys(self.stepper.rates().values())
        shown = [f"{name} {value:.4g}" for name, value in losses.items()] + [f"lr {rate:.2g}" for rate in rates]
        return "  ".join(shown)

    def _label(self, phase: str) -> str:
        return f"{self.order.system} {self.order.variant} s{self.order.config.seed} {phase}"
