"""Embedded pictures whose label is a relation: do two marks, far apart, have the same colour?

One mark is near the left edge, one near the right. Their shapes are irrelevant, the background has its own colours, and
each colour of a mark is equally frequent in "same" and "different" pictures. So no part of a picture determines the
label: a network has to combine information from both sides.

:func:`relations` has marks of one size. In :func:`sizes` one half of the pictures has small marks and the other half
large ones, which resemble many more positions of the picture: the task is the same, but the signal lies at another
frequency on the graph of positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.recognition.settings import JITTER, MARK

LABELS = ("different", "same")
COLOURS = 6
_SHAPES = (
    "...###... ..#####.. .#######. ######### ######### ######### .#######. ..#####.. ...###...",
    "######### ######### ##.....## ##.....## ##.....## ##.....## ##.....## ######### #########",
    "...###... ...###... ...###... ######### ######### ######### ...###... ...###... ...###...",
    "##.....## ###...### .###.###. ..#####.. ...###... ..#####.. .###.###. ###...### ##.....##",
)
SHADES = 12
"""Number of colours in :func:`sizes`: twice as many, since large marks show their colour in many more pixels."""
SMALL, LARGE = (5, 5), (41, 9)
"""Height and width of small and large marks; large ones are tall, so that their distance is that of the small ones."""


@dataclass(frozen=True)
class Relations:
    """Pictures (N, 3, S, S) as bytes, labels (N,), and how they were generated: colours (N, 2), corners (N, 2, 2) as y,
    x, and the marks' heights and widths (N, 2)."""

    images: Tensor
    labels: Tensor
    colours: Tensor
    corners: Tensor
    extents: Tensor

    @property
    def classes(self) -> tuple[str, ...]:
        return LABELS

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])

    def centre(self, index: int, side: int) -> tuple[float, float]:
        """The middle of the left (0) or right (1) mark, as x, y."""
        y, x = (self.corners[index, side] + self.extents[index] // 2).tolist()
        return x, y

    @property
    def large(self) -> Tensor | None:
        """Mask of the pictures with large marks, (N,); None if all marks have one size."""
        large = self.extents[:, 0] == LARGE[0]
        return large if large.any() else None


def relations(count: int, size: int, noise: float, *seed: int | str) -> Relations:
    """``count`` pictures of ``size`` pixels. Exactly balanced (given either colour, both labels are equally frequent)
    when ``count`` divides by 60."""
    source = generator("relations", count, size, *seed)
    colours, label = _asked(torch.randperm(count, generator=source), COLOURS)
    y = torch.randint(0, size - MARK + 1, (count, 2), generator=source)
    x = torch.randint(0, JITTER + 1, (count, 2), generator=source)
    x[:, 1] = size - MARK - x[:, 1]
    images = _ground(count, size, noise, source)
    for side in range(2):
        _paint(images, colours[:, side], y[:, side], x[:, side], source)
    pictures = images.clamp_(0, 1).mul_(255).round_().to(torch.uint8)
    return Relations(pictures, label, colours, torch.stack([y, x], -1), torch.full((count, 2), MARK))


def sizes(count: int, size: int, noise: float, *seed: int | str) -> Relations:
    """``count`` pictures of ``size`` pixels, every second one with large marks; exactly balanced, for each size, when
    ``count`` divides by 528. Marks are ellipses, with the same noise as the background."""
    source = generator("sizes", count, size, *seed)
    order = torch.randperm(count, generator=source)
    colours, label = _asked(order // 2, SHADES)
    extents = torch.where(order[:, None] % 2 == 1, torch.tensor(LARGE), torch.tensor(SMALL))  # (N, 2)
    height, width = extents.unbind(1)
    y = (torch.rand(count, 2, generator=source) * (size - height[:, None] + 1)).long()
    x = torch.randint(0, JITTER + 1, (count, 2), generator=source)
    x[:, 1] = size - width - x[:, 1]
    images = _ground(count, size, 0.0, source)
    row, column = torch.arange(size)[:, None], torch.arange(size)
    for side in range(2):
        down = (row - y[:, side, None, None]) / (height[:, None, None] - 1) * 2 - 1
        across = (column - x[:, side, None, None]) / (width[:, None, None] - 1) * 2 - 1
        inside = down**2 + across**2 <= 1.3  # a little fuller than an ellipse
        inside &= (down.abs() <= 1) & (across.abs() <= 1)
        images = torch.where(inside[:, None], _paints(colours[:, side], SHADES)[:, :, None, None], images)
    images.add_(torch.randn(images.shape, generator=source), alpha=noise)
    pictures = images.clamp_(0, 1).mul_(255).round_().to(torch.uint8)
    return Relations(pictures, label, colours, torch.stack([y, x], -1), extents)


def _asked(order: Tensor, colours: int) -> tuple[Tensor, Tensor]:
    """Colours (N, 2) and labels (N,), with every (colour, label, step to the other colour) equally frequent."""
    left, label = order % colours, order // colours % 2
    step = order // (2 * colours) % (colours - 1) + 1
    return torch.stack([left, torch.where(label == 1, left, (left + step) % colours)], 1), label


def _ground(count: int, size: int, noise: float, source: torch.Generator) -> Tensor:
    """Background: soft clouds of pale colour, with noise."""
    clouds = torch.rand(count, 3, 5, 5, generator=source) * 0.6 + 0.2
    pale = 0.5 * clouds + 0.5 * clouds.mean(1, keepdim=True)
    ground = F.interpolate(pale, size=(size, size), mode="bilinear", align_corners=True)
    return ground.add_(torch.randn(count, 3, size, size, generator=source), alpha=noise)


def _paint(images: Tensor, colour: Tensor, y: Tensor, x: Tensor, source: torch.Generator) -> None:
    """Paints one mark of a random shape into each picture, in place."""
    atlas = torch.tensor([[[cell == "#" for cell in row] for row in rows.split()] for rows in _SHAPES])
    shape = atlas[torch.randint(0, len(_SHAPES), (len(images),), generator=source)]  # (N, 9, 9)
    paint = _paints(colour, COLOURS)
    span = torch.arange(MARK)
    place = (torch.arange(len(images))[:, None, None], y[:, None, None] + span[:, None], x[:, None, None] + span)
    canvas = images.permute(0, 2, 3, 1)  # a view: writing to it paints the pictures
    canvas[place] = torch.where(shape[..., None], paint[:, None, None], canvas[place])


def _paints(colour: Tensor, colours: int) -> Tensor:
    """RGB (N, 3) of colour numbers (N,) on a hue circle of ``colours``."""
    hue = 2 * math.pi * colour / colours
    return torch.stack([0.5 + 0.4 * torch.cos(hue - third) for third in (0, 2 * math.pi / 3, -2 * math.pi / 3)], -1)
