"""Drawn people for embedded tracklets: thousands of frames, each drawn by a few operations on whole pictures.

A person is a body, hair or a hat, a top with a pattern, trousers, shorts or a skirt, shoes, and perhaps a bag. Every
colour comes from a short list, so that many people share each garment and only the combination identifies them. Single
pictures of people are rendered instead, by :mod:`vergence.reid.shots`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.seeding import generator

Uniform = Callable[[float, float], Tensor]
"""Draws one number between two bounds per picture, (N, 1, 1)."""
CAMERAS = 4
WEAR = torch.tensor(
    [[0.75, 0.15, 0.15], [0.15, 0.3, 0.7], [0.15, 0.5, 0.2], [0.85, 0.75, 0.2], [0.92, 0.92, 0.9], [0.12, 0.12, 0.14],
     [0.5, 0.25, 0.55], [0.55, 0.4, 0.28]]
)  # fmt: skip
SKIN = torch.tensor([[0.95, 0.8, 0.7], [0.8, 0.6, 0.45], [0.55, 0.38, 0.27], [0.35, 0.24, 0.18]])
HAIR = torch.tensor([[0.1, 0.08, 0.07], [0.4, 0.25, 0.12], [0.8, 0.65, 0.35], [0.6, 0.6, 0.6]])


@dataclass(frozen=True)
class Person:
    """What stays the same from picture to picture, one row per person."""

    sizes: Tensor  # stature, girth
    colours: Tensor  # (N, 7, 3): skin, hair or hat, top, pattern, legs, shoes, bag
    kinds: Tensor  # (N, 5): hat, pattern, sleeves, legs, bag

    @classmethod
    def draw(cls, count: int, source: torch.Generator) -> Person:
        def pick(table: Tensor) -> Tensor:
            return table[torch.randint(0, len(table), (count,), generator=source)]

        kinds = torch.stack([torch.randint(0, n, (count,), generator=source) for n in (3, 4, 2, 3, 3)], 1)
        hair, hat = pick(HAIR), pick(WEAR)
        head = torch.where(kinds[:, :1] == 0, hat, hair)
        colours = torch.stack([pick(SKIN), head, *(pick(WEAR) for _ in range(5))], 1)
        sizes = torch.rand(count, 2, generator=source) * torch.tensor([0.14, 0.4]) + torch.tensor([0.86, 0.8])
        return cls(sizes, colours, kinds)

    def of(self, index: Tensor) -> Person:
        return Person(self.sizes[index], self.colours[index], self.kinds[index])


def camera_views() -> dict[str, Tensor]:
    """The same cameras for every population."""
    source = generator("cameras")
    return {
        "light": 0.7 + 0.5 * torch.rand(CAMERAS, 3, generator=source),
        "zoom": torch.linspace(0.84, 1.06, CAMERAS),
        "slope": torch.linspace(-0.5, 0.5, CAMERAS),
        "side": torch.tensor([0.0, 0.0, 0.5, 0.8]),  # how much people are seen from the side
        "wall": 0.4 + 0.3 * torch.rand(CAMERAS, generator=source),
        "floor": 0.3 + 0.3 * torch.rand(CAMERAS, generator=source),
        "horizon": 0.3 + 0.4 * torch.rand(CAMERAS, generator=source),
    }


def backgrounds(view: dict[str, Tensor], camera: Tensor, height: int, width: int, source: torch.Generator) -> Tensor:
    """Background: a grey wall above a grey floor, with soft coloured stains that differ from picture to picture, so
    that the colour of the light shows in the background as a whole and not at any single place."""
    y = torch.linspace(0, 1, height)[:, None]
    below = ((y - view["horizon"][camera, None, None]) * 20).clamp(0, 1)[:, None]
    wall, floor = (view[name][camera][:, None, None, None] for name in ("wall", "floor"))
    stains = torch.randn(len(camera), 3, 6, 3, generator=source)
    soft = torch.nn.functional.interpolate(stains, (height, width), mode="bilinear", align_corners=False)
    return (wall * (1 - below) + floor * below + 0.12 * soft).clamp(0, 1)


@dataclass
class Canvas:
    """Pictures (N, 3, H, W) being drawn, body coordinates (N, H, W), and half a body's height in pixels."""

    picture: Tensor
    u: Tensor
    v: Tensor
    pixels: Tensor

    def cover(self, inside: Tensor, colour: Tensor) -> None:
        """Paint where ``inside`` (N, H, W) is 1; colours are (N, 3)."""
        self.picture = torch.lerp(self.picture, colour[:, :, None, None], inside[:, None])

    def box(self, left: Tensor | float, right: Tensor | float, top: Tensor | float, bottom: Tensor | float) -> Tensor:
        edge = torch.minimum(torch.minimum(self.u - left, right - self.u) / 2, torch.minimum(self.v - top,
                             bottom - self.v))  # fmt: skip
        return (edge * self.pixels + 0.5).clamp(0, 1)

    def ellipse(self, x: float, y: float, across: Tensor | float, down: float) -> Tensor:
        radius = (((self.u - x) / across) ** 2 + ((self.v - y) / down) ** 2).sqrt()
        return ((1 - radius) * down * self.pixels + 0.5).clamp(0, 1)

    def limb(self, x: Tensor, y: float, to_x: Tensor, to_y: float, radius: Tensor | float) -> Tensor:
        """A line of the given radius from one point to another."""
        share = ((self.v - y) / (to_y - y)).clamp(0, 1)
        near = (self.u - (x + (to_x - x) * share)).abs()
        over = torch.maximum(y - self.v, self.v - to_y).clamp(min=0) * 2
        return ((radius - torch.maximum(near, over)) * self.pixels / 2 + 0.5).clamp(0, 1)


def paint_person(canvas: Canvas, person: Person, side: Tensor, draw: Uniform) -> None:
    skin, head, top, pattern, legs, shoes, bag = person.colours.unbind(1)
    hat, weave, sleeves, cut, bags = (k[:, None, None] for k in person.kinds.unbind(1))
    girth = 0.36 * person.sizes[:, 1:, None] * (1 - 0.35 * side)
    stride, swing = draw(0.0, 0.28) * (0.6 + side), draw(-0.2, 0.25)
    behind = draw(0, 1) < 0.5
    # A backpack is wide from behind, straps from the front.
    pack = canvas.box(-1.15 * girth, 1.15 * girth, 0.17, 0.45)
    canvas.cover(pack * (bags == 1), bag)
    for sign in (-1, 1):
        hip, knee, foot = sign * 0.45 * girth, sign * (0.45 * girth + 0.5 * stride), sign * (0.5 * girth + stride)
        thigh, shin = canvas.limb(hip, 0.5, knee, 0.73, 0.42 * girth), canvas.limb(knee, 0.72, foot, 0.93, 0.3 * girth)
        canvas.cover(thigh, legs)
        canvas.cover(shin * (cut == 0), legs)
        canvas.cover(shin * (cut != 0), skin)
        canvas.cover(canvas.box(foot - 0.45 * girth, foot + 0.45 * girth, 0.92, 0.98), shoes)
    spread = 0.9 + 0.5 * (canvas.v - 0.48).clamp(min=0) / 0.2
    canvas.cover(canvas.box(-girth * spread, girth * spread, 0.46, 0.7) * (cut == 2), legs)
    torso = canvas.box(-girth, girth, 0.17, 0.52)
    canvas.cover(torso, top)
    stripes = ((canvas.v * 14).floor() % 2 == 0).float()
    checks = (((canvas.v * 9).floor() + (canvas.u / girth * 2).floor()) % 2 == 0).float()
    half = (canvas.u > 0).float()
    for kind, mask in ((1, stripes), (2, checks), (3, half)):
        canvas.cover(torso * mask * (weave == kind), pattern)
    for sign in (-1, 1):
        shoulder, hand = sign * 1.05 * girth, sign * (1.2 * girth + sign * swing)
        elbow = (shoulder + hand) / 2
        canvas.cover(canvas.limb(elbow, 0.34, hand, 0.52, 0.2 * girth), skin)
        canvas.cover(canvas.limb(elbow, 0.34, hand, 0.49, 0.24 * girth) * (sleeves == 1), top)
        canvas.cover(canvas.limb(shoulder, 0.2, elbow, 0.35, 0.28 * girth), top)
    canvas.cover(canvas.box(-0.8 * girth, 0.8 * girth, 0.2, 0.44) * ((bags == 1) & behind), bag)
    for sign in (-1, 1):
        strap = canvas.box(sign * 0.6 * girth - 0.06, sign * 0.6 * girth + 0.06, 0.17, 0.42)
        canvas.cover(strap * ((bags == 1) & ~behind), bag)
    canvas.cover(canvas.box(1.0 * girth, 1.9 * girth, 0.44, 0.6) * (bags == 2), bag)
    canvas.cover(canvas.box(-0.13, 0.13, 0.12, 0.19), skin)
    canvas.cover(canvas.ellipse(0.0, 0.085, 0.24, 0.075), skin)
    canvas.cover(canvas.ellipse(0.0, 0.06, 0.26, 0.06) * torch.where(behind, 1.0, (canvas.v < 0.07).float()), head)
    canvas.cover(canvas.box(-0.34, 0.34, 0.035, 0.06) * (hat == 0), head)
    canvas.cover(canvas.box(-0.27, 0.27, 0.05, 0.2) * (hat == 1) * behind, head)
