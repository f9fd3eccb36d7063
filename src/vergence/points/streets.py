"""Rendered streets: scans from a moving car at two instants, with the exact flow of every point.

Buildings, parked and driving cars, people, poles, trees and hedges stand along a road. Rays of a spinning lidar or a
depth camera are cast at both instants, so that no point has an exact match, near surfaces are dense, far ones sparse,
and occluded ones missing. Every object is a box, a cylinder or an ellipsoid that moves rigidly: the flow of a point is
the motion of its object relative to the moving sensor. Axes are left, up, forward, in metres; the sensor is at the
origin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.points.data import Scene

RANGE = 35.0
"""Range of the sensor, in metres."""
RAYS = 4
"""Rays cast per point asked for, since many hit only the sky."""
NOISE = 0.02
"""Standard deviation of a measured range, in metres."""
PATTERNS = ("laser", "laser-front", "camera")
"""A spinning lidar, its front view only, and a depth camera."""
BOX, CYLINDER, ELLIPSOID = range(3)


@dataclass(frozen=True)
class Streets:
    """Scenes generated on access, each from its own seed."""

    count: int
    points: int
    seed: tuple[int | str, ...]
    aligned: bool = False

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Scene:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return street(self.points, generator("street", *self.seed, index))


@dataclass(frozen=True)
class Things:
    """Objects (O) at one instant: shape, centre, half sizes, heading about the vertical axis."""

    shape: Tensor  # (O,)
    centre: Tensor  # (O, 3)
    half: Tensor  # (O, 3)
    yaw: Tensor  # (O,)

    def only(self, some: Tensor) -> Things:
        return Things(self.shape[some], self.centre[some], self.half[some], self.yaw[some])


def street(points: int, source: torch.Generator) -> Scene:
    """One scene with up to ``points`` points in each cloud."""
    things, speed, turn = _objects(source)
    step, swing = _motion(source)
    with_ground = _draw(source) < 0.5
    height = 1.5 + 0.5 * _draw(source)  # of the sensor above the ground
    pattern = PATTERNS[int(_draw(source) * len(PATTERNS))]
    p, owner = _scan(things, height, with_ground, pattern, points, source)
    later = Things(things.shape, _seen(things.centre + speed, step, swing), things.half, things.yaw + turn - swing)
    q, _ = _scan(later, height, with_ground, pattern, points, source)
    flow = _moved(p, owner, things, speed, turn, step, swing) - p
    return Scene(p, q, flow, torch.ones(len(p), dtype=torch.bool))


def _moved(
    p: Tensor, owner: Tensor, things: Things, speed: Tensor, turn: Tensor, step: Tensor, swing: Tensor
) -> Tensor:
    """Later positions of points (N, 3) of objects (N,), in the axes of the later sensor; object -1 is the ground."""
    moving = owner >= 0
    mine = owner.clamp_min(0)
    centre = things.centre[mine]
    by = turn[mine] * moving
    world = centre + _turned(p - centre, by) + speed[mine]
    return _seen(torch.where(moving.unsqueeze(1), world, p), step, swing)


def _seen(points: Tensor, step: Tensor, swing: Tensor) -> Tensor:
    """Points in the axes of a sensor that has moved by ``step`` and turned by ``swing``."""
    return _turned(points - step, (-swing).expand(len(points)))


def _turned(points: Tensor, angle: Tensor) -> Tensor:
    """Points (N, 3) rotated about the vertical axis by angles (N,), from forward to the left."""
    x, y, z = points.unbind(1)
    sine, cosine = angle.sin(), angle.cos()
    return torch.stack([cosine * x + sine * z, y, cosine * z - sine * x], 1)


# Objects -------------------------------------------------------------------------------------------------------------


def _draw(source: torch.Generator, low: float = 0.0, high: float = 1.0) -> float:
    return low + (high - low) * float(torch.rand((), generator=source))


def _motion(source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ego-motion in a tenth of a second: at most 1.6 m forward and three degrees of rotation."""
    forward = 0.0 if _draw(source) < 0.15 else _draw(source, 0.0, 1.6)
    step = torch.tensor([_draw(source, -0.05, 0.05), _draw(source, -0.03, 0.03), forward])
    return step, torch.tensor(math.radians(_draw(source, -3, 3)))


class _Builder:
    """Collects objects and their motion."""

    def __init__(self, source: torch.Generator) -> None:
        self.source = source
        self.rows: list[tuple[int, list[float], list[float], float, list[float], float]] = []

    def draw(self, low: float, high: float) -> float:
        return _draw(self.source, low, high)

    def add(
        self,
        shape: int,
        centre: tuple[float, float, float],
        half: tuple[float, float, float],
        yaw: float = 0.0,
        speed: tuple[float, float, float] = (0.0, 0.0, 0.0),
        turn: float = 0.0,
    ) -> None:
        self.rows.append((shape, list(centre), list(half), yaw, list(speed), turn))

    def stacked(self) -> tuple[Things, Tensor, Tensor]:
        shape, centre, half, yaw, speed, turn = zip(*self.rows, strict=True)
        return (
            Things(torch.tensor(shape), torch.tensor(centre), torch.tensor(half), torch.tensor(yaw)),
            torch.tensor(speed),
            torch.tensor(turn),
        )


GROUND = -1.7
"""Height at which objects stand; the rendered ground differs a little from it."""


def _objects(source: torch.Generator) -> tuple[Things, Tensor, Tensor]:
    build = _Builder(source)
    road = build.draw(4.0, 7.0)  # half its width
    for side in (-1.0, 1.0):
        _houses(build, side, road)
        _roadside(build, side, road)
    for _ in range(int(build.draw(1, 5))):
        away = build.draw(0, 1) < 0.5  # in our direction, on the right; x points to the left
        x, heading = (-0.45 * road, 0.0) if away else (0.45 * road, math.pi)
        _car(build, x, build.draw(-30, 32), heading, build.draw(0.2, 2.0), build.draw(-0.05, 0.05))
    for _ in range(int(build.draw(0, 6))):
        _person(build, build.draw(-road - 3, road + 3), build.draw(-12, 25))
    return build.stacked()


def _houses(build: _Builder, side: float, road: float) -> None:
    back = road + build.draw(2, 7)
    z = -34.0
    while z < 36:
        length = build.draw(6, 18)
        if build.draw(0, 1) < 0.8:
            height, depth = build.draw(3, 12), build.draw(3, 7)
            x = side * (back + build.draw(0, 2.5) + depth / 2)
            build.add(BOX, (x, GROUND + height / 2, z + length / 2), (depth / 2, height / 2, length / 2))
        z += length + build.draw(0, 4)


def _roadside(build: _Builder, side: float, road: float) -> None:
    z = -30.0
    while z < 34:
        kind = build.draw(0, 1)
        x = side * (road + build.draw(-0.6, 1.8))
        if kind < 0.35:
            _car(build, side * (road - 0.9), z, 0.0 if build.draw(0, 1) < 0.5 else math.pi, 0.0, 0.0)
        elif kind < 0.6:
            tall = build.draw(2.5, 7)
            build.add(CYLINDER, (x, GROUND + tall / 2, z), (r := build.draw(0.06, 0.2), tall / 2, r))
        elif kind < 0.8:
            trunk, crown = build.draw(1.5, 3), build.draw(1.0, 2.5)
            build.add(CYLINDER, (x, GROUND + trunk / 2, z), (0.15, trunk / 2, 0.15))
            build.add(ELLIPSOID, (x, GROUND + trunk + crown * 0.8, z), (crown, crown * build.draw(0.8, 1.3), crown))
        else:
            long, tall = build.draw(1, 5), build.draw(0.5, 1.2)
            build.add(BOX, (x, GROUND + tall / 2, z), (build.draw(0.1, 0.5), tall / 2, long), build.draw(-0.1, 0.1))
        z += build.draw(3, 9)


def _car(build: _Builder, x: float, z: float, yaw: float, speed: float, turn: float) -> None:
    """Adds a car: a body and a cabin that move together."""
    wide, long, body = build.draw(0.8, 1.0), build.draw(1.8, 2.5), build.draw(0.35, 0.5)
    yaw += build.draw(-0.06, 0.06)
    motion = (speed * math.sin(yaw), 0.0, speed * math.cos(yaw))
    build.add(BOX, (x, GROUND + 0.25 + body, z), (wide, body, long), yaw, motion, turn)
    roof = build.draw(0.25, 0.6)
    cabin = (wide * 0.9, roof, long * build.draw(0.45, 0.7))
    build.add(BOX, (x, GROUND + 0.25 + 2 * body + roof, z), cabin, yaw, motion, turn)


def _person(build: _Builder, x: float, z: float) -> None:
    heading, pace = build.draw(-math.pi, math.pi), build.draw(0.0, 0.2)
    speed = (pace * math.sin(heading), 0.0, pace * math.cos(heading))
    tall = build.draw(1.5, 1.9)
    build.add(CYLINDER, (x, GROUND + tall / 2, z), (r := build.draw(0.2, 0.32), tall / 2, r), 0.0, speed)


# Scanning ------------------------------------------------------------------------------------------------------------


def _scan(
    things: Things, height: float, ground: bool, pattern: str, points: int, source: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Points (N, 3) hit by rays, and the object of each; -1 is the ground."""
    rays = _rays(pattern, RAYS * points, source)
    far = torch.full((len(rays),), RANGE)
    owner = torch.full((len(rays),), -2)
    if ground:
        down = rays[:, 1] < -1e-3
        reach = torch.where(down, -height / rays[:, 1].clamp_max(-1e-3), math.inf)
        owner[reach < far] = -1
        far = torch.minimum(far, reach)
    met = torch.full((len(things.shape), len(rays)), math.inf)
    for shape, meet in enumerate((_box, _cylinder, _ellipsoid)):
        same = (things.shape == shape).nonzero()[:, 0]
        if len(same):
            met[same] = meet(things.only(same), rays)
    nearest, which = met.min(0)
    owner = torch.where(nearest < far, which, owner)
    far = torch.minimum(far, nearest)
    chosen = (owner > -2).nonzero()[:, 0][:points]
    noise = NOISE * torch.randn(len(chosen), 1, generator=source)
    return rays[chosen] * (far[chosen].unsqueeze(1) + noise), owner[chosen]


def _rays(pattern: str, count: int, source: torch.Generator) -> Tensor:
    """Ray directions (R, 3): 64 rows of a lidar, or random ones in the view of a camera."""
    across, down = torch.rand(2, count, generator=source)
    if pattern != "camera":
        azimuth = (2 * across - 1) * (math.pi if pattern == "laser" else math.radians(50))
        elevation = torch.deg2rad(3.0 - 28.0 * (down * 64).floor() / 63)
    else:
        azimuth = (2 * across - 1) * math.radians(45)
        elevation = torch.deg2rad(18.0 - 40.0 * down)
    level = elevation.cos()
    return torch.stack([level * azimuth.sin(), elevation.sin(), level * azimuth.cos()], 1)


def _local(things: Things, rays: Tensor) -> tuple[Tensor, Tensor]:
    """The sensor (O, 1, 3) and the rays (O, R, 3) in the axes of each object."""
    angle = -things.yaw
    sine, cosine = angle.sin().unsqueeze(1), angle.cos().unsqueeze(1)

    def turned(v: Tensor) -> Tensor:
        x, y, z = v.unbind(-1)
        return torch.stack([cosine * x + sine * z, y.expand(len(angle), -1), cosine * z - sine * x], -1)

    return turned(-things.centre.unsqueeze(1)), turned(rays.unsqueeze(0).expand(len(angle), -1, -1))


def _box(things: Things, rays: Tensor) -> Tensor:
    """Distances at which rays hit boxes, (O, R); infinite if they miss."""
    origin, way = _local(things, rays)
    inverse = 1 / torch.where(way.abs() < 1e-6, 1e-6, way)
    half = things.half.unsqueeze(1)
    one, two = (-half - origin) * inverse, (half - origin) * inverse
    enter, leave = torch.minimum(one, two).amax(-1), torch.maximum(one, two).amin(-1)
    return torch.where((enter > 0) & (enter < leave), enter, math.inf)


def _quadratic(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The smaller root of ``a t^2 + 2 b t + c``; infinite if there is none above zero."""
    inside = b * b - a * c
    root = (-b - inside.clamp_min(0).sqrt()) / a.clamp_min(1e-9)
    return torch.where((inside > 0) & (root > 0), root, math.inf)


def _cylinder(things: Things, rays: Tensor) -> Tensor:
    """Distances at which rays hit the sides of vertical cylinders, (O, R)."""
    centre, radius = things.centre, things.half[:, :1]
    x, y, z = rays.unbind(1)
    a = (x * x + z * z).expand(len(centre), -1)
    b = -(centre[:, :1] * x + centre[:, 2:] * z)
    c = centre[:, :1] ** 2 + centre[:, 2:] ** 2 - radius**2
    t = _quadratic(a, b, c.expand_as(b))
    level = t * y - centre[:, 1:2]
    return torch.where(t.isfinite() & (level.abs() < things.half[:, 1:2]), t, math.inf)


def _ellipsoid(things: Things, rays: Tensor) -> Tensor:
    """Distances at which rays hit axis-aligned ellipsoids, (O, R)."""
    way, centre = rays.unsqueeze(0) / things.half.unsqueeze(1), things.centre / things.half
    b = -(way * centre.unsqueeze(1)).sum(-1)
    c = (centre * centre).sum(-1, keepdim=True) - 1
    return _quadratic((way * way).sum(-1), b, c.expand_as(b))
