"""Parts of detectors that adapt to another domain without labels: discriminators, their losses, and two predictions of
which classes a picture shows.

Domains are told apart by two logits, source first. Discriminators are put behind
:func:`vergence.ops.reversal.reversed_gradient`: they minimise their loss, and the features maximise it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.ops.segments import segment_max

SOURCE, TARGET = 0, 1
Condition = Literal["p", "p+q", "none"]
"""What a discriminator is told about the classes of a picture: the multi-label prediction, softmax(p + q), nothing."""


# Losses ---------------------------------------------------------------------------------------------------------------


def focal_domain(logits: Tensor, domain: int, gamma: float) -> Tensor:
    """Focal loss of pictures (B, 2) of a domain, their mean: ``-(1 - D)^gamma log D`` with D the probability of their
    own domain (Eq. 3)."""
    chances = logits.log_softmax(1)
    return -((gamma * chances[:, 1 - domain]).exp() * chances[:, domain]).mean()


def squared_domain(chances: Tensor, domain: int) -> Tensor:
    """Least-squares loss of maps (B, 1, H, W) of the probability of the target, its mean."""
    return (chances - domain).square().mean()


def multi_label(logits: Tensor, present: Tensor) -> Tensor:
    """Cross entropy of K yes-or-no labels, summed over classes and averaged over pictures (Eq. 1)."""
    return F.binary_cross_entropy_with_logits(logits, present, reduction="sum") / max(len(logits), 1)


def consistency(p: Tensor, q: Tensor) -> Tensor:
    """Half the symmetric Kullback-Leibler divergence of softmax(p) and softmax(q), both (B, K), averaged over pictures
    (Eqs. 4-6), in closed form: ``sum_k (softmax(p)_k - softmax(q)_k) (p_k - q_k) / 2``. At most tanh(1/2) for
    probabilities."""
    return ((p.softmax(1) - q.softmax(1)) * (p - q)).sum(1).mean() / 2


# Classes of a picture -------------------------------------------------------------------------------------------------


def present_classes(labels: Tensor, classes: int) -> Tensor:
    """Which of K classes occur among labels (n,) from 1: (K,), 0 or 1."""
    return torch.zeros(classes + 1, device=labels.device).index_fill(0, labels, 1.0)[1:]


def image_chances(logits: Tensor, picture: Tensor, count: int) -> Tensor:
    """The probability of each class in each picture, (count, K): the largest of its regions, from logits (R, K + 1)
    with the background first. Zero for a picture without regions."""
    return segment_max(logits.softmax(1)[:, 1:], picture, count)


class MultiLabelHead(nn.Module):
    """Logits (B, K) of the classes of pictures from features (B, C, H, W): two 3x3 convolutions, mean, and K binary
    classifiers; ``separate`` gives every class convolutions of its own."""

    def __init__(self, inputs: int, classes: int, width: int = 512, separate: bool = False) -> None:
        super().__init__()
        trunks = classes if separate else 1
        self.conv1 = nn.Conv2d(inputs, width * trunks, 3, padding=1)
        self.conv2 = nn.Conv2d(width * trunks, width * trunks, 3, padding=1, groups=trunks)
        self.classifiers = nn.Linear(width, classes)
        self.separate = separate

    def forward(self, features: Tensor) -> Tensor:
        pooled = F.relu(self.conv2(F.relu(self.conv1(features)))).mean((2, 3))
        if not self.separate:
            return self.classifiers(pooled)
        weight = self.classifiers.weight
        return (pooled.unflatten(1, weight.shape) * weight).sum(2) + self.classifiers.bias


# Discriminators -------------------------------------------------------------------------------------------------------


def multilinear(vectors: Tensor, condition: Tensor) -> Tensor:
    """The outer product of vectors (B, C) and conditions (B, K) as rows (B, K C): one block for each class."""
    return (condition.unsqueeze(2) * vectors.unsqueeze(1)).flatten(1)


class ConditionalDiscriminator(nn.Module):
    """Logits (B, 2) of the domain of pictures, from features (B, C, H, W) and a condition (B, K); without classes, from
    features alone. The mean over places comes before the outer product, which gives the same as after it."""

    def __init__(self, inputs: int, classes: int, width: int = 512) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, width, 3, padding=1)
        self.linear = nn.Linear(width * max(classes, 1), 2)

    def forward(self, features: Tensor, condition: Tensor | None) -> Tensor:
        vectors = F.relu(self.conv(features)).mean((2, 3))
        return self.linear(vectors if condition is None else multilinear(vectors, condition))


class GlobalDiscriminator(nn.Module):
    """Logits (B, 2) of whole pictures by three convolutions of stride 2 (strong-weak alignment, Saito et al. 2019)."""

    def __init__(self, inputs: int, widths: tuple[int, int, int] = (512, 128, 128)) -> None:
        super().__init__()
        sizes = (inputs, *widths)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1, bias=False) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.linear = nn.Linear(widths[-1], 2)

    def forward(self, features: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            features = F.dropout(F.relu(norm(conv(features))), 0.5, self.training)
        return self.linear(features.mean((2, 3)))


class LocalDiscriminator(nn.Sequential):
    """The probability of the target at every place of early features (B, C, H, W): three 1x1 convolutions."""

    def __init__(self, inputs: int, widths: tuple[int, int] = (256, 128)) -> None:
        super().__init__(
            nn.Conv2d(inputs, widths[0], 1), nn.ReLU(), nn.Conv2d(widths[0], widths[1], 1), nn.ReLU(),
            nn.Conv2d(widths[1], 1, 1), nn.Sigmoid(),
        )  # fmt: skip


class PlaceDiscriminator(nn.Sequential):
    """The logit of the target at every place of features (B, C, H, W) (DA-Faster, Chen et al. 2018)."""

    def __init__(self, inputs: int, width: int = 512) -> None:
        super().__init__(nn.Conv2d(inputs, width, 1), nn.ReLU(), nn.Conv2d(width, 1, 1))


class RegionDiscriminator(nn.Sequential):
    """The logit of the target for every region's vector (R, d) (DA-Faster)."""

    def __init__(self, inputs: int, width: int = 1024) -> None:
        super().__init__(
            nn.Linear(inputs, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(width, 1),
        )  # fmt: skip


def place_and_region(places: Tensor, regions: Tensor, picture: Tensor, domain: int) -> tuple[Tensor, Tensor, Tensor]:
    """DA-Faster's losses of the logits of places (B, 1, H, W) and of regions (R, 1), and how far the probability of a
    region is from the mean over its picture."""
    image = F.binary_cross_entropy_with_logits(places, torch.full_like(places, domain))
    instance = F.binary_cross_entropy_with_logits(regions, torch.full_like(regions, domain))
    mean = places.sigmoid().mean((1, 2, 3))[picture]
    return image, instance, (mean - regions.sigmoid().squeeze(1)).square().mean()
