"""Embedded silhouettes: animals, tools, plants and vehicles drawn from smooth outlines and tapering limbs.

A kind (fish, key, tree, ...) is a function that draws its parts from random proportions and joint angles, so that two
individuals of a kind resemble each other as two silhouettes of a class of MPEG-7 CE-Shape-1 do. Coordinates are from -1
to 1, x to the right and y down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from vergence.core.seeding import derive

Floats = NDArray[np.float64]
Point = tuple[float, float]
FINER = 4
"""Silhouettes are drawn this many times as large, then reduced: their edges are antialiased."""
REACH = 1.5
"""Half the side of the canvas, in the units of the drawings."""


class Pen:
    """A canvas that fills parts of a silhouette, and cuts holes."""

    def __init__(self, side: int, seed: int) -> None:
        self.side = side * FINER
        self.canvas = Image.new("L", (self.side, self.side))
        self.draw = ImageDraw.Draw(self.canvas)
        self.random = np.random.default_rng(seed)

    def about(self, middle: float, share: float = 0.2) -> float:
        """A random value around ``middle``, at most ``share`` of it away."""
        return float(middle * (1 + share * self.random.uniform(-1, 1)))

    def turn(self, most: float) -> float:
        """A random angle, at most ``most`` to either side."""
        return float(self.random.uniform(-most, most))

    def polygon(self, points: Sequence[Point] | Floats, ink: int = 255) -> None:
        """A polygon with straight sides."""
        pixels = (np.asarray(points, float) / REACH + 1) * self.side / 2
        self.draw.polygon([(float(x), float(y)) for x, y in pixels], fill=ink)

    def curve(self, points: Sequence[Point] | Floats, ink: int = 255) -> None:
        """A smooth closed outline through points."""
        self.polygon(_smooth(np.asarray(points, float)), ink)

    def disc(self, x: float, y: float, wide: float, high: float, ink: int = 255) -> None:
        """An ellipse by its centre and half axes."""
        turns = np.linspace(0, 2 * math.pi, 120, endpoint=False)
        self.polygon(np.stack([x + wide * np.cos(turns), y + high * np.sin(turns)], 1), ink)

    def limb(self, points: Sequence[Point], radii: Sequence[float]) -> None:
        """A chain of tapering pieces with round joints."""
        for here, there, start, end in zip(points, points[1:], radii, radii[1:], strict=False):
            along = np.subtract(there, here)
            side = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
            corners = (here + side * start, there + side * end, there - side * end, here - side * start)
            self.polygon(np.array(corners))
        for (x, y), radius in zip(points, radii, strict=True):
            self.disc(x, y, radius, radius)

    def jointed(self, start: Point, angles: Sequence[float], lengths: Sequence[float], radii: Sequence[float]) -> Point:
        """A limb by the directions and lengths of its pieces; returns where it ends."""
        points = [start]
        for angle, length in zip(angles, lengths, strict=True):
            x, y = points[-1]
            points.append((x + length * math.cos(angle), y + length * math.sin(angle)))
        self.limb(points, radii)
        return points[-1]


def _smooth(points: Floats, finer: int = 16) -> Floats:
    """Points along the periodic Catmull-Rom spline of (n, 2)."""
    before, after, beyond = (np.roll(points, -step, axis=0)[:, None] for step in (-1, 1, 2))
    t = (np.arange(finer) / finer)[:, None]
    here = points[:, None]
    bent = 2 * here + (after - before) * t + (2 * before - 5 * here + 4 * after - beyond) * t**2
    return ((bent + (3 * here - before - 3 * after + beyond) * t**3) / 2).reshape(-1, 2)


def _both_sides(points: Sequence[Point]) -> list[Point]:
    """An outline from its right half, top to bottom: mirrored at x = 0."""
    return [*points, *((-x, y) for x, y in reversed(points))]


# The kinds ------------------------------------------------------------------------------------------------------------


def fish(pen: Pen) -> None:
    high, low, fork = pen.about(0.36, 0.4), pen.about(0.32, 0.3), pen.about(0.42, 0.35)
    waist = pen.about(0.08, 0.3)
    pen.curve([(-1, 0.02), (-0.7, -0.7 * high), (-0.2, -high), (0.3, -0.55 * high), (0.7, -waist), (0.7, waist),
               (0.3, 0.6 * low), (-0.2, low), (-0.75, 0.6 * low)])  # fmt: skip
    notch = pen.about(0.85, 0.06)
    pen.polygon([(0.62, -waist), (1.15, -fork), (notch, 0), (1.1, pen.about(fork, 0.2)), (0.62, waist)])
    start, rise = pen.turn(0.2) - 0.3, pen.about(0.26, 0.5)
    pen.polygon([(start, -0.8 * high), (start + 0.35, -high - rise), (start + 0.75, -0.4 * high)])
    pen.polygon([(-0.1, 0.8 * low), (0.2 + pen.turn(0.1), low + pen.about(0.2, 0.5)), (0.3, 0.5 * low)])


def bird(pen: Pen) -> None:
    lift, span = pen.about(0.5, 0.4), pen.about(1.0, 0.15)
    pen.curve([(-0.75, -0.02), (-0.5, -0.16), (0, -0.14), (0.5, -0.05), (0.5, 0.06), (0, 0.2), (-0.45, 0.14)])
    pen.polygon([(-0.7, -0.06), (-0.7 - pen.about(0.25, 0.5), 0.05), (-0.66, 0.08)])
    spread = pen.about(0.2, 0.5)
    pen.polygon([(0.4, -0.05), (1.0, -spread), (0.9, 0), (1.0, spread), (0.4, 0.07)])
    for side, reach in ((-1, span), (1, pen.about(span, 0.15))):
        tip = (pen.about(0.35, 0.4), side * reach)
        pen.curve([(-0.35, 0), (-0.25, side * lift), tip, (0.15, side * 0.6 * reach), (0.25, 0)])


def quadruped(pen: Pen) -> None:
    body, leg, neck = pen.about(0.24, 0.25), pen.about(0.62, 0.3), pen.about(0.45, 0.5)
    pen.limb([(-0.5, 0), (0, 0.04), (0.5, 0)], [body, pen.about(body, 0.15), pen.about(body, 0.15)])
    for x in (-0.58, -0.4, 0.42, 0.6):
        first = math.pi / 2 + pen.turn(0.35)
        lengths = [leg * 0.5, leg * 0.5, 0.07]
        pen.jointed((x, 0.1), [first, math.pi / 2 + pen.turn(0.3), math.pi], lengths, [0.13, 0.075, 0.055, 0.045])
    rise = -math.pi / 2 - pen.about(0.6, 0.5)
    head = pen.jointed((-0.55, -0.08), [rise], [neck], [0.19, 0.13])
    pen.jointed(head, [math.pi - pen.about(0.5, 0.6)], [pen.about(0.3, 0.4)], [0.13, 0.07])
    for lean in (-1.9, -1.4):
        pen.jointed(head, [lean], [pen.about(0.22, 0.4)], [0.05, 0.02])
    bend = pen.about(0.9, 0.6)
    pen.jointed((0.68, -0.05), [bend - 0.5, bend], [pen.about(0.25, 0.5), pen.about(0.3, 0.5)], [0.06, 0.05, 0.02])


def lizard(pen: Pen) -> None:
    wave, bend = pen.about(0.22, 0.7), pen.turn(math.pi)
    x = np.linspace(-0.9, 1.15, 24)
    y = wave * np.sin(2.6 * x + bend)
    radii = np.interp(x, [-0.9, -0.72, -0.5, 0.0, 0.4, 1.15], [0.05, 0.15, 0.1, pen.about(0.19, 0.2), 0.1, 0.015])
    pen.limb([(float(a), float(b)) for a, b in zip(x, y, strict=True)], radii.tolist())
    for place in (6, 14):
        for side in (-1, 1):
            start = (float(x[place]), float(y[place]))
            out = side * (math.pi / 2 + pen.turn(0.4))
            lengths = [pen.about(0.27), pen.about(0.27), 0.1]
            pen.jointed(start, [out, out + side * pen.about(0.8, 0.6), out], lengths, [0.09, 0.06, 0.045, 0.03])


def key(pen: Pen) -> None:
    ring, shaft = pen.about(0.36, 0.2), pen.about(0.08, 0.3)
    pen.disc(-0.75, 0, ring, pen.about(ring, 0.25))
    pen.limb([(-0.5, 0), (1, 0)], [shaft, shaft])
    for x in np.linspace(0.55, 0.95, int(pen.random.integers(2, 5))):
        pen.polygon([(x - 0.05, 0), (x + 0.05, 0), (x + 0.05, shaft + pen.about(0.22, 0.6)), (x - 0.05, shaft + 0.2)])
    hole = pen.about(0.5, 0.3) * ring
    pen.disc(-0.78, 0, hole, pen.about(hole, 0.3), ink=0)


def hammer(pen: Pen) -> None:
    wide = pen.about(0.1, 0.3)
    pen.limb([(0, -0.6), (0.02, 0.3), (0, 1.0)], [0.07, wide, pen.about(wide, 0.3)])
    face, claw = pen.about(0.55, 0.3), pen.about(0.65, 0.3)
    thick, droop = pen.about(0.16, 0.3), pen.about(0.25, 0.7)
    pen.polygon([(-face, -0.6 - thick), (0.1, -0.6 - thick * 0.8), (0.1, -0.45), (-face, -0.6 + thick)])
    pen.curve([(0, -0.78), (claw * 0.6, -0.8), (claw, -0.6 + droop), (claw * 0.5, -0.55), (0, -0.42)])


def bottle(pen: Pen) -> None:
    neck, body, shoulder = pen.about(0.13, 0.3), pen.about(0.42, 0.25), pen.turn(0.25)
    waist = pen.about(body * 0.88, 0.2)
    rim = neck + pen.about(0.05, 0.6)
    profile = [(rim, -1.1), (rim, -1.0), (neck, -0.95), (neck, -0.55 + shoulder), (body, -0.2 + shoulder),
               (waist, 0.35), (body, 0.85), (0.9 * body, 1.0)]  # fmt: skip
    pen.curve(_both_sides(profile))


def cup(pen: Pen) -> None:
    top, bottom, high = pen.about(0.55, 0.2), pen.about(0.42, 0.3), pen.about(0.7, 0.25)
    ring, wide = pen.about(0.36, 0.25), pen.about(0.3, 0.3)
    pen.disc(top, 0, wide + 0.12, ring)
    pen.disc(top, 0, wide, ring - 0.12, ink=0)
    pen.polygon([(-top, -high), (top, -high), (bottom, high), (-bottom, high)])
    foot = pen.about(bottom, 0.3)
    pen.limb([(-foot, high), (foot, high)], [0.07, 0.07])


def leaf(pen: Pen) -> None:
    lobes, depth = int(pen.random.choice([3, 5, 7])), pen.about(0.35, 0.5)
    sharp, narrow = pen.about(1.4, 0.3), pen.about(0.8, 0.3)
    angle = np.linspace(-math.pi, math.pi, 400, endpoint=False)
    peak = np.abs(np.cos(angle * lobes / 2)) ** sharp
    radius = (1 - depth + depth * peak) * (0.75 + 0.25 * np.cos(angle)) + 0.02 * np.cos(pen.about(41, 0.3) * angle)
    pen.polygon(np.stack([narrow * radius * np.sin(angle), -radius * np.cos(angle)], 1))
    pen.jointed((0, 0.2), [math.pi / 2 + pen.turn(0.3), math.pi / 2 + pen.turn(0.5)], [0.4, 0.5], [0.05, 0.04, 0.03])


def butterfly(pen: Pen) -> None:
    top, low, wide = pen.about(0.85, 0.2), pen.about(0.75, 0.3), pen.about(0.95, 0.2)
    notch, tail = pen.about(0.45, 0.5), pen.about(0.5, 0.4)
    for side in (-1, 1):
        pen.curve([(0, -0.2), (side * 0.5, -top), (side * wide, -0.8 * top), (side * 0.8, -0.2), (side * notch, 0.05),
                   (0, 0.1)])  # fmt: skip
        pen.curve([(0, -0.05), (side * notch, 0), (side * 0.7, 0.25), (side * tail, low), (side * 0.2, 0.5), (0, 0.2)])
        pen.jointed((0, -0.35), [-math.pi / 2 + side * pen.about(0.5, 0.5)], [0.5], [0.03, 0.02])
    pen.limb([(0, -0.4), (0, 0.1), (0, pen.about(0.6, 0.2))], [0.07, 0.1, 0.04])


def aeroplane(pen: Pen) -> None:
    body, sweep, span = pen.about(0.1, 0.3), pen.about(0.4, 0.8), pen.about(1.0, 0.15)
    root, tip, place = pen.about(0.38, 0.25), pen.about(0.14, 0.5), pen.turn(0.15)
    pen.limb([(-1.05, 0), (-0.7, 0), (0.5, 0), (1.0, 0)], [body * 0.4, body, body, body * 0.3])
    rear = pen.about(0.4, 0.25)
    for side in (-1, 1):
        end = place - 0.2 + sweep
        pen.polygon([(place - 0.2, 0), (end, side * span), (end + tip, side * span), (place - 0.2 + root, 0)])
        pen.polygon([(0.7, 0), (0.85 + sweep / 4, side * rear), (1.0 + sweep / 4, side * rear), (0.98, 0)])
        if root > 0.38:  # four engines
            pen.limb([(place, side * 0.45), (place + 0.2, side * 0.45)], [0.06, 0.05])


def scissors(pen: Pen) -> None:
    opening, ring = pen.about(0.35, 0.7), pen.about(0.25, 0.2)
    grip, blade = pen.about(0.75, 0.2), pen.about(1.15, 0.15)
    for side in (-1, 1):
        x, y = grip * math.cos(side * opening * 0.9), grip * math.sin(side * opening * 0.9)
        pen.limb([(x, y), (0, 0)], [0.07, 0.09])
        far = (-blade * math.cos(side * opening / 2), -blade * math.sin(side * opening / 2))
        pen.limb([(0, 0), (far[0] * 0.5, far[1] * 0.5), far], [0.1, 0.08, 0.01])
        pen.disc(x + 0.12, y + side * 0.15, ring, pen.about(ring, 0.2))
        pen.disc(x + 0.12, y + side * 0.15, ring - 0.1, ring - 0.1, ink=0)


def tree(pen: Pen) -> None:
    pen.limb([(0, 1.1), (0, 0.35)], [0.14, 0.11])
    open_, shorter = pen.about(0.55, 0.25), pen.about(0.72, 0.08)

    def branch(start: Point, angle: float, length: float, radius: float, depth: int) -> None:
        end = pen.jointed(start, [angle], [pen.about(length, 0.15)], [radius, 0.7 * radius])
        if depth == 0:
            pen.disc(*end, pen.about(0.13, 0.4), pen.about(0.13, 0.4))
            return
        for side in (-1, 1):
            branch(end, angle + side * open_ + pen.turn(0.2), shorter * length, 0.7 * radius, depth - 1)

    branch((0, 0.4), -math.pi / 2 + pen.turn(0.1), 0.45, 0.1, 4)


def hand(pen: Pen) -> None:
    palm = pen.about(0.4, 0.15)
    pen.curve([(-palm, -0.1), (-0.2, -0.3), (0.2, -0.3), (palm, -0.1), (0.3, 0.5), (0.22, 1.05), (-0.22, 1.05),
               (-0.3, 0.5)])  # fmt: skip
    spread, length = pen.about(0.22, 0.6), pen.about(0.72, 0.15)
    for number, share in enumerate((0.85, 1.0, 0.97, 0.75)):
        lean = (number - 1.5) * spread
        start = (0.25 * (number - 1.5) * palm / 0.4, -0.15)
        straight = -math.pi / 2 + lean
        size = share * length
        pen.jointed(start, [straight, straight + pen.turn(0.2)], [size / 2, size / 2], [0.12, 0.105, 0.08])
    pen.jointed((-palm + 0.1, 0.25), [-2.5 + pen.turn(0.3), -2.1 + pen.turn(0.3)], [0.35, 0.28], [0.15, 0.11, 0.08])


KINDS: dict[str, Callable[[Pen], None]] = {
    kind.__name__: kind
    for kind in (fish, bird, quadruped, lizard, key, hammer, bottle, cup, leaf, butterfly, aeroplane, scissors, tree,
                 hand)
}  # fmt: skip


@lru_cache(maxsize=64)  # many views are of one silhouette
def silhouette(kind: str, seed: int | str, side: int = 256) -> Tensor:
    """One individual of a kind as an antialiased mask (side, side), from 0 to 1."""
    pen = Pen(side, derive("silhouette", kind, seed))
    KINDS[kind](pen)
    return torch.from_numpy(np.array(pen.canvas.reduce(FINER), dtype=np.float32)) / 255
