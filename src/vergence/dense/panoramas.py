"""Rendered panoramas with a known vertical: rooms, streets and parks all around a camera that is tilted.

Each picture is drawn directly at its pose, never by turning another picture: a network cannot read the tilt from the
traces of interpolation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import SURFACES, Share
from vergence.data.rendered import rendered
from vergence.ops.sphere import fibonacci_sphere, shortest_arc
from vergence.rendering import BOX, CYLINDER, Atlas, Light, Panorama, SceneBuilder, exposed, photographic, render
from vergence.rendering.furniture import FURNITURE
from vergence.rendering.outdoors import OUTDOORS
from vergence.rendering.places import FLOOR, Place, desk_at
from vergence.rendering.things import Material, choice, place, random_material, uniform

AXES = torch.tensor([[0.0, 0.0, -1.0], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]], device="cpu")
"""From the axes of a camera (right, down, forward) to those of :mod:`vergence.ops.sphere`."""
SPREAD = 32
"""Directions of the vertical, spread evenly over the upper hemisphere, that poses are drawn from."""
OFFSET = 3.0
"""Standard deviation, in degrees, of the random turn added to them."""
Vector = tuple[float, float, float]


# Places ---------------------------------------------------------------------------------------------------------------


def _begin(atlas: Atlas, source: torch.Generator, sky: int | Vector, ambient: tuple[float, float]) -> Place:
    towards = torch.tensor([uniform(source, -1, 1), -uniform(source, 0.5, 1.5), uniform(source, -1, 1)])
    warm = uniform(source, -0.12, 0.12)
    light = Light(towards, uniform(source, 0.25, 0.7), uniform(source, *ambient), (1 + warm, 1.0, 1 - warm))
    return Place(SceneBuilder(atlas, light, sky))


def _surface(found: Place, centre: Sequence[float], half: Sequence[float], source: torch.Generator,
             bright: tuple[float, float], textured: float, bold: float = 0.5) -> None:  # fmt: skip
    """A wall, floor or ceiling of a brightness, plain or with a texture."""
    tone, hue = uniform(source, *bright), uniform(source, 0, 0.35)
    colour = [tone * (1 - hue * uniform(source, 0, 1)) for _ in range(3)]
    texture = choice(source, found.builder.atlas.count) if uniform(source, 0, 1) < textured else -1
    found.builder.add(
        BOX, centre, half, colour=colour, texture=texture, blend=uniform(source, 0.1, bold),
        density=uniform(source, 30, 140), offset=(uniform(source, 0, 256), uniform(source, 0, 256)),
    )  # fmt: skip


def _on_wall(found: Place, side: int, away: float, along: float, y: float, half: tuple[float, float], colour: Vector,
             thick: float = 0.03, texture: int = -1, density: float = 100.0) -> None:  # fmt: skip
    """A board on one of four walls: ``away`` is the wall's distance, ``along`` a place on it; half width and height."""
    sign = 1 if side < 2 else -1
    across = side % 2 == 0  # walls to the right and left
    centre = (sign * away, y, along) if across else (along, y, sign * away)
    size = (thick, half[1], half[0]) if across else (half[0], half[1], thick)
    found.builder.add(BOX, centre, size, colour=colour, texture=texture, blend=0.9, density=density)


def _shade(source: torch.Generator, low: float, high: float) -> Vector:
    tone = uniform(source, low, high)
    return (tone, tone * uniform(source, 0.75, 1.0), tone * uniform(source, 0.55, 1.0))


def closed_room(source: torch.Generator, atlas: Atlas) -> Place:
    """A room of four walls with doors, windows, pictures, skirting boards, lamps and furniture."""
    found = _begin(atlas, source, (0.8, 0.85, 0.9), (0.6, 0.95))
    found.builder.begin()
    wide, deep, high = uniform(source, 1.6, 4.0), uniform(source, 1.8, 5.0), uniform(source, 2.3, 3.3)
    top, middle = FLOOR - high, FLOOR - high / 2
    _surface(found, (0, FLOOR + 0.1, 0), (wide + 0.2, 0.1, deep + 0.2), source, (0.15, 0.6), 0.8, 0.8)
    _surface(found, (0, top - 0.1, 0), (wide + 0.2, 0.1, deep + 0.2), source, (0.5, 0.95), 0.25, 0.3)
    walls, bold = (uniform(source, 0.4, 0.95),) * 2, 0.8 if choice(source, 5) == 0 else 0.3
    for side in range(4):
        away, along = (wide, deep) if side % 2 == 0 else (deep, wide)
        sign, across = 1 if side < 2 else -1, side % 2 == 0
        centre = (sign * (away + 0.1), middle, 0) if across else (0, middle, sign * (away + 0.1))
        size = (0.1, high / 2, deep) if across else (wide, high / 2, 0.1)
        _surface(found, centre, size, source, (0.85 * walls[0], walls[1]), 0.5, bold)
        skirting = _shade(source, 0.2, 0.9)
        _on_wall(found, side, away, 0, FLOOR - 0.05, (along, 0.05), skirting, 0.02)
        if choice(source, 2):
            _on_wall(found, side, away, 0, top + 0.04, (along, 0.04), skirting, 0.03)
        _openings(found, side, away, along, top, source)
    lamp = (uniform(source, -0.5, 0.5) * wide, top + 0.05, uniform(source, -0.5, 0.5) * deep)
    found.builder.add(CYLINDER, lamp, (0.2, 0.06, 0.2), colour=(0.98, 0.97, 0.9))
    taken: list[tuple[float, float]] = [(0.0, 0.0)]
    for _ in range(3 + choice(source, 6)):
        x, z = uniform(source, -wide + 0.4, wide - 0.4), uniform(source, -deep + 0.4, deep - 0.4)
        if any(math.hypot(x - a, z - b) < 0.9 for a, b in taken):
            continue
        taken.append((x, z))
        name = list(FURNITURE)[choice(source, len(FURNITURE))]
        if name in ("table", "lamp"):
            desk_at(found, (x, FLOOR, z), source, choice(source, 3))
        else:
            square = choice(source, 4) * math.pi / 2 if choice(source, 4) else None
            found.put(name, FURNITURE[name], (x, FLOOR, z), source, square)
    found.eye = (uniform(source, -0.3, 0.3), uniform(source, -0.4, 0.5), uniform(source, -0.3, 0.3))
    return found


def _openings(found: Place, side: int, away: float, along: float, top: float, source: torch.Generator) -> None:
    """Doors, windows and pictures of a wall, side by side."""
    at = -along + uniform(source, 0.2, 0.6)
    while at < along - 0.7:
        kind, half = choice(source, 5), uniform(source, 0.38, 0.5)
        frame = _shade(source, 0.25, 0.95)
        if kind == 0:  # a door
            _on_wall(found, side, away, at + half, FLOOR - 1.02, (half + 0.07, 1.07), frame, 0.03)
            _on_wall(found, side, away, at + half, FLOOR - 1.0, (half, 1.0), _shade(source, 0.15, 0.8), 0.045)
        elif kind == 1:  # a window with a cross
            half, low = uniform(source, 0.4, 0.9), uniform(source, 0.6, 1.0)
            reach = max((FLOOR - low - top - 0.3) / 2, 0.3)
            y = FLOOR - low - reach
            _on_wall(found, side, away, at + half, y, (half + 0.06, reach + 0.06), frame, 0.03)
            sky = (uniform(source, 0.7, 0.95), uniform(source, 0.85, 0.97), 0.98)
            _on_wall(found, side, away, at + half, y, (half, reach), sky, 0.04, choice(source, 20) - 12, 60.0)
            _on_wall(found, side, away, at + half, y, (0.025, reach), frame, 0.05)
            _on_wall(found, side, away, at + half, y - 0.3 * reach, (half, 0.025), frame, 0.05)
        elif kind == 2:  # a picture
            half, tall, y = uniform(source, 0.2, 0.5), uniform(source, 0.15, 0.4), uniform(source, -0.4, 0.3)
            _on_wall(found, side, away, at + half, y, (half + 0.03, tall + 0.03), frame, 0.03)
            texture = choice(source, found.builder.atlas.count)
            _on_wall(found, side, away, at + half, y, (half, tall), (0.6, 0.6, 0.6), 0.04, texture, 200.0)
        at += 2 * half + uniform(source, 0.15, 1.2)


def _ground(found: Place, source: torch.Generator, colour: Vector, blend: float, names: Sequence[str]) -> int:
    textures = found.builder.atlas.named(names) or range(found.builder.atlas.count)
    texture = textures[choice(source, len(textures))]
    found.builder.add(BOX, (0, FLOOR + 0.1, 0), (80, 0.1, 80), colour=colour, texture=texture, blend=blend, density=90)
    return texture


def _sky(source: torch.Generator, atlas: Atlas) -> int | Vector:
    if choice(source, 4) == 0:
        return choice(source, atlas.count)
    grey = uniform(source, 0.55, 0.95)
    return (grey, grey, min(grey + uniform(source, 0, 0.25), 1.0))


def long_street(source: torch.Generator, atlas: Atlas) -> Place:
    """A street with houses on both sides, ahead and behind, with vehicles, people, trees and lamps."""
    found = _begin(atlas, source, _sky(source, atlas), (0.4, 0.75))
    builder, half = found.builder, uniform(source, 3.0, 6.0)
    builder.begin()
    texture = _ground(found, source, (0.35, 0.35, 0.36), 0.5, SURFACES)
    for side in (-1, 1):
        builder.add(BOX, (side * (half + 1.5), FLOOR, 0), (1.5, 0.12, 80), colour=(0.5, 0.5, 0.5), texture=texture,
                    blend=0.3, density=120)  # fmt: skip
        z = -uniform(source, 24, 30)
        while z < 28:
            size = uniform(source, 0.9, 1.6)
            walls = random_material(source, range(atlas.count), 0.6)
            place(builder, OUTDOORS["house"](source), (side * (half + 3 + 3.6 * size), FLOOR, z), math.pi / 2, size,
                  walls, Material((0.4, 0.2, 0.15)))  # fmt: skip
            z += size * uniform(source, 6.5, 10)
    names = ("car", "car", "bus", "person", "person", "tree", "street lamp", "sign", "bench", "animal")
    for _ in range(8):
        name = names[choice(source, len(names))]
        on_road = name in ("car", "bus")
        pavement = (2 * choice(source, 2) - 1) * (half + uniform(source, 0.3, 1.5))
        x = uniform(source, -half, half) if on_road else pavement
        z = (2 * choice(source, 2) - 1) * uniform(source, 7 if name == "bus" else 3.0, 20)
        turn = (math.pi if x < 0 else 0.0) + uniform(source, -0.1, 0.1) if on_road else None
        found.put(name, OUTDOORS[name], (x, FLOOR, z), source, turn)
    found.eye = (uniform(source, -0.7, 0.7) * half, uniform(source, -0.4, 0.3), uniform(source, -1.5, 1.5))
    return found


def park(source: torch.Generator, atlas: Atlas) -> Place:
    """Trees, people and benches on a meadow: hardly a straight line."""
    found = _begin(atlas, source, _sky(source, atlas), (0.4, 0.75))
    found.builder.begin()
    _ground(found, source, (0.3, uniform(source, 0.35, 0.5), 0.2), 0.7, ("grass.png",))
    names = ("tree",) * 6 + ("person", "person", "bench", "animal", "house")
    for _ in range(16):
        name = names[choice(source, len(names))]
        angle = uniform(source, 0, 2 * math.pi)
        away = uniform(source, 12, 25) if name == "house" else uniform(source, 2.5, 14)
        at = (away * math.cos(angle), FLOOR, away * math.sin(angle))
        found.put(name, OUTDOORS[name], at, source, size=uniform(source, 0.9, 1.8) if name == "tree" else 1.0)
    found.eye = (0.0, uniform(source, -0.4, 0.4), 0.0)
    return found


AROUND = {"room": closed_room, "street": long_street, "park": park}
SHARES = (0.6, 0.3, 0.1)
"""Of rooms, streets and parks."""


# Views ----------------------------------------------------------------------------------------------------------------


def tilted(up: Tensor, turn: float) -> Tensor:
    """A camera's rotation (3, 3) (rows are its axes in the world) that sees the vertical at ``up`` (3,), in the axes of
    :mod:`vergence.ops.sphere`, turned about it by ``turn`` radians."""
    seen = AXES.mT @ up.float()
    down = torch.tensor([0.0, -1.0, 0.0])
    cos, sin = math.cos(turn), math.sin(turn)
    about = torch.tensor([[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]])
    return shortest_arc(down, seen) @ about


def random_up(source: torch.Generator, near: float) -> Tensor:
    """A vertical (3,): one of ``SPREAD`` directions that cover the upper hemisphere with a small random turn, or, in a
    share ``near`` of all cases, one near level: half of them within 3.8 degrees, all within 15."""
    if uniform(source, 0, 1) < near:
        tilt, where = math.radians(15 * uniform(source, 0, 1) ** 2), uniform(source, 0, 2 * math.pi)
        flat = math.sin(tilt)
        return torch.tensor([flat * math.cos(where), flat * math.sin(where), math.cos(tilt)])
    spread = fibonacci_sphere(2 * SPREAD, torch.zeros(()))[choice(source, SPREAD)]
    up = F.normalize(spread + math.radians(OFFSET) * torch.randn(3, generator=source), dim=0)
    return up * (1 if up[2] > 0 else -1)


PART = 60
"""Places in one file of the cache."""


def many_panoramas(count: int, poses: int, height: int, near: float, seed: Sequence[int | str],
                   share: Share) -> dict[str, Tensor]:  # fmt: skip
    """As :func:`panoramas`; the first places are the same for every count."""
    parts = [
        panoramas(min(PART, count - first), poses, height, near, (*seed, first // PART), share)
        for first in range(0, count, PART)
    ]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def panoramas(count: int, poses: int, height: int, near: float, seed: Sequence[int | str], share: Share,
              finer: int = 1) -> dict[str, Tensor]:  # fmt: skip
    """``count`` places seen in ``poses`` poses each: ``image`` (N, 3, H, 2 H) of bytes, ``up`` (N, 3) and ``place``
    (N,), the index in ``AROUND``; the poses of one place follow each other. They are kept on disk."""

    def draw() -> dict[str, Tensor]:
        images, ups, kinds = [], [], []
        for number in range(count):
            source = generator("panorama", *seed, number)
            kind = int(torch.multinomial(torch.tensor(SHARES), 1, generator=source))
            found = list(AROUND.values())[kind](source, photographic(share))
            scene, shadows = found.scene, choice(source, 2) == 0
            for _ in range(poses):
                up = random_up(source, near)
                eye = torch.tensor(found.eye) + 0.3 * (torch.rand(3, generator=source) - 0.5)
                camera = Panorama(height, 2 * height, eye, tilted(up, uniform(source, 0, 2 * math.pi)))
                picture = exposed(render(scene, camera, finer, shadows).image, source, gain=0.25, blur=0.7, noise=0.02)
                images.append((picture * 255).round().to(torch.uint8))
                ups.append(up)
                kinds.append(kind)
        return {"image": torch.stack(images), "up": torch.stack(ups), "place": torch.tensor(kinds)}

    asked = {"count": count, "poses": poses, "height": height, "near": near, "seed": tuple(seed), "share": share,
             "finer": finer}  # fmt: skip
    return rendered("panoramas", asked, ("vergence.rendering", "vergence.dense.panoramas"), draw)
