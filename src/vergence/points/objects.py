"""Embedded clouds of single objects: surfaces of rendered things (chairs, cars, people, ...), sampled evenly, with
the class of the object and the part of each point.

Only the outside of the union of an object's solids is sampled. Axes are right, up, towards the viewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.rendered import rendered
from vergence.points.shapedata import Shape, normalised
from vergence.rendering.furniture import bottle, chair, lamp, mug, plant, sofa, table
from vergence.rendering.outdoors import animal, bench, bicycle, bus, car, house, person, tree
from vergence.rendering.solids import BOX, CONE, CYLINDER, ELLIPSOID
from vergence.rendering.things import DARK, METAL, Maker, Part, about, choice, uniform

CODE = ("vergence.rendering", "vergence.points.objects")


def aeroplane(source: torch.Generator) -> list[Part]:
    """A fuselage, two wings, tail planes with a fin, and two or four engines; it flies along the third axis."""
    long, thick = uniform(source, 0.85, 1.1), uniform(source, 0.08, 0.13)
    span, chord, sweep = uniform(source, 0.7, 1.05), uniform(source, 0.12, 0.2), uniform(source, 0.0, 0.6)
    place, low = uniform(source, -0.1, 0.15), uniform(source, -0.6, 0.6) * thick
    parts = [
        Part(CYLINDER, (0, 0, 0), (thick, 0.75 * long, thick), "main", about("x", math.pi / 2)),
        Part(ELLIPSOID, (0, 0, 0.75 * long), (thick, thick, 0.25 * long)),
        Part(CONE, (0, 0, -0.9 * long), (thick, 0.15 * long, thick), "main", about("x", math.pi / 2)),
    ]
    count, high = (0, 1, 1, 2)[choice(source, 4)], -thick * (1 + 4 * choice(source, 2))
    tail = 0.38 * span
    for side in (-1, 1):
        turn = about("y", side * sweep)
        back = place - 0.5 * span * math.sin(sweep)
        parts.append(Part(BOX, (side * 0.5 * span, low, back), (0.52 * span, 0.02, chord), "wing", turn))
        parts.append(Part(BOX, (side * 0.5 * tail, high, -0.92 * long), (0.52 * tail, 0.015, 0.08), "tail", turn))
        for number in range(count):
            x = (0.35 + 0.3 * number) * span
            at = (side * x, low + 0.07, place + 0.1 - x * math.sin(sweep))
            parts.append(Part(CYLINDER, at, (0.05, 0.12, 0.05), "engine", about("x", math.pi / 2)))
    fin = uniform(source, 0.22, 0.34)
    return [*parts, Part(BOX, (0, -thick - 0.5 * fin, -0.92 * long), (0.015, 0.6 * fin, 0.09), "tail")]


# Classes, and the parts of those that have some -----------------------------------------------------------------------

Naming = Callable[[Sequence[Part]], list[str]]
"""The part of the object that each of its solids belongs to."""


def _aeroplane_parts(parts: Sequence[Part]) -> list[str]:
    return ["body" if part.look == "main" else str(part.look) for part in parts]


def _animal_parts(parts: Sequence[Part]) -> list[str]:
    legs = ["head" if part.shape == CONE else "leg" for part in parts[4:-1]]
    return ["body", "head", "head", "head", *legs, "tail"]


def _bicycle_parts(parts: Sequence[Part]) -> list[str]:
    return ["wheel" if number < 48 else "frame" for number in range(len(parts))]


def _car_parts(parts: Sequence[Part]) -> list[str]:
    rest = ["wheel" if part.look in (DARK, METAL) else "body" for part in parts[3:]]
    return ["body", "cabin", "cabin", *rest]


def _chair_parts(parts: Sequence[Part]) -> list[str]:
    wide = parts[4].half[0]
    rest = ["arm" if abs(part.centre[0]) > 0.95 * wide else "back" for part in parts[5:]]
    return [*["leg"] * 4, "seat", *rest]


def _lamp_parts(parts: Sequence[Part]) -> list[str]:
    return ["base", "pole", "shade"]


def _mug_parts(parts: Sequence[Part]) -> list[str]:
    return ["body", "body", *["handle"] * (len(parts) - 2)]


def _person_parts(parts: Sequence[Part]) -> list[str]:
    side = [*["leg"] * 4, *["arm"] * 5]
    return [*side, *side, "torso", "torso", "head", "head", "head"]


def _table_parts(parts: Sequence[Part]) -> list[str]:
    return ["top" if part.look == "main" else "leg" for part in parts]


MAKERS: dict[str, Maker] = {
    "aeroplane": aeroplane, "animal": animal, "bench": bench, "bicycle": bicycle, "bottle": bottle, "bus": bus,
    "car": car, "chair": chair, "house": house, "lamp": lamp, "mug": mug, "person": person,
    "plant": plant, "sofa": sofa,
    "table": table, "tree": tree,
}  # fmt: skip
NAMINGS: dict[str, tuple[tuple[str, ...], Naming]] = {
    "aeroplane": (("body", "wing", "tail", "engine"), _aeroplane_parts),
    "animal": (("body", "head", "leg", "tail"), _animal_parts),
    "bicycle": (("frame", "wheel"), _bicycle_parts),
    "car": (("body", "cabin", "wheel"), _car_parts),
    "chair": (("back", "seat", "leg", "arm"), _chair_parts),
    "lamp": (("base", "pole", "shade"), _lamp_parts),
    "mug": (("body", "handle"), _mug_parts),
    "person": (("head", "torso", "arm", "leg"), _person_parts),
    "table": (("top", "leg"), _table_parts),
}


# Surfaces -------------------------------------------------------------------------------------------------------------


def sample_surface(parts: Sequence[Part], count: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """``count`` random points (count, 3), evenly spread over the outside of a thing, and the solid that each lies
    on."""
    shape = torch.tensor([part.shape for part in parts])
    half = torch.tensor([part.half for part in parts])
    turns = torch.stack([torch.eye(3) if part.turn is None else part.turn for part in parts])
    frame, centre = turns * half.unsqueeze(1), torch.tensor([part.centre for part in parts], dtype=torch.float32)
    inverse = torch.linalg.inv(frame)
    # Areas first, from a few points of each solid; then candidates in proportion.
    few = torch.arange(len(parts)).repeat_interleave(32)
    area = _areas(_unit_points(shape[few], source)[1], few, shape, frame, inverse).view(-1, 32).mean(1)
    numbers = (4 * count * area / area.sum()).ceil().long() + 8
    owner = torch.arange(len(parts)).repeat_interleave(numbers)
    local, normal = _unit_points(shape[owner], source)
    weight = _areas(normal, owner, shape, frame, inverse) / numbers[owner]
    points = (frame[owner] @ local.unsqueeze(2)).squeeze(2) + centre[owner]
    outside = ~_inside(points, owner, shape, inverse, centre)
    chosen = torch.multinomial(weight * outside + 1e-9 * weight, count, generator=source)
    return points[chosen], owner[chosen]


def _unit_points(shape: Tensor, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random points (n, 3), evenly spread over unit shapes (n,), with their normals."""
    n = len(shape)
    a, b, c = torch.rand(3, n, generator=source)
    angle = 2 * math.pi * a
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros(n)
    axis = (3 * b).long().clamp(max=2)
    sign = torch.where(c < 0.5, -1.0, 1.0)
    on_box = torch.nn.functional.one_hot(axis, 3) * sign.unsqueeze(1)
    flat = 2 * torch.rand(n, 3, generator=source) - 1
    box = torch.where(on_box != 0, on_box, flat)
    ball = torch.nn.functional.normalize(torch.randn(n, 3, generator=source), dim=1)
    radius = torch.rand(n, generator=source).sqrt()
    cap = torch.stack([radius * cos, sign, radius * sin], 1), torch.stack([zero, sign, zero], 1)
    round_about = torch.stack([cos, 2 * c - 1, sin], 1), torch.stack([cos, zero, sin], 1)
    side = (b < 2 / 3).unsqueeze(1)
    base = torch.stack([radius * cos, zero + 1, radius * sin], 1), torch.stack([zero, zero + 1, zero], 1)
    slant = torch.stack([radius * cos, 2 * radius - 1, radius * sin], 1), torch.stack([cos, zero - 0.5, sin], 1)
    steep = (b < math.sqrt(5) / (1 + math.sqrt(5))).unsqueeze(1)
    cylinder = [torch.where(side, *pair) for pair in zip(round_about, cap, strict=True)]
    cone = [torch.where(steep, *pair) for pair in zip(slant, base, strict=True)]
    by_shape = {BOX: (box, on_box), ELLIPSOID: (ball, ball), CYLINDER: cylinder, CONE: cone}
    points, normals = torch.empty(n, 3), torch.empty(n, 3)
    for which, (place, normal) in by_shape.items():
        mine = shape == which
        points[mine], normals[mine] = place[mine], normal[mine].float()
    return points, torch.nn.functional.normalize(normals, dim=1)


_UNIT = {BOX: 24.0, ELLIPSOID: 4 * math.pi, CYLINDER: 6 * math.pi, CONE: math.pi * (1 + math.sqrt(5))}


def _areas(normal: Tensor, owner: Tensor, shape: Tensor, frame: Tensor, inverse: Tensor) -> Tensor:
    """By how much an affine map stretches the surface with this normal, times the area of the unit shape."""
    unit = torch.tensor([_UNIT[kind] for kind in range(4)])[shape[owner]]
    stretch = torch.linalg.det(frame)[owner].abs() * torch.einsum("nij,ni->nj", inverse[owner], normal).norm(dim=1)
    return unit * stretch


def _inside(points: Tensor, owner: Tensor, shape: Tensor, inverse: Tensor, centre: Tensor) -> Tensor:
    """Whether points (n, 3) lie inside a solid other than their own."""
    local = torch.einsum("pij,npj->npi", inverse, points.unsqueeze(1) - centre)
    x, y, z = local.unbind(2)
    around, cube = (x * x + z * z).sqrt(), local.abs().amax(2)
    depth = torch.stack([
        cube, local.norm(dim=2), torch.maximum(around, y.abs()), torch.maximum(2 * around - y, y)
    ])  # fmt: skip  # below 1 inside
    within = depth.gather(0, shape.expand(1, len(points), -1)).squeeze(0) < 1 - 1e-3
    within[torch.arange(len(points)), owner] = False
    return within.any(1)


# Data -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EmbeddedShapes:
    """Sampled objects in memory."""

    clouds: Tensor  # (S, P, 3)
    labels: Tensor  # (S,)
    owners: Tensor  # (S, P), parts
    classes: tuple[str, ...]
    parts: tuple[int, ...] = ()
    part_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.clouds)

    def __getitem__(self, index: int) -> Shape:
        return Shape(self.clouds[index].float(), int(self.labels[index]), self.owners[index].long())


def embedded_shapes(count: int, points: int, parts: bool, turned: bool, *seed: int | str) -> EmbeddedShapes:
    """``count`` objects of all classes in turn, of those with named parts if ``parts``; each from its own seed."""
    classes = tuple(NAMINGS) if parts else tuple(MAKERS)
    asked = {"count": count, "points": points, "parts": parts, "turned": turned, "seed": seed}

    def render() -> dict[str, Tensor]:
        made = [
            make_object(classes[n % len(classes)], points, turned, generator("object", *seed, n)) for n in range(count)
        ]
        clouds, owners = zip(*made, strict=True)
        return {"clouds": torch.stack(clouds).half(), "owners": torch.stack(owners).to(torch.uint8)}

    kept = rendered("objects", asked, CODE, render)
    shapes = EmbeddedShapes(kept["clouds"], torch.arange(count) % len(classes), kept["owners"], classes)
    if not parts:
        return shapes
    names = [NAMINGS[name][0] for name in classes]
    first = torch.tensor([0, *map(len, names)]).cumsum(0)[shapes.labels]
    full = tuple(f"{name} {part}" for name, own in zip(classes, names, strict=True) for part in own)
    numbered = shapes.owners.long() + first.unsqueeze(1)
    return replace(shapes, owners=numbered, parts=tuple(map(len, names)), part_names=full)


def make_object(name: str, points: int, turned: bool, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """A random object of a class, on the unit sphere, and the part of each point by its number in the class (0 without
    parts)."""
    solids = MAKERS[name](source)
    cloud, owner = sample_surface(solids, points, source)
    cloud = cloud * (0.85 + 0.3 * torch.rand(3, generator=source)) * torch.tensor([1.0, -1.0, -1.0])
    if turned:
        cloud = cloud @ about("y", uniform(source, 0, 2 * math.pi)).mT
    numbers = torch.zeros(len(solids), dtype=torch.long)
    if name in NAMINGS:
        known, naming = NAMINGS[name]
        numbers = torch.tensor([known.index(part) for part in naming(solids)])
    return normalised(cloud), numbers[owner]
