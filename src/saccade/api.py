"""The Python door: build, load, judge and use any system from code."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from saccade import catalogue
from saccade.config import from_json, override, to_json
from saccade.engine import weights as weight_files
from saccade.engine.evaluate import run_evaluation
from saccade.engine.execute import working
from saccade.engine.weights import Identity
from saccade.errors import SaccadeError, did_you_mean
from saccade.files import load_tensors, make_folder
from saccade.inputs import Artifact
from saccade.progress import Progress
from saccade.run import Runtime

_IDENTITY = "saccade_identity"


def create(
    name: str, variant: str | None = None, weights: str | Path | None = None, preset: str = "paper", **facts: Any
) -> nn.Module:
    """A system's model as published: ``create("snl", variant="nl", classes=10)``.

    ``facts`` are what the data would decide. With ``weights`` (a file of Saccade's or of the authors) they come from
    the file.
    """
    system = catalogue.load(name)
    if weights is not None and variant is None and not facts:
        return _named(*weight_files.load_model_of(system, Path(weights)))
    config = system.configure(preset, variant)
    identity = Identity(
        name, preset, variant or "", config, from_json(system.facts_type, to_json(facts), f"{name}'s facts")
    )
    model = system.build(config, identity.facts)
    if weights is not None:
        tensors, _ = load_tensors(Path(weights))
        weight_files.insert(model, tensors, Path(weights))
    return _named(model, identity)


def load(weights: str | Path) -> nn.Module:
    """The model that a weights file holds, in evaluation mode. The file alone is enough."""
    return _named(*weight_files.load_model(Path(weights)))


def describe(model: nn.Module | str | Path) -> Identity:
    """System, variant, config and facts of a model made here, or of a weights file."""
    if isinstance(model, str | Path):
        return weight_files.identify(Path(model))
    identity = getattr(model, _IDENTITY, None)
    if identity is None:
        raise SaccadeError("this model was not made by saccade.create or saccade.load")
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
            raise SaccadeError(f"the model has no module {name!r}{did_you_mean(name, [m for m in modules if m])}")
    seen: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            seen[name] = output

        return hook

    hooks = [modules[name].register_forward_hook(keep(name)) for name in wanted]
    try:
        model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return {name: seen[name] for name in wanted}


def evaluate(
    model: nn.Module | str | Path,  # or the name of a system that has no model
    *,
    split: str = "test",
    changes: Mapping[str, Any] | None = None,
    runtime: Runtime | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Metrics by the paper's protocol, of a model made here, of a weights file, or of a system without a model.

    ``changes={"data.source": "cifar10:PATH"}`` looks at other data.
    """
    network, identity = _resolve(model)
    system = catalogue.load(identity.system)
    config = override(identity.config, changes or {})
    with (
        tempfile.TemporaryDirectory() as scratch,
        working(
            system, config, Path(scratch), runtime or Runtime(threads=0), progress or Progress(), identity.facts
        ) as ctx,
    ):
        data = system.prepare(ctx, system.data(ctx, split))
        return run_evaluation(system, ctx, network.to(ctx.device) if network is not None else None, data)


def predict(
    model: nn.Module | str | Path,
    folder: str | Path,
    *,
    runtime: Runtime | None = None,
    progress: Progress | None = None,
    **inputs: Any,
) -> list[Artifact]:
    """Use a model on files: ``predict("last.safetensors", "out", images=["a.png"])`` writes into ``out``."""
    network, identity = _resolve(model)
    system = catalogue.load(identity.system)
    if system.inputs_type is None:
        raise system.not_offered("prediction on files")
    given: Any = from_json(system.inputs_type, to_json(inputs), f"{identity.system}'s inputs")
    return run_prediction(system, identity, network, given, Path(folder), runtime, progress)


def run_prediction(
    system: Any,
    identity: Identity,
    model: nn.Module | None,
    inputs: Any,
    folder: Path,
    runtime: Runtime | None = None,
    progress: Progress | None = None,
) -> list[Artifact]:
    """Prediction with everything at hand."""
    import torch

    make_folder(folder)
    used = runtime or Runtime(threads=0)
    with working(system, identity.config, folder, used, progress or Progress(), identity.facts) as ctx:
        if model is not None:
            model.to(ctx.device).eval()
        with torch.no_grad():
            return list(system.predict(ctx, model, inputs))


def _resolve(model: nn.Module | str | Path) -> tuple[nn.Module | None, Identity]:
    if isinstance(model, str) and model in catalogue.names() and not catalogue.load(model).offers("build"):
        system = catalogue.load(model)
        return None, Identity(model, "tiny", "", system.configure("tiny"), system.facts_type())
    if isinstance(model, str | Path):
        model = load(model)
    return model, describe(model)


def _named(model: nn.Module, identity: Identity) -> nn.Module:
    object.__setattr__(model, _IDENTITY, dataclasses.replace(identity))
    return model
