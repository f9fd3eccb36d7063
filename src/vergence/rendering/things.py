"""Things built from solids: parts, materials, and how they are put into a scene.

A thing is a list of parts in its own axes: right, down, forward, in metres, with its base in the origin. Sizes and
proportions vary with the generator. :func:`place` puts a thing into a scene.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.rendering.scenes import PLAIN, SceneBuilder
from vergence.rendering.solids import CYLINDER

Vector = tuple[float, float, float]
DARK, METAL, GLASS, SKIN, LEAF, WOOD = (
    (0.06, 0.06, 0.07), (0.55, 0.57, 0.6), (0.14, 0.2, 0.26), (0.78, 0.58, 0.45), (0.22, 0.42, 0.14), (0.45, 0.3, 0.17)
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A solid of a thing. ``turn`` is applied after the half axes; it may squeeze too."""

    shape: int
    centre: Vector
    half: Vector
    look: str | Vector = "main"
    """``main`` or ``second`` of the thing's materials, or a colour of its own."""
    turn: Tensor | None = None
    gloss: float = 0.0


@dataclass(frozen=True)
class Material:
    """A colour and a texture."""

    colour: Vector
    texture: int = PLAIN
    blend: float = 1.0
    density: float = 150.0
    offset: tuple[float, float] = (0.0, 0.0)
    gloss: float = 0.0


def uniform(source: torch.Generator, low: float, high: float) -> float:
    """A random number between two others."""
    return low + (high - low) * float(torch.rand((), generator=source))


def choice(source: torch.Generator, count: int) -> int:
    """A random number from 0 to ``count`` - 1."""
    return int(torch.randint(count, (), generator=source))


def about(axis: str, angle: float) -> Tensor:
    """The rotation by an angle in radians about ``x``, ``y`` or ``z``."""
    cos, sin = math.cos(angle), math.sin(angle)
    rows = {
        "x": [[1, 0, 0], [0, cos, -sin], [0, sin, cos]],
        "y": [[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]],
        "z": [[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]],
    }
    return torch.tensor(rows[axis], dtype=torch.float32)


def random_material(source: torch.Generator, textures: Sequence[int] = (), textured: float = 0.6) -> Material:
    """A random colour, with one of the textures in a share of all cases."""
    hue = torch.rand(3, generator=source)
    grey = uniform(source, 0.0, 0.7)
    colour = (0.15 + 0.7 * (grey * hue.mean() + (1 - grey) * hue)).tolist()
    gloss = uniform(source, 0, 0.4) if choice(source, 3) == 0 else 0.0
    if not textures or uniform(source, 0, 1) > textured:
        return Material((colour[0], colour[1], colour[2]), gloss=gloss)
    which = textures[choice(source, len(textures))]
    offset = (uniform(source, 0, 256), uniform(source, 0, 256))
    tint = (0.3 + 0.4 * colour[0], 0.3 + 0.4 * colour[1], 0.3 + 0.4 * colour[2])
    return Material(tint, which, uniform(source, 0.5, 1), uniform(source, 80, 400), offset, gloss)


def place(
    builder: SceneBuilder,
    parts: Sequence[Part],
    at: Sequence[float],
    yaw: float = 0.0,
    size: float = 1.0,
    main: Material | None = None,
    second: Material | None = None,
    lean: Tensor | None = None,
) -> int:
    """Add a thing whose base is at a point; returns its number. ``lean`` turns it before it is turned by ``yaw``."""
    number = builder.begin()
    turn = about("y", yaw) if lean is None else about("y", yaw) @ lean
    looks = {"main": main or Material((0.6, 0.6, 0.6)), "second": second or Material((0.35, 0.35, 0.38))}
    for part in parts:
        look = looks[part.look] if isinstance(part.look, str) else Material(part.look)
        own = turn if part.turn is None else turn @ part.turn
        centre = torch.as_tensor(at, dtype=torch.float32) + size * (turn @ torch.tensor(part.centre))
        half = [size * side for side in part.half]
        builder.add(
            part.shape, centre, half, own, colour=look.colour, texture=look.texture, blend=look.blend,
            density=look.density, offset=look.offset, gloss=max(part.gloss, look.gloss),
        )  # fmt: skip
    return number


def rod(start: Vector, end: Vector, radius: float, look: str | Vector = "main", shape: int = CYLINDER) -> Part:
    """A cylinder (or a box, or an ellipsoid) between two points."""
    a, b = torch.tensor(start), torch.tensor(end)
    along = b - a
    length = float(along.norm())
    y = along / max(length, 1e-9)
    other = torch.tensor([1.0, 0.0, 0.0]) if abs(float(y[0])) < 0.9 else torch.tensor([0.0, 0.0, 1.0])
    x = torch.nn.functional.normalize(torch.linalg.cross(y, other), dim=0)
    turn = torch.stack([x, y, torch.linalg.cross(x, y)], 1)
    middle = ((a + b) / 2).tolist()
    return Part(shape, (middle[0], middle[1], middle[2]), (radius, length / 2, radius), look, turn)


Maker = Callable[[torch.Generator], list[Part]]
"""Builds the parts of a thing."""
