"""What a ranking of pixels is worth: the smallest sufficient set along it, and its insertion and deletion curves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.robustness.blackbox import Subject, chances_of, labels_of


@dataclass(frozen=True)
class Sufficient:
    """The first pixels of a ranking that are enough for the label, with all others hidden."""

    mask: Tensor
    """(H, W), True where a pixel is visible."""
    count: int
    trivial: bool
    """Whether the label is already that of the picture with every pixel hidden."""

    @property
    def size(self) -> float:
        """The share of the pixels."""
        return self.count / self.mask.numel()


@dataclass(frozen=True)
class Curve:
    """The classifier's answers while pixels are shown, or hidden, in the order of a ranking."""

    shares: Tensor
    """Of the pixels, (S,), from 0 to 1."""
    kept: Tensor
    """Whether the label is that of the picture, (S,)."""
    chances: Tensor
    """The label's probability, (S,) float64."""

    @property
    def area(self) -> float:
        """The area below the probabilities, by the trapezoidal rule."""
        return float(torch.trapezoid(self.chances, self.shares))


def ranks(order: Tensor, height: int, width: int) -> Tensor:
    """The place of each pixel in a ranking (n,), (H, W) from 0 on."""
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device)
    return places.view(height, width)


def sufficient(subject: Subject, order: Tensor, step: float = 0.01) -> Sufficient:
    """Alg. 1, lines 7-14: pixels are shown in the order of a ranking until the classifier gives the picture's label.

    It is asked after every ``step`` of the pixels, and inside the last step by bisection: the set is enough, and
    without its last pixel it is not.
    """
    places, total = ranks(order, *subject.size), order.numel()
    if _kept(subject, places, [0])[0]:
        return Sufficient(places < 1, 1, True)
    stride = max(round(step * total), 1)
    low, high = 0, 0
    for counts in _batches([*range(stride, total, stride), total], subject.box.batch):
        kept = _kept(subject, places, counts)
        if any(kept):
            high = counts[kept.index(True)]
            low = counts[kept.index(True) - 1] if kept.index(True) else low
            break
        low = counts[-1]
    if not high:
        raise VergenceError(f"{subject.box.name} changes its answer for one picture: it cannot be explained")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _kept(subject, places, [middle])[0] else (middle, high)
    return Sufficient(places < high, high, False)


def _kept(subject: Subject, places: Tensor, counts: list[int]) -> list[bool]:
    """Whether the label is kept with only the first pixels visible, for several counts."""
    few = torch.tensor(counts, device=places.device)
    kept: list[bool] = subject.kept(places >= few[:, None, None]).tolist()
    return kept


def _batches(counts: list[int], size: int) -> Iterator[list[int]]:
    return (counts[start : start + size] for start in range(0, len(counts), size))


def insertion(subject: Subject, order: Tensor, steps: int = 100) -> Curve:
    """Pixels appear on the background, the most important ones first."""
    return _curve(subject, order, steps, hide=False)


def deletion(subject: Subject, order: Tensor, steps: int = 100) -> Curve:
    """Pixels are hidden, the most important ones first."""
    return _curve(subject, order, steps, hide=True)


def _curve(subject: Subject, order: Tensor, steps: int, hide: bool) -> Curve:
    places, total = ranks(order, *subject.size), order.numel()
    counts = torch.tensor([round(total * step / steps) for step in range(steps + 1)], device=order.device)
    answers = []
    for part in counts.split(subject.box.batch):
        first = places < part[:, None, None]
        answers.append(subject.box(subject.masked(first if hide else ~first)))
    every = torch.cat(answers)
    kept, chances = labels_of(every) == subject.label, chances_of(every, subject.label)
    return Curve((counts / total).double().cpu(), kept.cpu(), chances.cpu())
