"""Text that was read against the true one: errors of characters and words, and whether confidence tells them apart."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from vergence.core.errors import VergenceError

BINS = 10
"""Bins of confidence in a reliability plot."""


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Levenshtein's distance: the fewest insertions, deletions and replacements that turn one into the other."""
    one, other = (one, other) if len(one) >= len(other) else (other, one)
    row = list(range(len(other) + 1))
    for number, item in enumerate(one, 1):
        diagonal, row[0] = row[0], number
        for place, against in enumerate(other, 1):
            changed = diagonal + (item != against)
            diagonal = row[place]
            row[place] = min(changed, row[place] + 1, row[place - 1] + 1)
    return row[-1]


def character_error(read: Sequence[str], truth: Sequence[str]) -> float:
    """The sum of edit distances over the sum of true lengths, in per cent; it can exceed 100."""
    _paired(read, truth)
    return _percent(sum(map(edit_distance, read, truth)), sum(map(len, truth)))


def word_error(read: Sequence[str], truth: Sequence[str]) -> float:
    """As :func:`character_error`, of the words between spaces: for single words, the share of wrong ones."""
    _paired(read, truth)
    pairs = [(a.split(), b.split()) for a, b in zip(read, truth, strict=True)]
    return _percent(sum(edit_distance(a, b) for a, b in pairs), sum(len(b) for _, b in pairs))


class ErrorKinds(NamedTuple):
    """Shares of the wrong readings, in per cent."""

    replaced: float
    """As long as the truth."""
    deleted: float
    """Shorter."""
    inserted: float
    """Longer."""


def error_kinds(read: Sequence[str], truth: Sequence[str]) -> ErrorKinds:
    """Wrong readings by their length relative to the truth's (Table 5 of the paper on variational CTC)."""
    _paired(read, truth)
    wrong = [len(a) - len(b) for a, b in zip(read, truth, strict=True) if a != b]
    counts = (wrong.count(0), sum(d < 0 for d in wrong), sum(d > 0 for d in wrong))
    return ErrorKinds(*(_percent(count, len(wrong)) for count in counts))


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _paired(read: Sequence[str], truth: Sequence[str]) -> None:
    if len(read) != len(truth):
        raise VergenceError(f"each reading has one true text, got {len(read)} and {len(truth)}")


# Confidence -----------------------------------------------------------------------------------------------------------


def precision_recall(confidence: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
    """Precision and recall when readings of at least a confidence are accepted, for each confidence that occurs, the
    highest first. Recall is the share of *correct* readings that are accepted: it reaches 1 whatever the accuracy."""
    if confidence.shape != correct.shape or confidence.dim() != 1:
        raise VergenceError(
            f"confidence and correct have one value per reading, got {tuple(confidence.shape)} and "
            f"{tuple(correct.shape)}"
        )
    if not torch.isfinite(confidence).all():
        raise VergenceError("a confidence is not a finite number")
    if not len(confidence):
        return torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    order = confidence.argsort(descending=True, stable=True)
    ranked, right = confidence[order], correct[order].double().cumsum(0)
    last = torch.cat([ranked[1:] != ranked[:-1], ranked.new_ones(1, dtype=torch.bool)])  # of equal confidences
    accepted = torch.arange(1, len(ranked) + 1, device=ranked.device, dtype=torch.float64)
    return (right / accepted)[last], (right / right[-1].clamp(min=1))[last]


def average_precision(confidence: Tensor, correct: Tensor) -> float:
    """The area under precision against recall in steps, in per cent, as scikit-learn computes it; 0 if none is
    correct."""
    precision, recall = precision_recall(confidence, correct)
    steps = recall.diff(prepend=recall.new_zeros(1))
    return 100 * float((precision * steps).sum())


def recall_at_precision(confidence: Tensor, correct: Tensor, least: float = 0.98) -> float:
    """The largest share of correct readings that can be accepted with a precision of at least ``least``, in per cent;
    0 if no threshold reaches it."""
    precision, recall = precision_recall(confidence, correct)
    reached = recall[precision >= least]
    return 100 * float(reached.max()) if len(reached) else 0.0


@dataclass(frozen=True)
class Reliability:
    """Readings in bins of equal width of their confidence."""

    confidence: Tensor
    """(bins,): the mean in each bin; not a number in empty ones."""
    accuracy: Tensor
    """(bins,): the share that is correct."""
    count: Tensor
    """(bins,)."""

    @property
    def error(self) -> float:
        """The mean difference of confidence and accuracy over readings, in per cent: expected calibration error."""
        gap = (self.confidence - self.accuracy).abs().nan_to_num(0.0)
        return 100 * float((gap * self.count).sum() / self.count.sum().clamp(min=1))


def reliability(confidence: Tensor, correct: Tensor, bins: int = BINS) -> Reliability:
    """What share of readings is correct, by confidence from 0 to 1."""
    if len(confidence) and not ((confidence >= 0) & (confidence <= 1)).all():
        raise VergenceError("a confidence is from 0 to 1")
    place = (confidence.double() * bins).long().clamp(max=bins - 1)
    count = torch.bincount(place, minlength=bins).double()
    sums = [torch.bincount(place, values.double(), bins) for values in (confidence, correct)]
    return Reliability(sums[0] / count, sums[1] / count, count)
