"""How a system says what is to be measured: its ``bench.py`` has a function ``contests`` that yields what to time and,
where memory matters, a function ``holdings`` that yields what to weigh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contest:
    """One of ours against rivals that do the same; each call does the whole work once."""

    name: str
    ours: Callable[[], Any]
    rivals: Mapping[str, Callable[[], Any]]


Work = tuple[str | int | float, ...]
"""``package.module:function`` and its arguments: it makes ready and returns the work, a function without arguments."""


@dataclass(frozen=True)
class Holding:
    """What one of ours holds at most, against rivals that do the same; each is weighed in a process of its own."""

    name: str
    ours: Work
    rivals: Mapping[str, Work]
