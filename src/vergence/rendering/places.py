"""Whole places: rooms, desks, streets, and things that float in front of a photograph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vergence.data.photographs import SURFACES
from vergence.rendering.furniture import FURNITURE, SMALL, table
from vergence.rendering.outdoors import OUTDOORS
from vergence.rendering.scenes import Light, Scene, SceneBuilder
from vergence.rendering.solids import BOX, CONE, CYLINDER, ELLIPSOID
from vergence.rendering.textures import Atlas
from vergence.rendering.things import Maker, Material, about, choice, place, random_material, uniform

FLOOR = 1.5
"""The floor is this far below the eye, in metres."""


@dataclass
class Place:
    """A scene in the making, what its things are, and where a camera may stand."""

    builder: SceneBuilder
    eye: tuple[float, float, float] = (0.0, 0.0, 0.0)
    target: tuple[float, float, float] = (0.0, 0.3, 5.0)
    names: dict[int, str] = field(default_factory=dict)
    """Names of things by number; walls, floors and houses that only frame the scene have none."""
    movable: list[int] = field(default_factory=list)
    """Things that may move by themselves."""

    @property
    def scene(self) -> Scene:
        return self.builder.scene()

    @property
    def viewpoint(self) -> tuple[Tensor, Tensor]:
        """Position and target of a camera."""
        return torch.tensor(self.eye), torch.tensor(self.target)

    def put(
        self,
        name: str,
        maker: Maker,
        at: Sequence[float],
        source: torch.Generator,
        yaw: float | None = None,
        size: float = 1.0,
    ) -> int:
        """Add a thing with random materials; returns its number."""
        textures = range(self.builder.atlas.count)
        turned = uniform(source, 0, 2 * math.pi) if yaw is None else yaw
        number = place(
            self.builder, maker(source), at, turned, size, random_material(source, textures),
            random_material(source, textures, 0.3),
        )  # fmt: skip
        self.names[number] = name
        self.movable.append(number)
        return number


def _begin(atlas: Atlas, source: torch.Generator, sky: int | tuple[float, float, float] = (0.75, 0.8, 0.88)) -> Place:
    towards = torch.tensor([uniform(source, -1, 1), -1.2, uniform(source, -1.2, 0.2)])
    warm = uniform(source, -0.12, 0.12)
    light = Light(towards, uniform(source, 0.45, 0.8), uniform(source, 0.35, 0.55), (1 + warm, 1.0, 1 - warm))
    return Place(SceneBuilder(atlas, light, sky))


def _wall(place_: Place, centre: Sequence[float], half: Sequence[float], source: torch.Generator) -> None:
    """A part of the surroundings: a plain or faintly textured surface more often than a bold one."""
    look = random_material(source, range(place_.builder.atlas.count), 0.75)
    blend = uniform(source, 0.15, 1.0) if look.texture >= 0 else 0.0
    place_.builder.add(
        BOX, centre, half, colour=look.colour, texture=look.texture, blend=blend, density=uniform(source, 40, 140),
        offset=look.offset,
    )  # fmt: skip


def room(source: torch.Generator, atlas: Atlas, furniture: int = 6) -> Place:
    """A room with furniture, and small things on the tables."""
    found = _begin(atlas, source)
    wide, deep, high = uniform(source, 2.0, 3.5), uniform(source, 4.5, 8.0), uniform(source, 1.0, 1.6)
    found.builder.begin()
    _wall(found, (0, FLOOR + 0.1, deep / 2), (wide + 0.2, 0.1, deep), source)
    _wall(found, (0, -high - 0.1, deep / 2), (wide + 0.2, 0.1, deep), source)
    for side in (-1, 1):
        _wall(found, (side * (wide + 0.1), 0, deep / 2), (0.1, FLOOR + high, deep), source)
    _wall(found, (0, 0, deep + 0.1), (wide + 0.2, FLOOR + high, 0.1), source)
    taken: list[tuple[float, float]] = []
    for _ in range(furniture):
        x, z = uniform(source, -wide + 0.5, wide - 0.5), uniform(source, 2.0, deep - 0.5)
        if any(math.hypot(x - a, z - b) < 0.9 for a, b in taken):
            continue
        taken.append((x, z))
        name = list(FURNITURE)[choice(source, len(FURNITURE))]
        if name in ("lamp", "plant", "table"):
            desk_at(found, (x, FLOOR, z), source, 1 + choice(source, 3))
        else:
            found.put(name, FURNITURE[name], (x, FLOOR, z), source)
    found.eye = (uniform(source, -0.8, 0.8), uniform(source, -0.3, 0.5), 0.0)
    found.target = (uniform(source, -0.6, 0.6), uniform(source, 0.3, 0.8), 4.0)
    return found


def desk_at(found: Place, at: tuple[float, float, float], source: torch.Generator, count: int) -> None:
    """A table with small things on it."""
    state = source.get_state()
    parts = table(source)
    top = -min(part.centre[1] - part.half[1] for part in parts)
    reach = max(part.half[0] for part in parts)
    source.set_state(state)
    found.put("table", table, at, source, yaw=0.0)
    for number in range(count):
        name = list(SMALL)[choice(source, len(SMALL))]
        x = (2 * (number + 0.5) / count - 1) * 0.75 * reach
        spot = (at[0] + x, at[1] - top, at[2] + uniform(source, -0.18, 0.18))
        found.put(name, SMALL[name], spot, source, size=uniform(source, 0.9, 1.4))


def desk(source: torch.Generator, atlas: Atlas, things: int = 5) -> Place:
    """A table top seen from near, with small things on it and a wall behind."""
    found = _begin(atlas, source)
    found.builder.begin()
    _wall(found, (0, 0.45, 1.0), (1.6, 0.03, 0.9), source)
    _wall(found, (0, 0, uniform(source, 2.0, 3.0)), (4.0, 4.0, 0.05), source)
    taken: list[tuple[float, float]] = []
    for _ in range(things):
        x, z = uniform(source, -0.5, 0.5), uniform(source, 0.55, 1.4)
        if any(math.hypot(x - a, z - b) < 0.16 for a, b in taken):
            continue
        taken.append((x, z))
        name = list(SMALL)[choice(source, len(SMALL))]
        found.put(name, SMALL[name], (x, 0.42, z), source, size=uniform(source, 1.0, 1.7))
    found.eye = (uniform(source, -0.15, 0.15), uniform(source, -0.25, 0.1), 0.0)
    found.target = (0.0, 0.3, 1.0)
    return found


def street(source: torch.Generator, atlas: Atlas, things: int = 9) -> Place:
    """A street with houses on both sides, vehicles, people, trees and lamps."""
    textured = choice(source, 2) == 0
    sky = choice(source, atlas.count) if textured else (uniform(source, 0.5, 0.9),) * 2 + (0.9,)
    found = _begin(atlas, source, sky)
    builder, half = found.builder, uniform(source, 3.5, 6.0)
    builder.begin()
    ground = random_material(source, atlas.named(SURFACES), 1.0)
    builder.add(BOX, (0, FLOOR + 0.1, 40), (60, 0.1, 60), colour=(0.35, 0.35, 0.36), texture=ground.texture,
                blend=0.5, density=90, offset=ground.offset)  # fmt: skip
    for side in (-1, 1):
        builder.add(BOX, (side * (half + 1.5), FLOOR, 40), (1.5, 0.12, 60), colour=(0.5, 0.5, 0.5),
                    texture=ground.texture, blend=0.3, density=120)  # fmt: skip
        z = uniform(source, 3, 7)
        while z < 40:
            place(builder, OUTDOORS["house"](source), (side * (half + 6), FLOOR, z), 0.0, uniform(source, 0.9, 1.4),
                  random_material(source, range(atlas.count), 0.8), Material((0.4, 0.2, 0.15)))  # fmt: skip
            z += uniform(source, 7, 11)
    names = ("car", "car", "bus", "bicycle", "person", "person", "tree", "street lamp", "sign", "bench", "animal")
    for _ in range(things):
        name = names[choice(source, len(names))]
        on_road = name in ("car", "bus", "bicycle") or (choice(source, 4) == 0 and name == "person")
        x = (
            uniform(source, -half, half)
            if on_road
            else (2 * choice(source, 2) - 1) * (half + uniform(source, 0.3, 1.5))
        )
        z = uniform(source, 9 if name == "bus" else 5.0, 25)
        turn = (math.pi if x < 0 else 0.0) + uniform(source, -0.2, 0.2) if on_road else None
        found.put(name, OUTDOORS[name], (x, FLOOR, z), source, turn)
    found.eye = (uniform(source, -1.5, 1.5), uniform(source, -0.3, 0.3), 0.0)
    found.target = (uniform(source, -1, 1), uniform(source, -0.2, 0.6), 10.0)
    return found


def floating(source: torch.Generator, atlas: Atlas, things: int = 8) -> Place:
    """Solids and thin rods that float in front of a photograph."""
    found = _begin(atlas, source)
    builder = found.builder
    back = uniform(source, 6, 10)
    builder.begin()
    picture = choice(source, atlas.count)
    tilt = about("y", uniform(source, -0.4, 0.4)) @ about("x", uniform(source, -0.4, 0.4))
    density = atlas.side / (2 * back) * uniform(source, 0.8, 2.5)
    builder.add(BOX, (0, 0, back), (4 * back, 4 * back, 0.05), tilt, texture=picture, colour=(0.5, 0.5, 0.5),
                density=density, offset=(uniform(source, 0, 256), uniform(source, 0, 256)))  # fmt: skip
    for _ in range(things):
        number = builder.begin()
        z = uniform(source, 1.8, 0.85 * back)
        at = (uniform(source, -0.55, 0.55) * z, uniform(source, -0.4, 0.4) * z, z)
        size = uniform(source, 0.05, 0.22) * z
        half = [size * uniform(source, 0.5, 1.3) for _ in range(3)]
        kind = choice(source, 6)
        if kind == 4:  # a board
            half[2] = 0.02
        if kind == 5:  # a thin rod
            half = [0.012 * z, 2.5 * size, 0.012 * z]
        look = random_material(source, [t for t in range(atlas.count) if t != picture], 0.85)
        turn = about("z", uniform(source, 0, 6.28)) @ about("x", uniform(source, 0, 6.28))
        builder.add((BOX, ELLIPSOID, CYLINDER, CONE, BOX, CYLINDER)[kind], at, half, turn, colour=look.colour,
                    texture=look.texture, blend=look.blend, density=uniform(source, 60, 160) / size * 0.5,
                    offset=look.offset, gloss=look.gloss)  # fmt: skip
        found.names[number] = "solid"
        found.movable.append(number)
    found.target = (0.0, 0.0, 5.0)
    return found


PLACES = {"room": room, "desk": desk, "street": street, "floating": floating}
