"""Arrays of numbers from MATLAB files of version 5 to 7.2.

SciPy's reader can be crashed by damaged files, and data sets need little of the format: named arrays of real numbers.
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
HEAD = 128
MATRIX, COMPRESSED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""How values are stored, by the type of an element."""
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""What values are, by the class of an array; small integers are stored in fewer bytes than theirs."""
COMPLEX = 0x0800
Order = Literal["<", ">"]


def read_mat(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Arrays of a MATLAB file by name; those it does not have are left out."""
    content = read_bytes(path, WHAT)
    with refusing(path, WHAT):
        if content[:8] == b"\x89HDF\r\n\x1a\n" or content[:128].startswith(b"MATLAB 7.3"):
            raise VergenceError(f"{path} is a MATLAB file of version 7.3: expected one of version 5 to 7.2")
        if len(content) < HEAD or content[126:128] not in (b"IM", b"MI"):
            raise ValueError("its header is missing or truncated")
        order: Order = "<" if content[126:128] == b"IM" else ">"
        arrays: dict[str, Any] = {}
        total = 0
        for kind, body in elements(content[HEAD:], order):
            if kind == COMPRESSED:
                body = unpacked(body, total, len(content), path)
                total += len(body)
                kind, body = next(elements(body, order), (0, b""))
            if kind == MATRIX:
                _add(arrays, body, order, names, path)
        return arrays


def elements(content: bytes, order: Order) -> Iterator[tuple[int, bytes]]:
    """The elements of a file or of a matrix: their types and bytes."""
    at = 0
    while at + 8 <= len(content):
        kind, length = struct.unpack(f"{order}II", content[at : at + 8])
        if kind >> 16:  # a small element: type, length and up to four bytes in eight
            kind, length, start, step = kind & 0xFFFF, kind >> 16, at + 4, 8
            if length > 4:
                raise ValueError("a small element has more than four bytes")
        else:
            start, step = at + 8, 8 + (length if kind == COMPRESSED else -(-length // 8) * 8)
        if start + length > len(content):
            raise ValueError("it ends too early")
        yield kind, content[start : start + length]
        at += step


def unpacked(packed: bytes, before: int, size: int, path: Path) -> bytes:
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
    parts = elements(body, order)
    flags, dimensions, name = (next(parts, (0, b""))[1] for _ in range(3))
    text = name.decode("ascii", "replace")
    if text not in names:
        return
    word = struct.unpack(f"{order}I", flags[:4])[0]
    kind = word & 0xFF
    if kind not in CLASSES or word & COMPLEX:
        raise ValueError(f"{text!r} is not an array of real numbers")
    shape = np.frombuffer(dimensions, f"{order}i4").tolist()
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"{text!r} has the shape {shape}")
    within("values", math.prod(shape), path)
    stored, values = next(parts, (0, b""))
    if stored not in NUMBERS:
        raise ValueError(f"the values of {text!r} are of an unknown type")
    array = np.frombuffer(values, order + NUMBERS[stored])
    if len(array) != math.prod(shape):
        raise ValueError(f"{text!r} has {len(array)} values for the shape {tuple(shape)}")
    arrays[text] = array.astype(CLASSES[kind]).reshape(shape, order="F")
