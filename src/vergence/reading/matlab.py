"""Arrays of numbers, records and lists of text from MATLAB files of version 5 to 7.2.

SciPy's reader can be crashed by damaged files, and data sets need little of the format: named arrays of real numbers,
struct arrays of numbers and text, and cell arrays of text.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from vergence.core.errors import VergenceError
from vergence.reading.budget import within, within_expansion
from vergence.reading.files import read_bytes, refusing

WHAT = "a complete .mat file"
_HEAD = 128
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""How values are stored, by the type of an element."""
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""What values are, by the class of an array; small integers are stored in fewer bytes than theirs."""
_CELL, _STRUCT, _CHAR = 1, 2, 4
_COMPLEX = 0x0800
Order = Literal["<", ">"]


def read_mat(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Arrays of a MATLAB file by name; those it does not have are left out."""
    arrays: dict[str, Any] = {}
    with refusing(path, WHAT):
        for body, order in _matrices(path):
            _add(arrays, body, order, names, path)
    return arrays


def read_records(path: Path, name: str) -> list[dict[str, str | float]]:
    """The struct array of this name: for each of its elements the numbers and texts by field."""
    with refusing(path, WHAT):
        flags, count, parts, order = _named(path, name)
        if flags & 0xFF != _STRUCT:
            raise ValueError(f"{name!r} is not a struct array")
        length, names = (next(parts, (0, b""))[1] for _ in range(2))
        step = int.from_bytes(length[:4], "little" if order == "<" else "big")
        if step < 1 or len(names) % step:
            raise ValueError(f"the field names of {name!r} are damaged")
        fields = [names[i : i + step].split(b"\0")[0].decode("ascii", "replace") for i in range(0, len(names), step)]
        values = [_scalar(body, order) for kind, body in parts if kind == _MATRIX]
        if len(values) != count * len(fields):
            raise ValueError(f"{name!r} has {len(values)} values for {count} records of {len(fields)} fields")
        rows = (values[i : i + len(fields)] for i in range(0, len(values), len(fields)))
        return [dict(zip(fields, row, strict=True)) for row in rows]


def read_texts(path: Path, name: str) -> list[str]:
    """The cell array of texts of this name."""
    with refusing(path, WHAT):
        flags, count, parts, order = _named(path, name)
        if flags & 0xFF != _CELL:
            raise ValueError(f"{name!r} is not a cell array")
        texts = [str(_scalar(body, order)) for kind, body in parts if kind == _MATRIX]
        if len(texts) != count:
            raise ValueError(f"{name!r} has {len(texts)} values for {count} cells")
        return texts


def _named(path: Path, name: str) -> tuple[int, int, Iterator[tuple[int, bytes]], Order]:
    """Flags, number of elements and remaining parts of the matrix of this name."""
    for body, order in _matrices(path):
        parts = _elements(body, order)
        flags, dimensions, text = (next(parts, (0, b""))[1] for _ in range(3))
        if text.decode("ascii", "replace") == name:
            return *_head(flags, dimensions, order, path), parts, order
    raise ValueError(f"there is no {name!r} in it")


def _head(flags: bytes, dimensions: bytes, order: Order, path: Path) -> tuple[int, int]:
    count = math.prod(np.frombuffer(dimensions, f"{order}i4").tolist())
    within("values", count, path)
    return struct.unpack(f"{order}I", flags[:4])[0], count


def _scalar(body: bytes, order: Order) -> str | float:
    """A text or a single number."""
    parts = _elements(body, order)
    flags, _, _ = (next(parts, (0, b""))[1] for _ in range(3))
    kind = struct.unpack(f"{order}I", flags[:4])[0] & 0xFF
    stored, values = next(parts, (0, b""))
    if kind == _CHAR:
        return values.decode({4: "utf-16-le" if order == "<" else "utf-16-be", 17: "utf-16"}.get(stored, "utf-8"))
    if kind not in _CLASSES or stored not in _NUMBERS:
        raise ValueError("a field is neither a text nor a number")
    array = np.frombuffer(values, order + _NUMBERS[stored])
    if array.size != 1:
        raise ValueError(f"a field has {array.size} numbers, expected one")
    return float(array[0])


def _matrices(path: Path) -> Iterator[tuple[bytes, Order]]:
    """The bytes of every matrix of a file."""
    content = read_bytes(path, WHAT)
    if content[:8] == b"\x89HDF\r\n\x1a\n" or content[:128].startswith(b"MATLAB 7.3"):
        raise VergenceError(f"{path} is a MATLAB file of version 7.3: expected one of version 5 to 7.2")
    if len(content) < _HEAD or content[126:128] not in (b"IM", b"MI"):
        raise ValueError("its header is missing or truncated")
    order: Order = "<" if content[126:128] == b"IM" else ">"
    total = 0
    for kind, body in _elements(content[_HEAD:], order):
        if kind == _COMPRESSED:
            body = _unpacked(body, total, len(content), path)
            total += len(body)
            kind, body = next(_elements(body, order), (0, b""))
        if kind == _MATRIX:
            yield body, order


def _elements(content: bytes, order: Order) -> Iterator[tuple[int, bytes]]:
    """The elements of a file or of a matrix: their types and bytes."""
    at = 0
    while at + 8 <= len(content):
        kind, length = struct.unpack(f"{order}II", content[at : at + 8])
        if kind >> 16:  # a small element: type, length and up to four bytes in eight
            kind, length, start, step = kind & 0xFFFF, kind >> 16, at + 4, 8
            if length > 4:
                raise ValueError("a small element has more than four bytes")
        else:
            start, step = at + 8, 8 + (length if kind == _COMPRESSED else -(-length // 8) * 8)
        if start + length > len(content):
            raise ValueError("it ends too early")
        yield kind, content[start : start + length]
        at += step


def _unpacked(packed: bytes, before: int, size: int, path: Path) -> bytes:
    unpacker, parts, total = zlib.decompressobj(), list[bytes](), before
    while packed and not unpacker.eof:
        parts.append(unpacker.decompress(packed, 1 << 22))
        packed = unpacker.unconsumed_tail
        total += len(parts[-1])
        within_expansion(total, size, path)
    if not unpacker.eof:
        raise ValueError("a compressed array ends too early")
    return b"".join(parts)


def _add(arrays: dict[str, Any], body: bytes, order: Order, names: Sequence[str], path: Path) -> None:
    """Read a matrix if it is one of the named; others may be of any kind."""
    parts = _elements(body, order)
    flags, dimensions, name = (next(parts, (0, b""))[1] for _ in range(3))
    text = name.decode("ascii", "replace")
    if text not in names:
        return
    word = struct.unpack(f"{order}I", flags[:4])[0]
    kind = word & 0xFF
    if kind not in _CLASSES or word & _COMPLEX:
        raise ValueError(f"{text!r} is not an array of real numbers")
    shape = np.frombuffer(dimensions, f"{order}i4").tolist()
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"{text!r} has the shape {shape}")
    within("values", math.prod(shape), path)
    stored, values = next(parts, (0, b""))
    if stored not in _NUMBERS:
        raise ValueError(f"the values of {text!r} are of an unknown type")
    array = np.frombuffer(values, order + _NUMBERS[stored])
    if len(array) != math.prod(shape):
        raise ValueError(f"{text!r} has {len(array)} values for the shape {tuple(shape)}")
    arrays[text] = array.astype(_CLASSES[kind]).reshape(shape, order="F")
