"""How a system says what is to be timed: its ``bench.py`` has a function ``contests`` that yields these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contest:
    """One of ours against rivals that do the same; each call does the whole work once."""

    id: str
    """Short and unique in the system's bench: claims of cost name it."""
    title: str
    """What is timed, at which size."""
    ours: Callable[[], Any]
    rivals: Mapping[str, Callable[[], Any]]
