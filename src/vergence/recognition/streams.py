"""Streams of labelled pictures: the classes come in groups, one task after another, and every batch is of one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data.images import centre, scaled


@dataclass(frozen=True)
class ClassStream:
    """The pictures of some tasks, as samples of a batch: the picture (3, size, size) from 0 to 1, its label among the
    classes of its task, the number of the task, and its index in the stream."""

    data: Any
    """Labelled pictures of all classes, with their names in ``classes``."""
    tasks: Sequence[Sequence[int]]
    """The classes of each task."""
    size: int
    only: int | None = None
    """The one task whose pictures are in the stream; None: those of all tasks."""
    most: int = 0
    """Largest number of pictures per class, spread evenly over the data (0: all)."""
    places: Tensor = field(init=False, repr=False)
    """Indices of the pictures in ``data``."""
    homes: dict[int, tuple[int, int]] = field(init=False, repr=False)
    """Task and label in it, by class."""

    def __post_init__(self) -> None:
        homes = {c: (task, label) for task, classes in enumerate(self.tasks) for label, c in enumerate(classes)}
        labels = torch.as_tensor(self.data.labels)
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(self.data.classes):
            wrong = next(int(label) for label in labels if not 0 <= label < len(self.data.classes))
            raise VergenceError(f"the stream has the label {wrong}: expected 0 to {len(self.data.classes) - 1}")
        wanted = [c for c, (task, _) in homes.items() if self.only is None or task == self.only]
        found = [(labels == c).nonzero()[:, 0] for c in sorted(wanted)]
        if self.most:
            found = [rows[spread(len(rows), self.most)] for rows in found]
        object.__setattr__(self, "places", torch.cat([torch.zeros(0, dtype=torch.long), *found]))
        object.__setattr__(self, "homes", homes)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> dict[str, Any]:
        picture, label = self.data[int(self.places[index])]
        task, local = self.homes[label]
        cut = centre(scaled(picture), self.size, self.size)
        return {"image": cut, "label": local, "task": task, "index": range(len(self))[index]}

    def batches(self, size: int, generator: torch.Generator) -> list[list[int]]:
        """All pictures once, in random order; the last batch has those that are left."""
        order = torch.randperm(len(self), generator=generator).tolist()
        return [order[first : first + size] for first in range(0, len(order), size)]


def spread(count: int, most: int) -> Tensor:
    """At most ``most`` of ``count`` indices, evenly spread."""
    kept = min(count, most)
    return torch.arange(kept) * count // max(kept, 1)


def forgetting(history: Sequence[Sequence[float]]) -> float:
    """Mean over the older tasks of the best accuracy they ever had, less the one they have at the end.

    ``history[i][j]`` is the accuracy on task j after task i, j <= i. NaN if no task is older than another.
    """
    if len(history) < 2:
        return float("nan")
    last = history[-1]
    lost = [max(row[task] for row in history[task:-1]) - last[task] for task in range(len(history) - 1)]
    return sum(lost) / len(lost)
