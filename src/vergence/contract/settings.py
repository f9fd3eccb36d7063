"""What a system declares about itself: configs, presets, variants, metrics and the paper's figures.

None of it needs PyTorch, so that help, completion and errors in arguments are immediate. A system's ``settings.py``
ends with one :class:`Settings` named ``SETTINGS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from vergence.contract.about import About
from vergence.contract.assets import Asset
from vergence.contract.config import override
from vergence.contract.training import one_length
from vergence.core.errors import VergenceError, did_you_mean

C = TypeVar("C")

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Variant:
    """A method or baseline: its label in tables and what it changes in a config."""

    label: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """By dotted name: ``{"model.block": "nl"}``."""
    headline: bool = True
    """Whether `vergence run` trains it by default."""


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
    """A table of the paper, shown beside what is measured here."""

    where: str
    """Which table, on which data: it is not the data used here."""
    rows: Mapping[str, Mapping[str, float]]
    """Values by variant and metric."""
    presets: tuple[str, ...] = ()
    """The presets it is shown with; if none is named, all of them."""

    @classmethod
    def table(
        cls, where: str, metrics: Sequence[str], rows: Mapping[str, Sequence[float]], presets: tuple[str, ...] = ()
    ) -> Reported:
        """From one row of figures per variant, in the order of ``metrics``; a short row leaves the last ones out."""
        return cls(where, {variant: dict(zip(metrics, row, strict=False)) for variant, row in rows.items()}, presets)


@dataclass(frozen=True)
class Published:
    """Expected output shape and parameter count of a preset of published size, checked on the meta device."""

    facts: Mapping[str, Any]
    output: Any
    """Shape of the model's output for :meth:`System.example`; for several tensors, shapes in the same dict or list."""
    parameters: int
    variant: str | None = None
    """None: the preset unchanged."""


@dataclass(frozen=True)
class Learns:
    """What a short training must reach: ``loss`` falls to ``share`` of its initial value within ``steps``."""

    loss: str
    steps: int
    share: float
    variant: str | None = None
    preset: str = "tiny"
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Config changes by dotted name, to make it fast."""


@dataclass(frozen=True)
class Starter:
    """How starter weights are made: ``vergence weights NAME --train`` repeats it."""

    note: str
    """What they can do, in one line."""
    preset: str = "starter"
    variant: str = ""
    """The method's own, if none is named."""
    seed: int = 100
    licence: str = "Apache-2.0"
    data: str = ""
    """The training data, if it is not the embedded data as described."""
    tried: str = ""
    """Other data they were tried on, and the outcome."""


@dataclass(frozen=True)
class NoFacts:
    """The model depends on no property of the data."""


@dataclass(frozen=True)
class Settings(Generic[C]):
    """Everything a system declares that needs no PyTorch."""

    about: About
    config: type[C]
    """Frozen, typed, documented: ``model``, ``data``, one field per training phase, ``seed``."""
    presets: Mapping[str, C]
    """``tiny`` trains in minutes on a CPU, ``paper`` is as published; both build the same classes."""
    variants: Mapping[str, Variant]
    metrics: Mapping[str, Metric]
    """The first one chooses the best checkpoint, unless :meth:`Task.judged_by` names another."""
    facts: type = NoFacts
    """Properties of the data that the model depends on, such as the number of classes; saved with the weights."""
    inputs: type | None = None
    """The inputs of prediction, with fields from :mod:`vergence.contract.inputs`."""
    assets: Mapping[str, Asset] = field(default_factory=dict)
    """Weights of other networks that ``config.pretrained`` may name."""
    embedded: str = ""
    """One or two sentences that describe the embedded data, shown in reports."""
    reported: Sequence[Reported] = ()
    published: Mapping[str, Published] = field(default_factory=dict)
    starters: Mapping[str, Starter] = field(default_factory=dict)
    """Small trained weights that come with the system, by the name of their file; the first is the default."""
    learns: Learns | None = None
    minutes: float = 0.0
    """Roughly how long one variant of `tiny` trains on two cores."""

    def configure(self, preset: str, variant: str | None = None, changes: Mapping[str, Any] | None = None) -> C:
        """A preset, as a variant, with changes by dotted name."""
        if preset not in self.presets:
            raise VergenceError(f"{self.about.name} has no preset {preset!r}{did_you_mean(preset, self.presets)}")
        if variant is not None and variant not in self.variants:
            raise VergenceError(f"{self.about.name} has no variant {variant!r}{did_you_mean(variant, self.variants)}")
        config = self.presets[preset]
        if variant is not None:
            config = override(config, self.variants[variant].changes)
        return override(one_length(config, changes or {}), changes or {})

    def default_variant(self, preset: str) -> str:
        """The variant whose config equals the unchanged preset; the first variant if none does."""
        plain = self.configure(preset)
        return next((v for v in self.variants if self.configure(preset, v) == plain), next(iter(self.variants)))

    def label(self, variant: str) -> str:
        """A variant's name in tables and pictures."""
        return self.variants[variant].label if variant in self.variants else variant
