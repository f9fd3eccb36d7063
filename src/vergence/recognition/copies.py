"""Augmented copies of a batch that need no memory: a seed makes any of them again, to the bit.

All copies of a chunk are warped by one call: one affine map per copy and picture, then brightness and contrast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import derive

DRAWS = 6
"""Random numbers of a copy: two shifts, a rotation, a flip, brightness and contrast."""


class Changes(Protocol):
    """How far copies may differ from their picture."""

    @property
    def shift(self) -> int: ...
    @property
    def turn(self) -> float: ...
    @property
    def jitter(self) -> float: ...
    @property
    def flip(self) -> bool: ...


@dataclass(frozen=True)
class Copies:
    """``count`` copies of pictures (B, C, H, W) from 0 to 1.

    Beside the pictures it holds a seed: copies are made when a chunk is asked for, and made again for the next pass.
    """

    pictures: Tensor
    count: int
    changes: Changes
    seed: int

    def chunks(self, size: int) -> Iterator[tuple[range, Tensor]]:
        """Copies in chunks of ``size``: their numbers, and pictures (n · B, C, H, W), copy after copy."""
        for first in range(0, self.count, size):
            numbers = range(first, min(first + size, self.count))
            yield numbers, self.made(numbers)

    def made(self, numbers: range) -> Tensor:
        """Some of the copies, (n · B, C, H, W)."""
        draws = torch.stack([self._draws(number) for number in numbers])  # (n, 6, B)
        warped = warp(self.pictures, draws.to(self.pictures), self.changes)
        return jittered(warped, draws.to(warped), self.changes.jitter)

    def _draws(self, number: int) -> Tensor:
        """The random numbers of a copy, (6, B): they depend on the seed and its number alone, not on the chunk."""
        source = torch.Generator().manual_seed(derive(self.seed, "copy", number))
        return torch.rand(DRAWS, len(self.pictures), generator=source)


def warp(pictures: Tensor, draws: Tensor, changes: Changes) -> Tensor:
    """Shifted, turned and flipped copies (n · B, C, H, W) of pictures (B, C, H, W), by ``draws`` (n, 6, B); beyond its
    border a picture continues with its outermost pixels."""
    copies, (batch, channels, height, width) = len(draws), pictures.shape
    grid = F.affine_grid(poses(draws, height, width, changes), [copies * batch, channels, height, width], False)
    # The copies of a picture are stacked below each other in one grid, so that pictures need not be repeated.
    tall = grid.view(copies, batch, height, width, 2).transpose(0, 1).reshape(batch, copies * height, width, 2)
    seen = F.grid_sample(pictures, tall, padding_mode="border", align_corners=False)
    return seen.view(batch, channels, copies, height, width).permute(2, 0, 1, 3, 4).reshape(-1, channels, height, width)


def poses(draws: Tensor, height: int, width: int, changes: Changes) -> Tensor:
    """Affine maps (n · B, 2, 3) from places in a copy to places in its picture, both from -1 to 1."""
    down, across, turn, flip = (draws[:, row].flatten() for row in range(4))
    # Whole pixels, as a random crop after padding has them.
    down, across = (((2 * changes.shift + 1) * u).floor() - changes.shift for u in (down, across))
    angle = (2 * turn - 1) * math.radians(changes.turn)
    side = torch.where(flip < 0.5, -1.0, 1.0) if changes.flip else torch.ones_like(flip)
    cos, sin, aspect = angle.cos(), angle.sin(), height / width
    rows = [side * cos, -aspect * sin, 2 * across / width, side * sin / aspect, cos, 2 * down / height]
    return torch.stack(rows, -1).view(-1, 2, 3)


def jittered(pictures: Tensor, draws: Tensor, jitter: float) -> Tensor:
    """Copies (n · B, C, H, W) with another brightness and contrast, by ``draws`` (n, 6, B)."""
    if not jitter:
        return pictures
    light, contrast = (1 + jitter * (2 * draws[:, row].reshape(-1, 1, 1, 1) - 1) for row in (4, 5))
    mean = pictures.mean((1, 2, 3), keepdim=True)
    # light * (mean + contrast * (picture - mean)), in two passes over the pictures
    return torch.addcmul(light * (1 - contrast) * mean, pictures, light * contrast).clamp_(0, 1)
