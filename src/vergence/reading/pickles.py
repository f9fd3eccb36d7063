"""Pickles of old data sets, opened for their plain values and NumPy arrays: nothing in them is executed.

No object of NumPy's is built from a pickle's own description: ``dtype.__setstate__`` takes flags from the file that let
NumPy follow addresses of the file's choosing. Arrays and types are read into stand-ins with checked fields, and arrays
are made of those at the end.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from pathlib import Path
from typing import Any

import numpy as np

from vergence.reading.budget import within, within_expansion
from vergence.reading.files import open_file, read_bytes, refusing, size_of

WHAT = "a complete pickle of plain data"
_ENCODINGS = {"latin1": "latin-1", "latin-1": "latin-1", "ascii": "ascii", "utf-8": "utf-8", "utf8": "utf-8"}


def read_pickle(path: Path) -> Any:
    """The plain values and arrays of a pickle, written by any version of Python. One that would run code is refused."""
    content = read_bytes(path, WHAT, "text_bytes")
    with refusing(path, WHAT):
        _refuse_bombs(content)
        return plain(_PlainData(io.BytesIO(content), encoding="bytes").load(), path)


def read_npz_of_lists(path: Path) -> dict[str, Any]:
    """Rows of plain values in a ``.npz`` file that NumPy wrote as arrays of Python objects, by name."""
    from zipfile import ZipFile

    with open_file(path, WHAT) as file, refusing(path, WHAT), ZipFile(file) as archive:
        entries = archive.infolist()
        within("entries", len(entries), path)
        within_expansion(sum(entry.file_size for entry in entries), size_of(file), path)
        rows = {}
        for entry in entries:
            content = io.BytesIO(archive.read(entry))
            if (
                np.lib.format.read_magic(content) != (1, 0)
                or not np.lib.format.read_array_header_1_0(content)[2].hasobject
            ):
                raise ValueError(f"{entry.filename} is not a row of objects")
            rest = content.read()
            _refuse_bombs(rest)
            rows[entry.filename.removesuffix(".npy")] = plain(
                _PlainLists(io.BytesIO(rest), encoding="bytes").load(), path
            )
        return rows


class _Type:
    """Stands for ``numpy.dtype``."""

    def __init__(self, code: Any, align: Any = False, copy: Any = False) -> None:
        text = code.decode("ascii") if isinstance(code, bytes) else code
        if not isinstance(text, str) or not re.fullmatch(r"[<>|=]?[biufSU]\d{0,7}", text):
            raise pickle.UnpicklingError(f"it has an array of the type {str(text)[:40]!r}")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        order: Any = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise pickle.UnpicklingError("it has an array with fields or of an unknown byte order")
        self.dtype = self.dtype.newbyteorder(order) if order != "|" else self.dtype


class _TypeOrObject(_Type):
    """Stands for ``numpy.dtype`` where rows of objects are expected."""

    def __init__(self, code: Any, align: Any = False, copy: Any = False) -> None:
        if code in ("O8", b"O8"):
            self.dtype = np.dtype(object)
        else:
            super().__init__(code, align, copy)


class _Array:
    """Stands for ``numpy.ndarray``."""

    def __init__(self, *_: Any) -> None:
        self.content: bytes | bytearray | list[Any] = b""
        self.shape, self.dtype, self.fortran = (0,), np.dtype("u1"), False

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, content = state
        self.fill(content, kind, shape, bool(fortran))

    def fill(self, content: Any, kind: Any, shape: Any, fortran: bool) -> None:
        content = content.encode("latin-1") if isinstance(content, str) else content
        objects = isinstance(kind, _Type) and kind.dtype.hasobject
        fitting = list if objects else (bytes, bytearray)
        if not isinstance(kind, _Type) or not isinstance(content, fitting) or not isinstance(shape, tuple):
            raise pickle.UnpicklingError("it has an array that is not described as NumPy does")
        if not all(type(side) is int and side >= 0 for side in shape):
            raise pickle.UnpicklingError(f"it has an array of the shape {shape!r:.40}")
        if objects and len(shape) != 1:
            raise pickle.UnpicklingError(f"it has an array of objects of the shape {shape!r:.40}")
        if math.prod(shape) * (1 if objects else kind.dtype.itemsize) != len(content):
            raise pickle.UnpicklingError(f"it has {len(content)} bytes for an array of the shape {shape}")
        self.content, self.shape, self.dtype, self.fortran = content, shape, kind.dtype, fortran

    def value(self) -> Any:
        assert not isinstance(self.content, list)
        array = np.frombuffer(bytearray(self.content), self.dtype)
        return array.reshape(self.shape[::-1]).transpose() if self.fortran else array.reshape(self.shape)


def _frombuffer(content: Any, kind: Any, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.fill(bytes(content) if isinstance(content, bytearray) else content, kind, shape, order == "F")
    return array


def _encoded(text: Any, encoding: Any) -> bytes:
    """``_codecs.encode``, by which Python 2 writes bytes as text."""
    if not isinstance(text, str) or encoding not in _ENCODINGS:
        raise pickle.UnpicklingError(f"it encodes text as {encoding!r:.40}")
    return text.encode(_ENCODINGS[encoding])


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy._core.numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): _Array,  # an argument of _reconstruct
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
}


STAND_INS: list[Any] = [(value, ".".join(name)) for name, value in _ALLOWED.items() if name[0] != "_codecs"]
"""For torch's own reader of pickles."""


class _PlainData(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is more than data")


class _PlainLists(_PlainData):
    """As :class:`_PlainData`, with arrays of objects, which become lists."""

    def find_class(self, module: str, name: str) -> Any:
        return _TypeOrObject if (module, name) == ("numpy", "dtype") else super().find_class(module, name)


def _refuse_bombs(content: bytes) -> None:
    """Pickles number the values they remember one after another, and the reader takes memory up to the highest number:
    a few bytes would ask for gigabytes. (Lengths of strings are checked while the codes are read.)"""
    for count, (code, number, _) in enumerate(pickletools.genops(content)):
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT") and number is not None and number > count:
            raise pickle.UnpicklingError(f"it remembers a value number {number} after {count} steps")


def plain(value: Any, path: Path) -> Any:
    """The value with arrays for stand-ins. What occurs twice is converted once: pickles can share values, and a few
    bytes may describe a tree of exponential size."""
    done: dict[int, Any] = {}
    kept: list[Any] = []  # so that no id is used again

    def convert(item: Any, depth: int) -> Any:
        within("nesting", depth, path)
        if isinstance(item, _Type):
            raise pickle.UnpicklingError("it holds a type instead of data")
        if not isinstance(item, _Array | dict | list | tuple | set | frozenset):
            return item
        if id(item) in done:
            return done[id(item)]
        kept.append(item)
        if isinstance(item, _Array) and isinstance(item.content, list):  # a row of objects
            result: Any = [convert(v, depth + 1) for v in item.content]
        elif isinstance(item, _Array):
            result = item.value()
        elif isinstance(item, dict):
            result = {convert(k, depth + 1): convert(v, depth + 1) for k, v in item.items()}
        else:
            result = type(item)(convert(v, depth + 1) for v in item)
        done[id(item)] = result
        return result

    return convert(value, 0)
