"""Rendered pictures of people and things in relations: on, under, beside, inside, holding; and things in none.

A picture shows a room or a table top. Groups in a relation and single things stand apart from each other, so that a
class alone tells nothing: people also stand with empty hands, boxes are also empty, tables also bare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from vergence.data.photographs import SURFACES
from vergence.reid.people import STATURE, Person, Pose, body, joints
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.furniture import book, bottle, chair, lamp, mug, plant, sofa
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.solids import BOX, CONE, CYLINDER, ELLIPSOID
from vergence.rendering.textures import photographic
from vergence.rendering.things import METAL, Material, Part, about, choice, place, random_material, rod, uniform
from vergence.rendering.views import exposed, render

CLASSES = (
    "person", "dining table", "chair", "couch", "potted plant", "lamp", "box", "sports ball", "cup", "bottle", "bowl",
    "book", "plate", "spoon",
)  # fmt: skip
"""COCO's names where it has the class."""
PREDICATES = ("on", "under", "beside", "inside", "holding")
NAMED = {name: number for number, name in enumerate(CLASSES)}
LEAST = 10
"""Visible pixels of 96 x 128 that make an object."""
DESKS = 0.35
"""Share of the pictures that show a table top."""


class Rendered(NamedTuple):
    """A picture with its objects and their relations."""

    image: Tensor
    """(3, H, W), bytes."""
    boxes: Tensor
    """(n, 4) of what is visible: left, top, right, bottom."""
    labels: Tensor
    """(n,), classes."""
    triplets: Tensor
    """(t, 3): subject, predicate, object."""


class Thing(NamedTuple):
    """A thing that has not been placed yet."""

    name: str
    parts: Sequence[Part]
    half: float
    """Half of its width, in metres."""
    top: float
    """The height at which something can stand on it; 0 if nothing can."""
    size: float = 1.0
    person: Person | None = None
    pose: Pose | None = None


# Things ---------------------------------------------------------------------------------------------------------------


def _table(source: torch.Generator) -> Thing:
    high, wide, deep = uniform(source, 0.55, 0.78), uniform(source, 0.5, 0.8), uniform(source, 0.35, 0.45)
    legs = [
        Part(CYLINDER, (x * wide * 0.9, -high / 2, z * deep * 0.9), (0.03, high / 2, 0.03), "second")
        for x in (-1, 1) for z in (-1, 1)
    ]  # fmt: skip
    return Thing("dining table", [Part(BOX, (0, -high, 0), (wide, 0.025, deep)), *legs], wide, high + 0.025)


def _crate(source: torch.Generator) -> Thing:
    """A box without a lid."""
    wide, high, deep, wall = uniform(source, 0.2, 0.32), uniform(source, 0.12, 0.2), uniform(source, 0.18, 0.28), 0.015
    sides = [Part(BOX, (x * wide, -high, 0), (wall, high, deep)) for x in (-1, 1)]
    ends = [Part(BOX, (0, -high, z * deep), (wide, high, wall)) for z in (-1, 1)]
    return Thing("box", [Part(BOX, (0, -wall, 0), (wide, wall, deep), "second"), *sides, *ends], wide, 0.0)


def _closed(source: torch.Generator) -> Thing:
    wide, high, deep = (uniform(source, 0.15, 0.3) for _ in range(3))
    return Thing("box", [Part(BOX, (0, -high, 0), (wide, high, deep))], wide, 2 * high)


def _chair(source: torch.Generator) -> Thing:
    parts = chair(source)
    seat = next(part for part in parts if part.shape == BOX)
    return Thing("chair", parts, 0.25, -seat.centre[1] + seat.half[1])


def _couch(source: torch.Generator) -> Thing:
    parts = sofa(source)
    return Thing("couch", parts, parts[0].half[0] + 0.1, 0.53)


def _plant(source: torch.Generator) -> Thing:
    return Thing("potted plant", plant(source), 0.25, 0.0)


def _floor_lamp(source: torch.Generator) -> Thing:
    return Thing("lamp", lamp(source), 0.15, 0.0, uniform(source, 2.2, 3.0))


def _desk_lamp(source: torch.Generator) -> Thing:
    return Thing("lamp", lamp(source), 0.15, 0.0)


def _ball(source: torch.Generator) -> Thing:
    radius = uniform(source, 0.09, 0.13)
    return Thing("sports ball", [Part(ELLIPSOID, (0, -radius, 0), (radius,) * 3, gloss=0.3)], radius, 0.0)


def _small_ball(source: torch.Generator) -> Thing:
    return _ball(source)._replace(size=0.35, half=0.04)


def _cup(source: torch.Generator) -> Thing:
    return Thing("cup", mug(source), 0.06, 0.0)


def _bottle(source: torch.Generator) -> Thing:
    return Thing("bottle", bottle(source), 0.05, 0.0)


def _bowl(source: torch.Generator) -> Thing:
    radius = uniform(source, 0.09, 0.13)
    parts = [
        Part(CONE, (0, -0.35 * radius, 0), (radius, 0.35 * radius, radius), "main", about("x", math.pi)),
        Part(CYLINDER, (0, -0.7 * radius, 0), (0.9 * radius, 0.002, 0.9 * radius), (0.25, 0.23, 0.2)),
    ]
    return Thing("bowl", parts, radius, 0.55 * radius)


def _book(source: torch.Generator) -> Thing:
    parts = book(source)
    return Thing("book", parts, 0.12, 2 * parts[0].half[1])


def _plate(source: torch.Generator) -> Thing:
    radius = uniform(source, 0.09, 0.14)
    rim = Part(CYLINDER, (0, -0.012, 0), (radius, 0.006, radius), gloss=0.3)
    return Thing("plate", [rim, Part(CYLINDER, (0, -0.019, 0), (0.7 * radius, 0.001, 0.7 * radius))], radius, 0.02)


def _spoon(source: torch.Generator) -> Thing:
    long = uniform(source, 0.07, 0.1)
    head = Part(ELLIPSOID, (-long, -0.008, 0), (0.028, 0.008, 0.018), METAL, gloss=0.6)
    return Thing("spoon", [head, rod((-long, -0.008, 0), (long, -0.008, 0), 0.006, METAL)], long, 0.0)


def _person(source: torch.Generator, holding: bool = False) -> Thing:
    person = Person.drawn(source)
    lift = uniform(source, 0.9, 1.5) if holding else 0.0
    pose = Pose(uniform(source, -0.2, 0.2), uniform(source, -0.2, 0.2), uniform(source, 0.1, 0.5), lift)
    return Thing("person", body(person, pose), 0.3, 0.0, person.height / STATURE, person, pose)


Make = Callable[[torch.Generator], Thing]
STANDING: tuple[Make, ...] = (_person, _table, _chair, _couch, _plant, _floor_lamp, _closed, _crate)
"""What stands on a floor."""
CARRYING: tuple[Make, ...] = (_table, _chair, _couch, _closed)
CARRIED: tuple[Make, ...] = (_ball, _book, _plant, _desk_lamp, _bottle, _bowl)
LOW: tuple[Make, ...] = (_ball, _closed, _crate, _book, _plant)
"""What fits under a table or a chair."""
CONTENT: tuple[Make, ...] = (_ball, _bottle, _book, _plant)
HELD: tuple[Make, ...] = (_ball, _bottle, _book, _cup, _plate, _bowl)
LAID: tuple[Make, ...] = (_cup, _bottle, _bowl, _book, _plate, _spoon, _desk_lamp, _small_ball)
"""What stands on a table top."""


# Groups ---------------------------------------------------------------------------------------------------------------


@dataclass
class Composer:
    """Puts things into a scene and notes their relations."""

    builder: SceneBuilder
    source: torch.Generator
    things: list[tuple[int, str]] = field(default_factory=list)
    """Numbers in the scene and classes."""
    triplets: list[tuple[int, int, int]] = field(default_factory=list)

    def put(self, thing: Thing, at: Sequence[float], yaw: float | None = None, lean: Tensor | None = None) -> int:
        """Place a thing with its base at a point; returns its index among the objects."""
        textures = range(self.builder.atlas.count)
        main, second = random_material(self.source, textures, 0.4), random_material(self.source)
        if thing.person is not None:
            main, second = thing.person.top, thing.person.bottom
        turn = uniform(self.source, -0.4, 0.4) if yaw is None else yaw
        self.things.append((place(self.builder, thing.parts, at, turn, thing.size, main, second, lean), thing.name))
        return len(self.things) - 1

    def relate(self, subject: int, predicate: str, other: int) -> None:
        self.triplets.append((subject, PREDICATES.index(predicate), other))

    def drawn(self, makers: Sequence[Make]) -> Thing:
        return makers[choice(self.source, len(makers))](self.source)

    # Groups on a floor: each returns half of its width after it was placed around (x, z)

    def single(self, x: float, z: float) -> float:
        """A thing in no relation."""
        thing = self.drawn((*STANDING, _person, _ball, _book))
        self.put(thing, (x, 0.0, z), self._facing() if thing.person else None)
        return thing.half

    def on(self, x: float, z: float) -> float:
        base = self.drawn(CARRYING)
        carrier = self.put(base, (x, 0.0, z))
        reach = 0.5 * base.half if base.name in ("dining table", "couch") else 0.0
        shift = uniform(self.source, -reach, reach)
        small = self.drawn(CARRIED)
        top = self.put(small, (x + shift, -base.top, z - 0.05), uniform(self.source, -1, 1))
        self.relate(top, "on", carrier)
        return base.half

    def under(self, x: float, z: float) -> float:
        base = self.drawn((_table, _table, _chair))
        cover = self.put(base, (x, 0.0, z), uniform(self.source, -0.25, 0.25))
        low = self.drawn(LOW)
        scale = min(1.0, 0.75 * base.top / 0.5, (0.8 if base.name == "chair" else 1.0) * 0.2 / low.half)
        if low.name == "potted plant":
            scale = min(scale, 0.5)
        reach = 0.4 * base.half if base.name == "dining table" else 0.0
        shift = uniform(self.source, -reach, reach)
        self.relate(self.put(low._replace(size=scale), (x + shift, 0.0, z - 0.1)), "under", cover)
        return base.half

    def beside(self, x: float, z: float) -> float:
        first, second = self.drawn(STANDING), self.drawn(STANDING)
        gap = uniform(self.source, 0.02, 0.12)
        left = self.put(first, (x - second.half - gap / 2, 0.0, z), self._facing() if first.person else 0.0)
        right = self.put(second, (x + first.half + gap / 2, 0.0, z + uniform(self.source, -0.1, 0.1)),
                         self._facing() if second.person else 0.0)  # fmt: skip
        self.relate(left, "beside", right)
        self.relate(right, "beside", left)
        return first.half + second.half + gap

    def inside(self, x: float, z: float) -> float:
        crate = _crate(self.source)
        outer = self.put(crate, (x, 0.0, z))
        content = self.drawn(CONTENT)
        upright = about("z", 1.3) @ about("x", 0.3) if content.name == "book" else None
        sizes = {"bottle": 1.6, "potted plant": 0.55, "book": 1.3}
        inner = self.put(content._replace(size=sizes.get(content.name, 1.0)), (x, -0.1, z), None, upright)
        self.relate(inner, "inside", outer)
        return crate.half

    def holding(self, x: float, z: float) -> float:
        someone = _person(self.source, holding=True)
        yaw = self._facing()
        holder = self.put(someone, (x, 0.0, z), yaw)
        assert someone.person is not None
        assert someone.pose is not None
        wrist = torch.tensor(joints(someone.person, someone.pose)["right_wrist"])
        hand = someone.size * (about("y", yaw) @ (wrist + torch.tensor([0.0, 0.05, 0.07])))
        held = self.drawn(HELD)
        large = 1.0 if held.name == "sports ball" else 1.6
        item = self.put(held._replace(size=large), (x + float(hand[0]), float(hand[1]), z + float(hand[2])))
        self.relate(holder, "holding", item)
        return 0.5

    def _facing(self) -> float:
        """Towards the camera, more or less."""
        return math.pi + uniform(self.source, -0.9, 0.9)


def _room(composer: Composer) -> None:
    """One or two groups in relations and one to three single things, side by side and at several depths."""
    source = composer.source
    groups = [
        (composer.on, composer.under, composer.beside, composer.inside, composer.holding)[choice(source, 5)]
        for _ in range(1 + choice(source, 2))
    ]
    groups += [composer.single] * (1 + choice(source, 3))
    order = torch.randperm(len(groups), generator=source).tolist()
    x = -0.45 * len(groups) - 0.35
    for row, number in enumerate(order):
        z = (0.9 if row % 2 else -0.3) + uniform(source, -0.25, 0.25)
        half = groups[number](x + uniform(source, 0.3, 0.5), z)
        x += max(2 * half + 0.35, 0.8) if row % 2 else max(half + 0.55, 0.8)


def _desk(composer: Composer) -> None:
    """A table top with things on it, some of them on or in others, some side by side."""
    source = composer.source
    top = Part(BOX, (0, -0.72, 0), (uniform(source, 0.5, 0.7), 0.025, 0.4))
    legs = [Part(BOX, (x, -0.35, 0.3), (0.03, 0.35, 0.03), "second") for x in (-0.45, 0.45)]
    desk = composer.put(Thing("dining table", [top, *legs], 0.5, 0.745), (0, 0, 0), 0.0)
    count = 2 + choice(source, 2)
    for number in range(count):
        x = (number - (count - 1) / 2) * 0.36 + uniform(source, -0.04, 0.04)
        z = uniform(source, -0.2, 0.12)
        base = composer.drawn(LAID)
        lower = composer.put(base, (x, -0.745, z), uniform(source, -1, 1))
        composer.relate(lower, "on", desk)
        kind = choice(source, 3)
        if base.top and kind:
            small = composer.drawn((_small_ball, _spoon) if base.name == "bowl" else (_cup, _spoon, _bowl, _small_ball))
            upper = composer.put(small._replace(size=0.85 * small.size), (x, -0.745 - base.top, z))
            composer.relate(upper, "inside" if base.name == "bowl" else "on", lower)
        elif kind == 2:
            near = composer.drawn((_cup, _bottle, _small_ball))
            next_to = composer.put(near, (x + base.half + near.half + 0.015, -0.745, z))
            composer.relate(next_to, "on", desk)
            composer.relate(next_to, "beside", lower)
            composer.relate(lower, "beside", next_to)


# Pictures -------------------------------------------------------------------------------------------------------------


def _camera(source: torch.Generator, desk: bool, height: int, width: int) -> Pinhole:
    if desk:
        position = torch.tensor([uniform(source, -0.3, 0.3), -uniform(source, 1.05, 1.5), -uniform(source, 0.9, 1.2)])
        return Pinhole(height, width, 1.15 * height, position, look_at(position, torch.tensor([0.0, -0.74, 0.0])))
    position = torch.tensor([uniform(source, -0.6, 0.6), -uniform(source, 1.2, 1.9), -uniform(source, 3.6, 4.6)])
    return Pinhole(height, width, 1.25 * height, position, look_at(position, torch.tensor([0.0, -0.75, 0.3])))


def scene(source: torch.Generator, height: int = 96, width: int = 128, finer: int = 1) -> Rendered:
    """A random picture with two or more visible objects and at least one relation."""
    while True:
        atlas = photographic("train")
        towards = torch.tensor([uniform(source, -1, 1), -1.3, uniform(source, -1.2, -0.1)])
        builder = SceneBuilder(atlas, Light(towards, uniform(source, 0.4, 0.7), uniform(source, 0.45, 0.65)))
        builder.begin()
        surfaces = atlas.named(SURFACES)
        for half, at in (((30.0, 0.1, 30.0), (0, 0.1, 0)), ((30.0, 8.0, 0.2), (0, -8.0, uniform(source, 2.2, 4.0)))):
            grey = uniform(source, 0.3, 0.7)
            look = Material((grey, grey * uniform(source, 0.85, 1.1), grey * uniform(source, 0.8, 1.1)))
            builder.add(BOX, at, half, colour=look.colour, texture=surfaces[choice(source, len(surfaces))],
                        blend=uniform(source, 0.1, 0.7), density=uniform(source, 60, 140))  # fmt: skip
        composer = Composer(builder, source)
        desk = uniform(source, 0, 1) < DESKS
        (_desk if desk else _room)(composer)
        view = render(builder.scene(), _camera(source, desk, height, width), finer, shadows=True)
        seen = _seen(view.thing, composer, LEAST * height * width / (96 * 128))
        if len(seen.labels) > 1 and len(seen.triplets):
            image = exposed(view.image, source, gain=0.15, blur=0.3, noise=0.012)
            return seen._replace(image=(image.clamp(0, 1) * 255).round().to(torch.uint8))


def _seen(thing: Tensor, composer: Composer, least: float) -> Rendered:
    """Boxes of the visible things, and the relations between them."""
    numbers = torch.tensor([number for number, _ in composer.things])
    masks = thing == numbers[:, None, None]
    visible = masks.sum((1, 2)) >= least
    index = torch.full((len(numbers),), -1).masked_scatter(visible, torch.arange(int(visible.sum())))
    sides = []
    for axis in (1, 2):  # columns, then rows
        hit = masks[visible].any(axis).to(torch.uint8)
        sides += [hit.argmax(1), hit.shape[1] - hit.flip(1).argmax(1)]
    boxes = torch.stack([sides[0], sides[2], sides[1], sides[3]], 1).float()
    labels = torch.tensor([NAMED[name] for _, name in composer.things])[visible]
    triplets = torch.tensor(composer.triplets, dtype=torch.long).reshape(-1, 3)
    triplets = torch.stack([index[triplets[:, 0]], triplets[:, 1], index[triplets[:, 2]]], 1)
    return Rendered(torch.empty(0), boxes, labels, triplets[(triplets[:, 0] >= 0) & (triplets[:, 2] >= 0)])
