"""Proximity of points and pieces of road, by KD-trees instead of all pairs."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from vergence.maps.graph import Floats, Ints, RoadGraph, pieces_of

DENSE = 50_000
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
    owner = np.repeat(np.arange(len(graph)), pieces_of(graph.lengths, spacing))
    found = near(points, pieces, radius)
    pairs = np.unique(np.stack([found.point, owner[found.edge]], 1), axis=0)
    point, edge = pairs[:, 0], pairs[:, 1]
    start, end = (graph.points[graph.edges[edge, k]] for k in (0, 1))
    return Near(point, edge, *on_segments(points[point], start, end))


def within(a: Floats, b: Floats, radius: float) -> tuple[Ints, Ints, Floats]:
    """Pairs of points (N, 2) and (M, 2) at most ``radius`` apart: rows of both, and the distance."""
    if len(a) * len(b) <= DENSE // 10:
        distance = cdist(a, b)
        i, j = np.nonzero(distance <= radius)
        return i, j, distance[i, j]
    pairs = cKDTree(a).sparse_distance_matrix(cKDTree(b), radius, output_type="ndarray")
    return pairs["i"].astype(np.int64), pairs["j"].astype(np.int64), pairs["v"]


class Stretches(NamedTuple):
    """Stretches of edges: from one share of the edge to another."""

    edge: Ints
    low: Floats
    high: Floats


def stretches(a: RoadGraph, b: RoadGraph, radius: float) -> tuple[Stretches, Stretches]:
    """The stretches of edges of ``a`` within ``radius`` of an edge of ``b``, and the reverse.

    The part of a straight edge that is near another one is one stretch, because the distance to a segment is convex
    along a line.
    """
    radius += 1e-9  # a distance of the radius itself is within it, whatever the rounding
    i, j = _close_edges(a, b, radius)
    start = np.concatenate([g.points[g.edges[:, 0]] for g in (a, b)])
    way = np.concatenate([g.points[g.edges[:, 1]] for g in (a, b)]) - start
    edge, other = np.concatenate([i, j + len(a)]), np.concatenate([j + len(a), i])  # both directions at once
    low, high = _near_stretches(start, way, edge, other, radius)
    kept = np.flatnonzero((low <= high) & (low <= 1) & (high >= 0))
    edge, low, high = edge[kept], np.maximum(low[kept], 0.0), np.minimum(high[kept], 1.0)
    cut = np.searchsorted(kept, len(i))
    return Stretches(edge[:cut], low[:cut], high[:cut]), Stretches(edge[cut:] - len(a), low[cut:], high[cut:])


def _close_edges(a: RoadGraph, b: RoadGraph, radius: float) -> tuple[Ints, Ints]:
    """All pairs of edges within ``radius``, and a few more: those whose boxes are. A sweep along x finds them."""
    (low_a, high_a), (low_b, high_b) = (_boxes(graph) for graph in (a, b))
    low_a, high_a = low_a - radius, high_a + radius
    # Two intervals overlap if the second begins within the first, or the first within the second.
    i, j = _begins_within(low_b[0], low_a[0], high_a[0], "left")
    k, l = _begins_within(low_a[0], low_b[0], high_b[0], "right")  # noqa: E741
    i, j = np.concatenate([i, l]), np.concatenate([j, k])
    kept = np.flatnonzero((low_a[1][i] <= high_b[1][j]) & (low_b[1][j] <= high_a[1][i]))
    return i[kept], j[kept]


def _boxes(graph: RoadGraph) -> tuple[Floats, Floats]:
    """Least and largest x and y of the edges, (2, E) each."""
    start, end = (graph.points[graph.edges[:, k]].T for k in (0, 1))
    return np.minimum(start, end), np.maximum(start, end)


def _begins_within(begin: Floats, low: Floats, high: Floats, side: Literal["left", "right"]) -> tuple[Ints, Ints]:
    """Rows of intervals and of the numbers in them: from ``low`` on (left) or after it (right), to ``high``."""
    order = np.argsort(begin)
    first = np.searchsorted(begin[order], low, side)
    counts = np.maximum(np.searchsorted(begin[order], high, "right") - first, 0)
    owner = np.repeat(np.arange(len(low)), counts)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, order[first[owner] + offset]


def _near_stretches(start: Floats, way: Floats, edge: Ints, other: Ints, radius: float) -> tuple[Floats, Floats]:
    """Where edges, row by row, are within ``radius`` of others: in their rectangle, or the circles at their ends."""
    (x, y), (dx, dy), (wx, wy) = (start[edge] - start[other]).T, way[edge].T, way[other].T
    length = np.sqrt(wx * wx + wy * wy)
    wx, wy = wx / length, wy / length
    along = _between(x * wx + y * wy, dx * wx + dy * wy, 0.0, length)
    across = _between(wx * y - wy * x, wx * dy - wy * dx, -radius, radius)
    low, high = np.maximum(along[0], across[0]), np.minimum(along[1], across[1])
    empty = low > high
    low[empty], high[empty] = np.inf, -np.inf
    for first, last in (_circle(x, y, dx, dy, radius), _circle(x - length * wx, y - length * wy, dx, dy, radius)):
        low, high = np.minimum(low, first), np.maximum(high, last)
    return low, high


def _circle(x: Floats, y: Floats, dx: Floats, dy: Floats, radius: float) -> tuple[Floats, Floats]:
    """Bounds of t with (x + t dx, y + t dy) in a circle around the origin; infinity and minus infinity without one."""
    square, middle = dx * dx + dy * dy, -(x * dx + y * dy)
    rest = middle * middle - square * (x * x + y * y - radius * radius)
    half = np.where(rest >= 0, np.sqrt(np.abs(rest)), -np.inf)
    return (middle - half) / square, (middle + half) / square


def _between(start: Floats, slope: Floats, low: Any, high: Any) -> tuple[Floats, Floats]:
    """Bounds of t with start + t slope between two values."""
    with np.errstate(over="ignore"):
        slope = np.where(slope == 0, 1e-300, slope)  # any t, or none
        a, b = (low - start) / slope, (high - start) / slope
    return np.minimum(a, b), np.maximum(a, b)


def closest(points: Floats, graph: RoadGraph, radius: float, spacing: float = 25.0) -> Near:
    """The closest edge of each point that has one within ``radius``. Ties go to an edge that ends there rather than one
    that passes: a node belongs to its own roads, also where another road crosses it on a bridge."""
    found = near(points, graph, radius, spacing)
    passes = (found.share > 1e-9) & (found.share < 1 - 1e-9)
    order = np.lexsort((found.edge, passes, found.distance.round(9), found.point))
    point = found.point[order]
    first = order[:1], order[1:][point[1:] != point[:-1]]
    return Near(*(column[np.concatenate(first)] for column in found))


def along(graph: RoadGraph, edge: Ints, share: Floats) -> Floats:
    """Coordinates (N, 2) of positions on edges."""
    start, end = (graph.points[graph.edges[edge, k]] for k in (0, 1))
    return start + share[:, None] * (end - start)


def starts_of(keys: Ints, count: int) -> Ints:
    """Where the rows of sorted keys begin: ``keys[starts[k]:starts[k + 1]]`` are all ``k``."""
    return np.searchsorted(keys, np.arange(count + 1)).astype(np.int64)
