"""Rendered videos in which one thing moves by one law: any of six things by any of six laws of motion.

The two labels are independent: how it moves (nothing but time tells) and what it is (one frame tells). So a network can
be asked for the one or for the other. Motion follows physics: gravity, a pendulum, friction. The camera stands on a
tripod.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import SURFACES
from vergence.data.rendered import rendered
from vergence.data.video import Video
from vergence.reid.people import STATURE, Person, Pose, body
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.furniture import FURNITURE
from vergence.rendering.outdoors import animal
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.solids import BOX, ELLIPSOID
from vergence.rendering.textures import photographic
from vergence.rendering.things import Part, about, choice, place, random_material, rod, uniform
from vergence.rendering.views import render
from vergence.video.data import Kept
from vergence.video.happenings import FPS, NEARNESS, SHAKE, Actor, G, Placed, Stage, filmed

LAWS = ("bounces", "slides", "swings", "spins", "rocks", "passes")
THINGS = ("person", "ball", "chair", "plant", "animal", "box")
_SIZES = {"ball": 1.0, "chair": 1.1, "plant": 1.8, "animal": 1.2, "box": 1.0}
HEIGHT, WIDTH = 32, 40
CODE = ("vergence.video.laws", "vergence.video.happenings", "vergence.rendering", "vergence.reid.people")


@dataclass
class Mover(Actor):
    """A thing that moves by a law all the time; its random numbers are drawn once."""

    numbers: tuple[float, float, float] = (0.5, 0.5, 0.5)

    def at(self, motion: str, t: float, length: float) -> list[Placed]:
        """What is seen at second ``t``."""
        return _LAW[motion](self, t + 20.0 * self.numbers[0])

    def put(self, x: float, up: float, yaw: float = 0.0, lean: Tensor | None = None, way: float = 0.0) -> Placed:
        """The thing at a place and height; a person who has gone ``way`` metres walks."""
        if self.person is None:
            return Placed(self.parts, (x, -up, self.z), yaw, _SIZES[self.kind], lean, self.main, self.second)
        swing = math.sin(2.6 * math.pi * way)
        parts = body(self.person, Pose(0.45 * swing, 0.4 * swing, 0.4) if way else Pose(0.0, 0.0, 0.25))
        size = 0.7 * self.person.height / STATURE
        return Placed(parts, (x, -up, self.z), yaw, size, lean, self.person.top, self.person.bottom)

    def between(self, which: int, low: float, high: float) -> float:
        return low + (high - low) * self.numbers[which]


def _bounces(who: Mover, t: float) -> list[Placed]:
    """Thrown up, it bounces three times, each time with 0.8 of its speed, and is thrown up again."""
    speed = who.between(1, 3.2, 4.4)
    t %= sum(2 * speed * 0.8**k / G for k in range(3))
    while t > 2 * speed / G:
        t, speed = t - 2 * speed / G, 0.8 * speed
    return [who.put(who.x, speed * t - G * t**2 / 2, who.side * 0.6)]


def _slides(who: Mover, t: float) -> list[Placed]:
    """Pushed, it slows down by friction until it stops; then it is pushed back."""
    speed, friction = who.between(1, 1.3, 1.9), who.between(2, 0.8, 1.2)
    time, far = speed / friction, speed**2 / friction / 2
    back, t = divmod(t, time + 0.25)
    t = min(t, time)
    way = speed * t - friction * t**2 / 2
    side = who.side * (1 if int(back) % 2 == 0 else -1)
    x = who.x + side * (way - far / 2)
    rolled = about("z", side * way / 0.3) if who.kind == "ball" else None
    if rolled is None:
        return [who.put(x, 0.0, side * math.pi / 2, way=way)]
    ball = [Part(ELLIPSOID, (0.0, 0.0, 0.0), (0.3, 0.3, 0.3))]
    return [Placed(ball, (x, -0.3, who.z), 0.0, 1.0, rolled, who.main, who.second)]


def _swings(who: Mover, t: float) -> list[Placed]:
    """A pendulum: the thing hangs on two rods."""
    long = who.between(1, 1.5, 2.1)
    angle = who.between(2, 0.35, 0.55) * math.sin(math.sqrt(G / (long - 0.4)) * t)
    x, up = who.x + long * math.sin(angle), long + 0.15 - long * math.cos(angle)
    rods = [rod((side * 0.3, -0.6, 0.0), (0.0, -long, 0.0), 0.025, "second") for side in (-1, 1)]
    lean = about("z", -angle)
    return [who.put(x, up, 0.0, lean), Placed(rods, (x, -up, who.z), 0.0, 1.0, lean)]


def _spins(who: Mover, t: float) -> list[Placed]:
    """Turns on a turntable."""
    return [who.put(who.x, 0.0, who.side * 2 * math.pi * who.between(1, 0.4, 0.8) * t)]


def _rocks(who: Mover, t: float) -> list[Placed]:
    """Rocks on its base from side to side."""
    angle = who.between(1, 0.25, 0.45) * math.sin(2 * math.pi * who.between(2, 0.7, 1.0) * t)
    return [who.put(who.x, 0.0, 0.0, about("z", angle))]


def _passes(who: Mover, t: float) -> list[Placed]:
    """Crosses the picture at a constant speed, again and again from the same side."""
    way = (who.between(1, 1.6, 2.4) * t) % 3.8
    return [who.put(who.side * (way - 1.9), 0.0, who.side * math.pi / 2, way=way + 1e-3)]


_LAW: dict[str, Callable[[Mover, float], list[Placed]]] = dict(
    zip(LAWS, (_bounces, _slides, _swings, _spins, _rocks, _passes), strict=True)
)


def mover(thing: str, source: torch.Generator) -> Mover:
    """A random thing of a kind."""
    textures = range(photographic("train").count)
    makers: dict[str, Callable[[torch.Generator], list[Part]]] = {
        "person": lambda _: [],
        "ball": lambda _: [Part(ELLIPSOID, (0.0, -0.3, 0.0), (0.3, 0.3, 0.3))],
        "chair": FURNITURE["chair"],
        "plant": FURNITURE["plant"],
        "animal": animal,
        "box": lambda _: [Part(BOX, (0.0, -0.4, 0.0), (0.25, 0.4, 0.25))],
    }
    x, z = uniform(source, -0.3, 0.3), uniform(source, -0.6, 0.6)
    person = Person.drawn(source) if thing == "person" else None
    main, second = random_material(source, textures), random_material(source)
    numbers = (uniform(source, 0, 1), uniform(source, 0, 1), uniform(source, 0, 1))
    side = 2 * choice(source, 2) - 1
    return Mover(thing, x, z, person, main, second, makers[thing](source), 1.0, side, numbers)


def backdrop(source: torch.Generator, height: int, width: int) -> Stage:
    """A floor and a wall, perhaps with a sofa, a table or a shelf before it."""
    atlas = photographic("train")
    light = Light(torch.tensor([uniform(source, -1, 1), -1.2, uniform(source, -1.2, 0.1)]), uniform(source, 0.4, 0.7),
                  uniform(source, 0.45, 0.65))  # fmt: skip
    builder = SceneBuilder(atlas, light)
    builder.begin()
    surfaces = atlas.named(SURFACES)
    for half, at in (((40.0, 0.1, 40.0), (0.0, 0.1, 0.0)), ((40.0, 8.0, 0.2), (0.0, -8.0, uniform(source, 2.5, 5.0)))):
        grey = uniform(source, 0.3, 0.65)
        shade = [grey * uniform(source, 0.8, 1.2) for _ in range(3)]
        builder.add(BOX, at, half, colour=shade, texture=surfaces[choice(source, len(surfaces))],
                    blend=uniform(source, 0.2, 0.9), density=uniform(source, 40, 120))  # fmt: skip
    if choice(source, 2):
        kind = ("sofa", "table", "shelf")[choice(source, 3)]
        spot = (uniform(source, -2, 2), 0.0, uniform(source, 1.4, 2.2))
        place(builder, FURNITURE[kind](source), spot, uniform(source, -0.6, 0.6), 1.0,
              random_material(source, range(atlas.count)), random_material(source))  # fmt: skip
    position = torch.tensor([uniform(source, -0.6, 0.6), -uniform(source, 0.9, 1.4), -uniform(source, 2.9, 4.0)])
    rotation = look_at(position, torch.tensor([0.0, -0.7, 0.0]))
    wide = Pinhole(height + 2 * SHAKE, width + 2 * SHAKE, NEARNESS * height, position, rotation)
    view = render(builder.scene(), wide, 2, shadows=True)
    return Stage(view.image, view.depth, Pinhole(height, width, NEARNESS * height, position, rotation), light)


def film(
    law: str, thing: str, frames: int, source: torch.Generator, height: int = HEIGHT, width: int = WIDTH
) -> Tensor:
    """A video (T, 3, H, W), bytes, in which a thing moves by a law."""
    who = mover(thing, source)
    return filmed(backdrop(source, height, width), [(who, law, 0.0, frames / FPS)], frames, source, shake=False)


@dataclass(frozen=True)
class Lawful:
    """Rendered videos with two labels: ``labels`` for the law, ``things`` for the thing."""

    pixels: Tensor
    """(N, T, 3, H, W), bytes."""
    classes: tuple[str, ...] = LAWS

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def labels(self) -> tuple[int, ...]:
        return tuple(number % len(LAWS) for number in range(len(self)))

    @property
    def things(self) -> tuple[int, ...]:
        return tuple(_thing(number) for number in range(len(self)))

    def video(self, index: int) -> tuple[Video, int]:
        number = range(len(self))[index]
        return Kept(f"video {number}", self.pixels[number], FPS), self.labels[number]

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.pixels[index], self.labels[index]


def _thing(number: int) -> int:
    """Every law meets every thing once in 36 videos; the things shift from block to block of six."""
    return (number + number // len(LAWS)) % len(THINGS)


def lawful(count: int, frames: int, split: str) -> Lawful:
    """``count`` videos of ``frames`` frames, rendered once and kept on disk."""
    asked = {"count": count, "frames": frames, "split": split}
    return Lawful(rendered("laws", asked, CODE, partial(_rendered, count, frames, split))["pixels"])


def _rendered(count: int, frames: int, split: str) -> dict[str, Tensor]:
    taken = [
        film(LAWS[number % len(LAWS)], THINGS[_thing(number)], frames, generator("laws", split, number))
        for number in range(count)
    ]
    return {"pixels": torch.stack(taken)}
