"""Plain data: JSON and tables of text."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from vergence.core.errors import VergenceError
from vergence.reading.budget import current, within
from vergence.reading.files import read_text, refusing

_LARGEST = 2**63


def read_json(path: Path, what: str = "readable JSON") -> Any:
    """The content of a JSON file."""
    return parse_json(read_text(path, what), path, what)


def parse_json(text: str | bytes, source: object, what: str = "readable JSON") -> Any:
    """Plain values from JSON. Integers that no array could hold and lists nested too deeply are refused."""
    with refusing(source, what):
        value = json.loads(text, parse_int=_integer)
    within("nesting", _depth(value, int(current().nesting) + 1), source)
    return value


def _integer(text: str) -> int:
    if len(text) > 20 or not -_LARGEST <= int(text) < _LARGEST:
        raise ValueError(f"the number {text[:20]}{'…' if len(text) > 20 else ''} is out of range")
    return int(text)


def _depth(value: Any, most: int) -> int:
    """How deeply lists and dictionaries are nested, up to ``most``."""
    depth, level = 0, [value]
    while level and depth < most:
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        depth += 1
    return depth


def read_rows(path: Path, delimiter: str = ",", what: str = "a table of text") -> list[list[str]]:
    """The rows of a table, empty ones left out."""
    return parse_rows(read_text(path, what), path, delimiter, what)


def parse_rows(text: str, source: object, delimiter: str = ",", what: str = "a table of text") -> list[list[str]]:
    """As :func:`read_rows`, from text; ``source`` is what errors call it."""
    with refusing(source, what):
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    within("points", len(rows), source)
    return rows


def read_records(path: Path, needed: tuple[str, ...] = (), what: str = "a table of text") -> list[dict[str, str]]:
    """The rows of a table with a heading, as dictionaries. All of ``needed`` are among its columns."""
    rows = read_rows(path, what=what)
    heading = rows[0] if rows else []
    missing = [name for name in needed if name not in heading]
    if missing:
        raise VergenceError(f"{path} is not {what}: it has no column {missing[0]!r}")
    short = next((number for number, row in enumerate(rows[1:], 2) if len(row) != len(heading)), None)
    if short is not None:
        raise VergenceError(f"{path} is not {what}: row {short} has {len(rows[short - 1])} of {len(heading)} fields")
    return [dict(zip(heading, row, strict=True)) for row in rows[1:]]
