"""The identity of a model: enough to rebuild it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Identity:
    """System, preset, variant, config and facts of a model."""

    system: str
    preset: str
    variant: str
    config: Any
    facts: Any
