"""Precision and recall as counts that can be summed over many maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BOTH_EMPTY = 1.0
"""Score of two empty maps. Otherwise a share of an empty map is 0."""


def share(part: float, whole: float) -> float:
    """``part / whole``, or 0 if ``whole`` is 0."""
    return part / whole if whole > 0 else 0.0


def harmonic(a: float, b: float) -> float:
    """The F1 of a precision and a recall; 0 if both are."""
    return 2 * a * b / (a + b) if a + b > 0 else 0.0


@dataclass(frozen=True)
class Agreement:
    """Precision and recall with their numerators and denominators; all path, junction, sub-graph and pixel metrics use
    it."""

    right: float
    """The part of ``predicted`` that is true."""
    predicted: float
    found: float
    """The part of ``actual`` that was predicted."""
    actual: float
    pooled: bool = True
    """Over several maps: sum the counts, or (False) average precision and recall."""

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
        """Intersection over union, from precision and recall."""
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
    """Aggregates over a data set: sums the counts, or averages precision and recall."""
    if all(part.pooled for part in parts):
        counts = zip(*((p.right, p.predicted, p.found, p.actual) for p in parts), strict=True)
        right, predicted, found, actual = map(math.fsum, counts)
        return Agreement(right, predicted, found, actual)
    count = len(parts)
    return Agreement(
        math.fsum(p.precision for p in parts), count, math.fsum(p.recall for p in parts), count, pooled=False
    )
