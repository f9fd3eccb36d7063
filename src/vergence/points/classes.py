"""Sets of classes for labelled scans: names, colours, and the groups that different sets have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.metrics.segmentation import class_iou

Colour = tuple[int, int, int]
IGNORED = "unlabeled"
"""The name of class 0, which no score counts."""
GROUPS = {
    "ground": ("road", "parking", "sidewalk", "other-ground", "terrain", "driveable_surface", "other_flat"),
    "vehicle": ("car", "truck", "other-vehicle", "bus", "trailer", "construction_vehicle"),
    "vegetation": ("vegetation", "trunk"),
    "building": ("building", "fence", "manmade", "barrier"),
    "pole": ("pole", "traffic-sign"),
}
"""Groups in which rendered and real streets, and sets with finer and coarser classes, can be compared."""
SPARE: tuple[Colour, ...] = (
    (230, 80, 60), (60, 140, 230), (70, 180, 90), (240, 190, 50), (150, 90, 200), (60, 190, 190), (240, 130, 180),
    (140, 110, 80), (160, 160, 160), (120, 160, 40), (200, 100, 20), (90, 90, 170),
)  # fmt: skip
"""Colours of classes that have none of their own."""


@dataclass(frozen=True)
class ClassSet:
    """Classes by number; the first is ignored."""

    names: tuple[str, ...]
    colours: tuple[Colour, ...]

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, names: Sequence[str]) -> ClassSet:
        """Classes known by name alone."""
        spare = [SPARE[number % len(SPARE)] for number in range(len(names) - 1)]
        return cls(tuple(names), ((0, 0, 0), *spare))

    def groups(self) -> Tensor:
        """(classes,): the group of each class, counted from 1 in the order of :data:`GROUPS`; 0 for none."""
        numbers = torch.zeros(len(self), dtype=torch.long)
        for number, names in enumerate(GROUPS.values(), 1):
            numbers[[place for place, name in enumerate(self.names) if name in names]] = number
        return numbers


def group_iou(counts: Tensor, classes: ClassSet) -> dict[str, float]:
    """Intersection over union (percent) of each group, from confusion counts (classes, classes). What is labelled
    outside the groups is left out; NaN for groups that do not occur."""
    which = classes.groups().to(counts.device)
    size = len(GROUPS) + 1
    merged = counts.new_zeros(size, size)
    merged.index_put_((which.unsqueeze(1).expand_as(counts), which.unsqueeze(0).expand_as(counts)), counts, True)
    merged[0] = 0
    shares = 100 * class_iou(merged)
    return {name: float(shares[number]) for number, name in enumerate(GROUPS, 1)}
