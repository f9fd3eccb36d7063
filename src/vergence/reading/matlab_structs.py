"""Structures, cells and text from MATLAB files of version 5 to 7.2, as data sets of annotations have them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vergence.core.errors import VergenceError
from vergence.reading.budget import within
from vergence.reading.files import read_bytes, refusing
from vergence.reading.matlab import CLASSES, COMPLEX, COMPRESSED, HEAD, MATRIX, NUMBERS, WHAT, Order, elements, unpacked

_CELL, _STRUCT, _TEXT = 1, 2, 4
_ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16"}
"""Of text, by the type of the element that holds it."""


def read_mat_tree(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Variables of a MATLAB file by name: an array of structures is a list of dictionaries, a cell array a list, text a
    string, and numbers a NumPy array. Lists are in MATLAB's order, column by column."""
    content = read_bytes(path, WHAT)
    with refusing(path, WHAT):
        if content[:8] == b"\x89HDF\r\n\x1a\n" or content[:128].startswith(b"MATLAB 7.3"):
            raise VergenceError(f"{path} is a MATLAB file of version 7.3: expected one of version 5 to 7.2")
        if len(content) < HEAD or content[126:128] not in (b"IM", b"MI"):
            raise ValueError("its header is missing or truncated")
        order: Order = "<" if content[126:128] == b"IM" else ">"
        tree: dict[str, Any] = {}
        total = 0
        end = HEAD
        for kind, body in elements(content[HEAD:], order):
            end += 8 + len(body)
            if kind == COMPRESSED:
                body = unpacked(body, total, len(content), path)
                total += len(body)
                kind, body = next(elements(body, order), (0, b""))
            if kind == MATRIX:
                name = _name(body, order)
                if name in names:
                    tree[name] = _value(body, order, path)
        if end < len(content):
            raise ValueError("it ends too early")
        return tree


def _name(body: bytes, order: Order) -> str:
    parts = elements(body, order)
    return [next(parts, (0, b""))[1] for _ in range(3)][2].decode("ascii", "replace")


def _value(body: bytes, order: Order, path: Path) -> Any:
    if not body:
        return np.zeros((0, 0))
    parts = elements(body, order)
    flags, dimensions, _ = (next(parts, (0, b""))[1] for _ in range(3))
    word = struct.unpack(f"{order}I", flags[:4])[0]
    kind = word & 0xFF
    shape = np.frombuffer(dimensions, f"{order}i4").tolist()
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"an array has the shape {shape}")
    count = math.prod(shape)
    within("values", count, path)
    if kind == _CELL:
        return [_value(part, order, path) for part in _matrices(parts, count)]
    if kind == _STRUCT:
        return _structures(parts, count, order, path)
    stored, values = next(parts, (0, b""))
    if kind == _TEXT:
        if stored not in _ENCODINGS:
            raise ValueError("text is of an unknown type")
        encoding = _ENCODINGS[stored]
        text = values.decode(encoding + ("-le" if order == "<" else "-be") if encoding == "utf-16" else encoding)
        return text if shape[0] <= 1 else ["".join(text[row :: shape[0]]) for row in range(shape[0])]
    if kind not in CLASSES or stored not in NUMBERS or word & COMPLEX:
        raise ValueError("it holds something other than structures, cells, text and real numbers")
    array = np.frombuffer(values, order + NUMBERS[stored])
    if len(array) != count:
        raise ValueError(f"an array has {len(array)} values for the shape {tuple(shape)}")
    return array.astype(CLASSES[kind]).reshape(shape, order="F")


def _matrices(parts: Iterator[tuple[int, bytes]], count: int) -> Iterator[bytes]:
    for _ in range(count):
        kind, body = next(parts, (0, b""))
        if kind != MATRIX:
            raise ValueError("a part of a structure or cell is missing")
        yield body


def _structures(parts: Iterator[tuple[int, bytes]], count: int, order: Order, path: Path) -> list[dict[str, Any]]:
    length = struct.unpack(f"{order}i", next(parts, (0, b""))[1][:4])[0]
    names = next(parts, (0, b""))[1]
    if length < 1:
        raise ValueError("a structure has no names")
    fields = [names[at : at + length].split(b"\0")[0].decode("ascii", "replace") for at in range(0, len(names), length)]
    within("entries", count * len(fields), path)
    return [
        {name: _value(body, order, path) for name, body in zip(fields, _matrices(parts, len(fields)), strict=True)}
        for _ in range(count)
    ]
