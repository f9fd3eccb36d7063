"""The contract: the hooks a system offers, and those it may leave out.

A :class:`System` is a published method with its baselines: what it declares is in its :class:`Settings`, and what it
does are hooks that receive a :class:`Context`. A method without a model, without training or without prediction leaves
those hooks alone, and a caller who asks for them gets one clear sentence. A method for several kinds of data has one
:class:`Task` for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
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
"""The facts: properties of the data that the model depends on."""
M = TypeVar("M")
"""The model; None for a method that has none."""
D = TypeVar("D")
"""The data that evaluation receives."""
R = TypeVar("R")
"""The result of a prediction, a :class:`vergence.contract.result.Result`; None for a method without prediction."""


class Task(Generic[C, F, M, D, R]):
    """The hooks for one kind of data: reading, training, evaluation, prediction and pictures."""

    kind: type | None = None
    """In a system with several tasks: the type of ``config.data`` that selects this one."""
    takes: Sequence[str] = ()
    """In a system with several tasks: the inputs of its prediction, by field name; all of them if none are named."""
    layouts: Mapping[str, Layout] = {}
    """Readers of public data sets by name, as in ``--data cifar10:PATH``."""

    # Data -------------------------------------------------------------------------------------------------------------

    def data(self, ctx: Context[C, F], split: str) -> Data:
        """Samples of ``train``, ``val`` or ``test``: embedded, or read from the source in the config."""
        raise self.not_offered("data of its own")

    def facts(self, ctx: Context[C, F], data: D) -> F:
        """Properties of the training data that the model depends on."""
        raise self.not_offered("facts")

    def slice(self, data: D) -> D:
        """A part of the test data that is evaluated in a second or two, for the traces of stored results."""
        return data

    def example(self, config: C, facts: F, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs of the published size, on the default device: for counting, exporting and checking."""
        raise self.not_offered("example input")

    def preprocessing(self, config: C) -> Mapping[str, Any]:
        """The preprocessing of the input, for anyone who uses the weights without Vergence."""
        return {}

    # Training ---------------------------------------------------------------------------------------------------------

    def losses(self, ctx: Context[C, F], model: M, batch: Any) -> Mapping[str, Tensor]:
        """Named losses; their sum is minimised. With several optimisers ``ctx.turn`` names the one they are for."""
        raise self.not_offered("training")

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Context[C, F], model: M, data: D) -> Mapping[str, float]:
        """The paper's metrics by its protocol."""
        raise self.not_offered("evaluation")

    def infer(self, ctx: Context[C, F], model: M, inputs: Any) -> R:
        """Predict on a user's inputs; the result stays in memory. Gradients are off, as in ``evaluate``: a method that
        needs them turns them on (``torch.enable_grad``)."""
        raise self.not_offered("prediction")

    def infer_many(self, ctx: Context[C, F], model: M, inputs: Sequence[Any]) -> Sequence[R]:
        """Predict on several inputs: one after another, unless a system overrides it to use batches."""
        return [self.infer(ctx, model, each) for each in ctx.progress.track(inputs, "inputs")]

    def render(self, ctx: Context[C, F], inputs: Any, result: R) -> Sequence[Artifact]:
        """Write and draw a result into ``ctx.folder``: machine-readable files, and a picture or page to look at."""
        raise self.not_offered("pictures of a prediction")

    def pictures(self, ctx: Context[C, F], models: Mapping[str, M], data: D) -> Sequence[Artifact]:
        """Pictures of the trained variants side by side on held-out data, written into ``ctx.folder``. Models are on
        the device and in evaluation mode, and gradients are off."""
        return ()

    def judged_by(self, config: C) -> str:
        """The metric that chooses the best checkpoint."""
        raise self.not_offered("metric of its own")

    def embedded(self, config: C) -> str:
        """One or two sentences that describe the embedded data, shown in reports."""
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
    """For a method with several kinds of data: one task for each, to which the system's own task hooks delegate."""
    claims: Sequence[Claim] = ()

    # Data -------------------------------------------------------------------------------------------------------------

    def prepare(self, ctx: Context[C, F], data: Any) -> D:
        """Compute what is needed only once (features, indices); :meth:`Context.keep` stores it."""
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
        """Initialise from the tensors of another network, read from the file or asset that ``config.pretrained`` names.
        Returns one sentence that says which weights were loaded and which are new."""
        raise self.not_offered("use for weights of another network")

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: C, facts: F) -> Mapping[str, Phase]:
        """What to train, in order: the config's phases, unless the data decides how many there are."""
        return phases_of(config)

    def start(self, ctx: Context[C, F], model: M) -> M:
        """Called when a phase begins. To change the model's shape, replace ``ctx.facts`` so that ``build`` gives it."""
        return model

    def rebuild(self, ctx: Context[C, F], model: M, data: Any, epoch: int) -> Mapping[str, Tensor] | None:
        """Called when an epoch begins, to mine, cluster or roll out. The returned state is saved in checkpoints; None
        keeps the last one, which is in ``ctx.rebuilt``."""
        return None

    def rebuilt(self, ctx: Context[C, F], data: Any, state: Mapping[str, Tensor]) -> Data:
        """The data to train on, given the last state that ``rebuild`` returned."""
        rebuilt: Data = data
        return rebuilt

    def part(self, model: Any, optimiser: str) -> nn.Module:
        """The module that an optimiser updates: the model's child of that name, or the whole model."""
        part: nn.Module = dict(model.named_children()).get(optimiser, model)
        return part

    def update(self, ctx: Context[C, F], model: M, batch: Any) -> Mapping[str, Tensor]:
        """One manual training step, instead of ``losses``: state that must outlive it belongs in the model or in
        ``ctx.optimisers``. Returns named losses to show."""
        raise self.not_offered("updates of its own")

    # Use --------------------------------------------------------------------------------------------------------------

    def needs_model(self, inputs: Any) -> bool:
        """Whether prediction on these inputs needs trained weights; False where the inputs name ready-made models."""
        return self.offers("build")

    def inputs_of(self, config: C) -> Sequence[str]:
        """The fields of ``Inputs`` that prediction takes with weights of this config."""
        task, inputs = self.task(config), self.settings.inputs
        names = [field.name for field in fields(inputs)] if inputs is not None else []
        return [name for name in names if task is None or not task.takes or name in task.takes]

    def does_without(self, inputs: Any) -> bool:
        """Whether prediction on these inputs, which would use trained weights, also works if there are none."""
        return False

    # Task hooks, delegated to the task that the config selects --------------------------------------------------------

    def task(self, config: C) -> Task[C, F, M, D, R] | None:
        """The task that a config selects; None for a system that has no tasks."""
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
        overridden = getattr(type(self), hook) is not getattr(System, hook)
        return overridden or (hasattr(Task, hook) and any(task.offers(hook) for task in self.tasks))

    def not_offered(self, what: str) -> NotOffered:
        return NotOffered(f"{self.about.name} offers no {what}: its method has no use for it")


AnySystem = System[Any, Any, Any, Any, Any]
AnyTask = Task[Any, Any, Any, Any, Any]
