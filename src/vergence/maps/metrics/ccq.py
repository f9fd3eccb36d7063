"""CCQ (correctness, completeness, quality): the length of road near roads of the other map."""

from __future__ import annotations

from typing import Any

import numpy as np

from vergence.maps.geometry import near
from vergence.maps.graph import RoadGraph, as_graph
from vergence.maps.metrics.agreement import Agreement
from vergence.maps.raster import drawn
from vergence.maps.settings import Ccq


def ccq(truth: Any, prediction: Any, settings: Ccq = Ccq()) -> Agreement:
    """Correctness as precision, completeness as recall; ``quality`` is the measure's own summary."""
    g, h = as_graph(truth, "the truth"), as_graph(prediction, "the prediction")
    if settings.measured == "pixels":
        return _by_pixels(g, h, settings.slack)
    g, h = g.canonical, h.canonical
    return Agreement(*_covered(h, g, settings), *_covered(g, h, settings))


def _covered(own: RoadGraph, other: RoadGraph, settings: Ccq) -> tuple[float, float]:
    """Length of road with road of the other map nearby, and length of all."""
    pieces = own.split(settings.step)
    middles = pieces.points[pieces.edges].mean(1)
    seen = np.zeros(len(pieces), bool)
    seen[near(middles, other.split(max(settings.slack, settings.step)), settings.slack).point] = True
    total = float(pieces.lengths.sum())
    return (total if seen.all() else float(pieces.lengths[seen].sum())), total


def _by_pixels(g: RoadGraph, h: RoadGraph, slack: float, scale: float = 0.25) -> Agreement:
    from scipy.ndimage import distance_transform_edt

    points = np.r_[g.points, h.points]
    corner = points.min(0) - slack if len(points) else np.zeros(2)
    size = np.ceil((points.max(0) + slack - corner) * scale).astype(int) + 1 if len(points) else np.ones(2, int)
    masks = [drawn(x.moved((x.points - corner) * scale), int(size[1]), int(size[0])) for x in (g, h)]
    counts = [int(mask.sum()) for mask in masks]
    hits = []
    for own, other in ((1, 0), (0, 1)):
        away = distance_transform_edt(~masks[other]) if counts[other] else np.full(masks[other].shape, np.inf)
        hits.append(float((away[masks[own]] <= slack * scale).sum()))
    return Agreement(hits[0], counts[1], hits[1], counts[0])
