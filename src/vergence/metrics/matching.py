"""Scores of partial matchings against the true one: accuracy, and F1 where some points have no partner."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

GUARD = 1e-7
"""Added to denominators, as is usual: a class without any match has an F1 of 0, or of 1 if none should be found."""


def counts(found: Tensor, truth: Tensor) -> tuple[int, int, int]:
    """Right matches, wrong ones and missed ones of matrices of zeros and ones."""
    right = int((found * truth).sum())
    return right, int(found.sum()) - right, int(truth.sum()) - right


def accuracy(right: float, missed: float) -> float:
    """The share of true matches that were found, in percent; wrong ones do not count."""
    return 100 * (right + GUARD) / (right + missed + GUARD)


def f1(right: float, wrong: float, missed: float) -> float:
    """The harmonic mean of precision and recall, in percent."""
    return 100 * (2 * right + GUARD) / (2 * right + wrong + missed + GUARD)


def by_class(rows: Sequence[tuple[int, int, int, int]]) -> tuple[float, float]:
    """Accuracy and F1 as means over classes, from rows of a class with right, wrong and missed matches of a pair."""
    kinds = sorted({row[0] for row in rows})
    sums = [[sum(row[part] for row in rows if row[0] == kind) for part in (1, 2, 3)] for kind in kinds]
    accuracies = [accuracy(right, missed) for right, _, missed in sums]
    scores = [f1(*own) for own in sums]
    return sum(accuracies) / len(kinds), sum(scores) / len(kinds)
