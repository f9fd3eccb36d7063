"""Photographs that fly over photographs: pairs of pictures with exact flow, drawn in milliseconds.

In the manner of FlyingChairs: a photograph in the background and cut-outs of others, large and small, each with an
affine motion of its own. Outlines are closed curves given by a formula, so that what covers what is known exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import Share, photographs
from vergence.data.rendered import rendered
from vergence.rendering.pairs import FlowPair
from vergence.rendering.things import choice, uniform
from vergence.rendering.views import exposed

CODE = ("vergence.matching.flying", "vergence.rendering.pairs", "vergence.data.photographs")
SMALL = 0.01
"""Cut-outs below this share of the picture are small things."""


@dataclass(frozen=True)
class Layer:
    """A photograph, or a cut-out of one, and where it is in each picture."""

    texture: Tensor
    """(3, h, w), from 0 to 1."""
    place: Tensor
    """(2, 2, 3): for each picture the affine map from its pixels to those of the texture, about the layer's centre."""
    radii: Tensor | None
    """Fourier coefficients of the outline's radius, (2, n); None for the background."""
    size: float
    """Mean radius of the outline in pixels of the first picture."""

    def offsets(self, points: Tensor, time: int) -> Tensor:
        """Points (..., 2) of a picture in the layer's own axes."""
        return points @ self.place[time, :, :2].mT + self.place[time, :, 2]

    def covers(self, points: Tensor, time: int) -> Tensor:
        """Which points of a picture it covers, (...)."""
        if self.radii is None:
            return torch.ones(points.shape[:-1], dtype=torch.bool)
        own = self.offsets(points, time)
        angle = torch.atan2(own[..., 1], own[..., 0])
        order = torch.arange(1, self.radii.shape[1] + 1)
        waves = angle.unsqueeze(-1) * order
        radius = self.size * (1 + (self.radii[0] * waves.cos() + self.radii[1] * waves.sin()).sum(-1))
        return own.norm(dim=-1) < radius

    def colours(self, points: Tensor, time: int) -> Tensor:
        """(3, H, W) at points (H, W, 2) of a picture; photographs are mirrored at their borders."""
        height, width = self.texture.shape[-2:]
        grid = self.offsets(points, time) * 2 / torch.tensor([width, height])
        return F.grid_sample(self.texture[None], grid[None], "bilinear", "reflection", align_corners=False)[0]

    def moved(self, points: Tensor, time: int) -> Tensor:
        """Where points (..., 2) of this layer in one picture are in the other one."""
        other = self.place[1 - time]
        return (self.offsets(points, time) - other[:, 2]) @ torch.linalg.inv(other[:, :2]).mT


def flying_pair(source: torch.Generator, height: int, width: int, most: float, share: Share = "train") -> FlowPair:
    """A background that moves by up to half of ``most`` pixels, three to eight cut-outs by up to ``most``, and about
    half of these small."""
    shots = photographs(share)
    layers = [_layer(source, shots, height, width, most / 2, None)]
    for _ in range(3 + choice(source, 6)):
        radius = (0.018 if choice(source, 2) else 0.11) * uniform(source, 0.8, 2.2) * width
        layers.append(_layer(source, shots, height, width, most, radius))
    points = torch.stack(torch.meshgrid(torch.arange(width), torch.arange(height), indexing="xy"), -1).float()
    tops = [_top(layers, points, time) for time in (0, 1)]
    pictures, flows, seen = [], [], []
    for time in (0, 1):
        fine = _fine(points)
        picture, goes = torch.zeros(3, 2 * height, 2 * width), torch.zeros(height, width, 2)
        top = _top(layers, fine, time)
        for number, layer in enumerate(layers):
            if bool((top == number).any()):
                picture = torch.where(top == number, layer.colours(fine, time), picture)
            goes = torch.where((tops[time] == number).unsqueeze(-1), layer.moved(points, time), goes)
        pictures.append(F.avg_pool2d(picture, 2))
        flows.append((goes - points).permute(2, 0, 1))
        within = (goes >= 0).all(-1) & (goes <= torch.tensor([width - 1.0, height - 1.0])).all(-1)
        seen.append(within & (_top(layers, goes, 1 - time) == tops[time]))
    small = torch.zeros(height, width, dtype=torch.bool)
    for number in range(1, len(layers)):
        own = tops[0] == number
        if 0 < float(own.float().mean()) < SMALL and layers[number].size < 0.06 * width:
            small |= own
    first, second = ((exposed(p, source) * 255).round().clamp(0, 255).to(torch.uint8) for p in pictures)
    return FlowPair(first, second, flows[0], seen[0], flows[1], seen[1], small)


def _layer(
    source: torch.Generator, shots: list[Tensor], height: int, width: int, most: float, radius: float | None
) -> Layer:
    texture = shots[choice(source, len(shots))] / 255
    zoom = math.exp(uniform(source, -0.5, 0.5)) * (1.0 if radius is None else 1.5)
    around = torch.tensor([uniform(source, 0.05, 0.95) * width, uniform(source, 0.05, 0.95) * height])
    angle = uniform(source, -0.5, 0.5)
    base = _turned(angle, zoom)
    turn = uniform(source, -0.06, 0.06) if radius is None else uniform(source, -0.3, 0.3)
    grow = math.exp(uniform(source, -0.06, 0.06) if radius is None else uniform(source, -0.15, 0.15))
    way = uniform(source, 0, 2 * math.pi)
    shift = most * uniform(source, 0.05, 0.8) * torch.tensor([math.cos(way), math.sin(way)])
    # The second picture's pixels are turned, grown and shifted back to where they were in the first one.
    back = _turned(turn, 1 / grow)
    matrices = torch.stack([base, base @ back])
    centres = torch.stack([around, around + shift])
    start = _anywhere(source, texture) if radius is None else torch.zeros(2)
    offsets = start - (matrices @ centres.unsqueeze(-1)).squeeze(-1)
    place = torch.cat([matrices, offsets.unsqueeze(-1)], -1)
    if radius is None:
        return Layer(texture, place, None, float(max(height, width)))
    waves = torch.randn(2, 5, generator=source) * torch.tensor([0.12, 0.12, 0.07, 0.04, 0.03])
    return Layer(_cut(source, texture, 2.5 * radius * zoom), place, waves, radius * zoom)


def _turned(angle: float, zoom: float) -> Tensor:
    cos, sin = math.cos(angle) * zoom, math.sin(angle) * zoom
    return torch.tensor([[cos, -sin], [sin, cos]])


def _anywhere(source: torch.Generator, texture: Tensor) -> Tensor:
    return torch.tensor([uniform(source, -0.3, 0.3) * side for side in (texture.shape[-1], texture.shape[-2])])


def _cut(source: torch.Generator, texture: Tensor, reach: float) -> Tensor:
    """A part of a photograph with something to see in it, and a tint of its own."""
    side = max(min(math.ceil(2 * reach), *texture.shape[-2:]), 8)
    best, spread = None, -1.0
    for _ in range(4):
        top, left = (choice(source, max(n - side, 0) + 1) for n in texture.shape[-2:])
        part = texture[:, top : top + side, left : left + side]
        if float(part.std()) > spread:
            best, spread = part, float(part.std())
    assert best is not None
    tint = 0.6 + 0.8 * torch.rand(3, 1, 1, generator=source)
    return (best * tint + 0.25 * (torch.rand(3, 1, 1, generator=source) - 0.5)).clamp(0, 1)


def _top(layers: list[Layer], points: Tensor, time: int) -> Tensor:
    """The number of the layer that is seen at each point."""
    top = torch.zeros(points.shape[:-1], dtype=torch.long)
    for number, layer in enumerate(layers[1:], 1):
        top = torch.where(layer.covers(points, time), number, top)
    return top


def _fine(points: Tensor) -> Tensor:
    """Four points in each pixel, (2 H, 2 W, 2)."""
    steps = torch.tensor([-0.25, 0.25])
    x = (points[0, :, 0].unsqueeze(1) + steps).flatten()
    y = (points[:, 0, 1].unsqueeze(1) + steps).flatten()
    return torch.stack(torch.meshgrid(x, y, indexing="xy"), -1)


def flying_pairs(
    count: int, height: int, width: int, most: float, seed: tuple[int | str, ...], share: Share = "train"
) -> dict[str, Tensor]:
    """``count`` pairs, field by field as in :class:`vergence.rendering.pairs.FlowPair`; flow in half precision."""

    def draw() -> dict[str, Tensor]:
        pairs = [flying_pair(generator("flying", *seed, n), height, width, most, share) for n in range(count)]
        names = ("first", "second", "flow", "visible", "backward", "backward_visible", "small")
        whole = {name: torch.stack([getattr(pair, name) for pair in pairs]) for name in names}
        return {name: value.half() if value.is_floating_point() else value for name, value in whole.items()}

    asked = {"count": count, "size": (height, width), "most": most, "seed": seed, "share": share}
    return rendered("flying", asked, CODE, draw)
