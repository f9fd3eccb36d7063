"""Line integrals of shapes as they are defined: exact chords of polygons, and of images one line at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Polygons = Sequence[Floats]
"""Closed outlines (n, 2) of x and y; a point is inside if it is inside an odd number of them, so holes are outlines."""


def chord(polygons: Polygons, offset: float, angle: float) -> float:
    """The length of the line ``x cos θ + y sin θ = λ`` inside polygons: the integral of their indicator (Eq. 1)."""
    normal = np.array([math.cos(angle), math.sin(angle)])
    along = np.array([-normal[1], normal[0]])
    crossings = []
    for outline in polygons:
        for here, there in zip(outline, np.roll(outline, -1, axis=0), strict=True):
            a, b = float(here @ normal) - offset, float(there @ normal) - offset
            if (a < 0) != (b < 0):
                crossings.append(float((here + (there - here) * a / (a - b)) @ along))
    crossings.sort()
    return sum(leave - enter for enter, leave in zip(crossings[::2], crossings[1::2], strict=True))


def support(polygons: Polygons, angle: float) -> float:
    """The least ``x cos θ + y sin θ`` of a point of the polygons (Eq. 7)."""
    normal = np.array([math.cos(angle), math.sin(angle)])
    return min(float((outline @ normal).min()) for outline in polygons)


def binding_chord(polygons: Polygons, ratio: float, angle: float) -> float:
    """``Ψ(μ, θ)`` (Eqs. 11 and 13)."""
    here, there = support(polygons, angle), support(polygons, angle + math.pi)
    return chord(polygons, (here - there) / 2 - ratio * (-there - here) / 2, angle)


def image_integral(image: Floats, offset: float, angle: float) -> float:
    """The integral of an image (H, W) along a line, one sample per row (or column, for a flat line) that it crosses."""
    cos, sin = math.cos(angle), math.sin(angle)
    if abs(cos) < abs(sin):
        image, cos, sin = image.T, sin, cos
    total = 0.0
    for y, row in enumerate(image):
        x = (offset - y * sin) / cos
        left = math.floor(x)
        for column, weight in ((left, left + 1 - x), (left + 1, x - left)):
            if 0 <= column < len(row):
                total += weight * float(row[column])
    return total / abs(cos)


def moments(row: Floats) -> Floats:
    """Second moments (2, 2) of the region whose radius is given at N angles (Eq. 17): of each sector, a fan of thin
    triangles with its tip in the origin, ``∫ r² r dr = r⁴ / 4``."""
    total = np.zeros((2, 2))
    for number, radius in enumerate(row):
        angle = 2 * math.pi * number / len(row)
        unit = np.array([math.cos(angle), math.sin(angle)])
        total += radius**4 / 4 * np.outer(unit, unit) * 2 * math.pi / len(row)
    return total


def normalised(row: Floats, root: Floats) -> Floats:
    """Eq. 24, one angle at a time."""
    count = len(row)
    result = np.zeros(count)
    for number in range(count):
        angle = 2 * math.pi * number / count
        x, y = root @ np.array([math.cos(angle), math.sin(angle)])
        place = math.atan2(y, x) * count / (2 * math.pi)
        left = math.floor(place)
        share = place - left
        result[number] = ((1 - share) * row[left % count] + share * row[(left + 1) % count]) / math.hypot(x, y)
    return result


def invariants(row: Floats) -> Floats:
    """All N magnitudes of the discrete Fourier transform, divided by the zeroth."""
    count = len(row)
    sums = [
        abs(sum(value * np.exp(-2j * math.pi * u * n / count) for n, value in enumerate(row))) for u in range(count)
    ]
    return np.array(sums) / sums[0]


def affine(polygons: Polygons, matrix: Floats, shift: Floats) -> list[Floats]:
    """The image of polygons under ``x' = A x + s``."""
    return [outline @ matrix.T + shift for outline in polygons]
