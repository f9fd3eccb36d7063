"""Embedded fine-grained pictures: birds whose kind is the mark of the head and the plumage of the wing together.

A head is plain, capped, masked or collared, a wing plain, barred, streaked or spotted: 16 kinds. The bird stands
somewhere in front of a photograph, it turns its head and lifts its wing independently, and all colours are drawn at
random, so that neither colour nor place nor any one part tells the kind.

With *shared* marks heads have the plumages of wings: a barred head with a spotted wing and a spotted head with a barred
wing then show the same patterns, so that no feature belongs to one part alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import photograph

PLUMAGE = ("plain", "barred", "streaked", "spotted")
MARKS = ("plain", "capped", "masked", "collared")
KINDS = len(MARKS) * len(PLUMAGE)
Marks = Literal["own", "shared"]
SIDE = 48
"""Pixels; all lengths below are for this side and grow with it."""
GROUNDS = {
    "train": ("grass.png", "gravel.png", "brick.png", "china.jpg", "coffee.png"),
    "test": ("flower.jpg", "rocket.jpg", "chelsea.png", "motorcycle_left.png"),
}
"""Photographs behind the birds; those of the test were seen in no training."""
PERIOD = 4.2
"""Pixels from stripe to stripe, and from spot to spot."""


@dataclass(frozen=True)
class Birds:
    """Pictures (N, 3, S, S) as bytes, the kind of each (N,), and where the middles of head and wing are, (N, 2, 2) as
    x, y in pixels."""

    images: Tensor
    labels: Tensor
    places: Tensor
    boxes: Tensor
    """Boxes of the birds, (N, 4): left, top, width and height in pixels."""
    marks: Marks

    @property
    def classes(self) -> tuple[str, ...]:
        heads = MARKS if self.marks == "own" else PLUMAGE
        return tuple(f"{head} head, {wing} wing" for head in heads for wing in PLUMAGE)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])

    def of_kinds(self, kinds: Tensor) -> Birds:
        """The birds of some kinds only."""
        kept = torch.isin(self.labels, kinds)
        every = ("images", "labels", "places", "boxes")
        return replace(self, **{name: getattr(self, name)[kept] for name in every})


def birds(count: int, size: int, pose: float, marks: Marks, split: str) -> Birds:
    """``count`` pictures of ``size`` pixels, as many of each kind. ``pose`` scales how far birds and their parts move
    and turn: with 0 all of them stand at the same place in the same pose."""
    source = generator("birds", count, size, f"{pose:g}", marks, split)
    labels = torch.randperm(count, generator=source) % KINDS
    canvas = _Canvas(_grounds(count, size, split, source), size / SIDE)

    def shifts(reach: float) -> Tensor:
        return pose * reach * (2 * torch.rand(count, 2, generator=source) - 1)

    def turns(degrees: float) -> Tensor:
        return pose * math.radians(degrees) * (2 * torch.rand(count, generator=source) - 1)

    middle = torch.tensor([27.0, 27.0]) + shifts(5.0)
    lean = turns(15)
    head = middle + _turned(torch.tensor([-12.0, -7.5]), lean) + shifts(4.0)
    wing = middle + _turned(torch.tensor([1.0, 0.0]), lean) + shifts(3.0)
    nod, lift = lean + turns(35), lean + turns(30)
    body, ink = _colours(count, 0.25, 0.7, source), torch.tensor([[0.08, 0.07, 0.06]]).expand(count, 3)
    canvas.ellipse(middle + _turned(torch.tensor([14.0, 2.5]), lean), lean + 0.1, (9.0, 2.6), 0.75 * body)
    canvas.ellipse(middle, lean, (12.5, 7.5), body)
    canvas.ellipse((head + middle) / 2 + torch.tensor([-1.5, 0.0]), lean + 0.5, (7.0, 5.0), body)
    beak = _colours(count, 0.5, 0.9, source) * torch.tensor([1.0, 0.75, 0.2])
    canvas.ellipse(head + _turned(torch.tensor([-7.5, 1.0]), nod), nod, (4.0, 1.5), beak)
    for place, angle, axes, plumage in (
        (wing, lift, (8.5, 5.0), labels % len(PLUMAGE)),
        (head, nod, (6.3, 5.6), labels // len(PLUMAGE)),
    ):
        canvas.ellipse(place, angle, (axes[0] + 0.9, axes[1] + 0.9), 0.45 * body)
        dark, light = _colours(count, 0.05, 0.3, source), _colours(count, 0.65, 1.0, source)
        phase = 2 * math.pi * torch.rand(count, 2, generator=source)
        canvas.plumed(place, angle, axes, plumage, (dark, light), phase, marks == "own" and place is head)
    canvas.ellipse(head + _turned(torch.tensor([-2.2, -1.8]), nod), nod, (1.1, 1.1), ink)
    noise = 0.03 * torch.randn(canvas.picture.shape, generator=source)
    pictures = (canvas.picture + noise).clamp(0, 1).mul(255).round().to(torch.uint8)
    return Birds(pictures, labels, torch.stack([head, wing], 1) * canvas.scale, canvas.boxes(), marks)


class _Canvas:
    """Pictures (N, 3, S, S) under construction; lengths are in pixels of a picture of :data:`SIDE`."""

    def __init__(self, picture: Tensor, scale: float) -> None:
        self.picture, self.scale = picture, scale
        self.axis = (torch.arange(picture.shape[-1]) + 0.5) / scale - 0.5
        self.covered = torch.zeros_like(picture[:, 0])

    def boxes(self) -> Tensor:
        """Boxes (N, 4) around all that was drawn: left, top, width and height."""
        spans = []
        for side in (1, 2):
            shown = (self.covered > 0.5).any(side)
            first = shown.float().argmax(1)
            spans.append((first, shown.shape[1] - shown.flip(1).float().argmax(1) - first))
        (left, width), (top, height) = spans
        return torch.stack([left, top, width, height], 1).float()

    def local(self, place: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates (N, S, S) along and across a part at ``place`` (N, 2), turned by ``angle`` (N,)."""
        dx = self.axis[None, None] - place[:, 0, None, None]
        dy = self.axis[None, :, None] - place[:, 1, None, None]
        c, s = angle.cos()[:, None, None], angle.sin()[:, None, None]
        return c * dx + s * dy, c * dy - s * dx

    def cover(self, u: Tensor, v: Tensor, axes: tuple[float, float]) -> Tensor:
        """The share of every pixel inside an ellipse, with edges a pixel wide."""
        radius = ((u / axes[0]).square() + (v / axes[1]).square()).sqrt()
        inside = ((1 - radius) * min(axes) * self.scale + 0.5).clamp(0, 1)
        self.covered = torch.maximum(self.covered, inside)
        return inside.unsqueeze(1)

    def ellipse(self, place: Tensor, angle: Tensor, axes: tuple[float, float], colour: Tensor) -> None:
        inside = self.cover(*self.local(place, angle), axes)
        self.picture = self.picture * (1 - inside) + colour[:, :, None, None] * inside

    def plumed(
        self, place: Tensor, angle: Tensor, axes: tuple[float, float], plumage: Tensor, colours: tuple[Tensor, Tensor],
        phase: Tensor, marked: bool,
    ) -> None:  # fmt: skip
        """An ellipse with a pattern in two colours, whose stripes follow its own axes."""
        u, v = self.local(place, angle)
        patterns = torch.stack(_marked(u, v) if marked else _feathered(u, v, phase))
        chosen = patterns[plumage, torch.arange(len(plumage))]
        share = (1.6 * chosen).tanh().mul(0.5).add(0.5).unsqueeze(1)
        dark, light = (c[:, :, None, None] for c in colours)
        inside = self.cover(u, v, axes)
        self.picture = self.picture * (1 - inside) + (dark + (light - dark) * share) * inside


def _feathered(u: Tensor, v: Tensor, phase: Tensor) -> list[Tensor]:
    """Plumages in coordinates along and across a part: plain, barred, streaked, spotted."""
    bars, streaks = ((2 * math.pi / PERIOD * along + phase[:, i, None, None]).sin() for i, along in enumerate((u, v)))
    return [torch.full_like(bars, 0.2), bars, streaks, 1.4 * torch.minimum(bars, streaks) + 0.4]


def _marked(u: Tensor, v: Tensor) -> list[Tensor]:
    """Marks of a head: plain, capped, masked, collared."""
    return [torch.full_like(u, 0.8), v + 2.2, v.add(1.0).abs() - 1.6, 3.0 - u]


def _turned(vector: Tensor, angle: Tensor) -> Tensor:
    """A vector (2,) turned by angles (N,): (N, 2)."""
    c, s = angle.cos(), angle.sin()
    return torch.stack([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]], 1)


def _colours(count: int, low: float, high: float, source: torch.Generator) -> Tensor:
    """Colours (N, 3) of some brightness, not far from grey, as feathers have them."""
    bright = low + (high - low) * torch.rand(count, 1, generator=source)
    return (bright * (0.75 + 0.5 * torch.rand(count, 3, generator=source))).clamp(0, 1)


def _grounds(count: int, size: int, split: str, source: torch.Generator) -> Tensor:
    """Cuts (N, 3, S, S) of photographs, from 0 to 1, a little out of focus."""
    names = GROUNDS["train" if split == "train" else "test"]
    cuts = torch.empty(count, 3, size, size)
    for number, name in enumerate(names):
        chosen = torch.arange(number, count, len(names))
        whole = photograph(name, 256)[None] / 255
        share = 0.35 + 0.25 * torch.rand(len(chosen), 1, 1, 1, generator=source)
        corner = (2 * torch.rand(len(chosen), 1, 1, 2, generator=source) - 1) * (1 - share)
        base = F.affine_grid(torch.eye(2, 3)[None], [1, 1, size, size], align_corners=False)
        grid = base * share + corner
        cuts[chosen] = F.grid_sample(whole.expand(len(chosen), -1, -1, -1), grid, "bilinear", align_corners=False)
    soft = F.avg_pool2d(cuts, 3, 1, 1, count_include_pad=False)
    return 0.15 + 0.7 * soft
