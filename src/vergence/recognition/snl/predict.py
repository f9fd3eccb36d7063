"""Results of prediction: labels of pictures and videos, or matches of a tracklet, and attention of chosen points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.files import write_table
from vergence.reid.results import Match

Shares = Sequence[tuple[float, float]]
"""Points (x, y) as fractions of the width and height of the network input."""
SHOWN = 5
"""Number of labels listed per file."""


@dataclass(frozen=True, eq=False)
class Labels(Result):
    """Labels of pictures or videos."""

    files: tuple[str, ...]
    """Names of the pictures or videos."""
    classes: tuple[str, ...]
    """Names of the classes."""
    labels: tuple[str, ...]
    """The most likely class of each file."""
    scores: Tensor
    """Probabilities, (N, classes)."""
    points: tuple[Shares, ...]
    """For each file the points whose attention is shown, as fractions of the network input."""
    attention: tuple[Mapping[str, Tensor], ...]
    """For each file and nonlocal block, the attention maps of the points: (P, h, w), or (P, t, h, w) of a clip."""
    whole: bool = False
    """Whether the network got whole pictures, and not their middle."""

    def summary(self) -> Mapping[str, Any]:
        return {
            Path(file).name: ", ".join(f"{label} {p:.0%}" for label, p in self.best(n, 3))
            for n, file in enumerate(self.files)
        }

    def best(self, number: int, count: int = SHOWN) -> list[tuple[str, float]]:
        """The most likely labels of a file with their probabilities."""
        scores = self.scores[number]
        return [(self.classes[i], float(scores[i])) for i in scores.argsort(descending=True)[:count].tolist()]


@dataclass(frozen=True, eq=False)
class Matches(Result):
    """The nearest tracklets of a query."""

    queries: tuple[str, ...]
    """The query's folder."""
    matches: tuple[tuple[Match, ...], ...]
    """Tracklets of the gallery, the nearest first."""
    searched: int
    """The number of tracklets in the gallery."""
    points: Shares
    """Points of the query's middle frame whose attention is shown, as fractions of its width and height."""
    attention: Mapping[str, Tensor]
    """For each nonlocal block, the attention of the points in all frames of the query's first clip: (P, t, h, w)."""

    def summary(self) -> Mapping[str, Any]:
        nearest = {
            f"{rank}.": f"{Path(m.name).name} at {m.distance:.3f}" for rank, m in enumerate(self.matches[0][:5], 1)
        }
        return {"searched": self.searched, **nearest}


def labels_table(path: Path, result: Labels) -> Artifact:
    """Writes a table of files with their most likely labels."""
    count = min(SHOWN, len(result.classes))
    heading = [f"{word} {rank}" for rank in range(1, count + 1) for word in ("label", "probability")]
    rows = [
        [file, *(value for label, p in result.best(number, count) for value in (label, f"{p:.4f}"))]
        for number, file in enumerate(result.files)
    ]
    write_table(path, ["file", *heading], rows)
    return Artifact("table", path, "The most likely labels with their probabilities.")
