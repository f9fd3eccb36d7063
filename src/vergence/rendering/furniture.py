"""Furniture, and what stands on tables."""

from __future__ import annotations

import itertools
import math

import torch

from vergence.rendering.solids import BOX, CONE, CYLINDER, ELLIPSOID
from vergence.rendering.things import DARK, LEAF, Maker, Part, Vector, about, choice, rod, uniform


def _legs(width: float, depth: float, height: float, radius: float, look: str | Vector) -> list[Part]:
    corners = [(x * width, z * depth) for x in (-1, 1) for z in (-1, 1)]
    return [Part(CYLINDER, (x, -height / 2, z), (radius, height / 2, radius), look) for x, z in corners]


def chair(source: torch.Generator) -> list[Part]:
    seat, wide = uniform(source, 0.4, 0.5), uniform(source, 0.19, 0.25)
    tall, thick = uniform(source, 0.35, 0.6), uniform(source, 0.02, 0.04)
    parts = _legs(0.9 * wide, 0.9 * wide, seat, uniform(source, 0.015, 0.03), "second")
    parts.append(Part(BOX, (0, -seat, 0), (wide, thick, wide)))
    style = choice(source, 3)
    if style == 0:
        parts.append(Part(BOX, (0, -seat - tall / 2, -0.9 * wide), (wide, tall / 2, thick)))
    else:
        count = 2 + choice(source, 3) if style == 1 else 2
        for number in range(count):
            x = (2 * number / (count - 1) - 1) * 0.88 * wide
            parts.append(Part(BOX, (x, -seat - tall / 2, -0.9 * wide), (0.02, tall / 2, 0.02), "second"))
        parts.append(Part(BOX, (0, -seat - tall * 0.92, -0.9 * wide), (wide, 0.16 * tall, 0.02)))
    if choice(source, 3) == 0:
        for side in (-1, 1):
            parts.append(Part(BOX, (side * wide, -seat - 0.2, 0), (0.02, 0.015, 0.85 * wide), "second"))
            parts.append(Part(BOX, (side * wide, -seat - 0.1, 0.75 * wide), (0.015, 0.1, 0.015), "second"))
    return parts


def table(source: torch.Generator) -> list[Part]:
    high, wide, deep = uniform(source, 0.4, 0.78), uniform(source, 0.45, 0.9), uniform(source, 0.35, 0.5)
    if choice(source, 3) == 0:
        top = Part(CYLINDER, (0, -high, 0), (deep * 1.2, 0.02, deep * 1.2))
        base = Part(CYLINDER, (0, -0.02, 0), (deep * 0.6, 0.02, deep * 0.6), "second")
        return [top, base, Part(CYLINDER, (0, -high / 2, 0), (0.05, high / 2, 0.05), "second")]
    return [Part(BOX, (0, -high, 0), (wide, 0.025, deep)), *_legs(0.92 * wide, 0.9 * deep, high, 0.03, "second")]


def mug(source: torch.Generator) -> list[Part]:
    radius, high = uniform(source, 0.035, 0.05), uniform(source, 0.08, 0.12)
    parts = [Part(CYLINDER, (0, -high / 2, 0), (radius, high / 2, radius), gloss=0.4)]
    parts.append(Part(CYLINDER, (0, -high - 0.0005, 0), (0.86 * radius, 0.001, 0.86 * radius), (0.2, 0.1, 0.05)))
    angles = torch.linspace(-1.35, 1.35, 7)
    ring = [(radius + 0.6 * high * 0.5 * math.cos(a), -high / 2 + 0.36 * high * math.sin(a), 0.0) for a in angles]
    return [*parts, *(rod(a, b, 0.14 * radius) for a, b in itertools.pairwise(ring))]


def bottle(source: torch.Generator) -> list[Part]:
    radius, high = uniform(source, 0.03, 0.045), uniform(source, 0.16, 0.22)
    return [
        Part(CYLINDER, (0, -high / 2, 0), (radius, high / 2, radius), gloss=0.5),
        Part(ELLIPSOID, (0, -high, 0), (radius, radius, radius), gloss=0.5),
        Part(CYLINDER, (0, -high - 1.5 * radius, 0), (0.35 * radius, radius, 0.35 * radius), gloss=0.5),
        Part(CYLINDER, (0, -high - 2.6 * radius, 0), (0.42 * radius, 0.25 * radius, 0.42 * radius), "second"),
        Part(CYLINDER, (0, -high * 0.5, 0), (1.02 * radius, 0.22 * high, 1.02 * radius), "second"),
    ]


def bowl(source: torch.Generator) -> list[Part]:
    radius = uniform(source, 0.08, 0.13)
    fruit = [
        Part(ELLIPSOID, (0.5 * radius * math.cos(a), -0.75 * radius, 0.5 * radius * math.sin(a)), (0.035,) * 3, colour)
        for a, colour in zip((0.3, 2.4, 4.5), ((0.7, 0.15, 0.1), (0.85, 0.6, 0.1), (0.4, 0.6, 0.15)), strict=True)
    ]
    return [Part(CONE, (0, -0.35 * radius, 0), (radius, 0.35 * radius, radius), "main", about("x", math.pi)), *fruit]


def lamp(source: torch.Generator) -> list[Part]:
    high = uniform(source, 0.35, 0.6)
    return [
        Part(CYLINDER, (0, -0.01, 0), (0.09, 0.012, 0.09), "second"),
        Part(CYLINDER, (0, -high / 2, 0), (0.012, high / 2, 0.012), "second"),
        Part(CONE, (0, -high, 0), (0.15, 0.13, 0.15)),
    ]


def book(source: torch.Generator) -> list[Part]:
    wide, deep, thick = uniform(source, 0.07, 0.11), uniform(source, 0.1, 0.15), uniform(source, 0.01, 0.03)
    pages = Part(BOX, (0.004, -thick, 0), (wide, 0.8 * thick, 0.96 * deep), (0.88, 0.86, 0.8))
    covers = [Part(BOX, (0, y, 0), (wide, 0.1 * thick, deep)) for y in (-0.1 * thick, -1.9 * thick)]
    return [pages, *covers, Part(BOX, (-wide, -thick, 0), (0.1 * thick, thick, deep))]


def box(source: torch.Generator) -> list[Part]:
    half = [uniform(source, 0.12, 0.35) for _ in range(3)]
    return [Part(BOX, (0, -half[1], 0), (half[0], half[1], half[2]))]


def ball(source: torch.Generator) -> list[Part]:
    radius = uniform(source, 0.1, 0.14)
    return [Part(ELLIPSOID, (0, -radius, 0), (radius,) * 3, gloss=0.3)]


def plant(source: torch.Generator) -> list[Part]:
    high = uniform(source, 0.3, 0.7)
    parts = [Part(CYLINDER, (0, -0.12, 0), (0.12, 0.12, 0.12))]
    for _ in range(9):
        angle, reach, up = uniform(source, 0, 6.28), uniform(source, 0.1, 0.3), uniform(source, 0.4, 1.0)
        tip = (reach * math.cos(angle), -0.2 - high * up, reach * math.sin(angle))
        parts.append(rod((0, -0.2, 0), tip, 0.035, LEAF, ELLIPSOID))
    return parts


def sofa(source: torch.Generator) -> list[Part]:
    wide = uniform(source, 0.7, 1.05)
    return [
        Part(BOX, (0, -0.25, 0), (wide, 0.17, 0.4)),
        Part(BOX, (0, -0.55, -0.36), (wide, 0.3, 0.1)),
        *(Part(BOX, (side * wide, -0.36, 0), (0.1, 0.28, 0.42)) for side in (-1, 1)),
        *(Part(BOX, (side * 0.45 * wide, -0.46, 0.05), (0.43 * wide, 0.07, 0.34), "second") for side in (-1, 1)),
        *_legs(0.9 * wide, 0.35, 0.09, 0.025, DARK),
    ]


def shelf(source: torch.Generator) -> list[Part]:
    wide, high = uniform(source, 0.35, 0.6), uniform(source, 1.2, 1.9)
    parts = [Part(BOX, (side * wide, -high / 2, 0), (0.02, high / 2, 0.15)) for side in (-1, 1)]
    parts += [Part(BOX, (0, -high * level / 4 - 0.02, 0), (wide, 0.015, 0.15)) for level in range(5)]
    for level in range(4):
        x = -0.85 * wide
        while x < 0.5 * wide:
            thick, tall = uniform(source, 0.015, 0.035), uniform(source, 0.12, 0.22)
            shade = (uniform(source, 0.1, 0.8), uniform(source, 0.1, 0.7), uniform(source, 0.1, 0.7))
            parts.append(Part(BOX, (x, -high * level / 4 - 0.04 - tall / 2, 0.02), (thick, tall / 2, 0.1), shade))
            x += 2 * thick + 0.005
    return parts


FURNITURE: dict[str, Maker] = {
    "chair": chair, "table": table, "sofa": sofa, "shelf": shelf, "lamp": lamp, "plant": plant, "box": box,
}  # fmt: skip
"""What stands on a floor."""
SMALL: dict[str, Maker] = {"mug": mug, "bottle": bottle, "bowl": bowl, "book": book, "ball": ball, "lamp": lamp}
"""What stands on tables."""
