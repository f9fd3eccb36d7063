"""How much a file may ask for: a few crafted bytes must not take all of a machine's memory or time.

The defaults are generous. ``VERGENCE_BUDGET="pixels=3e8,points=1e9"`` or :func:`budget` change them; every error that
a limit causes names its field.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from vergence.core.errors import VergenceError, did_you_mean

VARIABLE = "VERGENCE_BUDGET"


@dataclass(frozen=True)
class Budget:
    """Limits for one file."""

    file_bytes: float = 1e12
    """Size on disk."""
    text_bytes: float = 1e9
    """Size of a file that is read as text: tables, JSON, graphs."""
    pixels: float = 1e8
    """Pixels of a picture or of a video's frame."""
    aspect: float = 200
    """The longer side of a picture in relation to the shorter one."""
    points: float = 1e8
    """Points of a cloud, nodes and edges of a graph, rows of a table."""
    values: float = 4e9
    """Numbers in one array."""
    entries: float = 1e7
    """Files in an archive, arrays in a file of arrays."""
    expansion: float = 200
    """Unpacked size in relation to the packed one; 256 MB are always allowed."""
    unpacked_bytes: float = 1e12
    """Unpacked size of an archive."""
    nesting: float = 64
    """Depth of lists in lists."""
    number: float = 1e12
    """Absolute value of a coordinate."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or math.isnan(value) or value < 1:
                raise VergenceError(f"the budget's {field.name} is a number of at least 1, got {value!r}")


FREE = 256 * 10**6
"""Bytes that may always be unpacked, whatever their packed size."""
NAMES = {
    "file_bytes": "bytes",
    "text_bytes": "bytes of text",
    "pixels": "pixels",
    "aspect": "times as many pixels along one side as along the other",
    "points": "points",
    "values": "numbers",
    "entries": "entries",
    "expansion": "times its packed size when unpacked",
    "unpacked_bytes": "bytes when unpacked",
    "nesting": "levels of nesting",
    "number": "as a coordinate",
}
_changed: ContextVar[Budget | None] = ContextVar("budget", default=None)


def current() -> Budget:
    """The budget in force here."""
    return _changed.get() or _from_text(os.environ.get(VARIABLE, ""))


@contextmanager
def budget(**limits: float) -> Iterator[Budget]:
    """Read with other limits inside a ``with`` block: ``with budget(pixels=3e8): ...``."""
    unknown = next((name for name in limits if name not in NAMES), None)
    if unknown is not None:
        raise VergenceError(f"a budget has no {unknown!r}{did_you_mean(unknown, NAMES)}")
    token = _changed.set(replace(current(), **limits))
    try:
        yield current()
    finally:
        _changed.reset(token)


@cache
def _from_text(text: str) -> Budget:
    limits: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name.strip() not in NAMES:
            raise VergenceError(f"{VARIABLE} has no limit {name.strip()!r}{did_you_mean(name.strip(), NAMES)}")
        try:
            limits[name.strip()] = float(value)
        except ValueError:
            raise VergenceError(f"{VARIABLE}: {name.strip()} is a number, got {value.strip()!r}") from None
    return Budget(**limits)


def within(name: str, amount: float, source: object) -> None:
    """Refuse ``source`` (a path, as the error shows it) if it asks for more of ``name`` than the budget has."""
    most = getattr(current(), name)
    if amount > most:
        raise VergenceError(
            f"{source} has {_plain(amount)} {NAMES[name]}, more than the limit of {_plain(most)} "
            f"({VARIABLE}={name}={_above(amount)} raises it)"
        )


def within_expansion(unpacked: float, packed: float, source: object) -> None:
    """Refuse a file that grows beyond measure when it is unpacked."""
    within("unpacked_bytes", unpacked, source)
    if unpacked > FREE:
        within("expansion", unpacked / max(packed, 1), source)


def _plain(number: float) -> str:
    return f"{number:,.0f}" if abs(number) < 1e15 else f"{number:.3g}"


def _above(number: float) -> str:
    """The amount rounded up to two digits."""
    if not math.isfinite(number):
        return "inf"
    step = 10.0 ** max(math.floor(math.log10(max(number, 1))) - 1, 0)
    return f"{math.ceil(number / step) * step:g}"
