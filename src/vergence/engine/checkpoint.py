"""Checkpoints: written atomically, verified when read, and free of code.

``checkpoints/000012/`` holds ``weights.safetensors`` (which alone rebuilds the model), ``state.pt`` (optimisers and
the position in the run) and ``manifest.json`` (the format, and size and hash of both). The folder is made under another
name and moved into place; the newest two are kept, in case one is damaged.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import Tensor

from vergence._version import __version__
from vergence.contract.config import digest
from vergence.core.errors import VergenceError, reason
from vergence.core.files import refuse_link, replacing, save_tensors, write_json
from vergence.reading.tables import read_json
from vergence.reading.weights import load_archive, load_tensors

PARTS = ("weights.safetensors", "state.pt")
KEPT = 2
FORMAT = 1
"""Increased when runs of an older version can no longer be resumed. Their weights can still be read."""


class OtherFormat(VergenceError):
    """An intact checkpoint of a version whose runs cannot be resumed here."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run resumes from."""

    folder: Path
    weights: dict[str, Tensor]
    metadata: dict[str, str]
    state: dict[str, Any]


def save(run: Path, weights: Mapping[str, Tensor], metadata: Mapping[str, str], state: Any) -> Path:
    """Write the next checkpoint and delete all but the newest two."""
    refuse_link(run / "checkpoints", "a folder")
    number = int(next((p.name for p in _numbered(run)), "0")) + 1
    folder = run / "checkpoints" / f"{number:06d}"
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_tensors(partial / PARTS[0], weights, metadata)
        _save_archive(partial / PARTS[1], state)
        seals = {p.name: _seal(p) for p in sorted(partial.iterdir())}
        manifest = {"format": FORMAT, "version": __version__, "files": seals}
        write_json(partial / "manifest.json", manifest | {"seal": digest(manifest)})
        partial.rename(folder)
    except OSError as error:
        raise VergenceError(f"cannot write the checkpoint {folder}: {error.strerror or error}") from error
    except RuntimeError as error:
        raise VergenceError(f"cannot write the checkpoint {folder}: {reason(error)}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    publish(folder / PARTS[0], run / "last.safetensors")
    for old in newest_first(run)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _save_archive(path: Path, state: Any) -> None:
    with path.open("wb") as file:
        output = _Output(file)
        try:
            torch.save(state, cast(IO[bytes], output))
        except RuntimeError as error:
            raise output.failure or error from None
        if output.failure is not None:
            raise output.failure


class _Output:
    """A file for torch.save, which says of a full disk only that a position is not the expected one: this keeps the
    error of the system. Raised from within ``write``, it would pass through C++ code that is not written for it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.failure: OSError | None = None

    def write(self, content: Any) -> int:
        if self.failure is None:
            try:
                self.file.write(content)
            except OSError as error:
                self.failure = error
        return len(content)

    def flush(self) -> None:
        try:
            self.file.flush()
        except OSError as error:
            self.failure = self.failure or error


def publish(source: Path, target: Path) -> None:
    """Give a file a second name, without a copy where the file system can."""
    with replacing(target) as partial:
        partial.unlink(missing_ok=True)
        try:
            os.link(source, partial)
        except OSError:
            shutil.copyfile(source, partial)


def latest(run: Path, say: Callable[[str], None]) -> Checkpoint | None:
    """The newest intact checkpoint; damaged ones are reported and skipped."""
    folders = newest_first(run)
    for number, folder in enumerate(folders, 1):
        try:
            return read(folder)
        except OtherFormat:  # not damaged: skipping it would lose the training so far
            raise
        except VergenceError as error:
            left = "using the one before it" if number < len(folders) else "no other is left: starting over"
            say(f"{error}; {left}")
    return None


def read(folder: Path) -> Checkpoint:
    """Read a checkpoint and verify that it is what was written."""
    manifest = read_json(folder / "manifest.json") if (folder / "manifest.json").exists() else None
    if not isinstance(manifest, dict) or manifest.pop("seal", None) != digest(manifest):
        raise VergenceError(f"the checkpoint {folder} is damaged: its manifest is missing or not what was written")
    if manifest.get("format") != FORMAT:
        raise OtherFormat(
            f"the checkpoint {folder} has format {manifest.get('format')}, written by Vergence "
            f"{manifest.get('version')}; this Vergence ({__version__}) resumes runs of format {FORMAT}; "
            f"--init {folder / PARTS[0]} starts a new run from its weights"
        )
    for name in PARTS:
        if not (folder / name).is_file() or _seal(folder / name) != manifest["files"].get(name):
            raise VergenceError(f"the checkpoint {folder} is damaged: {name} is not what was written")
    weights, metadata = load_tensors(folder / PARTS[0])
    return Checkpoint(folder, weights, metadata, load_archive(folder / PARTS[1]))


def newest_first(run: Path) -> list[Path]:
    """The checkpoints of a run. Whatever else is in their folder is ignored."""
    return [path for path in _numbered(run) if path.is_dir()]


def _numbered(run: Path) -> list[Path]:
    """All that has the name of a checkpoint, the highest number first."""
    folder = run / "checkpoints"
    try:
        found = list(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise VergenceError(f"{folder} cannot be read: {error.strerror or error}") from error
    # Digits of other scripts count as digits in Python, and not all of them make numbers.
    return sorted((p for p in found if re.fullmatch(r"[0-9]+", p.name)), key=lambda p: int(p.name), reverse=True)


def _seal(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
