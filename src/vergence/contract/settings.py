"""What a system declares about itself: configs, presets, variants, metrics and the paper's figures.

None of it needs PyTorch, so that help, completion and wrong arguments are answered at once. A system's ``settings.py``
ends with one :class:`Settings` named ``SETTINGS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from vergence.contract.about import About
from vergence.contract.assets import Asset
from vergence.contract.config import override
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
    """A table of the paper, shown beside what is measured here."""

    where: str
    """Which table, on which data: it is not the data used here."""
    rows: Mapping[str, Mapping[str, float]]
    """Variant to metric to figure."""
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
    """What they are trained on, if it is not the embedded data as described."""
    tried: str = ""
    """What they were tried on that they were not trained on, and how it went."""


@dataclass(frozen=True)
class NoFacts:
    """The data decides nothing that the model must know."""


@dataclass(frozen=True)
class Settings(Generic[C]):
    """Everything a system declares that needs no PyTorch."""

    about: About
    config: type[C]
    """Frozen, typed, documented: ``model``, ``data``, one field per training phase, ``seed``."""
    presets: Mapping[str, C]
    """``tiny`` runs here in minutes, ``paper`` is as published; both build the same classes."""
    variants: Mapping[str, Variant]
    metrics: Mapping[str, Metric]
    """The first one chooses the best checkpoint, unless :meth:`Task.judged_by` says another."""
    facts: type = NoFacts
    """What the data decides and the model must know; saved with the weights."""
    inputs: type | None = None
    """What prediction takes, with fields from :mod:`vergence.contract.inputs`."""
    assets: Mapping[str, Asset] = field(default_factory=dict)
    """Weights of other networks that ``config.pretrained`` may name."""
    embedded: str = ""
    """One sentence or two that describe the embedded data, shown in reports."""
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
        return override(config, changes or {})

    def default_variant(self, preset: str) -> str:
        """The variant that a preset is as it stands."""
        plain = self.configure(preset)
        return next((v for v in self.variants if self.configure(preset, v) == plain), next(iter(self.variants)))

    def label(self, variant: str) -> str:
        """A variant's name in tables and pictures."""
        return self.variants[variant].label if variant in self.variants else variant
