"""What searches of this room give."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Match:
    """Something found in a gallery: its name, and how far it is from the query."""

    name: str
    distance: float
