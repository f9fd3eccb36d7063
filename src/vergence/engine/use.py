"""Models in use: evaluation, prediction with results in memory, and the files of a result."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vergence.contract.identity import Identity
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError
from vergence.core.files import make_folder
from vergence.core.progress import Progress
from vergence.engine.contexts import working
from vergence.engine.evaluate import run_evaluation
from vergence.runs.machine import Machine

FILES = frozenset({".mp4", ".mov", ".mkv", ".webm", ".avi", ".gif", ".png", ".jpg", ".csv", ".json", ".html", ".npy"})
"""Suffixes of an output path that is a file, not a folder."""


def infer(
    system: AnySystem,
    identity: Identity,
    model: nn.Module | None,
    inputs: Sequence[Any],
    machine: Machine,
    progress: Progress,
) -> list[Result]:
    """Predict on inputs. The model's device, type and mode are restored."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        as_it_was(model),
        working(system, identity.config, Path(scratch), machine, progress, identity.facts, stage="predict") as ctx,
    ):
        if model is not None:
            model.to(ctx.device, ctx.float_type).eval()
        with torch.no_grad(), ctx.autocast():
            results = list(system.infer_many(ctx, model, list(inputs)))
    for each, result in zip(inputs, results, strict=True):
        _refuse_infinite(result)
        result.rendered_by(partial(render, system, identity, each, result))
    return results


def _refuse_infinite(result: Result) -> None:
    """Refuse numbers that nothing can be drawn of: weights or inputs of absurd size overflow."""
    for field in fields(result):
        value = getattr(result, field.name)
        tensor = isinstance(value, torch.Tensor) and value.is_floating_point()
        array = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        if (tensor and not value.isfinite().all()) or (array and not np.isfinite(value).all()):
            raise VergenceError(
                f"the {field.name} that came out has values that are not finite numbers: are the weights trained, and "
                "are the inputs in the units that they expect?"
            )


def judge(
    system: AnySystem,
    identity: Identity,
    model: nn.Module | None,
    config: Any,
    split: str,
    machine: Machine,
    progress: Progress,
) -> dict[str, float]:
    """A model's metrics on a split of a config's data. The model's device, type and mode are restored."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        as_it_was(model),
        working(system, config, Path(scratch), machine, progress, identity.facts) as ctx,
    ):
        data = system.prepare(ctx, system.data(ctx, split))
        placed = model.to(ctx.device, ctx.float_type) if model is not None else None
        return run_evaluation(system, ctx, placed, data)


def render(
    system: AnySystem, identity: Identity, inputs: Any, result: Result, folder: Path, progress: Progress
) -> list[Artifact]:
    """Write the files of a result into a folder: all of them, or none.

    A ``folder`` that is named like a file (``out.mp4``) names the file of that kind, and those with the same stem.
    """
    name = folder.name if folder.suffix.lower() in FILES and not folder.is_dir() else ""
    folder = folder.parent if name else folder
    make_folder(folder)
    cpu = Machine(device="cpu")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".partial-") as scratch:
        with working(system, identity.config, Path(scratch), cpu, progress, identity.facts, stage="predict") as ctx:
            artifacts = list(system.render(ctx, inputs, result))
        if name:
            artifacts = _called(artifacts, name, system.about.name)
        for path in sorted(Path(scratch).iterdir()):
            _move(path, folder / path.name)
    return [replace(artifact, path=folder / artifact.path.relative_to(scratch)) for artifact in artifacts]


def _called(artifacts: list[Artifact], name: str, system: str) -> list[Artifact]:
    """Rename the file with the suffix of ``name`` to it, and files with the same stem alike."""
    main = next((a.path for a in artifacts if a.path.suffix == Path(name).suffix), None)
    if main is None:
        kinds = ", ".join(dict.fromkeys(a.path.suffix for a in artifacts))
        raise VergenceError(f"{system} writes files of the kinds {kinds}, not {name}")
    called = []
    for artifact in artifacts:
        path = artifact.path
        if path == main or path.stem == main.stem:
            path = path.rename(path.with_name(Path(name).stem + path.suffix))
        called.append(replace(artifact, path=path))
    return called


def _move(source: Path, target: Path) -> None:
    try:
        if target.is_dir() and source.is_dir():
            shutil.rmtree(target)
        source.replace(target)
    except OSError as error:
        raise VergenceError(f"cannot write {target}: {error.strerror or error}") from error


@contextmanager
def as_it_was(model: nn.Module | None) -> Iterator[None]:
    """Restore a model's device, type and mode at the end."""
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
