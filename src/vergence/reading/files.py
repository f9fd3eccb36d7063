"""Opening files: regular ones only, of bounded size, with every failure as one sentence."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from vergence.core.errors import VergenceError, reason
from vergence.reading.budget import within


@contextmanager
def refusing(source: object, what: str) -> Iterator[None]:
    """Turn whatever a library raises inside the ``with`` block into "SOURCE is not WHAT: reason"."""
    try:
        yield
    except VergenceError:
        raise
    except FileNotFoundError:
        raise VergenceError(f"{source} does not exist") from None
    except IsADirectoryError:
        raise VergenceError(f"{source} is a folder: expected {what}") from None
    except MemoryError:
        raise VergenceError(f"{source} does not fit into memory") from None
    except RecursionError:
        raise VergenceError(f"{source} is not {what}: it is nested too deeply") from None
    except OSError as error:
        if error.strerror:
            raise VergenceError(f"{source} cannot be read: {error.strerror}") from None
        raise VergenceError(f"{source} is not {what}: {reason(error)}") from None
    except Exception as error:  # decoders of damaged files can raise anything
        raise VergenceError(f"{source} is not {what}: {_short(error)}") from None


def _short(error: Exception) -> str:
    text = reason(error)
    return text if len(text) < 200 else text[:199] + "…"


@contextmanager
def open_file(path: Path, what: str = "a file that can be read") -> Iterator[BinaryIO]:
    """Open a regular file of bounded size. Folders, devices and pipes (which could wait for ever) are refused."""
    with refusing(path, what):
        # Opening a pipe without O_NONBLOCK would wait for its other end.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags), "rb") as file:
            kind = os.fstat(file.fileno())
            if not stat.S_ISREG(kind.st_mode):
                raise VergenceError(f"{path} is not a regular file: expected {what}")
            within("file_bytes", kind.st_size, path)
            yield file


def size_of(file: BinaryIO) -> int:
    """The size of an open file, in bytes."""
    return os.fstat(file.fileno()).st_size


def read_bytes(path: Path, what: str = "a file that can be read", limit: str = "file_bytes") -> bytes:
    """A whole file. ``limit`` is the field of the budget that its size is compared with."""
    with open_file(path, what) as file:
        within(limit, size_of(file), path)
        return file.read()


def read_text(path: Path, what: str = "a text file in UTF-8") -> str:
    """A whole text file; a byte order mark is dropped."""
    content = read_bytes(path, what, "text_bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise VergenceError(f"{path} is not {what}: byte {error.start} is not UTF-8") from None
