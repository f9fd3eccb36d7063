"""Small colour pictures to train classifiers on: eight kinds of rendered things; and a curve in 20 dimensions.

The pictures look like CIFAR-10's, with a spectrum that falls somewhat faster: 200 principal components keep 97.1 % of
the variance, 500 keep 99.4 % (in CIFAR-10, 300 keep 96.85 % and 800 keep 99.40 %). Test pictures have textures and
grounds from photographs that training never sees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.images import flipped, padded_crop, resized, scaled
from vergence.data.photographs import Share
from vergence.data.rendered import rendered
from vergence.recognition.data import Labelled
from vergence.recognition.objects import picture

KINDS = ("chair", "bottle", "lamp", "car", "bicycle", "sign", "person", "tree")
FINER = 1.5
"""Pixels of a rendered picture for one of the result, along a side."""
DIMENSIONS = 20
"""Of the space around the curve."""
CODE = ("vergence.robustness.things", "vergence.recognition.objects", "vergence.rendering")


@cache
def things(count: int, side: int, split: str) -> Labelled:
    """``count`` pictures of ``side`` pixels, the same number of each kind (give or take one); ``val`` is ``test``."""
    split = "train" if split == "train" else "test"
    asked = {"count": count, "side": side, "split": split}
    tensors = rendered("things", asked, CODE, lambda: _rendered(count, side, split))
    return Labelled(tensors["images"], tensors["labels"], KINDS)


def _rendered(count: int, side: int, split: str) -> dict[str, Tensor]:
    share: Share = "train" if split == "train" else "test"
    labels = torch.arange(count) % len(KINDS)
    finer = round(FINER * side)  # as CIFAR's pictures, these were larger once: that takes the grain out of them
    larger = [picture(KINDS[int(k)], finer, share, generator("things", split, n)) for n, k in enumerate(labels)]
    images = [(255 * resized(scaled(each), side, side).clamp(0, 1)).round().to(torch.uint8) for each in larger]
    return {"images": torch.stack(images), "labels": labels}


@dataclass(frozen=True)
class Framed:
    """Labelled pictures in [0, 1] of one size, (channels, side, side); ``draw`` shifts and mirrors for training."""

    data: Any
    side: int
    channels: int
    shift: int = 0
    """Largest shift in pixels: a crop after padding with zeros."""
    mirror: bool = False

    @property
    def classes(self) -> tuple[str, ...]:
        classes: tuple[str, ...] = self.data.classes
        return classes

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        taken, label = self.data[index]
        image = resized(scaled(taken), self.side, self.side).clamp(0, 1)
        if self.channels == 1 and len(image) == 3:
            image = image.mean(0, keepdim=True)
        return image, label

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, int]:
        image, label = self[index]
        if self.shift:
            image = padded_crop(image, self.shift, generator)
        return (flipped(image, generator) if self.mirror else image), label


@dataclass(frozen=True)
class Points:
    """Labelled points in the shape of pictures, (N, 1, 1, D)."""

    points: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.points[index], int(self.labels[index])


def curve(count: int, split: str, seed: int = 0) -> Points:
    """A curve in 20 dimensions whose class is easy to read off a small direction and hard off the large one.

    A point is ``(s, 0.1 sin(pi s), 0, ..., 0)`` with s uniform from -3 to 3, plus normal noise of 0.01; its class is
    the sign of the sine. The first principal component is s, along which the classes alternate.
    """
    source = generator("curve", split, seed)
    s = 6 * torch.rand(count, generator=source) - 3
    wave = torch.sin(math.pi * s)
    points = F.pad(torch.stack([s, 0.1 * wave], 1), (0, DIMENSIONS - 2))
    points += 0.01 * torch.randn(points.shape, generator=source)
    return Points(points.view(-1, 1, 1, DIMENSIONS), (wave > 0).long(), ("below", "above"))
