"""The contract: what every system offers, and what it may leave out.

One small class a system. A method without a model, without training or without prediction leaves those methods alone,
and whoever asks for them gets one clear line. :class:`vergence.contract.context.Context` is passed everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from vergence.contract.config import override
from vergence.contract.training import Phase, phases_of
from vergence.core.errors import NotOffered, VergenceError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor, nn

    from vergence.contract.about import About
    from vergence.contract.claims import Claim
    from vergence.contract.context import Context
    from vergence.contract.inputs import Artifact
    from vergence.contract.loader import Data
    from vergence.data.layouts import Layout

C = TypeVar("C")
F = TypeVar("F")

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Variant:
    """A method or baseline: a name in tables and what it changes in a config."""

    label: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """By dotted name: ``{"model.block": "nl"}``."""
    headline: bool = True
    """Whether `vergence run` trains it without being asked."""


@dataclass(frozen=True)
class Metric:
    """A number that ``evaluate`` returns."""

    label: str
    unit: str = ""
    higher_is_better: bool = True
    digits: int = 2

    def better(self, a: float, b: float) -> bool:
        """Whether ``a`` is better than ``b``."""
        return a > b if self.higher_is_better else a < b


@dataclass(frozen=True)
class Reported:
    """A table of the paper, to stand beside what is measured here."""

    where: str
    """Which table, on which data: it is not the data used here."""
    rows: Mapping[str, Mapping[str, float]]
    """Variant to metric to figure."""
    presets: tuple[str, ...] = ()
    """The presets it stands beside; if none is named, all of them."""


@dataclass(frozen=True)
class Published:
    """What a preset of published size must come to: built and run forward without memory (on the meta device)."""

    facts: Mapping[str, Any]
    output: Any
    """The shape of what the model returns for :meth:`System.example`; of several tensors, shapes in the same dict or
    list."""
    parameters: int
    variant: str | None = None
    """None: the preset as it stands."""


@dataclass(frozen=True)
class Learns:
    """What a short training must show: ``loss`` falls to ``share`` of where it began within ``steps``."""

    loss: str
    steps: int
    share: float
    variant: str | None = None
    preset: str = "tiny"
    changes: Mapping[str, Any] = field(default_factory=dict)
    """By dotted name, to make it quick."""


@dataclass(frozen=True)
class NoFacts:
    """The data decides nothing that the model must know."""


class System(Generic[C, F]):
    """A published method with its baselines."""

    about: ClassVar[About]
    config_type: ClassVar[type]
    """Frozen, typed, documented: ``model``, ``data``, one field a training phase, ``seed``."""
    facts_type: ClassVar[type] = NoFacts
    """What the data decides and the model must know; saved with the weights."""
    inputs_type: ClassVar[type | None] = None
    """What prediction takes, from :mod:`vergence.contract.inputs`."""

    presets: Mapping[str, C]
    """``tiny`` runs here in minutes, ``paper`` is as published; both build the same classes."""
    variants: Mapping[str, Variant]
    metrics: Mapping[str, Metric]
    """The first one chooses the best checkpoint, unless :meth:`judged_by` says another."""
    embedded: str = "embedded"
    """What the embedded data is, in a sentence for who reads a report."""
    layouts: Mapping[str, Layout] = {}
    """Readers of public data sets by name, as in ``--data cifar10:PATH``."""
    reported: Sequence[Reported] = ()
    published: Mapping[str, Published] = {}
    learns: Learns | None = None
    claims: Sequence[Claim] = ()
    tiny_minutes: float = 0.0
    """About how long `tiny` trains on two cores, to say so before someone does."""

    # Data -------------------------------------------------------------------------------------------------------

    def data(self, ctx: Context[C, F], split: str) -> Data:
        """Samples of ``train``, ``val`` or ``test``: embedded, or read from where the config says.

        ``ctx.phase`` names the phase they are for; it is empty for the final test, and when facts that decide the
        phases are taken.
        """
        raise self.not_offered("data of its own")

    def prepare(self, ctx: Context[C, F], data: Data) -> Data:
        """Derive what is computed once (features, indices); :meth:`Context.keep` stores it."""
        return data

    def facts(self, ctx: Context[C, F], data: Data) -> F:
        """What the training data decides."""
        made: F = self.facts_type()
        return made

    def slice(self, data: Data) -> Data:
        """A part of the test data that is judged in a second or two, for the traces of stored results."""
        return data

    # Model ------------------------------------------------------------------------------------------------------

    def build(self, config: C, facts: F) -> nn.Module:
        """The model as published. Config and facts alone decide its shape: a weights file carries both."""
        raise self.not_offered("model")

    def example(self, config: C, facts: F, batch: int = 1) -> tuple[Tensor, ...]:
        """Inputs of the published size, on the default device: for counting, exporting and checking."""
        raise self.not_offered("example input")

    def preprocessing(self, config: C) -> Mapping[str, Any]:
        """What was done to the input, for those who use the weights without Vergence."""
        return {}

    def load_published(self, path: Path) -> tuple[C, F, dict[str, Tensor]]:
        """The authors' own checkpoint: its config, facts and weights under this model's names."""
        raise self.not_offered("reader for weights of its authors")

    # Training ---------------------------------------------------------------------------------------------------

    def phases(self, config: C, facts: F) -> Mapping[str, Phase]:
        """What to train, in order: the config's phases, unless the data decides how many there are."""
        return phases_of(config)

    def start(self, ctx: Context[C, F], model: nn.Module) -> nn.Module:
        """A phase begins. To change the model's shape, replace ``ctx.facts`` so that ``build`` gives the new one."""
        return model

    def rebuild(self, ctx: Context[C, F], model: nn.Module, data: Data, epoch: int) -> Mapping[str, Tensor] | None:
        """An epoch begins: mine, cluster or roll out. What is returned is kept in checkpoints; None keeps the last,
        which is in ``ctx.rebuilt``."""
        return None

    def rebuilt(self, ctx: Context[C, F], data: Data, state: Mapping[str, Tensor]) -> Data:
        """The data to train on, given what ``rebuild`` returned last."""
        return data

    def parameters(self, model: nn.Module, optimiser: str, alone: bool) -> nn.Module:
        """The module an optimiser moves: all of the model for a single one, else the part of its name."""
        return model if alone else model.get_submodule(optimiser)

    def losses(self, ctx: Context[C, F], model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        """Named losses; their sum is minimised. With several optimisers ``ctx.turn`` says whose losses."""
        raise self.not_offered("training")

    def update(self, ctx: Context[C, F], model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        """One step made by hand, instead of ``losses``: everything that must survive it is in the model or in
        ``ctx.optimisers``. Returns named losses to show."""
        raise self.not_offered("updates of its own")

    # Use --------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Context[C, F], model: nn.Module | None, data: Data) -> Mapping[str, float]:
        """The paper's metrics by its protocol."""
        raise self.not_offered("evaluation")

    def predict(self, ctx: Context[C, F], model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        """Use on a user's files; writes into ``ctx.folder``. Gradients are off, as in ``evaluate``: a method that
        needs them turns them on (``torch.enable_grad``)."""
        raise self.not_offered("prediction on files")

    def needs_model(self, inputs: Any) -> bool:
        """Whether prediction on these inputs uses trained weights: not where they name models that come ready."""
        return self.offers("build")

    def pictures(self, ctx: Context[C, F], models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        """What the trained variants do, side by side, on held-out data; writes into ``ctx.folder``."""
        return ()

    # Systems with several tasks ---------------------------------------------------------------------------------

    def judged_by(self, config: C) -> str:
        """The metric that chooses the best checkpoint."""
        return next(iter(self.metrics))

    def embedded_data(self, config: C) -> str:
        """What the embedded data of a config is, in a sentence for who reads a report."""
        return self.embedded

    # What follows from the above --------------------------------------------------------------------------------

    def offers(self, what: str) -> bool:
        """Whether the system has a method of its own by this name."""
        return getattr(type(self), what) is not getattr(System, what)

    @property
    def trains(self) -> bool:
        return self.offers("losses") or self.offers("update")

    def configure(self, preset: str, variant: str | None = None, changes: Mapping[str, Any] | None = None) -> C:
        """A preset, as a variant, with changes by dotted name."""
        if preset not in self.presets:
            raise VergenceError(f"{self.about.name} has no preset {preset!r}{did_you_mean(preset, self.presets)}")
        if variant is not None and variant not in self.variants:
            raise VergenceError(f"{self.about.name} has no variant {variant!r}{did_you_mean(variant, self.variants)}")
        config = self.presets[preset]
        if variant is not None:
            config = override(config, self.variants[variant].changes)
        return override(config, changes or {})

    def not_offered(self, what: str) -> NotOffered:
        """The one line for who asks for what the method has no use for."""
        return NotOffered(f"{self.about.name} offers no {what}: its method has no use for it")
