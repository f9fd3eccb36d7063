"""How well two maps agree, as counts that can be added up over many maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BOTH_EMPTY = 1.0
"""Two empty maps agree. Otherwise nothing out of nothing is nothing: a share of an empty map is 0."""


def share(part: float, whole: float) -> float:
    """``part / whole``, and 0 of nothing."""
    return part / whole if whole > 0 else 0.0


def harmonic(a: float, b: float) -> float:
    """The F1 of a precision and a recall; 0 if both are."""
    return 2 * a * b / (a + b) if a + b > 0 else 0.0


@dataclass(frozen=True)
class Agreement:
    """Precision and recall by what they are shares of. Path, junction, sub-graph and pixel measures all come so."""

    right: float
    """Of what was predicted: what is true."""
    predicted: float
    found: float
    """Of what is true: what was predicted."""
    actual: float
    pooled: bool = True
    """Over several maps, add the counts up; otherwise average precision and recall."""

    @property
    def precision(self) -> float:
        return BOTH_EMPTY if self._empty else share(self.right, self.predicted)

    @property
    def recall(self) -> float:
        return BOTH_EMPTY if self._empty else share(self.found, self.actual)

    @property
    def f1(self) -> float:
        return harmonic(self.precision, self.recall)

    @property
    def quality(self) -> float:
        """Intersection over union, as precision and recall give it."""
        p, r = self.precision, self.recall
        return share(p * r, p + r - p * r)

    @property
    def _empty(self) -> bool:
        return not (self.predicted or self.actual)

    @property
    def swapped(self) -> Agreement:
        """With prediction and truth exchanged."""
        return Agreement(self.found, self.actual, self.right, self.predicted, self.pooled)


def together(parts: Sequence[Agreement]) -> Agreement:
    """Over a data set: counts added up, or precision and recall averaged."""
    if all(part.pooled for part in parts):
        counts = zip(*((p.right, p.predicted, p.found, p.actual) for p in parts), strict=True)
        right, predicted, found, actual = map(math.fsum, counts)
        return Agreement(right, predicted, found, actual)
    count = len(parts)
    return Agreement(
        math.fsum(p.precision for p in parts), count, math.fsum(p.recall for p in parts), count, pooled=False
    )
