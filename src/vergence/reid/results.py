"""Result types of re-identification searches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Match:
    """A gallery item with its distance from the query."""

    name: str
    distance: float
