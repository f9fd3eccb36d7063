"""Settings shared by systems that classify and segment clouds of single objects. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class Objects:
    """Clouds of single objects for training and test, centred and scaled to the unit sphere."""

    source: Source = EMBEDDED
    """embedded, modelnet40:PATH, shapenetpart:PATH, folder:PATH (class folders of clouds or meshes), or a plain PATH to
    such a folder."""
    task: Literal["class", "parts"] = "class"
    """The object's class, or the part that each point belongs to."""
    points: int = 1024
    """Random points sampled from each cloud."""
    turn: Literal["none", "up", "any"] = "up"
    """Training: random rotation about the vertical (the second axis), about any axis, or none. Embedded objects are
    also tested under it."""
    scale: tuple[float, float] = (0.8, 1.25)
    """Training: smallest and largest random scale."""
    shift: float = 0.1
    """Training: largest random shift along each axis."""
    objects: int = 1200
    """embedded: number of training objects; a sixth as many for validation and test."""
    pool: int = 1024
    """embedded: points sampled on each surface, of which `points` are drawn anew in every epoch."""

    def __post_init__(self) -> None:
        low, high = self.scale
        if self.points < 1 or self.objects < 16 or self.pool < 1:
            raise VergenceError(
                f"data has points >= 1, objects >= 16 and pool >= 1, got {self.points}, {self.objects} and {self.pool}"
            )
        if not (0 < low <= high and self.shift >= 0):
            raise VergenceError(
                f"data has scales from above 0 and a shift of at least 0, got {self.scale} and {self.shift}"
            )


@dataclass(frozen=True)
class ShapeFacts:
    """The classes of the objects and, for segmentation, the parts of each class."""

    classes: int = 0
    labels: tuple[str, ...] = ()
    """Names of the classes."""
    parts: tuple[int, ...] = ()
    """Number of parts of each class; parts are numbered through, class by class."""
    part_labels: tuple[str, ...] = ()
    """Names of all parts."""

    def __post_init__(self) -> None:
        named = (self.labels, self.classes), (self.parts, self.classes), (self.part_labels, sum(self.parts))
        if not 0 <= self.classes <= 1_000_000 or any(names and len(names) != count for names, count in named):
            raise VergenceError(
                f"{self.classes} classes with {len(self.labels)} names, {len(self.parts)} numbers of parts and "
                f"{len(self.part_labels)} names of parts are not the facts of a network"
            )

    def name(self, number: int) -> str:
        return self.labels[number] if self.labels else str(number)

    def part_name(self, number: int) -> str:
        return self.part_labels[number] if self.part_labels else str(number)

    @property
    def first_parts(self) -> tuple[int, ...]:
        """The first part of each class, and the number of all parts."""
        return (0, *accumulate(self.parts))

    def refuse_others(self, labels: Sequence[str], parts: Sequence[int]) -> None:
        """Raise an error for data whose classes or parts are not those the weights were trained on."""
        for what, own, theirs in (("classes", self.labels, labels), ("parts", self.parts, parts)):
            if own and tuple(theirs) != own:
                raise VergenceError(f"the weights know the {what} {_some(own)}, the data has {_some(theirs)}")


def _some(values: Sequence[object]) -> str:
    return (", ".join(map(str, values[:3])) or "none") + (f" and {len(values) - 3} more" if len(values) > 3 else "")
