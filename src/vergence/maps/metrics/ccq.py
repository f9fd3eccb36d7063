"""CCQ (correctness, completeness, quality): the length of road near roads of the other map."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vergence.maps.geometry import Stretches, stretches
from vergence.maps.graph import SAME, RoadGraph, as_graph, pieces_of
from vergence.maps.metrics.agreement import Agreement
from vergence.maps.raster import Mask, drawn
from vergence.maps.settings import Ccq


def ccq(truth: Any, prediction: Any, settings: Ccq = Ccq()) -> Agreement:
    """Correctness as precision, completeness as recall; ``quality`` is the measure's own summary."""
    g, h = as_graph(truth, "the truth"), as_graph(prediction, "the prediction")
    if settings.measured == "pixels":
        return _by_pixels(g, h, settings.slack)
    g, h = g.merged, h.merged
    of_truth, of_prediction = stretches(g, h, settings.slack)
    return Agreement(*_covered(h, of_prediction, settings.step), *_covered(g, of_truth, settings.step))


def _covered(graph: RoadGraph, near: Stretches, step: float) -> tuple[float, float]:
    """Length of road with road of the other map near the middle of its piece, and length of all."""
    counts = pieces_of(graph.lengths, step)
    begin = np.cumsum(counts) - counts
    # Middles are at (k + 1/2) / count: the first and the last in each stretch, with bounds that belong to it.
    count = counts[near.edge]
    first = begin[near.edge] + np.ceil(near.low * count - 0.5 - SAME).astype(np.int64)
    after = begin[near.edge] + np.floor(near.high * count + 0.5 + SAME).astype(np.int64)
    size = int(counts.sum()) + 1
    seen = np.cumsum(np.bincount(first, minlength=size) - np.bincount(after, minlength=size))[:-1] > 0
    total = float(graph.lengths.sum())
    if seen.all():
        return total, total
    return float((np.add.reduceat(seen, begin, dtype=np.int64) * (graph.lengths / counts)).sum()), total


def _by_pixels(g: RoadGraph, h: RoadGraph, slack: float, scale: float = 0.25) -> Agreement:
    points = np.concatenate([g.points, h.points])
    corner = points.min(0) - slack if len(points) else np.zeros(2)
    size = np.ceil((points.max(0) + slack - corner) * scale).astype(int) + 1 if len(points) else np.ones(2, int)
    masks = [drawn(RoadGraph((x.points - corner) * scale, x.edges), int(size[1]), int(size[0])) for x in (g, h)]
    return Agreement(*_beside(masks[1], masks[0], slack * scale), *_beside(masks[0], masks[1], slack * scale))


def _beside(own: Mask, other: Mask, radius: float) -> tuple[float, float]:
    """Pixels of a mask with a pixel of the other within ``radius``, and all; only these pixels are looked at."""
    reach = int(radius)
    padded, width = np.pad(other, reach).ravel(), other.shape[1] + 2 * reach
    steps = [(math.hypot(x, y), y * width + x) for x in range(-reach, reach + 1) for y in range(-reach, reach + 1)]
    rows, columns = np.nonzero(own)
    left = (rows + reach) * width + columns + reach
    count = len(left)
    for distance, step in sorted(steps):
        if distance <= radius:
            left = left[~padded[left + step]]
    return float(count - len(left)), float(count)
