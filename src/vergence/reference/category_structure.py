"""Category structure as its definition reads, one class after the other, as public code computes it."""

from __future__ import annotations

import torch
from torch import Tensor


def centres(features: Tensor, labels: Tensor) -> Tensor:
    """Class means (K, D) of features (N, D), Eq. 6, by a mask per class."""
    return torch.stack([features[labels == label].mean(0) for label in labels.unique()])


def intra(student: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
    """The first term of Eq. 9 without β, for features (N, D)."""
    norms = []
    for label in labels.unique():
        ours, theirs = student[labels == label], teacher[labels == label]
        difference = (theirs - theirs.mean(0)) - (ours - ours.mean(0))
        norms.append(difference.norm() if len(ours) > 1 else difference.sum() * 0)  # the root has no gradient at zero
    return torch.stack(norms).mean()


def inter(student: Tensor, teacher: Tensor, labels: Tensor) -> Tensor:
    """The second term of Eq. 9 without γ, for features (N, D) of any two widths."""
    matrices = []
    for features in (student, teacher):
        means = centres(features, labels)
        rows = [torch.stack([(a @ b) / (a.norm() * b.norm()) for b in means]) for a in means]
        matrices.append(torch.stack(rows))
    return (matrices[1] - matrices[0]).norm()


def looped(student: Tensor, projected: Tensor, teacher: Tensor, labels: Tensor, beta: float, gamma: float) -> Tensor:
    """Eq. 9 with a loop over classes for the centres and matrix products for their cosines: how public code does it."""
    means = [torch.nn.functional.normalize(centres(features, labels), dim=1) for features in (student, teacher)]
    matrices = [units @ units.mT for units in means]
    return beta * intra(projected, teacher, labels) + gamma * (matrices[1] - matrices[0]).norm()
