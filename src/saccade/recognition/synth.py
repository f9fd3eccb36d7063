"""Embedded pictures whose label is a relation: do two marks, far apart, have the same colour?

One mark is near the left edge, one near the right. Their shapes say nothing, the ground has colours of its own, and
each colour of a mark is as often in a "same" picture as in a "different" one. So no part of a picture tells the label:
a network answers only if what it sees on one side can meet what it sees on the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from saccade.seeding import generator

LABELS = ("different", "same")
COLOURS = 6
MARK = 9
"""Side of a mark in pixels."""
JITTER = 2
"""How far from its edge, left or right, a mark may stand."""
LEAST = 2 * (MARK + JITTER)
"""Side of the smallest picture in which the marks cannot touch."""
_SHAPES = (
    "...###... ..#####.. .#######. ######### ######### ######### .#######. ..#####.. ...###...",
    "######### ######### ##.....## ##.....## ##.....## ##.....## ##.....## ######### #########",
    "...###... ...###... ...###... ######### ######### ######### ...###... ...###... ...###...",
    "##.....## ###...### .###.###. ..#####.. ...###... ..#####.. .###.###. ###...### ##.....##",
)


@dataclass(frozen=True)
class Relations:
    """Pictures (N, 3, S, S) as bytes, labels (N,), and what decided them: colours (N, 2), corners (N, 2, 2) as y, x."""

    images: Tensor
    labels: Tensor
    colours: Tensor
    corners: Tensor

    @property
    def classes(self) -> tuple[str, ...]:
        return LABELS

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


def relations(count: int, size: int, noise: float, *seed: int | str) -> Relations:
    """``count`` pictures of ``size`` pixels. Exactly balanced (given either colour, both labels are equally frequent)
    when ``count`` divides by 60."""
    source = generator("relations", count, size, *seed)
    # Every (colour, label, step to the other colour) equally often, in random order.
    order = torch.randperm(count, generator=source)
    left, label = order % COLOURS, order // COLOURS % 2
    step = order // (2 * COLOURS) % (COLOURS - 1) + 1
    colours = torch.stack([left, torch.where(label == 1, left, (left + step) % COLOURS)], 1)  # (N, 2)

    y = torch.randint(0, size - MARK + 1, (count, 2), generator=source)
    x = torch.randint(0, JITTER + 1, (count, 2), generator=source)
    x[:, 1] = size - MARK - x[:, 1]
    images = _ground(count, size, noise, source)
    for side in range(2):
        _paint(images, colours[:, side], y[:, side], x[:, side], source)
    pictures = images.clamp_(0, 1).mul_(255).round_().to(torch.uint8)
    return Relations(pictures, label, colours, torch.stack([y, x], -1))


def _ground(count: int, size: int, noise: float, source: torch.Generator) -> Tensor:
    """Soft clouds of pale colour, with grain."""
    clouds = torch.rand(count, 3, 5, 5, generator=source) * 0.6 + 0.2
    pale = 0.5 * clouds + 0.5 * clouds.mean(1, keepdim=True)
    ground = F.interpolate(pale, size=(size, size), mode="bilinear", align_corners=True)
    return ground.add_(torch.randn(count, 3, size, size, generator=source), alpha=noise)


def _paint(images: Tensor, colour: Tensor, y: Tensor, x: Tensor, source: torch.Generator) -> None:
    """One mark into each picture, in a shape drawn at random."""
    atlas = torch.tensor([[[cell == "#" for cell in row] for row in rows.split()] for rows in _SHAPES])
    shape = atlas[torch.randint(0, len(_SHAPES), (len(images),), generator=source)]  # (N, 9, 9)
    hue = 2 * math.pi * colour / COLOURS
    paint = torch.stack([0.5 + 0.4 * torch.cos(hue - third) for third in (0, 2 * math.pi / 3, -2 * math.pi / 3)], -1)
    span = torch.arange(MARK)
    place = (torch.arange(len(images))[:, None, None], y[:, None, None] + span[:, None], x[:, None, None] + span)
    canvas = images.permute(0, 2, 3, 1)  # a view: writing to it paints the pictures
    canvas[place] = torch.where(shape[..., None], paint[:, None, None], canvas[place])
