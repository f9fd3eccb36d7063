"""Rendered videos in which things happen: people walk, jump, wave and throw; balls bounce and roll; a pendulum swings;
boxes fall and spin; cars pass.

Motion follows physics (gravity, pendulum, friction), so that speed and direction of time can be seen. A video is a
timeline of motions with stillness between them, in front of a room or a street, filmed by a hand that shakes a little;
bystanders may move all the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from vergence.data.photographs import SURFACES
from vergence.reid.people import STATURE, Person, Pose, body
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.furniture import FURNITURE
from vergence.rendering.outdoors import animal, car, tree
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.solids import BOX, ELLIPSOID
from vergence.rendering.textures import photographic
from vergence.rendering.things import Material, Part, about, choice, place, random_material, rod, uniform
from vergence.rendering.views import exposed, render

FPS = 15.0
"""Frames per second."""
G = 9.81
PEOPLE = ("walk", "jump", "wave", "throw")
THINGS = ("bounce", "roll", "swing", "fall", "spin", "drive")
MOTIONS = PEOPLE + THINGS
NEARNESS = 1.9
"""Focal length in heights of the picture."""
SHAKE = 3
"""Pixels by which a frame may be moved."""


class Span(NamedTuple):
    """A motion from one frame to another (excluded)."""

    start: int
    end: int
    motion: str


class Placed(NamedTuple):
    """A thing in one frame."""

    parts: Sequence[Part]
    at: tuple[float, float, float]
    yaw: float = 0.0
    size: float = 1.0
    lean: Tensor | None = None
    main: Material | None = None
    second: Material | None = None


@dataclass
class Actor:
    """Someone or something that can move: where it is at a time, given when its motion began and how long it takes."""

    kind: str
    x: float
    z: float
    person: Person | None
    main: Material
    second: Material
    parts: Sequence[Part]
    speed: float
    side: int
    """-1: to the left, 1: to the right."""

    def at(self, motion: str, t: float, length: float) -> list[Placed]:
        """What is seen ``t`` seconds after a motion of ``length`` seconds began; it is still before and after."""
        if self.person is not None:
            return self._person(motion, t, length)
        return [self._thing(motion, t, length)._replace(main=self.main, second=self.second)]

    def _person(self, motion: str, t: float, length: float) -> list[Placed]:
        assert self.person is not None
        inside = min(max(t, 0.0), length)
        active = 0.0 <= t <= length
        pose, x, y, yaw = Pose(0.0, 0.0, 0.25), self.x, 0.0, 0.4 * self.side
        extra: list[Placed] = []
        if motion == "walk":
            x += self.side * self.speed * inside
            phase = 2 * math.pi * 0.9 * self.speed * inside
            if active:
                pose, yaw = Pose(0.45 * math.sin(phase), 0.4 * math.sin(phase), 0.4), self.side * math.pi / 2
        elif motion == "jump" and active:
            y, crouch = _hop(inside, 0.25 + 0.1 * self.speed)
            pose = Pose(0.0, 0.0, 0.4, lift=0.4, crouch=crouch)
        elif motion == "wave" and active:
            pose = Pose(0.0, 0.0, 0.25 + 0.5 * math.sin(2 * math.pi * 1.6 * self.speed * inside), lift=2.3)
        elif motion == "throw":
            raised = 2.6 * math.sin(math.pi * min(inside / 0.7, 1.0)) if active else 0.0
            pose = Pose(0.0, 0.0, 0.25, lift=raised)
            extra = [self._thrown(t)]
        own = Placed(body(self.person, pose), (x, -y, self.z), yaw, self.person.height / STATURE, None, self.person.top,
                     self.person.bottom)  # fmt: skip
        return [own, *extra]

    def _thrown(self, t: float) -> Placed:
        """The ball: in the hand, then on a parabola, then it lies."""
        flight = max(t - 0.4, 0.0)
        up, along = 3.0 + self.speed, 1.6 * self.speed
        height = 1.5 + up * flight - G * flight**2 / 2
        landed = (up + math.sqrt(up**2 + 2 * G * 1.4)) / G
        flight = min(flight, landed)
        height = max(height, 0.1) if t > 0.4 else 1.0 + 0.5 * max(t, 0) / 0.4
        ball = [Part(ELLIPSOID, (0.0, 0.0, 0.0), (0.1, 0.1, 0.1))]
        return Placed(ball, (self.x + self.side * (0.3 + along * flight), -height, self.z - 0.3), main=self.main)

    def _thing(self, motion: str, t: float, length: float) -> Placed:
        inside = min(max(t, 0.0), length)
        if motion == "bounce":
            ball = [Part(ELLIPSOID, (0.0, 0.0, 0.0), (0.24, 0.24, 0.24))]
            return Placed(ball, (self.x, -0.24 - _bounced(inside, 1.2), self.z))
        if motion == "roll":
            slow = self.speed / max(length, 0.1)
            way = self.speed * 1.2 * inside - 0.6 * slow * inside**2
            ball = [Part(ELLIPSOID, (0.0, 0.0, 0.0), (0.28, 0.28, 0.28))]
            lean = about("z", self.side * way / 0.28)
            return Placed(ball, (self.x + self.side * way, -0.28, self.z), lean=lean)
        if motion == "swing":
            long = 1.1
            fade = math.exp(-1.2 * inside / max(length, 0.1)) * (1 - inside / max(length, 0.1) * 0.6)
            angle = 0.7 * fade * math.sin(math.sqrt(G / long) * inside) if 0 <= t <= length else 0.0
            tip = (long * math.sin(angle), -1.7 + long * math.cos(angle), 0.0)
            frame = [rod((foot, 0.0, 0.0), (0.0, -1.7, 0.0), 0.03, "second") for foot in (-0.6, 0.6)]
            bob = [rod((0.0, -1.7, 0.0), tip, 0.015, "second"), Part(ELLIPSOID, tip, (0.17, 0.17, 0.17))]
            return Placed([*frame, *bob], (self.x, 0.0, self.z))
        if motion == "fall":
            angle = min(0.04 * math.exp(3.2 * inside), math.pi / 2) if inside > 0 else 0.0
            tower = [Part(BOX, (-0.2 * self.side, -0.7, 0.0), (0.2, 0.7, 0.2))]
            return Placed(tower, (self.x + 0.2 * self.side, 0.0, self.z), lean=about("z", self.side * angle))
        if motion == "spin":
            share = inside / max(length, 0.1)
            turns = 1.5 * self.speed * length * (share**2 * (3 - 2 * share))
            return Placed(self.parts, (self.x, 0.0, self.z), self.side * 2 * math.pi * turns / 3)
        way = 4.0 * self.speed * inside - 2.0 * self.speed * length
        parked = t < 0 or t > length
        x = self.side * (30.0 if parked else way)  # out of sight before and after
        return Placed(self.parts, (x, 0.0, self.z + 4.0), self.side * math.pi / 2)


def _hop(t: float, height: float) -> tuple[float, float]:
    """Height above the ground and bend of the knees, hop after hop."""
    up = math.sqrt(2 * G * height)
    air = 2 * up / G
    t %= air + 0.5
    if t < 0.25:
        return 0.0, 0.75 * math.sin(math.pi / 2 * t / 0.25)
    if t < 0.25 + air:
        flight = t - 0.25
        return up * flight - G * flight**2 / 2, 0.15
    return 0.0, 0.75 * (1 - (t - 0.25 - air) / 0.25)


def _bounced(t: float, height: float) -> float:
    """Height of a ball dropped from ``height``, which loses a part of its speed at each bounce."""
    fall = math.sqrt(2 * height / G)
    if t < fall:
        return height - G * t**2 / 2
    t -= fall
    speed = 0.8 * G * fall
    while speed > 0.3:
        air = 2 * speed / G
        if t < air:
            return speed * t - G * t**2 / 2
        t -= air
        speed *= 0.8
    return 0.0


def actor(motion: str, source: torch.Generator, x: float = 0.0, z: float = 0.0) -> Actor:
    """A random actor for a motion."""
    textures = range(photographic("train").count)
    main, second = random_material(source, textures), random_material(source)
    person = Person.drawn(source) if motion in PEOPLE else None
    maker = car if motion == "drive" else (FURNITURE["chair"], animal, FURNITURE["plant"])[choice(source, 3)]
    side = 2 * choice(source, 2) - 1
    return Actor(motion, x, z, person, main, second, maker(source), uniform(source, 0.7, 1.3), side)


@dataclass(frozen=True)
class Stage:
    """A filmed place: its picture and depth, with a margin for shaking, and the camera."""

    image: Tensor
    depth: Tensor
    camera: Pinhole
    light: Light


def stage(source: torch.Generator, height: int, width: int) -> Stage:
    """A random place, seen from a few metres away."""
    atlas = photographic("train")
    towards = torch.tensor([uniform(source, -1, 1), -1.2, uniform(source, -1.2, 0.1)])
    light = Light(towards, uniform(source, 0.4, 0.7), uniform(source, 0.45, 0.65))
    builder = SceneBuilder(atlas, light)
    builder.begin()
    surfaces = atlas.named(SURFACES)
    for half, at in (((40.0, 0.1, 40.0), (0.0, 0.1, 0.0)), ((40.0, 8.0, 0.2), (0.0, -8.0, uniform(source, 2.5, 6.0)))):
        grey = uniform(source, 0.3, 0.65)
        shade = [grey * uniform(source, 0.8, 1.2) for _ in range(3)]
        which = surfaces[choice(source, len(surfaces))] if choice(source, 3) else choice(source, atlas.count)
        builder.add(BOX, at, half, colour=shade, texture=which, blend=uniform(source, 0.2, 0.9),
                    density=uniform(source, 40, 120))  # fmt: skip
    for _ in range(choice(source, 4)):
        maker = (tree, *FURNITURE.values())[choice(source, 1 + len(FURNITURE))]
        spot = (uniform(source, -3, 3), 0.0, uniform(source, 1.2, 2.4))
        place(builder, maker(source), spot, uniform(source, 0, 6.28), 1.0, random_material(source, range(atlas.count)),
              random_material(source))  # fmt: skip
    position = torch.tensor([uniform(source, -0.8, 0.8), -uniform(source, 1.0, 1.8), -uniform(source, 4.0, 5.5)])
    rotation = look_at(position, torch.tensor([0.0, -0.9, 0.0]))
    wide = Pinhole(height + 2 * SHAKE, width + 2 * SHAKE, NEARNESS * height, position, rotation)
    view = render(builder.scene(), wide, 2, shadows=True)
    return Stage(view.image, view.depth, Pinhole(height, width, NEARNESS * height, position, rotation), light)


def filmed(
    scene: Stage,
    actors: Sequence[tuple[Actor, str, float, float]],
    frames: int,
    source: torch.Generator,
    shake: bool = True,
) -> Tensor:
    """A video (T, 3, H, W), bytes: actors with their motion, the second it begins and its length."""
    height, width = scene.camera.height, scene.camera.width
    drift = torch.zeros(2)
    taken = []
    for frame in range(frames):
        builder = SceneBuilder(photographic("train"), scene.light)
        builder.begin()
        for who, motion, start, length in actors:
            for thing in who.at(motion, frame / FPS - start, length):
                place(builder, thing.parts, thing.at, thing.yaw, thing.size, thing.main, thing.second, thing.lean)
        if shake:
            drift = (0.85 * drift + 0.5 * torch.randn(2, generator=source)).clamp(-SHAKE, SHAKE)
        dx, dy = (int(v) for v in drift.round())
        taken.append(_composed(scene, builder, dx, dy, height, width))
    film = torch.stack(taken)
    grain = exposed(film[0], source, gain=0.1, blur=0.0, noise=0.0) - film[0]  # one exposure for the whole video
    noise = 0.012 * torch.randn(film.shape, generator=source)
    return ((film + grain.mean() + noise).clamp(0, 1) * 255).round().to(torch.uint8)


def _composed(scene: Stage, builder: SceneBuilder, dx: int, dy: int, height: int, width: int) -> Tensor:
    top, left = SHAKE + dy, SHAKE + dx
    image = scene.image[:, top : top + height, left : left + width]
    middle = ((width - 1) / 2 - dx, (height - 1) / 2 - dy)
    camera = Pinhole(height, width, scene.camera.focal, scene.camera.position, scene.camera.rotation, middle)
    view = render(builder.scene(), camera, 1)
    front = view.depth < scene.depth[top : top + height, left : left + width]
    return torch.where(front, view.image, image)


class Film(NamedTuple):
    """A video with what happens in it."""

    frames: Tensor
    """(T, 3, H, W), bytes."""
    spans: tuple[Span, ...]


def clip(motion: str, frames: int, height: int, width: int, source: torch.Generator) -> Film:
    """A short video in which one motion goes on all the time."""
    scene = stage(source, height, width)
    who = actor(motion, source, uniform(source, -0.6, 0.6), uniform(source, -0.8, 0.6))
    length = frames / FPS + 0.4
    if motion in ("walk", "roll"):
        who.x = -who.side * uniform(source, 0.5, 1.1)
    taken = filmed(scene, [(who, motion, -uniform(source, 0.0, 0.3), length)], frames, source)
    return Film(taken, (Span(0, frames, motion),))


def timeline(
    motions: Sequence[str], frames: int, height: int, width: int, source: torch.Generator, bystanders: float = 0.4
) -> Film:
    """A long video: each motion once, in order, with stillness before, between and after; perhaps a bystander who walks
    about in the background all the time."""
    scene = stage(source, height, width)
    shares = torch.rand(2 * len(motions) + 1, generator=source) + 0.35
    borders = [0, *(shares.cumsum(0) / shares.sum() * frames).round().long().tolist()]
    spans, actors = [], []
    for number, motion in enumerate(motions):
        start, end = borders[2 * number + 1], borders[2 * number + 2]
        x = (number - (len(motions) - 1) / 2) * 1.1 + uniform(source, -0.2, 0.2)
        who = actor(motion, source, x, uniform(source, -0.6, 0.8))
        actors.append((who, motion, start / FPS, (end - start) / FPS))
        spans.append(Span(start, end, motion))
    if uniform(source, 0, 1) < bystanders:
        who = actor("walk", source, -3.0, 1.6)
        who.side, who.speed = 1, 6.0 / (frames / FPS)
        actors.append((who, "walk", 0.0, frames / FPS))
    return Film(filmed(scene, actors, frames, source), tuple(spans))
