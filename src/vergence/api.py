"""The Python door: build, load, judge and use any system from code."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vergence import catalogue
from vergence.contract.config import from_json, override, to_json
from vergence.contract.identity import Identity
from vergence.contract.inputs import Artifact
from vergence.contract.settings import SPLITS
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.files import make_folder
from vergence.core.progress import Progress
from vergence.engine import weights as weight_files
from vergence.engine.evaluate import run_evaluation
from vergence.engine.execute import working
from vergence.nn.probe import caught
from vergence.runs.machine import Machine
from vergence.studies import comparison
from vergence.studies.comparison import Comparison
from vergence.tools import datacheck
from vergence.tools.datacheck import DataCheck
from vergence.tools.exporting import SUFFIXES, Exported, Target
from vergence.tools.exporting import export as export_model

_IDENTITY = "vergence_identity"
FILES = frozenset({".mp4", ".mov", ".mkv", ".webm", ".avi", ".gif", ".png", ".jpg", ".csv", ".json", ".html", ".npy"})
"""How a place to write to ends that is a file and not a folder."""


def create(
    name: str, variant: str | None = None, weights: str | Path | None = None, preset: str = "paper", **facts: Any
) -> nn.Module:
    """A system's model as published: ``create("snl", variant="nl", classes=10)``.

    ``facts`` are what the data would decide. With ``weights`` (a file of Vergence's or of the authors) everything comes
    from the file; what is given besides must agree with it.
    """
    system = catalogue.load(name)
    if weights is not None:
        model, identity = weight_files.load_model_of(system, Path(weights))
        _refuse_disagreement(identity, variant, facts, Path(weights))
        return _named(model, identity)
    config = system.configure(preset, variant)
    given: Any = from_json(system.settings.facts, to_json(facts), f"{name}'s facts")
    return _named(system.build(config, given), Identity(name, preset, variant or "", config, given))


def _refuse_disagreement(identity: Identity, variant: str | None, facts: Mapping[str, Any], path: Path) -> None:
    held = to_json(identity.facts)
    for fact, value in to_json(facts).items():
        if fact not in held or held[fact] != value:
            raise VergenceError(f"{path} was trained with {fact}={held.get(fact)!r}, not {value!r}")
    if variant is not None and variant != identity.variant:
        raise VergenceError(f"{path} holds the variant {identity.variant!r}, not {variant!r}")


def load(weights: str | Path) -> nn.Module:
    """The model that a weights file holds, in evaluation mode. The file alone is enough."""
    return _named(*weight_files.load_model(Path(weights)))


def describe(model: nn.Module | str | Path) -> Identity:
    """System, variant, config and facts of a model made here, or of a weights file."""
    if isinstance(model, str | Path):
        return weight_files.identify(Path(model))
    identity = getattr(model, _IDENTITY, None)
    if identity is None:
        raise VergenceError("this model was not made by vergence.create or vergence.load")
    assert isinstance(identity, Identity)
    return identity


def features(model: nn.Module, at: str | Sequence[str], *inputs: Tensor) -> dict[str, Tensor]:
    """What the named modules of any model give for ``inputs``: ``features(model, ["layer2", "layer3"], images)``.

    The model is run once, to its end. Gradients flow as in an ordinary call.
    """
    wanted = [at] if isinstance(at, str) else list(at)
    modules = dict(model.named_modules())
    for name in wanted:
        if name not in modules or not name:
            raise VergenceError(f"the model has no module {name!r}{did_you_mean(name, [m for m in modules if m])}")
    seen = caught({name: modules[name] for name in wanted}, partial(model, *inputs))[1]
    for name in wanted:
        if name not in seen:
            raise VergenceError(f"the module {name!r} is not called as a whole in a forward pass; name one inside it")
    return {name: seen[name] for name in wanted}


def evaluate(
    model: nn.Module | str | Path,
    *,
    split: str = "test",
    changes: Mapping[str, Any] | None = None,
    machine: Machine | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Metrics by the paper's protocol, of a model made here, a weights file, or (by name) a system without a model.

    ``changes={"data.source": "cifar10:PATH"}`` looks at other data.
    """
    network, identity = _resolve(model)
    config = override(identity.config, changes or {})
    return run_judgement(catalogue.load(identity.system), identity, network, config, split, machine, progress)


def run_judgement(
    system: AnySystem,
    identity: Identity,
    model: nn.Module | None,
    config: Any,
    split: str,
    machine: Machine | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Evaluation with everything at hand. The model is left as it was."""
    if split not in SPLITS:
        raise VergenceError(f"no split {split!r}{did_you_mean(split, SPLITS)}")
    used, shown = machine or Machine(), progress or Progress()
    with (
        tempfile.TemporaryDirectory() as scratch,
        _as_it_was(model),
        working(system, config, Path(scratch), used, shown, identity.facts) as ctx,
    ):
        data = system.prepare(ctx, system.data(ctx, split))
        placed = model.to(ctx.device, ctx.float_type) if model is not None else None
        return run_evaluation(system, ctx, placed, data)


def predict(
    model: nn.Module | str | Path,
    folder: str | Path,
    *,
    machine: Machine | None = None,
    progress: Progress | None = None,
    **inputs: Any,
) -> list[Artifact]:
    """Use a model on files: ``predict("last.safetensors", "out", images=["a.png"])`` writes into ``out``.

    A system's name will do where its prediction needs no trained weights.
    """
    network, identity = (None, None) if _is_name(model) else _resolve(model)
    system = catalogue.load(identity.system if identity else str(model))
    if system.settings.inputs is None:
        raise system.not_offered("prediction on files")
    given: Any = from_json(system.settings.inputs, to_json(inputs), f"{system.about.name}'s inputs")
    if identity is None:
        identity = _without_model(system) if not system.needs_model(given) else _resolve(model)[1]
    return run_prediction(system, identity, network, given, Path(folder), machine, progress)


def run_prediction(
    system: AnySystem,
    identity: Identity,
    model: nn.Module | None,
    inputs: Any,
    folder: Path,
    machine: Machine | None = None,
    progress: Progress | None = None,
) -> list[Artifact]:
    """Prediction with everything at hand. Files appear in the folder when all of them are made, or not at all.

    A ``folder`` that is named like a file (``out.mp4``) names the file of that kind, and those beside it.
    """
    name = folder.name if folder.suffix.lower() in FILES and not folder.is_dir() else ""
    folder = folder.parent if name else folder
    make_folder(folder)
    used, shown = machine or Machine(), progress or Progress()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as scratch, _as_it_was(model):
        with working(system, identity.config, Path(scratch), used, shown, identity.facts) as ctx:
            if model is not None:
                model.to(ctx.device, ctx.float_type).eval()
            with torch.no_grad(), ctx.autocast():
                made = list(system.predict(ctx, model, inputs))
        if name:
            made = _called(made, name, system.about.name)
        for path in sorted(Path(scratch).iterdir()):
            _move(path, folder / path.name)
    return [replace(artifact, path=folder / artifact.path.relative_to(scratch)) for artifact in made]


def _called(made: list[Artifact], name: str, system: str) -> list[Artifact]:
    """The file of a name's kind gets that name, and files that were called like it are called like it again."""
    main = next((a.path for a in made if a.path.suffix == Path(name).suffix), None)
    if main is None:
        kinds = ", ".join(dict.fromkeys(a.path.suffix for a in made))
        raise VergenceError(f"{system} makes files of the kinds {kinds}, and {name} is none of them")
    called = []
    for artifact in made:
        path = artifact.path
        if path == main or path.stem == main.stem:
            path = path.rename(path.with_name(Path(name).stem + path.suffix))
        called.append(replace(artifact, path=path))
    return called


def export(model: nn.Module | str | Path, path: str | Path, *, to: Target | None = None) -> Exported:
    """Write a model made here, or a weights file, for other programs: ``export("last.safetensors", "model.onnx")``.

    ``to`` is ``onnx`` or ``torch``; if it is not given, the name's ending says it. The file is run beside the model
    before it is kept.
    """
    target = Path(path)
    kind = to or next((kind for kind, suffix in SUFFIXES.items() if target.suffix == suffix), None)
    if kind not in SUFFIXES:
        raise VergenceError(f"no format for {target}: its name ends in .onnx or .pt2, or `to` says onnx or torch")
    network, identity = _resolve(model)
    system = catalogue.load(identity.system)
    if network is None:
        raise system.not_offered("model to export")
    return export_model(system, deepcopy(network), identity, kind, target)


def check_data(source: str, system: str = "", workers: int = 0, progress: Progress | None = None) -> DataCheck:
    """Read every split and sample of ``LAYOUT:PATH``; what is wrong is in ``problems``."""
    return datacheck.check(source, system, workers, progress)


def compare(*runs: str | Path) -> Comparison:
    """What changed between the runs of these folders."""
    return comparison.compare([Path(run) for run in runs])


def _move(source: Path, target: Path) -> None:
    try:
        if target.is_dir() and source.is_dir():
            shutil.rmtree(target)
        source.replace(target)
    except OSError as error:
        raise VergenceError(f"cannot write {target}: {error.strerror or error}") from error


@contextmanager
def _as_it_was(model: nn.Module | None) -> Iterator[None]:
    """Give a model back where and as it was."""
    if model is None:
        yield
        return
    training = model.training
    first = next(model.parameters(), torch.zeros(()))
    device, kind = first.device, first.dtype
    try:
        yield
    finally:
        model.train(training).to(device, kind if kind.is_floating_point else None)


def _resolve(model: nn.Module | str | Path) -> tuple[nn.Module | None, Identity]:
    if _is_name(model) and not catalogue.load(str(model)).offers("build"):
        return None, _without_model(catalogue.load(str(model)))
    if isinstance(model, str | Path):
        model = load(model)
    return model, describe(model)


def _is_name(model: nn.Module | str | Path) -> bool:
    return isinstance(model, str) and model in catalogue.names()


def _without_model(system: AnySystem) -> Identity:
    return Identity(system.about.name, "tiny", "", system.configure("tiny"), system.settings.facts())


def _named(model: nn.Module, identity: Identity) -> nn.Module:
    object.__setattr__(model, _IDENTITY, replace(identity))
    return model
