"""Atomic file writes (whole or not at all), and weights files that cannot execute code."""

from __future__ import annotations

import csv
import json
import math
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vergence.core.errors import VergenceError, reason

if TYPE_CHECKING:
    from torch import Tensor


def home() -> Path:
    """The folder for files that belong to no run: ``$VERGENCE_HOME``, or ``~/.cache/vergence``."""
    return Path(os.environ.get("VERGENCE_HOME") or Path.home() / ".cache" / "vergence")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces ``path`` at the end, or is removed if something failed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise VergenceError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


def unused(path: Path) -> Path:
    """A path that does not exist yet: ``path`` itself, or with ``-2``, ``-3``, ... after its stem."""
    names = (path, *(path.with_stem(f"{path.stem}-{n}") for n in range(2, 10_000)))
    return next(name for name in names if not name.exists())


def make_folder(path: Path) -> None:
    """Make a folder and its parents; a failure is a one-sentence error."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VergenceError(f"cannot make the folder {path}: {error.strerror or error}") from error


def write_text(path: Path, content: str) -> None:
    """Write text atomically."""
    with replacing(path) as partial:
        partial.write_text(content, encoding="utf-8", errors="backslashreplace")  # file names may hold any bytes


def write_table(path: Path, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a CSV file atomically."""
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([heading, *rows])
    return path


def write_array(path: Path, array: Any) -> Path:
    """Write a NumPy array as .npy, atomically."""
    import numpy as np

    with replacing(path) as partial, partial.open("wb") as file:
        np.save(file, array)
    return path


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically."""
    write_text(path, json.dumps(finite(value), indent=1) + "\n")


def finite(value: Any) -> Any:
    """The value with infinities and NaN replaced by None: JSON has neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return value


@contextmanager
def lock(path: Path, waiting: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold an exclusive file lock; a process that has to wait says ``waiting`` once."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    try:
        file = path.open("w")
    except OSError as error:
        raise VergenceError(f"cannot write {path}: {error.strerror or error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            pass
        yield


def read_json(path: Path) -> Any:
    """Read JSON; a failure is a one-sentence error that names the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise VergenceError(f"{path} does not exist") from None
    except (OSError, ValueError, RecursionError) as error:
        raise VergenceError(f"{path} is not readable JSON: {error}") from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors as safetensors, atomically. Tensors that share memory are stored separately."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    separate: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        separate[name] = tensor.clone() if storage in seen else tensor
        seen.add(storage)
    with replacing(path) as partial:
        partial.touch()
        mode = partial.stat().st_mode  # safetensors would make it readable by its owner alone
        try:
            save_file(separate, partial, metadata=dict(metadata or {}))
            partial.chmod(mode)
        except SafetensorError as error:  # how it reports a full disk, among other things
            raise VergenceError(f"cannot write {path}: {error}") from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and metadata of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    metadata = read_metadata(path)
    try:
        return load_file(path), metadata
    except (SafetensorError, OSError) as error:
        raise VergenceError(f"{path} is not a complete safetensors file: {error}") from error


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file, without reading its tensors."""
    try:
        with path.open("rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            if size > os.fstat(file.fileno()).st_size:
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(size))
    except FileNotFoundError:
        raise VergenceError(f"{path} does not exist") from None
    except (OSError, ValueError, RecursionError, struct.error) as error:
        raise VergenceError(f"{path} is not a safetensors file: {error}") from error
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise VergenceError(f"{path} is not a safetensors file: its metadata does not map names to text")
    return dict(metadata)


def load_archive(path: Path) -> dict[str, Any]:
    """Read a torch archive (``.pt``, ``.pth``, ``.tar``) of plain data and tensors; code in it is refused, not run."""
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise VergenceError(f"{path} does not exist") from None
    except Exception as error:  # a damaged archive can raise anything
        raise VergenceError(f"{path} is not a torch archive of plain data: {reason(error)}") from error
    if not isinstance(content, dict):
        raise VergenceError(f"{path} holds a {type(content).__name__}, not a dictionary")
    return content


def load_state(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a weights file: safetensors, or a torch archive of plain tensors. Common wrappers
    (``state_dict``, ``model``, ``model_state``, names that begin with ``module.``) are removed."""
    from torch import Tensor

    state: Any = load_tensors(path)[0] if path.suffix == ".safetensors" else load_archive(path)
    for wrapper in ("state_dict", "model", "model_state"):
        if isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    bad = next((name for name, value in state.items() if not isinstance(value, Tensor)), None)
    if bad is not None:
        raise VergenceError(f"{path} is not a file of weights: {bad!r} is a {type(state[bad]).__name__}, not a tensor")
    return {str(name).removeprefix("module."): tensor for name, tensor in state.items()}
