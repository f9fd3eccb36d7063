"""Proximity of points and pieces of road, by KD-trees instead of all pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from vergence.maps.graph import Floats, Ints, RoadGraph


DENSE = 30_000
"""Pairs of points and edges up to which measuring all is faster than searching a tree."""


class Near(NamedTuple):
    """Pairs of a point and an edge, by point, with the position of the closest point on the edge and its distance."""

    point: Ints
    edge: Ints
    share: Floats
    """0 at the edge's first node, 1 at its second."""
    distance: Floats


def on_segments(points: Floats, start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """The closest points of segments to points, row by row (..., 2): share along the segment, and distance."""
    x, y = points[..., 0] - start[..., 0], points[..., 1] - start[..., 1]
    along, across = end[..., 0] - start[..., 0], end[..., 1] - start[..., 1]
    square = np.maximum(along * along + across * across, 1e-300)
    share = np.minimum(np.maximum((x * along + y * across) / square, 0.0), 1.0)
    x, y = x - share * along, y - share * across
    return share, np.sqrt(x * x + y * y)


def near(points: Floats, graph: RoadGraph, radius: float, spacing: float | None = None) -> Near:
    """All edges of a graph within ``radius`` of each point.

    Exact for any graph. It queries a tree over the midpoints of edges with the radius plus half the longest edge, so a
    graph with long edges should be split first, or ``spacing`` given, the length of pieces for the search.
    """
    start, end = (graph.points[graph.edges[:, k]] for k in (0, 1))
    if len(points) * len(graph) <= DENSE:
        share, distance = on_segments(points[:, None], start, end)  # (N, E)
        point, edge = np.nonzero(distance <= radius)
        return Near(point, edge, share[point, edge], distance[point, edge])
    longest = float(graph.lengths.max())
    if spacing is not None and longest > spacing:
        return _near_long(points, graph, radius, spacing)
    pairs = cKDTree(points).sparse_distance_matrix(
        cKDTree((start + end) / 2), radius + longest / 2 + 1e-9, output_type="ndarray"
    )
    point, edge = pairs["i"].astype(np.int64), pairs["j"].astype(np.int64)
    share, distance = on_segments(points[point], start[edge], end[edge])
    kept = np.flatnonzero(distance <= radius)
    kept = kept[np.lexsort((edge[kept], point[kept]))]
    return Near(point[kept], edge[kept], share[kept], distance[kept])


def _near_long(points: Floats, graph: RoadGraph, radius: float, spacing: float) -> Near:
    """Searches with short pieces, then measures the distance to the whole edges."""
    pieces = graph.split(spacing)
    counts = np.maximum(np.ceil(graph.lengths / spacing - 1e-6), 1).astype(np.int64)
    owner = np.repeat(np.arange(len(graph)), counts)
    found = near(points, pieces, radius)
    pairs = np.unique(np.stack([found.point, owner[found.edge]], 1), axis=0)
    point, edge = pairs[:, 0], pairs[:, 1]
    start, end = (graph.points[graph.edges[edge, k]] for k in (0, 1))
    return Near(point, edge, *on_segments(points[point], start, end))


def closest(points: Floats, graph: RoadGraph, radius: float, spacing: float = 25.0) -> Near:
    """The closest edge of each point that has one within ``radius``. Ties go to an edge that ends there rather than one
    that passes: a node belongs to its own roads, also where another road crosses it on a bridge."""
    found = near(points, graph, radius, spacing)
    passes = (found.share > 1e-9) & (found.share < 1 - 1e-9)
    order = np.lexsort((found.edge, passes, np.round(found.distance, 9), found.point))
    first = order[np.flatnonzero(np.r_[True, np.diff(found.point[order]) != 0])] if len(order) else order
    return Near(found.point[first], found.edge[first], found.share[first], found.distance[first])


def along(graph: RoadGraph, edge: Ints, share: Floats) -> Floats:
    """Coordinates (N, 2) of positions on edges."""
    start, end = (graph.points[graph.edges[edge, k]] for k in (0, 1))
    return start + share[:, None] * (end - start)


def ragged(starts: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Entries of ``rows`` in a ragged table: the row that each entry belongs to, and the entry's index."""
    counts = starts[rows + 1] - starts[rows]
    owner = np.repeat(np.arange(len(rows)), counts)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, starts[rows][owner] + offset


def starts_of(keys: Ints, count: int) -> Ints:
    """Where the rows of sorted keys begin: ``keys[starts[k]:starts[k + 1]]`` are all ``k``."""
    return np.searchsorted(keys, np.arange(count + 1)).astype(np.int64)
