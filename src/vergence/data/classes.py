"""The number and names of a classifier's classes, and the error when a model and its data disagree on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class Classes:
    """The classes of a classifier, as its training data defines them."""

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
        """Raise an error for data whose classes are not those the weights were trained on."""
        if self.labels and tuple(own) != self.labels:
            raise VergenceError(f"the weights know the classes {_some(self.labels)}, the data has {_some(own)}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
