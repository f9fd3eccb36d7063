"""Generated natural scenes: cut-outs of photographs that move over other photographs. Every sequence is a function of
its seed, and frames are rendered on access.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.tracking.crops import Frame
from vergence.tracking.data import Track, Tracks
from vergence.tracking.settings import Scene
from vergence.tracking.synth import (
    SPEED,
    as_frame,
    brownian,
    cut_out,
    paste,
    pictures,
    random_photograph,
    reflected,
)

TILE = 96
"""Side of a cut-out in pixels."""


def natural(count: int, split: str, scene: Scene) -> Tracks:
    """Cut-outs of photographs that move, rotate and change size over other photographs, among similar distractors; in
    every fourth sequence only the camera moves, and the target is a part of the photograph itself."""
    return Tracks(tuple(_natural_track(split, index, scene) for index in range(count)))


def _natural_track(split: str, index: int, scene: Scene) -> Track:
    drawn = NaturalFrames(scene, split, index)
    motion = drawn.motion
    # A cut-out is roughly an ellipse: its extent along each axis as it rotates.
    cos, sin = motion.angle[0].cos(), motion.angle[0].sin()
    width = ((motion.width[0] * cos) ** 2 + (motion.height[0] * sin) ** 2).sqrt()
    height = ((motion.width[0] * sin) ** 2 + (motion.height[0] * cos) ** 2).sqrt()
    boxes = torch.stack([motion.x[0] - width / 2, motion.y[0] - height / 2, width, height], 1)
    return Track(f"natural-{split}-{index}", drawn, boxes.double().numpy())


@dataclass(frozen=True)
class Motion:
    """Positions of n objects in every frame: (n, frames) each. The first is the target."""

    x: Tensor
    y: Tensor
    width: Tensor
    height: Tensor
    angle: Tensor
    camera: Tensor
    """(4, frames): shift of the background along both axes, its scale and its angle."""
    light: Tensor
    """(2, frames): gain and offset."""


@dataclass(frozen=True)
class NaturalFrames:
    """Cut-outs that move over a photograph, rendered frame by frame."""

    scene: Scene
    split: str
    index: int

    def __len__(self) -> int:
        return self.scene.frames

    @property
    def pasted(self) -> bool:
        """Whether the target is a cut-out, or a part of the background."""
        return self.index % 4 != 3

    @cached_property
    def motion(self) -> Motion:
        source = generator("natural motion", self.split, self.index)
        frames, size = self.scene.frames, self.scene.size
        n = 1 + int(torch.randint(0, 4, (), generator=source))

        def drawn(low: float, high: float, shape: tuple[int, ...] = (n, 1)) -> Tensor:
            return low + (high - low) * torch.rand(shape, generator=source)

        def wandering(deviation: float, rows: int = n) -> Tensor:
            """A slow, bounded random process around 0."""
            path = brownian(rows, frames, deviation / 8, source)
            return reflected(path, -deviation, deviation)

        side = self.scene.digit * drawn(0.7, 1.6) * wandering(0.5).exp()
        ratio = drawn(-0.45, 0.45).exp() * wandering(0.12).exp()
        margin = 0.8 * self.scene.digit
        speed = SPEED * drawn(0.3, 1.6, (2, n, 1)) * size / 255
        start = drawn(margin, size - margin, (2, n, 1))
        x, y = (
            reflected(s + v * brownian(n, frames, 1.0, source), margin, size - margin)
            for s, v in zip(start, speed, strict=True)
        )
        angle = wandering(0.6)
        pan = SPEED * drawn(0.0, 1.0, (2, 1, 1)) * size / 255
        shift = torch.cat([reflected(v * brownian(1, frames, 1.0, source), -size / 5, size / 5) for v in pan])
        zoom = wandering(0.25, 1).exp()
        roll = wandering(0.15, 1)
        light = torch.cat([1 + wandering(0.25, 1), 20 * wandering(0.8, 1)])
        camera = torch.cat([shift, zoom, roll])
        if not self.pasted:  # the target is a point of the background, moved by the camera
            at = 0.4 * (torch.stack([start[0, 0], start[1, 0]]) - size / 2)  # so that it stays visible
            cos, sin = roll[0].cos(), roll[0].sin()
            x[0] = size / 2 + shift[0] + zoom[0] * (at[0] * cos - at[1] * sin)
            y[0] = size / 2 + shift[1] + zoom[0] * (at[0] * sin + at[1] * cos)
            side[0] = side[0, 0] * zoom[0]
            ratio[0] = ratio[0, 0]
            angle[0] = 0
        return Motion(x, y, side * ratio.sqrt(), side / ratio.sqrt(), angle, camera, light)

    @property
    def ground(self) -> Ground:
        source = generator("natural ground", self.split, self.index)
        photograph = random_photograph(pictures(self.scene.photographs, self.split), source)
        height, width = photograph.shape[-2:]
        across, down, large = torch.rand(3, generator=source).tolist()
        scale = 1 + large
        half = self.scene.size / scale / 2
        x, y = (half + share * max(side - 2 * half, 0) for share, side in ((across, width), (down, height)))
        return Ground(photograph, x, y, scale)

    @property
    def things(self) -> list[tuple[Tensor, Tensor]]:
        return _natural_things(self.scene, self.split, self.index, self.motion.x.shape[0])

    def __getitem__(self, index: int) -> Frame:
        motion, size = self.motion, self.scene.size
        canvas = seen(self.ground, size, *motion.camera[:, index].tolist())
        for number in reversed(range(motion.x.shape[0])):
            if number or self.pasted:
                place = (
                    float(v[number, index]) for v in (motion.x, motion.y, motion.width, motion.height, motion.angle)
                )
                paste(canvas, *self.things[number], *place)
        gain, offset = motion.light[:, index].tolist()
        noise = torch.randn(canvas.shape, generator=generator("natural noise", self.split, self.index, index))
        return as_frame(canvas * gain + offset + 3 * noise)


class Ground(NamedTuple):
    """The part of a photograph in view: its centre, and the scale of a pixel."""

    photograph: Tensor
    x: float
    y: float
    scale: float


def seen(ground: Ground, size: int, x: float, y: float, zoom: float, roll: float) -> Tensor:
    """Renders a background (3, size, size), shifted by (x, y), scaled and rotated."""
    at = torch.arange(size) + 0.5 - size / 2
    enlarged = zoom * ground.scale
    across, down = (at - x)[None, :] / enlarged, (at - y)[:, None] / enlarged
    cos, sin = math.cos(roll), math.sin(roll)
    height, width = ground.photograph.shape[-2:]
    u = (ground.x + across * cos + down * sin) * 2 / width - 1
    v = (ground.y + down * cos - across * sin) * 2 / height - 1
    grid = torch.stack([u, v], -1)[None]
    return F.grid_sample(ground.photograph[None], grid, padding_mode="reflection", align_corners=False)[0]


@lru_cache(64)
def _natural_things(scene: Scene, split: str, index: int, count: int) -> list[tuple[Tensor, Tensor]]:
    """Colours (3, TILE, TILE) and alpha (TILE, TILE) of all cut-outs; mostly from one photograph, so that distractors
    look like the target."""
    source = generator("natural things", split, index)
    paths = pictures(scene.photographs, split)
    shared = random_photograph(paths, source)
    things = []
    for _ in range(count):
        photograph = shared if torch.rand((), generator=source) < 0.7 else random_photograph(paths, source)
        most = min(photograph.shape[-2:])
        side = max(int(most * (0.12 + 0.4 * float(torch.rand((), generator=source)))), 8)
        cut = cut_out(photograph, side, side, source)
        tile = F.interpolate(cut[None], (TILE, TILE), mode="bilinear", antialias=True, align_corners=False)[0]
        things.append((tile, blob(TILE, source)))
    return things


def blob(side: int, source: torch.Generator) -> Tensor:
    """A soft-edged round shape (side, side) of 0 to 1 with a wavy outline that touches all four sides, nearly."""
    at = (torch.arange(side) + 0.5) / side * 2 - 1
    radius = (at[None] ** 2 + at[:, None] ** 2).sqrt()
    angle = torch.atan2(at[:, None].expand(side, side), at[None].expand(side, side))
    outline = torch.full_like(angle, 0.9)
    for waves in range(2, 6):
        weight, phase = (torch.rand(2, generator=source) * torch.tensor([0.16 / waves, 2 * math.pi])).tolist()
        outline += weight * (torch.cos(waves * angle + phase) - 0.5)
    return ((outline - radius) * side / 4).clamp(0, 1)
