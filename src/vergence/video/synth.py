"""Embedded clips whose class is a rotation: textured objects move over a cluttered background and turn half-way.

Each object has its own texture and is shaded from a dark to a light side, which initially faces one of four directions;
in the middle of the clip all of them rotate by the same angle, or not at all. Single frames and sums over positions
therefore have the same distribution in all classes: only comparing an object with itself over time reveals the class.
Between frames the objects usually move together, by their own side length, so that a fixed position then shows another
object or the background.

The picture is a torus (what leaves on one side enters on the other), and a clip played backwards has the opposite
rotation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.video import Video
from vergence.video.data import Kept
from vergence.video.settings import Scene

TURNS = ("keeps its way", "turns clockwise", "turns about", "turns anticlockwise")
"""By 0, 1, 2 and 3 quarters."""
TEXTURE = 1.4
"""Strength of the objects' textures: it outweighs the shading, so that an object stays recognisable when it turns."""
_STEPS = torch.tensor([[y, x] for y in (-1, 0, 1) for x in (-1, 0, 1) if y or x])


@dataclass(frozen=True)
class Turning:
    """Clips (N, T, 3, S, S) as bytes, labels (N,), and how they were generated: corners (N, T, K, 2) of the objects as
    y, x, and the direction (N, T, K) of each one's light side, in quarter turns."""

    clips: Tensor
    labels: Tensor
    corners: Tensor
    quarters: Tensor

    @property
    def classes(self) -> tuple[str, ...]:
        return TURNS

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.clips[index], int(self.labels[index])

    def video(self, index: int) -> tuple[Video, int]:
        return Kept(f"clip {index}", self.clips[index]), int(self.labels[index])


def turning(count: int, frames: int, size: int, scene: Scene, *seed: int | str) -> Turning:
    """``count`` clips of ``size`` pixels, every class equally often when ``count`` divides by 4."""
    scene.check(frames, size)
    source = generator("turning", count, frames, size, *map(str, vars(scene).values()), *seed)
    shape, cells = (count, scene.objects), size // scene.side
    labels = torch.randperm(count, generator=source) % len(TURNS)
    # No two objects share a cell, and all take the same steps, so none ever occludes another.
    first = torch.rand(count, cells * cells, generator=source).argsort(1)[:, : scene.objects]
    steps = _STEPS[torch.randint(0, len(_STEPS), (count, frames - 1), generator=source)]
    steps = steps * (torch.rand(count, frames - 1, 1, generator=source) < scene.moving)
    walked = F.pad(steps.cumsum(1), (0, 0, 1, 0))  # (N, T, 2)
    corners = (torch.stack([first // cells, first % cells], -1)[:, None] + walked[:, :, None]) % cells * scene.side
    start = torch.randint(0, 4, shape, generator=source)
    after = torch.arange(frames) >= frames // 2
    quarters = (start[:, None] + after[:, None] * labels[:, None, None]) % 4
    clips = scene.clutter * _cells((count, 1), size, size // 4, source).repeat(1, frames, 1, 1, 1)
    _paint(clips, corners, quarters, TEXTURE * _unshaded(_cells(shape, scene.side, 4, source)), scene.shade)
    clips += scene.noise * torch.randn(clips.shape, generator=source)
    return Turning(clips.mul_(32).add_(128).clamp_(0, 255).round_().to(torch.uint8), labels, corners, quarters)


def _paint(clips: Tensor, corners: Tensor, quarters: Tensor, textures: Tensor, shade: float) -> None:
    """Paints objects into clips (N, T, 3, S, S), in place."""
    count, frames = clips.shape[:2]
    side = textures.shape[-1]
    span = torch.arange(side)
    ramp = torch.linspace(-1, 1, side)
    # Light to the right, below, to the left, above: each a quarter turn clockwise from the one before.
    shades = shade * torch.stack([ramp.expand(side, side), ramp[:, None].expand(side, side)] * 2)
    shades[2:] *= -1
    clip = torch.arange(count)[:, None, None, None]
    frame = torch.arange(frames)[None, :, None, None]
    canvas = clips.permute(0, 1, 3, 4, 2)  # a view: writing to it paints the clips
    for number in range(corners.shape[2]):
        y = corners[:, :, number, 0, None, None] + span[:, None]
        x = corners[:, :, number, 1, None, None] + span
        shaded = textures[:, None, number] + shades[quarters[:, :, number], None]
        canvas[clip, frame, y, x] = shaded.permute(0, 1, 3, 4, 2)


def _unshaded(textures: Tensor) -> Tensor:
    """Removes horizontal and vertical linear shading from textures (..., 3, side, side)."""
    side = textures.shape[-1]
    ramp = torch.linspace(-1, 1, side)
    ramp = ramp / ramp.norm() / (3 * side) ** 0.5
    for shading in (ramp.expand(3, side, side), ramp[:, None].expand(3, side, side)):
        textures = textures - (textures * shading).sum((-3, -2, -1), keepdim=True) * shading
    return textures


def _cells(shape: tuple[int, ...], side: int, cells: int, source: torch.Generator) -> Tensor:
    """Random colours (..., 3, side, side) in a coarse grid."""
    flat = torch.randn(math.prod(shape), 3, cells, cells, generator=source)
    return F.interpolate(flat, (side, side), mode="nearest").unflatten(0, shape)
