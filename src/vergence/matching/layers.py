"""Stereo pairs of flat layers: shapes cut from photographs, slanted, one before the other, with exact disparity.

They are drawn in a tenth of a second, so that a training never sees one twice. Both pictures look textures up at the
exact place: a pixel of the right picture knows where it is in the left one, because a plane's disparity is linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.data.photographs import Share, photographs
from vergence.matching.stereo import Sample


@dataclass(frozen=True)
class _Layer:
    """A plane with a texture, within an outline."""

    plane: tuple[float, float, float]
    """Disparity at the left picture's centre, and its slope to the right and down."""
    texture: Tensor
    place: Tensor
    """From pixels of the left picture to the texture, (2, 3)."""
    contrast: float
    outline: tuple[Tensor, Tensor, Tensor] | None
    """Centre (2,), waves of the radius (2, n), and the two axes (2, 2); None for the whole picture."""

    def disparity(self, x: Tensor, y: Tensor) -> Tensor:
        at, right, down = self.plane
        return at + right * x + down * y

    def left_of(self, x: Tensor, y: Tensor) -> Tensor:
        """Where a pixel of the right picture is in the left one."""
        at, right, down = self.plane
        return (x + at + down * y) / (1 - right)

    def colours(self, x: Tensor, y: Tensor) -> Tensor:
        """(3, H, W), from 0 to 1."""
        where = torch.stack([x, y, torch.ones_like(x)], -1) @ self.place.mT
        looked = F.grid_sample(self.texture[None], where[None], padding_mode="reflection", align_corners=False)[0]
        mean = looked.mean((1, 2), keepdim=True)
        return (mean + self.contrast * (looked - mean)) / 255

    def cover(self, x: Tensor, y: Tensor) -> Tensor:
        """How much of a pixel it covers, from 0 to 1."""
        if self.outline is None:
            return torch.ones_like(x)
        centre, waves, axes = self.outline
        u, v = ((torch.stack([x, y], -1) - centre) @ axes).unbind(-1)
        distance = torch.hypot(u, v).clamp_min(1e-6)
        once = torch.complex(u / distance, v / distance)
        wave, radius = once, torch.ones_like(u)
        for even, odd in waves.mT.tolist():  # cosines and sines of 2, 3, ... times the angle
            wave = wave * once
            radius = radius + even * wave.real + odd * wave.imag
        pixels = (radius - distance) / axes.norm(dim=0).max()
        return (pixels + 0.5).clamp(0, 1)


def layered_pair(source: torch.Generator, height: int, width: int, most: float, share: Share = "train") -> Sample:
    """A random pair (3, height, width) with disparities from 0 to ``most``."""
    far = most * _between(source, 0.0, 0.35)
    layers = [_layer(source, height, width, far, most, share, whole=True)]
    count = int(torch.randint(3, 10, (), generator=source))
    depths = sorted(_between(source, far, 0.95 * most) for _ in range(count))
    layers += [_layer(source, height, width, depth, most, share, whole=False) for depth in depths]
    # Pixels are counted from the centre.
    y, x = torch.meshgrid(torch.arange(height) - (height - 1) / 2, torch.arange(width) - (width - 1) / 2, indexing="ij")
    left, disparity, owner = _drawn(layers, [x] * len(layers), y)
    right, _, other = _drawn(layers, [layer.left_of(x, y) for layer in layers], y)
    target = (x - disparity + (width - 1) / 2).round().long()
    inside = (target >= 0) & (target < width)
    visible = inside & (other.gather(1, target.clamp(0, width - 1)) == owner)
    valid = (disparity >= 0) & (disparity < most)
    return Sample("layers", left, right, disparity.clamp(0, most), valid, visible)


def _drawn(layers: list[_Layer], places: list[Tensor], y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A picture (bytes), and disparity and layer of each pixel; nearer layers come later."""
    colours, disparity = torch.zeros(3, *y.shape), torch.zeros_like(y)
    owner = torch.zeros(y.shape, dtype=torch.long)
    for number, (layer, x) in enumerate(zip(layers, places, strict=True)):
        cover = layer.cover(x, y)
        if number and not cover.any():
            continue
        colours = colours + cover * (layer.colours(x, y) - colours)
        disparity = torch.where(cover > 0.5, layer.disparity(x, y), disparity)
        owner = torch.where(cover > 0.5, number, owner)
    return (colours.clamp(0, 1) * 255).round().to(torch.uint8), disparity, owner


def _layer(
    source: torch.Generator, height: int, width: int, depth: float, most: float, share: Share, *, whole: bool
) -> _Layer:
    textures = photographs(share)
    texture = textures[int(torch.randint(len(textures), (), generator=source))]
    angle, size = _between(source, -math.pi, math.pi), 2.0 ** _between(source, -2.5, 0.5)
    cos, sin = math.cos(angle) / size, math.sin(angle) / size
    scale = 2 / torch.tensor(texture.shape[:0:-1]).float()
    turn = torch.tensor([[cos, -sin], [sin, cos]]) * scale.unsqueeze(1)
    place = torch.cat([turn, torch.rand(2, 1, generator=source) * 2 - 1], 1)
    contrast = 1.0 if _between(source, 0, 1) < 0.8 else _between(source, 0.2, 0.8)
    reach = most * _between(source, 0, 0.6 if whole else 0.25)
    way = _between(source, -math.pi, math.pi)
    slopes = (reach * math.cos(way) / width, reach * math.sin(way) / height)
    outline = None
    if not whole:
        centre = (torch.rand(2, generator=source) - 0.5) * torch.tensor([float(width), float(height)])
        waves = torch.randn(2, 3, generator=source) * torch.tensor([0.12, 0.08, 0.05])
        long = height * _between(source, 0.08, 0.5)
        thin = _between(source, 2, 8) if _between(source, 0, 1) < 0.3 else long * _between(source, 0.3, 1)
        tilt = _between(source, -math.pi, math.pi)
        axes = torch.tensor([[math.cos(tilt), -math.sin(tilt)], [math.sin(tilt), math.cos(tilt)]])
        outline = (centre, waves, axes / torch.tensor([long, thin]))
    x, y = outline[0].tolist() if outline else (0.0, 0.0)
    at = depth - slopes[0] * x - slopes[1] * y
    return _Layer((at, *slopes), texture, place, contrast, outline)


def _between(source: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=source))
