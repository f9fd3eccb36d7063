"""Top-k accuracy."""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.core.errors import VergenceError


def topk_accuracy(logits: Tensor, labels: Tensor, k: int = 1) -> float:
    """Percentage of rows of ``logits`` (N, K) whose label (N,) is among the ``k`` highest.

    A class tied with the label ranks above it only if its index is lower, as in a stable sort; a row that contains NaN
    counts as wrong.
    """
    if not len(logits) or len(logits) != len(labels):
        raise VergenceError(f"accuracy needs as many labels as rows, got {len(labels)} labels for {len(logits)} rows")
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise VergenceError(f"a label is outside 0 to {logits.shape[1] - 1}")
    correct = logits.gather(1, labels[:, None])
    index = torch.arange(logits.shape[1], device=logits.device)
    before = ~(logits <= correct) | ((logits == correct) & (index < labels[:, None]))
    return float((before.sum(1) < k).double().mean() * 100)


def accuracies(scores: Tensor, labels: Tensor) -> dict[str, float]:
    """Top-1 accuracy in percent, and Top-5 if there are more than five classes."""
    found = {"top1": topk_accuracy(scores, labels)}
    return found | ({"top5": topk_accuracy(scores, labels, 5)} if scores.shape[1] > 5 else {})
