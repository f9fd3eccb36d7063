"""BLD as a system: a stream of tasks learnt by it and by its rivals, with the memory that each of them takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.contract.training import Phase
from vergence.core.errors import VergenceError
from vergence.core.metered import Meter
from vergence.core.seeding import generator
from vergence.data.layouts import read, share
from vergence.recognition.bld import pictures, predict
from vergence.recognition.bld.claims import CLAIMS
from vergence.recognition.bld.model import Anchor, Batch, Learner, Network, Reservoir, build, squared_gradients
from vergence.recognition.bld.predict import Labels
from vergence.recognition.bld.settings import SETTINGS, Config, Facts, Inputs, Pass, split_classes
from vergence.recognition.copies import Copies
from vergence.recognition.data import LAYOUTS
from vergence.recognition.idx import MNIST
from vergence.recognition.inked import inked
from vergence.recognition.streams import ClassStream, forgetting, spread
from vergence.recognition.svhn import SVHN

Ctx = Context[Config, Facts]
AT_ONCE = 250
"""Pictures of a batch in evaluation."""
JOINT = "joint"
"""The phase in which all tasks are learnt at once."""
IMPORTANCE = 200
"""ewc: pictures of a finished task that weigh the weights."""


class BLDSystem(System[Config, Facts, Network, ClassStream, Labels]):
    settings = SETTINGS
    layouts = {"mnist": MNIST, "svhn": SVHN, "cifar10": LAYOUTS["cifar10"], "folder": LAYOUTS["folder"]}
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> ClassStream:
        asked = ctx.config.data
        data = read(
            asked.source,
            self.layouts,
            split,
            embedded=lambda: inked(share(asked.count, split), asked.size, split, ctx.config.seed),
        )
        known: Facts | None = ctx.facts
        tasks = known.tasks if known else _tasks(ctx.config, len(data.classes))
        if known and known.labels != tuple(data.classes):
            raise VergenceError(
                f"the network learnt the classes {', '.join(known.labels[:5])}..., and {asked.source} has "
                f"{', '.join(data.classes[:5])}...: expected the same {len(known.labels)} names"
            )
        only = int(ctx.phase.removeprefix("task")) - 1 if split == "train" and ctx.phase.startswith("task") else None
        return ClassStream(data, tasks, asked.size, only, asked.most if split == "train" else 0)

    def facts(self, ctx: Ctx, data: ClassStream) -> Facts:
        return Facts(tuple(data.data.classes), tuple(tuple(task) for task in data.tasks))

    def slice(self, data: ClassStream) -> ClassStream:
        return replace(data, most=20)

    def build(self, config: Config, facts: Facts) -> Network:
        return build(config, facts)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 3, config.data.size, config.data.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"size": config.data.size, "range": "0 to 1", "channels": "RGB"}

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: Facts) -> Mapping[str, Phase]:
        """One phase per task: the stream says when a task begins."""
        if config.method.kind == "joint":
            return {JOINT: config.train}
        each = config.offline if config.method.kind == "offline" else config.train
        return {f"task{number + 1}": each for number in range(len(facts.tasks))}

    def start(self, ctx: Ctx, model: Network) -> Network:
        """A task begins: a classifier for its classes, with random weights."""
        model = model.to(ctx.device)
        old = ctx.facts.begun
        if isinstance(model.memory, Anchor) and old:
            _weigh(model, model.memory, self._finished(ctx, old - 1))
        begun = len(ctx.facts.tasks) if ctx.phase == JOINT else old + 1
        for task in ctx.facts.tasks[old:begun]:
            model.add_head(len(task))
        ctx.facts = replace(ctx.facts, begun=begun)
        return model

    def _finished(self, ctx: Ctx, task: int) -> Iterator[tuple[Tensor, int, int]]:
        """Some training pictures of the task before."""
        stream = replace(self.data(ctx, "train"), only=task)
        for index in spread(len(stream), IMPORTANCE).tolist():
            sample = stream[index]
            yield ctx.to_device(sample["image"]), sample["label"], task

    def rebuild(self, ctx: Ctx, model: Network, data: ClassStream, epoch: int) -> Mapping[str, Tensor] | None:
        """LwF: what the older classifiers say about all pictures of a task before it is learnt."""
        old = ctx.facts.begun - 1
        if epoch or not old or ctx.config.method.kind not in ("lwf", "offline"):
            return None
        parts = [
            torch.cat(
                [(logits.float() / ctx.config.method.temperature).softmax(-1) for logits in model(batch)[:old]], 1
            )
            for batch in (batch["image"] for batch in ctx.batches(data, AT_ONCE))
        ]
        return {"bank": ctx.gather(torch.cat(parts))}

    def update(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        """One batch of the stream. In the first one of every task, the memory that it takes is measured."""
        if ctx.step:
            return self._update(ctx, model, batch)
        with Meter() as meter, holding(model, meter) as held:
            losses = self._update(ctx, model, batch)
        left = meter.alive - sum(loss.untyped_storage().nbytes() for loss in losses.values())
        beside = [*(ctx.rebuilt or {}).values(), *(model.memory.buffers() if model.memory else ())]
        kept = left + sum(tensor.numel() * tensor.element_size() for tensor in beside)
        facts = ctx.facts
        ctx.facts = replace(
            facts, held=max(facts.held, held.bytes), kept=max(facts.kept, kept), peak=max(facts.peak, meter.peak)
        )
        return losses

    def _update(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        method, phase = ctx.config.method, self._phase(ctx)
        images, labels, tasks = batch["image"], batch["label"], batch["task"]
        old, count = ctx.facts.begun - 1, len(labels)
        memory = model.memory
        if isinstance(memory, Reservoir):
            new = torch.stack([labels, tasks], 1)
            again, homes = memory.stored
            memory.add(images, new, ctx.generator)
            images = torch.cat([images, again.to(images)])
            labels, tasks = torch.cat([new, homes]).unbind(1)
        seed = int(torch.randint(2**62, (), generator=ctx.generator, device=ctx.device))
        copies = Copies(images, method.copies, ctx.config.data.augmentation, seed)
        whole = Batch(copies, labels, tasks)
        # Sums over the whole batch, of which every process has a part.
        part = sum(ctx.gather([count])) / count
        learner = Learner(model, method, phase.rate, phase.warm * phase.rate, ctx.backward, part)
        if method.kind == "bld":
            return learner.bld(whole, old)
        if method.kind == "unbalanced":
            return learner.unbalanced(whole, old)
        if method.kind == "alternated":
            return learner.alternated(whole, old)
        if method.kind == "l2":
            return learner.l2(whole)
        if method.kind in ("lwf", "offline") and old:
            assert ctx.rebuilt is not None
            bank = ctx.rebuilt["bank"][batch["index"].cpu()]
            return learner.lwf(whole, old, ctx.to_device(bank))
        if isinstance(memory, Anchor) and old:
            return learner.ewc(whole, memory)
        return learner.plain(whole)

    def _phase(self, ctx: Ctx) -> Pass:
        return ctx.config.offline if ctx.config.method.kind == "offline" else ctx.config.train

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: Network, data: ClassStream) -> Mapping[str, float]:
        """Accuracy on each task with its own classifier, after the last task that has begun; and what it cost."""
        facts = ctx.facts
        right, guessed, tasks = [], [], []
        for batch in ctx.batches(data, AT_ONCE, "pictures"):
            known = batch["task"] < facts.begun
            if not known.any():
                continue
            task, label = batch["task"][known], batch["label"][known]
            logits = [each.float() for each in model(batch["image"][known])]
            answers = torch.stack([each.argmax(1) for each in logits])  # (tasks, B)
            right.append(answers.gather(0, task[None])[0] == label)
            starts = torch.tensor([0, *facts.counts[:-1]], device=task.device).cumsum(0)
            guessed.append(torch.cat(logits, 1).argmax(1) == starts[task] + label)
            tasks.append(task)
        if not tasks:
            raise VergenceError("the data has no picture of a task that was learnt: there is nothing to evaluate")
        own, any_task, task = (ctx.gather(torch.cat(part)) for part in (right, guessed, tasks))
        row = tuple(_percent(own[task == number]) for number in range(facts.begun))
        if ctx.stage == "validate":  # once per task, and again if it has several epochs
            ctx.facts = facts = replace(facts, history=(*facts.history[: _earlier(facts)], row))
        scores = {
            "accuracy": sum(row) / len(row),
            "old": sum(row[:-1]) / len(row[:-1]) if row[:-1] else float("nan"),
            "newest": row[-1],
            "forgetting": forgetting(facts.history),
            "untold": _percent(any_task),
            "held": facts.held / 1e3,
            "kept": facts.kept / 1e3,
            "peak": facts.peak / 1e6,
        }
        by_task = {f"task{number}": value for number, value in enumerate(row, 1)}
        return scores | by_task | (pictures.cells(facts.history) if ctx.stage == "test" else {})

    def infer(self, ctx: Ctx, model: Network, inputs: Inputs) -> Labels:
        return predict.labels_of(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Labels) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: ClassStream) -> Sequence[Artifact]:
        labels = {name: self.settings.label(name) for name in models}
        return pictures.drawn(ctx, labels, data)


@dataclass
class Held:
    """The most bytes that were alive when the network was called."""

    bytes: int = 0


@contextmanager
def holding(model: Network, meter: Meter) -> Iterator[Held]:
    """Measure what is alive whenever a pass through the network begins: all tensors of the step but its gradients and
    the pictures that pass."""
    held = Held()

    def measure(_: Any, pictures: tuple[Tensor, ...]) -> None:
        gradients = sum(p.grad.untyped_storage().nbytes() for p in model.parameters() if p.grad is not None)
        passing = sum(each.untyped_storage().nbytes() for each in pictures)
        held.bytes = max(held.bytes, meter.alive - gradients - passing)

    hook = model.backbone.register_forward_pre_hook(measure)
    try:
        yield held
    finally:
        hook.remove()


def _earlier(facts: Facts) -> int:
    """Rows of the history that were measured before the present task."""
    return sum(len(row) < facts.begun for row in facts.history)


def _percent(right: Tensor) -> float:
    return 100 * float(right.double().mean()) if len(right) else float("nan")


def _weigh(model: Network, anchor: Anchor, samples: Iterator[tuple[Tensor, int, int]]) -> None:
    """EWC at the end of a task: where the weights are, and how much the task depends on each."""
    anchor.fisher += squared_gradients(model, samples)
    anchor.weights.copy_(torch.cat([p.detach().flatten() for p in model.backbone.parameters()]))


def _tasks(config: Config, classes: int) -> tuple[tuple[int, ...], ...]:
    order = list(range(classes))
    if config.data.order == "random":
        order = torch.randperm(classes, generator=generator(config.seed, "tasks")).tolist()
    return split_classes(classes, config.data.tasks, order)


SYSTEM = BLDSystem()
