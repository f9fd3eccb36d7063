"""Self-contained weights files: system, variant, config and facts are in the metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vergence import catalogue
from vergence._version import __version__
from vergence.contract.config import from_json, to_json
from vergence.contract.identity import Identity
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError, reason
from vergence.reading.tables import parse_json
from vergence.reading.weights import load_tensors, read_metadata

FORMAT = 1
"""Increased when files of an older format can no longer be read."""
KEY = "vergence"
PUBLISHED = "published"
"""The variant of models with weights of a paper's authors."""


def metadata(identity: Identity, system: AnySystem) -> dict[str, str]:
    """An identity as the metadata of a weights file: one entry, so that equal weights are equal files."""
    described = {
        "format": FORMAT,
        "version": __version__,
        "system": identity.system,
        "preset": identity.preset,
        "variant": identity.variant,
        "config": to_json(identity.config),
        "facts": to_json(identity.facts),
        "preprocessing": to_json(system.preprocessing(identity.config)),
    }
    return {KEY: json.dumps(described, sort_keys=True)}


def read_identity(metadata: Mapping[str, str], path: Path) -> Identity:
    """The identity in a weights file's metadata."""
    if KEY not in metadata:
        raise VergenceError(f"{path} was not written by Vergence: its metadata names no system and config")
    described = parse_json(metadata[KEY], f"the metadata of {path}")
    stored = from_json(_Described, described, f"the metadata of {path}")
    if stored.format != FORMAT:
        raise VergenceError(
            f"{path} has weights of format {stored.format}, written by Vergence {stored.version}; "
            f"this Vergence ({__version__}) reads format {FORMAT}"
        )
    settings = catalogue.settings(stored.system)
    config: Any = from_json(settings.config, stored.config, f"the config in {path}")
    facts: Any = from_json(settings.facts, stored.facts, f"the facts in {path}")
    return Identity(stored.system, stored.preset, stored.variant, config, facts)


@dataclass(frozen=True)
class _Described:
    format: int
    version: str
    system: str
    preset: str
    variant: str
    config: dict[str, Any]
    facts: dict[str, Any]
    preprocessing: dict[str, Any]


def identify(path: Path) -> Identity:
    """The identity of a weights file, without reading its tensors."""
    return read_identity(read_metadata(path), path)


def identify_file(path: Path) -> Identity:
    """Like :func:`identify`, for checkpoints of the authors of any system too."""
    return identify(path) if _ours(path) else recognise(path)[0]


def origin(path: Path, identity: Identity) -> str:
    """One line that says which weights these are."""
    whose = f" (checkpoint of the authors of {identity.system})" if identity.variant == PUBLISHED else ""
    return f"weights: {path}{whose}"


def load_model(path: Path) -> tuple[nn.Module, Identity]:
    """Load the model of a weights file, in evaluation mode, and its identity."""
    tensors, metadata = load_tensors(path)
    identity = read_identity(metadata, path)
    return _filled(identity, tensors, path), identity


def load_any(path: Path) -> tuple[nn.Module, Identity]:
    """Like :func:`load_model`, for checkpoints of the authors of any system too: the file decides the system."""
    if _ours(path):
        return load_model(path)
    identity, tensors = recognise(path)
    return _filled(identity, tensors, path), identity


def load_model_of(system: AnySystem, path: Path) -> tuple[nn.Module, Identity]:
    """Like :func:`load_any` for a file of this system; files of others are refused."""
    name = system.about.name
    if _ours(path):
        model, identity = load_model(path)
        if identity.system != name:
            raise VergenceError(f"{path} holds a model of {identity.system!r}, not of {name!r}")
        return model, identity
    try:
        identity, tensors = _published(system, path)
        return _filled(identity, tensors, path), identity
    except VergenceError:
        _refuse_another_author(path, name)
        raise


# Checkpoints of the authors -------------------------------------------------------------------------------------------


def recognise(path: Path) -> tuple[Identity, Mapping[str, Any]]:
    """The identity and the tensors of a checkpoint of a system's authors. It belongs to the system whose network it
    fits in all names and shapes."""
    readers = _readers()
    fitting = []
    for system in readers.values():
        with suppress(VergenceError):
            identity, tensors = _published(system, path)
            _refuse_other_names(_on_meta(identity, path), tensors, path)
            fitting.append((identity, tensors))
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        several = " and of ".join(identity.system for identity, _ in fitting)
        raise VergenceError(f"{path} fits the networks of {several}: name one of them before the file")
    raise VergenceError(
        f"{path} is no weights file: it was written neither by Vergence nor by the authors of a system "
        f"(checkpoints are known for {', '.join(readers)})"
    )


def _readers() -> dict[str, AnySystem]:
    """The systems that read checkpoints of their authors, by name."""
    readers = {}
    for name in catalogue.names():
        with suppress(VergenceError, ImportError):  # another package's system may be broken
            system = catalogue.load(name)
            if system.offers("load_published"):
                readers[name] = system
    return readers


def _ours(path: Path) -> bool:
    """Whether Vergence wrote a file. Damaged safetensors files are refused: they may be ours."""
    try:
        return KEY in read_metadata(path)
    except VergenceError:
        if path.suffix == ".safetensors" or not path.is_file():
            raise
        return False


def _published(system: AnySystem, path: Path) -> tuple[Identity, Mapping[str, Any]]:
    """Read the authors' checkpoint; unexpected contents are a one-sentence error too."""
    name = system.about.name
    if not system.offers("load_published"):
        read_metadata(path)  # says what it is not, if it is no safetensors file
        raise VergenceError(f"{path} was not written by Vergence: its metadata names no system and config")
    try:
        config, facts, tensors = system.load_published(path)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        cause = f"{type(error).__name__}: {reason(error)}"
        raise VergenceError(f"{path} is not a checkpoint of the authors of {name} ({cause})") from error
    return Identity(name, "", PUBLISHED, config, facts), tensors


def _refuse_another_author(path: Path, name: str) -> None:
    try:
        identity, _ = recognise(path)
    except VergenceError:
        return
    if identity.system != name:
        raise VergenceError(f"{path} is a checkpoint of the authors of {identity.system!r}, not of {name!r}")


# Filling a model ------------------------------------------------------------------------------------------------------


def _filled(identity: Identity, tensors: Mapping[str, Any], path: Path) -> nn.Module:
    _refuse_other_shapes(_on_meta(identity, path), tensors, path)
    model = _built(identity, path)
    load_weights(model, tensors, path)
    return model.eval()


_STARTS = {getattr(nn.init, name) for name in dir(nn.init) if name.endswith("_") and not name.startswith("_")}
_STARTS |= {Tensor.normal_, Tensor.uniform_}


class _WithoutValues(TorchFunctionMode):
    """No initial values: on the meta device there are none, and asking for them makes PyTorch import its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return (args[0] if args else kwargs["tensor"]) if func in _STARTS else func(*args, **kwargs)


def _on_meta(identity: Identity, path: Path) -> nn.Module:
    """The model without memory: a config may ask for any size."""
    with torch.device("meta"), _WithoutValues():
        return _built(identity, path)


def _built(identity: Identity, path: Path) -> nn.Module:
    try:
        model: nn.Module = catalogue.load(identity.system).build(identity.config, identity.facts)
    except (RuntimeError, ValueError, TypeError, MemoryError, OverflowError) as error:
        raise VergenceError(f"no model can be built from the config and facts in {path}: {reason(error)}") from error
    return model


def _refuse_other_shapes(model: nn.Module, tensors: Mapping[str, Any], path: Path) -> None:
    for name, expected in model.state_dict().items():
        if name in tensors and isinstance(tensors[name], Tensor) and tensors[name].shape != expected.shape:
            shape = tuple(tensors[name].shape)
            raise VergenceError(
                f"the weights in {path} do not fit the model: size mismatch for {name}: {shape} in the file, "
                f"{tuple(expected.shape)} in the model of its config"
            )


def _refuse_other_names(model: nn.Module, tensors: Mapping[str, Any], path: Path) -> None:
    if set(model.state_dict()) != set(tensors):
        raise VergenceError(f"the weights in {path} do not fit the model: their names differ")
    _refuse_other_shapes(model, tensors, path)


def load_weights(model: nn.Module, tensors: Mapping[str, Any], path: Path) -> None:
    """Load weights into a model; all names and shapes must match, and all values must be finite."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise VergenceError(
                f"the weights in {path} are damaged: {name!r} is a {type(tensor).__name__}, not a tensor"
            )
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise VergenceError(f"the weights in {path} are damaged: {name!r} holds values that are not finite numbers")
    try:
        model.load_state_dict(dict(tensors))
    except RuntimeError as error:
        first = str(error).split("\n")[1].strip() if "\n" in str(error) else str(error)
        raise VergenceError(f"the weights in {path} do not fit the model: {first}") from None


def load_matching_weights(model: nn.Module, path: Path) -> str:
    """Load the weights whose name and shape match, as for fine-tuning; returns a sentence that says what is new."""
    tensors, _ = load_tensors(path)
    state = model.state_dict()
    fitting = {k: v for k, v in tensors.items() if k in state and state[k].shape == v.shape}
    if not fitting:
        raise VergenceError(f"nothing in {path} fits the model: no name and shape agree")
    with torch.no_grad():
        model.load_state_dict(state | fitting)
    left_out = sorted(set(state) - set(fitting))
    shown = ", ".join(left_out[:3]) + (", ..." if len(left_out) > 3 else "")
    return f"{len(fitting)} of {len(state)} tensors start from {path}" + (f"; new: {shown}" if left_out else "")
