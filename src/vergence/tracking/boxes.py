"""Rectangles (x, y, width, height) and polygons (x1, y1, ..., xn, yn) in pixels, and how much two of them overlap.

Coordinates are continuous: the pixel in column i covers i to i + 1, so a rectangle's centre is ``x + width / 2``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def areas(boxes: Array) -> Array:
    """Areas (N,) of rectangles (N, 4)."""
    return boxes[:, 2] * boxes[:, 3]


def known(boxes: Array) -> NDArray[np.bool_]:
    """Mask of rectangles (N, 4) that are finite and have an area; others mean that the target is absent."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.isfinite(boxes).all(1) & (boxes[:, 2:] > 0).all(1))


def clipped(boxes: Array, bounds: tuple[float, float]) -> Array:
    """The part of rectangles (N, 4) that lies within a frame of (width, height)."""
    low = np.clip(boxes[:, :2], 0, bounds)
    high = np.clip(boxes[:, :2] + boxes[:, 2:], 0, bounds)
    return np.concatenate([low, np.maximum(high - low, 0)], 1)


def pushed(boxes: Array, bounds: tuple[float, float]) -> Array:
    """Rectangles (N, 4) bounded by a frame of (width, height) as in GOT-10k's toolkit: a corner outside the near
    sides is moved to the border, and what exceeds the far sides is cut off."""
    corner = np.clip(boxes[:, :2], 0, bounds)
    return np.concatenate([corner, np.clip(boxes[:, 2:], 0, bounds - corner)], 1)


def overlaps(a: ArrayLike, b: ArrayLike, bounds: tuple[float, float] | None = None) -> Array:
    """Intersection over union of rectangles (N, 4) in pairs: (N,). NaN if either is unknown or both are empty.

    With ``bounds`` (width, height) only what is inside the frame counts.
    """
    a, b = np.asarray(a, np.float64).reshape(-1, 4), np.asarray(b, np.float64).reshape(-1, 4)
    if bounds is not None:
        a, b = clipped(a, bounds), clipped(b, bounds)
    low = np.maximum(a[:, :2], b[:, :2])
    high = np.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.minimum(shared / (areas(a) + areas(b) - shared), 1.0)  # rounding must not exceed 1


def centre_errors(a: ArrayLike, b: ArrayLike) -> Array:
    """Distance between the centres of rectangles (N, 4) in pairs: (N,)."""
    a, b = np.asarray(a, np.float64).reshape(-1, 4), np.asarray(b, np.float64).reshape(-1, 4)
    return np.asarray(np.linalg.norm((a[:, :2] + a[:, 2:] / 2) - (b[:, :2] + b[:, 2:] / 2), axis=1))


def corners(box: ArrayLike) -> Array:
    """The corners (4, 2) of a rectangle (4,), clockwise from the top left."""
    x, y, w, h = np.asarray(box, np.float64)
    return np.array([[x, y], [x + w, y], [x + w, y + h], [x, y + h]])


def polygon_area(points: Array) -> float:
    """The area of a simple polygon (n, 2)."""
    if len(points) < 3:
        return 0.0
    x, y = (points - points[0]).T  # near the origin, to avoid rounding errors
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


def cut(points: Array, box: ArrayLike) -> Array:
    """The part (m, 2) of a polygon (n, 2) within a rectangle: Sutherland and Hodgman's clipping, one side at a time."""
    x, y, w, h = np.asarray(box, np.float64)
    for axis, limit, side in ((0, x, 1.0), (0, x + w, -1.0), (1, y, 1.0), (1, y + h, -1.0)):
        if not len(points):
            break
        after = np.roll(points, -1, axis=0)
        here, there = side * (points[:, axis] - limit), side * (after[:, axis] - limit)
        kept: list[Array] = []
        for p, q, inside, ahead in zip(points, after, here, there, strict=True):
            if inside >= 0:
                kept.append(p)
            if (inside > 0 > ahead) or (inside < 0 < ahead):
                kept.append(p + (q - p) * (inside / (inside - ahead)))
        points = np.array(kept).reshape(-1, 2)
    return points


def polygon_overlap(polygon: ArrayLike, box: ArrayLike, bounds: tuple[float, float] | None = None) -> float:
    """Intersection over union of a polygon (2n,) and a rectangle (4,); NaN if the polygon is unknown or empty."""
    points, boxes = np.asarray(polygon, np.float64).reshape(-1, 2), np.asarray(box, np.float64).reshape(1, 4)
    if not np.isfinite(points).all():
        return float("nan")
    if bounds is not None:
        points, boxes = cut(points, (0, 0, *bounds)), clipped(boxes, bounds)
    shared = polygon_area(cut(points, boxes[0]))
    union = polygon_area(points) + float(areas(boxes)[0]) - shared
    return shared / union if union > 0 else float("nan")


def upright(polygons: ArrayLike) -> Array:
    """Rectangles (N, 4) for polygons of four corners (N, 8): the same centre and area, aspect ratio of the
    enclosing rectangle. Trackers of axis-aligned boxes are initialised with it."""
    points = np.asarray(polygons, np.float64).reshape(-1, 4, 2)
    extent = points.max(1) - points.min(1)
    sides = np.linalg.norm(points[:, 0] - points[:, 1], axis=1) * np.linalg.norm(points[:, 1] - points[:, 2], axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = extent * np.sqrt(sides / np.prod(extent, 1))[:, None]
    return np.concatenate([points.mean(1) - size / 2, size], 1)


def as_polygons(boxes: Array) -> Array:
    """Rectangles (N, 4) as polygons (N, 8)."""
    x, y, w, h = boxes.T
    return np.stack([x, y, x + w, y, x + w, y + h, x, y + h], 1)
