"""The contract: the hooks a system offers, and those it may leave out.

A :class:`System` is a published method with its baselines: what it declares is in its :class:`Settings`, and what it
does are hooks that receive a :class:`Context`. A method without a model, without training or without prediction leaves
those hooks alone, and a caller who asks for them gets one clear sentence. A method for several kinds of data has one
:class:`Task` for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from vergence.contract.settings import Metric, Settings, Variant
from vergence.contract.training import Phase, phases_of
from vergence.core.errors import NotOffered

if TYPE_CHECKING:
    from torch import Tensor, nn

    from vergence.contract.about import About
    from vergence.contract.claims import Claim
    from vergence.contract.context import Context
    from vergence.contract.data import Data, Layout
    from vergence.contract.inputs import Artifact

C = TypeVar("C")
"""The config."""
F = TypeVar("F")
"""What the data decides and the model must know."""
M = TypeVar("M")
"""The model; None for a method that has none."""
D = TypeVar("D")
"""The data as evaluation gets it."""
R = TypeVar("R")
"""The result of a prediction, a :class:`vergence.contract.result.Result`; None for a method without prediction."""


class Task(Generic[C, F, M, D, R]):
    """What is done with one kind of data: how it is read, learnt from, judged, used and shown."""

    kind: type | None = None
    """Of a system with several tasks: the type of ``config.data`` that means this one."""
    layouts: Mapping[str, Layout] = {}
    """Readers of public data sets by name, as in ``--data cifar10:PATH``."""

    # Data -------------------------------------------------------------------------------------------------------------

    def data(self, ctx: Context[C, F], split: str) -> Data:
        """Samples of ``train``, ``val`` or ``test``: embedded, or read from where the config says."""
        raise self.not_offered("data of its own")

    def facts(self, ctx: Context[C, F], data: D) -> F:
        """What the training data decides."""
        raise self.not_offered("facts")

    def slice(self, data: D) -> D:
        """A part of the test data that is judged in a second or two, for the traces of stored results."""
        return data

    def example(self, config: C, facts: F, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs of the published size, on the default device: for counting, exporting and checking."""
        raise self.not_offered("example input")

    def preprocessing(self, config: C) -> Mapping[str, Any]:
        """What was done to the input, for anyone who uses the weights without Vergence."""
        return {}

    # Training ---------------------------------------------------------------------------------------------------------

    def losses(self, ctx: Context[C, F], model: M, batch: Any) -> Mapping[str, Tensor]:
        """Named losses; their sum is minimised. With several optimisers ``ctx.turn`` says whose losses."""
        raise self.not_offered("training")

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Context[C, F], model: M, data: D) -> Mapping[str, float]:
        """The paper's metrics by its protocol."""
        raise self.not_offered("evaluation")

    def infer(self, ctx: Context[C, F], model: M, inputs: Any) -> R:
        """Use on a user's inputs: what comes out, in memory. Gradients are off, as in ``evaluate``: a method that needs
        them turns them on (``torch.enable_grad``)."""
        raise self.not_offered("prediction")

    def infer_many(self, ctx: Context[C, F], model: M, inputs: Sequence[Any]) -> Sequence[R]:
        """Results of several inputs: one after another, unless a system can take them in batches."""
        return [self.infer(ctx, model, each) for each in ctx.progress.track(inputs, "inputs")]

    def render(self, ctx: Context[C, F], inputs: Any, result: R) -> Sequence[Artifact]:
        """Write and draw a result into ``ctx.folder``: machine-readable files, and a picture or page to look at."""
        raise self.not_offered("pictures of a prediction")

    def pictures(self, ctx: Context[C, F], models: Mapping[str, M], data: D) -> Sequence[Artifact]:
        """What the trained variants do, side by side, on held-out data; writes into ``ctx.folder``. Models are on the
        device and in evaluation mode, and gradients are off."""
        return ()

    def judged_by(self, config: C) -> str:
        """The metric that chooses the best checkpoint."""
        raise self.not_offered("metric of its own")

    def embedded(self, config: C) -> str:
        """One sentence or two that describe the embedded data, shown in reports."""
        raise self.not_offered("embedded data")

    # What follows from the above --------------------------------------------------------------------------------------

    def offers(self, hook: str) -> bool:
        """Whether this class has a hook of its own by this name."""
        return getattr(type(self), hook) is not getattr(Task, hook)

    def not_offered(self, what: str) -> NotOffered:
        """The error raised when a caller asks for something this method does not provide."""
        return NotOffered(f"{type(self).__name__} offers no {what}")


class System(Task[C, F, M, D, R]):
    """A published method with its baselines."""

    settings: ClassVar[Settings[Any]]
    tasks: Sequence[Task[Any, Any, Any, Any, Any]] = ()
    """For a method with several kinds of data: what is done with each. Such a system leaves the hooks of a task to
    them."""
    claims: Sequence[Claim] = ()

    # Data -------------------------------------------------------------------------------------------------------------

    def prepare(self, ctx: Context[C, F], data: Any) -> D:
        """Derive what is computed once (features, indices); :meth:`Context.keep` stores it."""
        prepared: D = data
        return prepared

    # Model ------------------------------------------------------------------------------------------------------------

    def build(self, config: C, facts: F) -> M:
        """The model as published. Config and facts alone decide its shape: a weights file carries both."""
        raise self.not_offered("model")

    def load_published(self, path: Path) -> tuple[C, F, dict[str, Tensor]]:
        """The authors' own checkpoint: its config, facts and weights under this model's names."""
        raise self.not_offered("reader for weights of its authors")

    def load_pretrained(self, config: C, model: M, state: Mapping[str, Any]) -> str:
        """Start from tensors of another network, read from the file or asset that ``config.pretrained`` names. Returns
        one sentence that says what was taken over and what is new."""
        raise self.not_offered("use for weights of another network")

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: C, facts: F) -> Mapping[str, Phase]:
        """What to train, in order: the config's phases, unless the data decides how many there are."""
        return phases_of(config)

    def start(self, ctx: Context[C, F], model: M) -> M:
        """A phase begins. To change the model's shape, replace ``ctx.facts`` so that ``build`` gives the new one."""
        return model

    def rebuild(self, ctx: Context[C, F], model: M, data: Any, epoch: int) -> Mapping[str, Tensor] | None:
        """An epoch begins: mine, cluster or roll out. What is returned is kept in checkpoints; None keeps the last,
        which is in ``ctx.rebuilt``."""
        return None

    def rebuilt(self, ctx: Context[C, F], data: Any, state: Mapping[str, Tensor]) -> Data:
        """The data to train on, given what ``rebuild`` returned last."""
        rebuilt: Data = data
        return rebuilt

    def part(self, model: Any, optimiser: str) -> nn.Module:
        """What an optimiser moves: the part of the model that has its name, or everything."""
        part: nn.Module = dict(model.named_children()).get(optimiser, model)
        return part

    def update(self, ctx: Context[C, F], model: M, batch: Any) -> Mapping[str, Tensor]:
        """One step made by hand, instead of ``losses``: everything that must survive it is in the model or in
        ``ctx.optimisers``. Returns named losses to show."""
        raise self.not_offered("updates of its own")

    # Use --------------------------------------------------------------------------------------------------------------

    def needs_model(self, inputs: Any) -> bool:
        """Whether prediction on these inputs uses trained weights: not where they name models that come ready."""
        return self.offers("build")

    # The hooks of a task: those of the one that the config means ------------------------------------------------------

    def task(self, config: C) -> Task[C, F, M, D, R] | None:
        """The task that a config means; None for a system that has no tasks."""
        data = getattr(config, "data", None)
        return next((task for task in self.tasks if task.kind is type(data)), None)

    def data(self, ctx: Context[C, F], split: str) -> Data:
        task = self.task(ctx.config)
        return task.data(ctx, split) if task else super().data(ctx, split)

    def facts(self, ctx: Context[C, F], data: D) -> F:
        task = self.task(ctx.config)
        if task:
            return task.facts(ctx, data)
        facts: F = self.settings.facts()
        return facts

    def example(self, config: C, facts: F, batch: int = 1) -> tuple[Tensor, ...]:
        task = self.task(config)
        return task.example(config, facts, batch) if task else super().example(config, facts, batch)

    def preprocessing(self, config: C) -> Mapping[str, Any]:
        task = self.task(config)
        return task.preprocessing(config) if task else {}

    def losses(self, ctx: Context[C, F], model: M, batch: Any) -> Mapping[str, Tensor]:
        task = self.task(ctx.config)
        return task.losses(ctx, model, batch) if task else super().losses(ctx, model, batch)

    def evaluate(self, ctx: Context[C, F], model: M, data: D) -> Mapping[str, float]:
        task = self.task(ctx.config)
        return task.evaluate(ctx, model, data) if task else super().evaluate(ctx, model, data)

    def infer(self, ctx: Context[C, F], model: M, inputs: Any) -> R:
        task = self.task(ctx.config)
        return task.infer(ctx, model, inputs) if task else super().infer(ctx, model, inputs)

    def infer_many(self, ctx: Context[C, F], model: M, inputs: Sequence[Any]) -> Sequence[R]:
        task = self.task(ctx.config)
        return task.infer_many(ctx, model, inputs) if task else super().infer_many(ctx, model, inputs)

    def render(self, ctx: Context[C, F], inputs: Any, result: R) -> Sequence[Artifact]:
        task = self.task(ctx.config)
        return task.render(ctx, inputs, result) if task else super().render(ctx, inputs, result)

    def pictures(self, ctx: Context[C, F], models: Mapping[str, M], data: D) -> Sequence[Artifact]:
        task = self.task(ctx.config)
        return task.pictures(ctx, models, data) if task else ()

    def judged_by(self, config: C) -> str:
        task = self.task(config)
        return task.judged_by(config) if task else next(iter(self.metrics))

    def embedded(self, config: C) -> str:
        task = self.task(config)
        return task.embedded(config) if task else self.settings.embedded

    # What follows from the above --------------------------------------------------------------------------------------

    @property
    def about(self) -> About:
        return self.settings.about

    @property
    def variants(self) -> Mapping[str, Variant]:
        return self.settings.variants

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return self.settings.metrics

    @property
    def trains(self) -> bool:
        return self.offers("losses") or self.offers("update")

    def configure(self, preset: str, variant: str | None = None, changes: Mapping[str, Any] | None = None) -> C:
        """A preset, as a variant, with changes by dotted name."""
        config: C = self.settings.configure(preset, variant, changes)
        return config

    def offers(self, hook: str) -> bool:
        own = getattr(type(self), hook) is not getattr(System, hook)
        return own or (hasattr(Task, hook) and any(task.offers(hook) for task in self.tasks))

    def not_offered(self, what: str) -> NotOffered:
        return NotOffered(f"{self.about.name} offers no {what}: its method has no use for it")


AnySystem = System[Any, Any, Any, Any, Any]
AnyTask = Task[Any, Any, Any, Any, Any]
