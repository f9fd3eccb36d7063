"""Losses of variational and adversarial training: codes, classifiers to be confused, features, hinge."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def divergence(mean: Tensor, spread: Tensor) -> Tensor:
    """KL(N(mean, exp(spread)) || N(0, I)), a mean over dimensions and samples."""
    return (spread.exp() + mean.square() - 1 - spread).mean() / 2


def to_equal_shares(logits: Tensor) -> Tensor:
    """Cross-entropy between equal shares and a classifier's; log V at least."""
    return -logits.log_softmax(1).mean()


def gram(features: Tensor) -> Tensor:
    """Gram matrices (B, C, C) of maps (B, C, H, W), after the mean over channels at each place is subtracted."""
    flat = (features - features.mean(1, keepdim=True)).flatten(2)
    return flat @ flat.mT


def likeness(ours: list[Tensor], theirs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """L1 of features at all taps, and of Gram matrices at the first."""
    content = torch.stack([F.l1_loss(a, b) for a, b in zip(ours, theirs, strict=True)]).sum()
    return content, F.l1_loss(gram(ours[0]), gram(theirs[0]))


def hinge(real: Tensor, fake: Tensor) -> Tensor:
    """The discriminator's hinge loss, with equal weights of real pictures and of all fakes together."""
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def fooled(fake: Tensor, kind: str) -> Tensor:
    """The generator's loss, -D, or max(0, 1 - D) if it is ``printed``."""
    return F.relu(1 - fake).mean() if kind == "printed" else -fake.mean()
