"""The Max-Mahalanobis head (Pang et al., 2020): fixed class centres as far from each other as possible.

The logit of a class is the negative squared distance of the features to its centre. Trained by the distance to the
right centre alone (:func:`centre_loss`), the features of a class gather around it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError


def simplex_centres(classes: int, dimensions: int, length: float = 1.0) -> Tensor:
    """Centres (classes, dimensions) of one length whose inner products are all ``-length² / (classes - 1)``."""
    if classes < 2 or dimensions < classes - 1:
        raise VergenceError(
            f"{classes} centres need {max(classes - 1, 1)} or more dimensions, and two or more classes; got "
            f"{dimensions} dimensions"
        )
    centres = torch.zeros(classes, dimensions, dtype=torch.float64, device="cpu")
    for row in range(classes):
        for column in range(min(row, dimensions)):
            inner = centres[row] @ centres[column]
            centres[row, column] = -(1 / (classes - 1) + inner) / centres[column, column]
        if row < dimensions:  # the last centre of a full set is determined by the others
            centres[row, row] = (1 - centres[row].square().sum()).clamp(min=0).sqrt()
    return length * centres


class MahalanobisHead(nn.Module):
    """A linear layer to ``dimensions`` features, and their negative squared distances to fixed centres."""

    centres: Tensor

    def __init__(self, inputs: int, classes: int, dimensions: int = 64, length: float = 10.0) -> None:
        super().__init__()
        self.fc = nn.Linear(inputs, dimensions)
        centres = simplex_centres(classes, dimensions, length).to(self.fc.weight.dtype)
        self.register_buffer("centres", centres.to(self.fc.weight.device))

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, inputs) to logits (B, classes)."""
        z = self.fc(features)
        return -(z.unsqueeze(1) - self.centres.to(z)).square().sum(-1)


def centre_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """The squared distance of each picture's features to the centre of its class, averaged over the batch."""
    return -logits.gather(1, labels[:, None]).mean()
