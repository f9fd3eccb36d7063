"""Classes by number and name: what the data of a classifier decides, and what to say when two lists of them differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class Classes:
    """The facts of a classifier."""

    classes: int
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.classes <= 1_000_000 or (self.labels and len(self.labels) != self.classes):
            raise VergenceError(
                f"{self.classes} classes with {len(self.labels)} names are not the facts of a classifier"
            )

    def name(self, number: int) -> str:
        return self.labels[number] if self.labels else str(number)

    def refuse_others(self, own: Sequence[str]) -> None:
        """Refuse data whose classes are not those that were learnt."""
        if self.labels and tuple(own) != self.labels:
            raise VergenceError(f"the weights know the classes {_some(self.labels)}, the data has {_some(own)}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
