"""Models from Python: built by name, or loaded with weights and ready for use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from vergence import catalogue
from vergence.contract.config import from_json, override, to_json
from vergence.contract.data import change_source
from vergence.contract.identity import Identity
from vergence.contract.inputs import make_inputs
from vergence.contract.result import Result, several
from vergence.contract.settings import SPLITS
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.progress import Progress
from vergence.engine.choose import choose
from vergence.engine.use import infer, judge
from vergence.engine.weights import identify_file, load_any, origin
from vergence.nn.probe import caught
from vergence.runs.folder import Run
from vergence.runs.machine import Machine
from vergence.tools.exporting import SUFFIXES, Exported, Target
from vergence.tools.exporting import export as export_module

_IDENTITY = "vergence_identity"


class Model:
    """A system ready for use: its network with weights (if it has one) and its identity."""

    def __init__(self, system: AnySystem, identity: Identity, module: nn.Module | None, origin: str = "") -> None:
        self.system, self.identity, self.module, self.origin = system, identity, module, origin

    def __repr__(self) -> str:
        variant = f", variant {self.identity.variant!r}" if self.identity.variant else ""
        return f"<vergence model of {self.identity.system!r}{variant}: {self.origin or 'no weights needed'}>"

    def __call__(self, *inputs: Tensor) -> Any:
        """Output of the network."""
        if self.module is None:
            raise self.system.not_offered("network")
        return self.module(*inputs)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes that the weights were trained on, in the order of the outputs; empty if there are
        none."""
        return tuple(getattr(self.identity.facts, "labels", ()))

    def predict(self, *, machine: Machine | None = None, progress: Progress | None = None, **inputs: Any) -> Any:
        """Predict: ``model.predict(first=cloud_a, second=cloud_b)`` returns a :class:`Result`.

        Inputs may be paths, NumPy arrays, tensors or PIL images. A field for a single value may be batch a list; the
        results are then a list too.
        """
        kind = self.system.settings.inputs
        if kind is None or not self.system.offers("infer"):
            raise self.system.not_offered("prediction")
        batch: list[Any] = make_inputs(kind, inputs, f"the inputs of {self.identity.system}")
        system = self.system
        if self.module is None and any(system.needs_model(one) and not system.does_without(one) for one in batch):
            raise VergenceError(f"this needs weights of {self.identity.system}: vergence.load(FILE)")
        return several(self.infer(batch, machine, progress))

    def infer(
        self, inputs: Sequence[Any], machine: Machine | None = None, progress: Progress | None = None
    ) -> list[Result]:
        """Predict on inputs that are already of the system's type: one result per input."""
        used, shown = machine or Machine(), progress or Progress()
        return infer(self.system, self.identity, self.module, inputs, used, shown)

    def evaluate(
        self,
        *,
        data: str = "",
        split: str = "test",
        changes: Mapping[str, Any] | None = None,
        machine: Machine | None = None,
        progress: Progress | None = None,
    ) -> dict[str, float]:
        """Metrics by the paper's protocol, on the data of the weights' config or on ``data``, such as
        "cifar10:PATH". ``changes`` override the config by dotted names."""
        if split not in SPLITS:
            raise VergenceError(f"no split {split!r}{did_you_mean(split, SPLITS)}")
        config = self.identity.config
        config = override(config, change_source(config, data) | dict(changes or {}))
        used, shown = machine or Machine(), progress or Progress()
        return judge(self.system, self.identity, self.module, config, split, used, shown)

    def export(self, path: str | Path, to: Target | None = None) -> Exported:
        """Write the network for other programs: ``model.export("model.onnx")``.

        ``to`` is ``onnx`` or ``torch``, by default chosen by the file suffix. The file's outputs are compared with the
        model's before it is kept.
        """
        target = Path(path)
        kind = to or next((kind for kind, suffix in SUFFIXES.items() if target.suffix == suffix), None)
        if kind not in SUFFIXES:
            raise VergenceError(f"no format for {target}: its name ends in .onnx or .pt2, or `to` says onnx or torch")
        if self.module is None:
            raise self.system.not_offered("model to export")
        return export_module(self.system, deepcopy(self.module), self.identity, kind, target)


def create(name: str, variant: str | None = None, preset: str = "paper", **facts: Any) -> nn.Module:
    """A system's network as published, untrained: ``create("snl", variant="nl", classes=10)``.

    ``facts`` are values that data would determine, such as the number of classes; by default those of the paper.
    """
    system = catalogue.load(name)
    if not system.offers("build"):
        raise system.not_offered("model")
    config = system.configure(preset, variant)
    values: Any = from_json(system.settings.facts, to_json(_facts(system, preset, facts)), f"create({name!r})")
    module: nn.Module = system.build(config, values)
    return _named(module, Identity(name, preset, variant or "", config, values))


def _facts(system: AnySystem, preset: str, given: Mapping[str, Any]) -> dict[str, Any]:
    known = {f.name: f for f in fields(system.settings.facts)}
    for name in given:
        if name not in known:
            raise VergenceError(f"create({system.about.name!r}) has no argument {name!r}{did_you_mean(name, known)}")
    published = system.settings.published
    usual = dict((published.get(preset) or next(iter(published.values()))).facts) if published else {}
    facts = usual | dict(given)
    for name, field in known.items():
        if name not in facts and field.default is MISSING and field.default_factory is MISSING:
            raise VergenceError(f"create({system.about.name!r}) needs the argument {name}=")
    return facts


def load(what: str | Path | Run, weights: str | Path | None = None) -> Model:
    """A model ready for use: ``load("flot")`` with its starter weights, or ``load(FILE)`` from a weights file alone.

    The file is one of Vergence, or one that the authors of a system published, such as ``model_2048.tar``.
    ``load("flot", FILE)`` refuses files of other systems.
    """
    if isinstance(what, Run):
        if what.weights is None:
            raise VergenceError(f"{what.folder} has no weights yet")
        what = what.weights
    if isinstance(what, str) and what in catalogue.names():
        system = catalogue.load(what)
        needed = weights is not None or not _works_without(system) or catalogue.starter(what) is not None
        chosen = choose(system, weights or "", needed=needed)
        return Model(system, chosen.identity, chosen.model, chosen.origin)
    if weights is not None:
        raise VergenceError(f"no system {str(what)!r}{did_you_mean(str(what), catalogue.names())}")
    path = Path(what).expanduser()
    if not path.exists() and isinstance(what, str) and path.parent == Path() and not path.suffix:
        raise VergenceError(f"no system and no file {what!r}{did_you_mean(what, catalogue.names())}")
    module, identity = load_any(path)
    return Model(catalogue.load(identity.system), identity, module, origin(path, identity))


def _works_without(system: AnySystem) -> bool:
    """Whether some prediction of a system needs no weights."""
    return not system.offers("build") or system.offers("needs_model") or system.offers("does_without")


def describe(model: Model | nn.Module | str | Path) -> Identity:
    """System, variant, config and facts of a model made here, or of a weights file."""
    if isinstance(model, Model):
        return model.identity
    if isinstance(model, str | Path):
        return identify_file(Path(model).expanduser())
    identity = getattr(model, _IDENTITY, None)
    if not isinstance(identity, Identity):
        raise VergenceError("this model was not made by vergence.create or vergence.load")
    return identity


def features(model: Model | nn.Module, at: str | Sequence[str], *inputs: Tensor) -> dict[str, Tensor]:
    """Outputs of the named modules of any network for ``inputs``: ``features(model, ["layer2", "layer3"], images)``.

    Runs one full forward pass; gradients flow as usual.
    """
    network = model.module if isinstance(model, Model) else model
    if network is None:
        raise VergenceError("this model has no network")
    wanted = [at] if isinstance(at, str) else list(at)
    modules = dict(network.named_modules())
    for name in wanted:
        if name not in modules or not name:
            raise VergenceError(f"the model has no module {name!r}{did_you_mean(name, [m for m in modules if m])}")
    seen = caught({name: modules[name] for name in wanted}, partial(network, *inputs))[1]
    for name in wanted:
        if name not in seen:
            raise VergenceError(f"the module {name!r} is not called as a whole in a forward pass; name one inside it")
    return {name: seen[name] for name in wanted}


def as_model(model: Model | nn.Module | str | Path) -> Model:
    """A :class:`Model` from a model, a network made by ``create``, a system's name or a weights file."""
    if isinstance(model, Model):
        return model
    if isinstance(model, nn.Module):
        identity = describe(model)
        return Model(catalogue.load(identity.system), identity, model, "a network made by create")
    return load(model)


def _named(module: nn.Module, identity: Identity) -> nn.Module:
    object.__setattr__(module, _IDENTITY, identity)
    return module
