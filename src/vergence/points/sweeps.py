"""Rendered LiDAR sweeps of streets, with the class of every point.

A scanner with 16 to 64 beams stands on a car in a street with buildings, fences, hedges, trees, parked and driving
cars, people, cyclists, poles and signs. Rays are cast against solids; points carry the noise of a real range, drop out
where surfaces are dark, far or grazing, and have an intensity by material and angle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.rendered import rendered
from vergence.points.classes import ClassSet
from vergence.points.semantickitti import CLASS_SET, CLASSES, Sweep
from vergence.rendering.outdoors import bench, bicycle, bus, car, house, person, sign, street_lamp, tree
from vergence.rendering.solids import BOX, CYLINDER, ELLIPSOID, Solids, cast, normals
from vergence.rendering.things import Part, about, choice, uniform

HEIGHT = 1.73
"""The scanner is this far above the road, in metres."""
REACH = 80.0
"""The farthest range, in metres."""
TILT = 0.02
"""Roads are not level: the scanner is tilted by up to this angle."""
NOISE = 0.02
"""Deviation of a range, in metres."""
LEAVES = 0.15
"""Deviation of a range in vegetation."""
CAR, BICYCLE, TRUCK, OTHER = map(CLASSES.index, ("car", "bicycle", "truck", "other-vehicle"))
PERSON, BICYCLIST = map(CLASSES.index, ("person", "bicyclist"))
ROAD, PARKING, SIDEWALK, TERRAIN = map(CLASSES.index, ("road", "parking", "sidewalk", "terrain"))
BUILDING, FENCE, VEGETATION, TRUNK = map(CLASSES.index, ("building", "fence", "vegetation", "trunk"))
POLE, SIGN = map(CLASSES.index, ("pole", "traffic-sign"))
ALBEDO = {
    CAR: 0.35, BICYCLE: 0.25, TRUCK: 0.35, OTHER: 0.35, PERSON: 0.35, BICYCLIST: 0.35, ROAD: 0.25, PARKING: 0.25,
    SIDEWALK: 0.35, BUILDING: 0.4, FENCE: 0.35, VEGETATION: 0.35, TRUNK: 0.3, TERRAIN: 0.35, POLE: 0.4, SIGN: 0.85,
}  # fmt: skip
"""Typical intensity of a class; each solid has its own around it."""


@dataclass(frozen=True)
class Scanner:
    """Beams of a spinning scanner."""

    beams: int = 64
    columns: int = 2048
    up: float = 3.0
    """Degrees above the horizon of the first beam."""
    down: float = 25.0
    """Degrees below the horizon of the last one."""


@dataclass
class _Street:
    """Solids with the class and brightness of each."""

    source: torch.Generator
    rows: list[tuple[int, Tensor, Tensor, int, float]] = field(default_factory=list)

    def add(self, part: Part, label: int, at: tuple[float, float, float], yaw: float = 0.0, size: float = 1.0) -> None:
        turn = about("y", yaw)
        own = turn if part.turn is None else turn @ part.turn
        frame = own @ torch.diag(size * torch.tensor(part.half, dtype=torch.float32))
        centre = torch.tensor(at) + size * (turn @ torch.tensor(part.centre, dtype=torch.float32))
        bright = ALBEDO[label] * uniform(self.source, 0.5, 1.5)
        self.rows.append((part.shape, frame, centre, label, bright))

    def put(self, parts: list[Part], label: int, at: tuple[float, float, float], yaw: float, size: float = 1.0) -> None:
        for part in parts:
            self.add(part, label, at, yaw, size)

    def block(self, label: int, centre: tuple[float, float, float], half: tuple[float, float, float]) -> None:
        self.add(Part(BOX, (0.0, 0.0, 0.0), half), label, centre)


def street_sweep(source: torch.Generator, scanner: Scanner = Scanner()) -> Sweep:
    """One sweep in a random street."""
    street = _built(source)
    shape, frame, centre, label, bright = zip(*street.rows, strict=True)
    solids = Solids(
        torch.tensor(shape), torch.stack(frame), torch.stack(centre), torch.zeros(len(shape), dtype=torch.bool)
    )
    rays = _rays(scanner, source)
    hits = cast(solids, torch.zeros(3), rays)
    facing = (normals(solids, hits) * rays).sum(1).abs()
    seen = hits.any & (hits.distance < REACH) & (hits.distance > 1.5)
    shine = torch.tensor(bright)[hits.owner] * facing.clamp(min=0.05).sqrt()
    # A weak echo is lost: far, dark or grazing.
    echo = shine / (1 + (hits.distance.clamp(max=REACH) / 45) ** 2)
    noise = torch.rand(len(rays), generator=source)
    seen &= (noise > 0.03) & (echo > 0.06 * torch.rand(len(rays), generator=source))
    label_of = torch.tensor(label)[hits.owner[seen]]
    rough = torch.where(label_of == VEGETATION, LEAVES, NOISE)  # leaves are no surface
    distance = hits.distance[seen] + rough * torch.randn(len(label_of), generator=source)
    x, y, z = (distance.unsqueeze(1) * rays[seen]).unbind(1)
    points = torch.stack([z, -x, -y], 1)  # forward, left, up
    grain = 0.04 * torch.randn(len(points), generator=source)
    return Sweep(points, (shine[seen] + grain).clamp(0, 0.99), label_of)


def _rays(scanner: Scanner, source: torch.Generator) -> Tensor:
    """Unit vectors (beams * columns, 3): right, down, forward."""
    pitch = torch.deg2rad(torch.linspace(scanner.up, -scanner.down, scanner.beams))
    pitch = pitch + 0.0008 * torch.randn(scanner.beams, generator=source)
    yaw = (torch.arange(scanner.columns) + torch.rand((), generator=source)) / scanner.columns * 2 * math.pi
    pitch, yaw = (angle.flatten() for angle in torch.meshgrid(pitch, yaw, indexing="ij"))
    rays = torch.stack([pitch.cos() * yaw.sin(), -pitch.sin(), pitch.cos() * yaw.cos()], 1)
    return rays @ (about("x", uniform(source, -TILT, TILT)) @ about("z", uniform(source, -TILT, TILT))).mT


def _built(source: torch.Generator) -> _Street:
    street = _Street(source)
    lane = uniform(source, 3.5, 7.0)
    walk = uniform(source, 1.5, 3.5)
    turn = uniform(source, -0.06, 0.06)
    street.block(TERRAIN, (0, HEIGHT + 0.25, 0), (120, 0.1, 120))
    street.block(ROAD, (0, HEIGHT + 0.1, 0), (lane, 0.1, 120))
    crossing = uniform(source, -40, 40)
    if choice(source, 3) == 0:
        street.block(ROAD, (0, HEIGHT + 0.1001, crossing), (120, 0.1, uniform(source, 3, 5)))
    for side in (-1, 1):
        _roadside(street, side, lane, walk, crossing, turn)
    _traffic(street, lane)
    return street


def _roadside(street: _Street, side: int, lane: float, walk: float, crossing: float, turn: float) -> None:
    source = street.source
    kerb = uniform(source, 0.06, 0.18)
    edge = lane + walk
    if choice(source, 4):
        street.block(SIDEWALK, (side * (lane + walk / 2), HEIGHT + 0.1 - kerb, 0), (walk / 2, 0.1, 120))
    if choice(source, 3) == 0:
        z = uniform(source, -25, 25)
        street.block(PARKING, (side * (edge + 3), HEIGHT + 0.12 - 0.02, z), (3, 0.1, uniform(source, 5, 12)))
        for number in range(choice(source, 4)):
            _car(street, side * (edge + 3), z - 6 + 3 * number, math.pi / 2)
    z = uniform(source, -60, -45)
    while z < 60:
        long = uniform(source, 6, 16)
        if abs(z - crossing) > 6:
            kind = choice(source, 6)
            back = edge + uniform(source, 0.5, 8)
            if kind < 3:
                high, deep = uniform(source, 2, 6), uniform(source, 3, 6)
                if choice(source, 2):
                    street.put(house(source), BUILDING, (side * (back + 4), HEIGHT, z), turn, uniform(source, 1.0, 1.6))
                else:
                    street.block(BUILDING, (side * (back + deep), HEIGHT - high, z), (deep, high, 0.48 * long))
            elif kind < 5:
                high = uniform(source, 0.4, 1.5)
                bush = Part(BOX, (0, -high, 0), (0.5, high, 0.45 * long))
                street.add(bush, VEGETATION, (side * (edge + 0.8), HEIGHT, z))
            else:
                _fence(street, side * (edge + 0.5), z, 0.5 * long)
        z += long
    for _ in range(6 + choice(source, 14)):
        _tree(street, (side * (edge + uniform(source, -1.0, 12.0)), HEIGHT, uniform(source, -50, 50)))
    for _ in range(choice(source, 25)):
        at = (side * (edge + uniform(source, 0, 10)), HEIGHT - 0.2, uniform(source, -40, 40))
        size = uniform(source, 0.4, 1.3)
        street.add(Part(ELLIPSOID, (0, 0, 0), (size, 0.7 * size, size)), VEGETATION, at)
    for _ in range(1 + choice(source, 4)):
        at = (side * (lane + uniform(source, 0.3, walk)), HEIGHT - 0.1, uniform(source, -40, 40))
        post = choice(source, 3)
        if post == 0:
            street.put(street_lamp(source), POLE, at, uniform(source, 0, 6.28))
        elif post == 1:
            parts = sign(source)
            street.add(parts[0], POLE, at)
            street.put(parts[1:], SIGN, at, uniform(source, 0, 6.28))
        else:
            radius, high = uniform(source, 0.04, 0.14), uniform(source, 1.5, 4)
            street.add(Part(CYLINDER, (0, -high, 0), (radius, high, radius)), POLE, at)
    for _ in range(choice(source, 6)):
        at = (side * (lane + uniform(source, 0.2, walk)), HEIGHT - 0.1, uniform(source, -25, 25))
        street.put(person(source), PERSON, at, uniform(source, 0, 6.28), uniform(source, 0.9, 1.1))
    for _ in range(choice(source, 3)):
        at = (side * (lane + uniform(source, 0.2, walk)), HEIGHT - 0.1, uniform(source, -25, 25))
        street.put(bicycle(source), BICYCLE, at, uniform(source, 0, 6.28))
    if choice(source, 4) == 0:
        street.put(
            bench(source), FENCE, (side * (edge - 0.4), HEIGHT - 0.1, uniform(source, -20, 20)), side * math.pi / 2
        )


def _traffic(street: _Street, lane: float) -> None:
    source = street.source
    for side in (-1, 1):
        if lane < 4.6 or choice(source, 3) == 0:
            continue  # no room to park
        z = uniform(source, -45, -30)
        dense = uniform(source, 6, 16)
        while z < 45:  # parked along the kerb
            if choice(source, 3):
                _car(street, side * (lane - 1.0), z, uniform(source, -0.05, 0.05) + (math.pi if side < 0 else 0))
            z += uniform(source, 5.2, dense)
    for _ in range(1 + choice(source, 4)):
        z = uniform(source, 9, 45) * (2 * choice(source, 2) - 1)
        x = uniform(source, -1.2, 1.2)
        kind = choice(source, 6)
        if kind == 0:
            street.put(
                bus(source), OTHER if choice(source, 2) else TRUCK, (x, HEIGHT, z), 0.0, uniform(source, 0.7, 1.0)
            )
        elif kind == 1:
            at = (x, HEIGHT, z)
            street.put(bicycle(source), BICYCLIST, at, 0.0)
            street.put(person(source, 0.3), BICYCLIST, (x, HEIGHT - 0.35, z - 0.1), 0.0, 0.85)
        else:
            _car(street, x, z, math.pi * choice(source, 2))


def _car(street: _Street, x: float, z: float, yaw: float) -> None:
    street.put(car(street.source), CAR, (x, HEIGHT, z), yaw, uniform(street.source, 0.9, 1.1))


def _tree(street: _Street, at: tuple[float, float, float]) -> None:
    parts = tree(street.source)
    size = uniform(street.source, 1.0, 2.4)
    street.add(parts[0], TRUNK, at, 0.0, size)
    street.put(parts[1:], VEGETATION, at, 0.0, size)


def _fence(street: _Street, x: float, z: float, half: float) -> None:
    high = uniform(street.source, 0.45, 0.9)
    if choice(street.source, 2):
        street.block(FENCE, (x, HEIGHT - high, z), (0.04, high, half))
        return
    for number in range(int(2 * half / 0.25)):
        street.block(FENCE, (x, HEIGHT - high, z - half + 0.25 * number), (0.02, high, 0.04))


@dataclass(frozen=True)
class RenderedSweeps:
    """Rendered sweeps, kept on disk once they were rendered."""

    sweeps: tuple[Sweep, ...]
    classes: ClassSet = CLASS_SET

    def __len__(self) -> int:
        return len(self.sweeps)

    def __getitem__(self, index: int) -> Sweep:
        return self.sweeps[index]


def rendered_sweeps(count: int, seed: tuple[int | str, ...], scanner: Scanner = Scanner()) -> RenderedSweeps:
    """``count`` sweeps, each from its own seed."""

    def render() -> dict[str, Tensor]:
        sweeps = [street_sweep(generator("sweep", *seed, number), scanner) for number in range(count)]
        return {
            "points": torch.cat([sweep.points for sweep in sweeps]).half(),
            "intensity": torch.cat([sweep.intensity for sweep in sweeps]).half(),
            "labels": torch.cat([sweep.labels for sweep in sweeps]).to(torch.uint8),
            "sizes": torch.tensor([len(sweep.points) for sweep in sweeps]),
        }

    asked = {"count": count, "seed": seed, "scanner": scanner}
    code = ("vergence.rendering", "vergence.points.sweeps", "vergence.points.semantickitti")
    tensors = rendered("sweeps", asked, code, render)
    sizes = tensors["sizes"].tolist()
    parts = (tensors[name].split(sizes) for name in ("points", "intensity", "labels"))
    whole = zip(*parts, strict=True)
    return RenderedSweeps(tuple(Sweep(p.float(), i.float(), labels.long()) for p, i, labels in whole))
