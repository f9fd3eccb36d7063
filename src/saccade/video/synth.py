"""Embedded clips whose class is a motion: coloured, shaded objects drift over cluttered ground and turn as they go, all
by the same angle from frame to frame.

An object starts anywhere, goes its own way at its own speed, has a colour and grain of its own, and is shaded from a
dark to a light side that first looks in any of four directions. So each frame by itself, and whatever is added up over
places or over time, looks alike in all classes: the angle shows only to who compares an object with itself. At a fixed
place of the picture that is possible while the object is still there, and it moves on by up to a patch a frame.

The picture is a torus (what leaves on one side comes in on the other), and a clip played backwards is a clip of the
opposite turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from saccade.data.video import Video
from saccade.errors import SaccadeError
from saccade.seeding import generator
from saccade.video.data import Kept

TURNS = ("keeps its way", "turns clockwise", "turns about", "turns anticlockwise")
"""By 0, 1, 2 and 3 quarters from frame to frame."""


_STEPS = torch.tensor([[y, x] for y in (-1, 0, 1) for x in (-1, 0, 1) if y or x])


@dataclass(frozen=True)
class Scene:
    """What the clips are like."""

    frames: int = 4
    """Frames of a clip."""
    size: int = 48
    """Side of a frame, in pixels."""
    objects: int = 16
    """Objects in a clip."""
    side: int = 8
    """Side of an object, in pixels."""
    moving: float = 0.8
    """Chance that an object moves on from one frame to the next, by its own side, in one of eight directions."""
    cells: int = 4
    """Patches of colour along the side of an object."""
    jitter: int = 0
    """Pixels by which an object may be off, in every frame anew."""
    clutter: float = 0.5
    """How strong the ground's texture is (the objects' colours: 1)."""
    shade: float = 1.2
    """How strong the shading is."""
    noise: float = 0.05
    """Grain, new in every frame."""


@dataclass(frozen=True)
class Turning:
    """Clips (N, T, 3, S, S) as bytes, labels (N,), and what decided them: corners (N, T, K, 2) of the objects as y, x,
    and the quarter (N, T, K) that each one's light side looks to."""

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


def turning(count: int, scene: Scene, *seed: int | str) -> Turning:
    """``count`` clips, every class equally often when ``count`` divides by 4."""
    if not 0 < scene.side <= scene.size or scene.objects < 1 or scene.frames < 1:
        raise SaccadeError(f"objects of {scene.side} pixels do not fit frames of {scene.size}")
    source = generator("turning", count, *map(str, vars(scene).values()), *seed)
    shape = (count, scene.objects)
    labels = torch.randperm(count, generator=source) % len(TURNS)
    start = torch.randint(0, 4, shape, generator=source)
    times = torch.arange(scene.frames)
    cells = scene.size // scene.side
    first = torch.rand(count, cells * cells, generator=source).argsort(1)[:, : scene.objects]
    first = torch.stack([first // cells, first % cells], -1)[:, None]
    steps = _STEPS[torch.randint(0, 8, (count, scene.frames - 1, 1), generator=source)]
    steps = steps * (torch.rand(steps.shape[:-1], generator=source) < scene.moving)[..., None]
    walked = torch.cat([first, first + steps.cumsum(1)], 1)
    off = torch.randint(-scene.jitter, scene.jitter + 1, walked.shape, generator=source)
    corners = (walked * scene.side + off) % scene.size
    turned = (times >= scene.frames // 2)[:, None]
    quarters = (start[:, None] + turned * labels[:, None, None]) % 4
    ground = scene.clutter * _cells((count,), scene.size, scene.size // 4, source)
    textures = 1.4 * _unshaded(_cells(shape, scene.side, scene.cells, source))
    clips = ground[:, None].repeat(1, scene.frames, 1, 1, 1)
    _paint(clips, corners, quarters, textures, scene.shade)
    clips += scene.noise * torch.randn(clips.shape, generator=source)
    return Turning(clips.mul_(32).add_(128).clamp_(0, 255).round_().to(torch.uint8), labels, corners, quarters)


def _paint(clips: Tensor, corners: Tensor, quarters: Tensor, textures: Tensor, shade: float) -> None:
    """Objects into clips (N, T, 3, S, S), later ones over earlier ones."""
    count, frames, _, size, _ = clips.shape
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
        y = (corners[:, :, number, 0, None, None] + span[:, None]) % size
        x = (corners[:, :, number, 1, None, None] + span) % size
        shaded = textures[:, None, number] + shades[quarters[:, :, number], None]
        canvas[clip, frame, y, x] = shaded.permute(0, 1, 3, 4, 2)


def _unshaded(textures: Tensor) -> Tensor:
    """Textures (..., 3, side, side) without any shading of their own from left to right or from top to bottom."""
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
