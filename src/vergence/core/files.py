"""Atomic file writes (whole or not at all), and weights files that cannot execute code."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vergence.core.errors import VergenceError

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
