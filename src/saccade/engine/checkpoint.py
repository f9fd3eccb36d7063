"""Checkpoints: written whole or not at all, checked when read, and never executed.

``checkpoints/000012/`` holds ``weights.safetensors`` (which alone rebuilds the model), ``state.pt`` (optimisers and
the place in the run) and ``manifest.json`` (size and hash of both). The folder is made under another name and moved
into place; the newest two are kept, so that a damaged one has another before it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.data.loader import worker_died
from saccade.errors import SaccadeError, reason
from saccade.files import load_archive, load_tensors, read_json, replacing, save_tensors, write_json

KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """What a run goes on from."""

    folder: Path
    weights: dict[str, Tensor]
    metadata: dict[str, str]
    state: dict[str, Any]


def save(run: Path, weights: Mapping[str, Tensor], metadata: Mapping[str, str], state: Any) -> Path:
    """Write the next checkpoint and forget all but the newest two."""
    number = int(next((p.name for p in _newest_first(run)), "0")) + 1
    folder = run / "checkpoints" / f"{number:06d}"
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_tensors(partial / "weights.safetensors", weights, metadata)
        torch.save(state, partial / "state.pt")
        write_json(partial / "manifest.json", {p.name: _seal(p) for p in sorted(partial.iterdir())})
        partial.rename(folder)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as a RuntimeError
        died = worker_died(error) if isinstance(error, RuntimeError) else None
        raise died or SaccadeError(f"cannot write the checkpoint {folder}: {reason(error)}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    publish(folder / "weights.safetensors", run / "last.safetensors")
    for old in _newest_first(run)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def publish(source: Path, target: Path) -> None:
    """Give a file a second name without copying it, where the file system can."""
    with replacing(target) as partial:
        partial.unlink(missing_ok=True)
        try:
            os.link(source, partial)
        except OSError:
            shutil.copyfile(source, partial)


def latest(run: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole; damaged ones are named and passed over."""
    folders = _newest_first(run)
    for number, folder in enumerate(folders, 1):
        try:
            return read(folder)
        except SaccadeError as error:
            left = "using the one before it" if number < len(folders) else "no other is left: starting over"
            say(f"{error}; {left}")
    return None


def read(folder: Path) -> Checkpoint:
    """A checkpoint, after checking that it is what was written."""
    manifest = read_json(folder / "manifest.json") if (folder / "manifest.json").exists() else None
    if not isinstance(manifest, dict) or not manifest:
        raise SaccadeError(f"the checkpoint {folder} is damaged: its manifest is missing")
    for name, seal in manifest.items():
        path = folder / name
        if path.parent != folder or not path.is_file() or _seal(path) != seal:
            raise SaccadeError(f"the checkpoint {folder} is damaged: {name} is not what was written")
    weights, metadata = load_tensors(folder / "weights.safetensors")
    return Checkpoint(folder, weights, metadata, load_archive(folder / "state.pt"))


def _newest_first(run: Path) -> list[Path]:
    found = [p for p in _children(run / "checkpoints") if p.name.isdigit()]
    return sorted(found, key=lambda p: int(p.name), reverse=True)


def _children(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())


def _seal(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
