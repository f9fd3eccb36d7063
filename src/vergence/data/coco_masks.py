"""Segmentations of COCO as masks: polygons, and run lengths, plain or packed into text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.core.errors import VergenceError

MOST = 100_000_000
"""Pixels of a mask."""


def mask_of(segmentation: Any, height: int, width: int, name: object) -> Tensor:
    """The mask (height, width) of an annotation's ``segmentation``; ``name`` is what errors call it."""
    if not 0 < height * width <= MOST:
        raise VergenceError(f"{name} has a mask of {height} x {width}: expected 1 to {MOST:,} pixels")
    if isinstance(segmentation, Mapping):
        counts = segmentation.get("counts")
        if list(segmentation.get("size") or ()) != [height, width]:
            raise VergenceError(f"{name} has run lengths of another size than its picture, {height} x {width}")
        runs = unpacked(counts, name) if isinstance(counts, str) else counts
        return from_runs(runs, height, width, name)
    if isinstance(segmentation, Sequence) and not isinstance(segmentation, str | bytes):
        whole = torch.zeros(height, width, dtype=torch.bool)
        for polygon in segmentation:
            whole |= from_polygon(polygon, height, width, name)
        return whole
    raise VergenceError(f"{name} has a segmentation that is neither polygons nor run lengths")


def from_runs(counts: Any, height: int, width: int, name: object) -> Tensor:
    """A mask from the lengths of its runs, down the columns, outside first."""
    plain = isinstance(counts, Sequence) and all(type(run) is int and run >= 0 for run in counts)
    if not plain or sum(counts) != height * width:
        raise VergenceError(f"{name} has run lengths that do not fill its {height} x {width} pixels")
    values = np.arange(len(counts)) % 2 == 1
    flat = np.repeat(values, np.asarray(counts, dtype=np.int64))
    return torch.from_numpy(np.ascontiguousarray(flat.reshape(width, height).T))


def unpacked(text: str, name: object) -> list[int]:
    """Run lengths from text. A character holds five bits of a number, least first, above 48; 32 says that more follow,
    and 16 in the last one that the number is negative. From the fourth on they are differences to the one two
    before."""
    counts: list[int] = []
    place = 0
    while place < len(text):
        value, shift = 0, 0
        while True:
            bits = ord(text[place]) - 48 if place < len(text) else -1
            if not 0 <= bits < 64 or shift > 60:
                raise VergenceError(f"{name} has run lengths in text that cannot be read")
            value |= (bits & 31) << shift
            shift, place = shift + 5, place + 1
            if not bits & 32:
                if bits & 16:
                    value -= 1 << shift
                break
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return counts


def from_polygon(points: Any, height: int, width: int, name: object) -> Tensor:
    """A mask of the pixels whose centres lie inside a polygon ``x, y, x, y, ...``, by the even-odd rule."""
    try:
        corners = np.asarray(points, dtype=np.float64).reshape(-1, 2)
    except (ValueError, TypeError):
        raise VergenceError(f"{name} has a polygon that is not a list of x, y pairs") from None
    if len(corners) < 3 or not np.isfinite(corners).all():
        raise VergenceError(f"{name} has a polygon of {len(corners)} points: expected three or more, all finite")
    start, end = corners, np.roll(corners, -1, 0)
    rows = np.arange(height) + 0.5
    low, high = np.minimum(start[:, 1], end[:, 1]), np.maximum(start[:, 1], end[:, 1])
    toggles = np.zeros((height, width + 1), dtype=np.int64)
    for (x0, y0), (x1, y1), least, most in zip(start, end, low, high, strict=True):
        first, last = np.searchsorted(rows, (least, most))  # rows from ``least`` to below ``most``
        if first == last:
            continue
        crossing = x0 + (rows[first:last] - y0) * (x1 - x0) / (y1 - y0)
        # A pixel is to the right of the crossing if its centre is.
        column = np.clip(np.ceil(crossing - 0.5), 0, width).astype(np.int64)
        np.add.at(toggles, (np.arange(first, last), column), 1)
    return torch.from_numpy(toggles.cumsum(1)[:, :width] % 2 == 1)
