"""Benchmarks of a system: the function ``contests`` in its ``bench.py`` yields these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contest:
    """Our implementation against rivals that compute the same; each call does the whole work once."""

    id: str
    """Short and unique in the system's benchmarks: cost claims refer to it."""
    title: str
    """What is timed, and at which size."""
    ours: Callable[[], Any]
    rivals: Mapping[str, Callable[[], Any]]
