"""Vehicles, people, animals, plants and buildings: what stands in streets and parks."""

from __future__ import annotations

import itertools
import math

import torch

from vergence.rendering.solids import BOX, CONE, CYLINDER, ELLIPSOID
from vergence.rendering.things import DARK, GLASS, METAL, SKIN, WOOD, Maker, Part, about, choice, rod, uniform


def car(source: torch.Generator) -> list[Part]:
    long, wide, high = uniform(source, 1.8, 2.2), uniform(source, 0.8, 0.92), uniform(source, 0.3, 0.38)
    cabin = uniform(source, 0.5, 0.62) * long
    parts = [
        Part(BOX, (0, -0.32 - high, 0), (wide, high, long), gloss=0.4),
        Part(ELLIPSOID, (0, -0.3 - 2 * high, -0.12 * long), (0.86 * wide, 0.62, cabin), GLASS, gloss=0.6),
        Part(BOX, (0, -0.3 - 2 * high - 0.52, -0.12 * long), (0.62 * wide, 0.04, 0.5 * cabin), gloss=0.4),
    ]
    across = about("z", math.pi / 2)
    for x in (-1, 1):
        for z in (-0.62, 0.62):
            parts.append(Part(CYLINDER, (x * 0.93 * wide, -0.32, z * long), (0.32, 0.11, 0.32), DARK, across))
            parts.append(Part(CYLINDER, (x * 0.99 * wide, -0.32, z * long), (0.17, 0.11, 0.17), METAL, across))
        parts.append(Part(ELLIPSOID, (x * 0.7 * wide, -0.5 - high, long), (0.16, 0.09, 0.06), (0.95, 0.93, 0.8)))
        parts.append(Part(ELLIPSOID, (x * 0.7 * wide, -0.5 - high, -long), (0.14, 0.09, 0.05), (0.7, 0.08, 0.06)))
    return parts


def bus(source: torch.Generator) -> list[Part]:
    long = uniform(source, 4.0, 5.5)
    across = about("z", math.pi / 2)
    wheels = [
        Part(CYLINDER, (x * 1.15, -0.45, z * long), (0.45, 0.15, 0.45), DARK, across)
        for x in (-1, 1)
        for z in (-0.65, 0.6)
    ]
    return [
        Part(BOX, (0, -1.65, 0), (1.25, 1.3, long), gloss=0.3),
        Part(BOX, (0, -2.1, 0.05), (1.27, 0.42, 0.94 * long), GLASS, gloss=0.6),
        Part(BOX, (0, -2.0, 0.1), (1.1, 0.55, long), GLASS, gloss=0.6),
        *wheels,
    ]


def bicycle(source: torch.Generator) -> list[Part]:
    radius, half = uniform(source, 0.3, 0.36), uniform(source, 0.48, 0.54)
    parts: list[Part] = []
    angles = torch.linspace(0, 2 * math.pi, 17).tolist()
    for z in (-half, half):
        rim = [(0.0, -radius + radius * math.sin(a), z + radius * math.cos(a)) for a in angles]
        parts += [rod(a, b, 0.022, DARK) for a, b in itertools.pairwise(rim)]
        parts += [rod((0, -radius, z), rim[k], 0.006, METAL) for k in range(0, 16, 2)]
    crank, seat, head = (0.0, -radius, -0.05), (0.0, -0.8, -0.2), (0.0, -0.82, 0.32)
    hub, front = (0.0, -radius, -half), (0.0, -radius, half)
    for a, b in ((crank, seat), (seat, head), (crank, head), (hub, crank), (hub, seat), (head, front)):
        parts.append(rod(a, b, 0.022))
    parts.append(Part(BOX, (0, -0.87, -0.22), (0.06, 0.025, 0.13), DARK))
    parts.append(rod((-0.25, -0.98, 0.28), (0.25, -0.98, 0.28), 0.018, DARK))
    return [*parts, rod(head, (0.0, -0.98, 0.28), 0.02)]


def person(source: torch.Generator, stride: float | None = None) -> list[Part]:
    """A person who walks; ``stride`` is the angle of the legs, random if not given."""
    swing = uniform(source, -0.5, 0.5) if stride is None else stride
    build = uniform(source, 0.9, 1.15)
    parts: list[Part] = []
    for side in (-1, 1):
        hip = (side * 0.09, -0.92, 0.0)
        knee = (side * 0.1, -0.5, 0.42 * math.sin(side * swing))
        foot = (side * 0.1, -0.06, knee[2] + 0.4 * math.sin(min(side * swing, 0.1) - 0.1))
        parts += [rod(hip, knee, 0.075 * build, "second"), rod(knee, foot, 0.06 * build, "second")]
        parts.append(Part(ELLIPSOID, knee, (0.075 * build,) * 3, "second"))
        parts.append(Part(ELLIPSOID, (foot[0], -0.04, foot[2] + 0.06), (0.05, 0.04, 0.13), DARK))
        shoulder = (side * 0.19 * build, -1.42, 0.0)
        elbow = (side * 0.25 * build, -1.14, -0.26 * math.sin(side * swing))
        hand = (side * 0.24 * build, -0.9, elbow[2] + 0.14)
        parts += [rod(shoulder, elbow, 0.052 * build), rod(elbow, hand, 0.043 * build)]
        parts += [Part(ELLIPSOID, shoulder, (0.07 * build,) * 3), Part(ELLIPSOID, elbow, (0.052 * build,) * 3)]
        parts.append(Part(ELLIPSOID, hand, (0.045, 0.06, 0.045), SKIN))
    skin = tuple(uniform(source, 0.55, 1.0) * value for value in SKIN)
    hair = (uniform(source, 0.05, 0.5), uniform(source, 0.04, 0.3), uniform(source, 0.02, 0.15))
    parts += [
        Part(ELLIPSOID, (0, -1.2, 0), (0.18 * build, 0.32, 0.125 * build)),
        Part(ELLIPSOID, (0, -0.95, 0), (0.165 * build, 0.15, 0.125 * build), "second"),
        Part(CYLINDER, (0, -1.52, 0), (0.05, 0.06, 0.05), (skin[0], skin[1], skin[2])),
        Part(ELLIPSOID, (0, -1.65, 0.01), (0.085, 0.115, 0.1), (skin[0], skin[1], skin[2])),
        Part(ELLIPSOID, (0, -1.69, -0.02), (0.092, 0.1, 0.1), hair),
    ]
    return parts


def animal(source: torch.Generator) -> list[Part]:
    """A dog or a horse, by its proportions; its size is that of a dog."""
    legs, long = uniform(source, 0.25, 0.45), uniform(source, 0.28, 0.4)
    thick, neck = uniform(source, 0.1, 0.15), uniform(source, 0.1, 0.3)
    body = (0.0, -legs - thick, 0.0)
    head = (0.0, body[1] - neck - 0.06, long + 0.12)
    parts = [Part(ELLIPSOID, body, (thick, thick, long)), rod((0, body[1], 0.85 * long), head, 0.4 * thick)]
    parts += [Part(ELLIPSOID, head, (0.06, 0.065, 0.08)), rod(head, (0, head[1] + 0.03, head[2] + 0.13), 0.035)]
    for side in (-1, 1):
        parts.append(Part(CONE, (side * 0.04, head[1] - 0.08, head[2] - 0.02), (0.025, 0.05, 0.02), "second"))
        for z in (-0.75, 0.75):
            step = uniform(source, -0.08, 0.08)
            parts.append(rod((side * 0.6 * thick, body[1], z * long), (side * 0.6 * thick, 0, z * long + step), 0.035))
    tail = uniform(source, -0.25, 0.1)
    return [*parts, rod((0, body[1], -0.95 * long), (0, body[1] + tail, -long - 0.2), 0.02, "second")]


def tree(source: torch.Generator) -> list[Part]:
    trunk, crown = uniform(source, 1.2, 2.2), uniform(source, 0.8, 1.4)
    parts = [Part(CYLINDER, (0, -trunk / 2, 0), (0.12, trunk / 2, 0.12), WOOD)]
    if choice(source, 3) == 0:
        heights = [(trunk * 0.8 + 0.55 * k * crown, crown * (1 - 0.25 * k)) for k in range(3)]
        return [*parts, *(Part(CONE, (0, -y - 0.5 * r, 0), (0.7 * r, 0.6 * r, 0.7 * r)) for y, r in heights)]
    for _ in range(6):
        at = [uniform(source, -0.5, 0.5) * crown for _ in range(3)]
        size = crown * uniform(source, 0.45, 0.7)
        parts.append(Part(ELLIPSOID, (at[0], -trunk - 0.3 * crown + at[1], at[2]), (size, 0.85 * size, size)))
    return parts


def street_lamp(source: torch.Generator) -> list[Part]:
    high = uniform(source, 4, 6)
    return [
        Part(CYLINDER, (0, -high / 2, 0), (0.06, high / 2, 0.06), METAL),
        rod((0, -high, 0), (0.9, -high - 0.2, 0), 0.04, METAL),
        Part(ELLIPSOID, (0.95, -high - 0.18, 0), (0.25, 0.08, 0.12), (0.9, 0.9, 0.8)),
    ]


def sign(source: torch.Generator) -> list[Part]:
    high = uniform(source, 1.8, 2.4)
    post = Part(CYLINDER, (0, -high / 2, 0), (0.035, high / 2, 0.035), METAL)
    plate = Part(CYLINDER, (0, -high, 0.04), (0.3, 0.015, 0.3), (0.75, 0.1, 0.1), about("x", math.pi / 2))
    inner = Part(CYLINDER, (0, -high, 0.05), (0.22, 0.015, 0.22), (0.92, 0.92, 0.9), about("x", math.pi / 2))
    return [post, plate, inner]


def bench(source: torch.Generator) -> list[Part]:
    wide = uniform(source, 0.6, 0.9)
    slats = [Part(BOX, (0, -0.45, z), (wide, 0.018, 0.045)) for z in (-0.14, -0.02, 0.1)]
    back = [Part(BOX, (0, y, -0.2), (wide, 0.05, 0.018)) for y in (-0.66, -0.82)]
    sides = [Part(BOX, (side * 0.85 * wide, -0.23, -0.02), (0.03, 0.22, 0.15), "second") for side in (-1, 1)]
    posts = [Part(BOX, (side * 0.85 * wide, -0.65, -0.21), (0.03, 0.25, 0.015), "second") for side in (-1, 1)]
    return [*slats, *back, *sides, *posts]


def house(source: torch.Generator) -> list[Part]:
    wide, deep, high = uniform(source, 2.5, 4), uniform(source, 2.5, 4), uniform(source, 1.6, 3)
    parts = [Part(BOX, (0, -high, 0), (wide, high, deep))]
    slope = uniform(source, 0.35, 0.7) * wide
    # A gable roof: a square bar on its edge, squeezed, with its lower half in the house.
    squeezed = torch.diag(torch.tensor([1.06 * wide, slope, 1.0])) @ about("z", math.pi / 4)
    side = math.sqrt(0.5)
    parts.append(Part(BOX, (0, -2 * high, 0), (side, side, 1.05 * deep), "second", squeezed))
    floors = max(int(high / 1.3), 1)
    for floor in range(floors):
        y = -2 * high * (floor + 0.55) / floors
        for x in (-0.55, 0.0, 0.55):
            for z in (-1, 1):
                parts.append(Part(BOX, (x * wide, y, z * deep), (0.35, 0.5, 0.03), GLASS, gloss=0.5))
    return parts


OUTDOORS: dict[str, Maker] = {
    "car": car, "bus": bus, "bicycle": bicycle, "person": person, "animal": animal, "tree": tree, "bench": bench,
    "street lamp": street_lamp, "sign": sign, "house": house,
}  # fmt: skip
