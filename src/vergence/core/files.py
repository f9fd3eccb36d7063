"""Atomic file writes (whole or not at all), and weights files that cannot execute code."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from vergence.core.errors import VergenceError

if TYPE_CHECKING:
    from torch import Tensor

ABANDONED = 3600
"""Seconds after which a half-written file belongs to no process, though one has the id in its name."""


def home() -> Path:
    """The folder for files that belong to no run: ``$VERGENCE_HOME``, or ``~/.cache/vergence``."""
    return Path(os.environ.get("VERGENCE_HOME") or Path.home() / ".cache" / "vergence")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces ``path`` at the end, or is removed if something failed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # a link of that name would be written through
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise VergenceError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


def remove_partials(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder that this process has locked."""
    for path in list(folder.glob(".*.partial")):
        number = re.fullmatch(r"\..+\.([0-9]{1,9})\.partial", path.name)
        if number is None:
            continue
        with suppress(OSError):  # such as one that has been moved into place meanwhile
            if not _may_be_written(path, int(number[1])):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _may_be_written(path: Path, process: int) -> bool:
    """Whether another process may still write a partial file.

    The lock keeps out others that train, but a report is written without it, and some file systems have no locks: so
    the file of a process that lives is left alone. Process ids are used again: an old file is nobody's, and one with
    our own id is of a process before us, for nothing is written before the lock is held.
    """
    if process in (0, os.getpid()) or time.time() - path.lstat().st_mtime > ABANDONED:
        return False
    if os.name != "posix":  # there, signal 0 would be sent
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it lives, and is someone else's
        return True
    return True


def open_plain(path: Path, mode: Literal["r+b", "a+b"], buffering: int = -1) -> IO[bytes]:
    """Open a file to be changed in place; it is made if it is missing. A link is refused: it may lead to a file of
    someone else."""
    refuse_link(path, "a regular file")
    extra = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
    flags = os.O_CREAT | os.O_RDWR | extra | (os.O_APPEND if mode == "a+b" else 0)
    try:
        descriptor = os.open(path, flags, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise VergenceError(f"{path} is not a regular file")
        return os.fdopen(descriptor, mode, buffering)
    except OSError as error:
        raise VergenceError(f"cannot write {path}: {error.strerror or error}") from error


def refuse_link(path: Path, what: str) -> None:
    """Refuse a symbolic link in the place of what a run writes."""
    if path.is_symlink():
        raise VergenceError(f"{path} is a symbolic link: expected {what}")


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
    """Hold an exclusive file lock; a process that has to wait says ``waiting`` once. The file is left as it is."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    with open_plain(path, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            pass
        yield


def is_utf8(path: Path) -> bool:
    """Whether a path is text, as safetensors wants it; on Linux, names are any bytes."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors as safetensors, atomically. Tensors that share memory are stored separately."""
    from safetensors import SafetensorError
    from safetensors.torch import save, save_file

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
            if is_utf8(partial):
                save_file(separate, partial, metadata=dict(metadata or {}))
            else:
                partial.write_bytes(save(separate, dict(metadata or {})))
            partial.chmod(mode)
        except SafetensorError as error:  # how it reports a full disk, among other things
            number = re.search(r"\(os error (\d+)\)", str(error))
            raise VergenceError(f"cannot write {path}: {os.strerror(int(number[1])) if number else error}") from error
