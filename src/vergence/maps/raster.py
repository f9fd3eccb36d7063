"""Conversion between masks and graphs: rasterising roads, and tracing the roads of a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from vergence.core.errors import VergenceError
from vergence.maps.graph import Ints, RoadGraph, road_graph
from vergence.maps.roads import roads, simplified

Mask = NDArray[np.bool_]


def drawn(graph: RoadGraph, height: int, width: int, thickness: int = 1) -> Mask:
    """Rasterises roads to a mask (H, W); the centre of the first pixel is at 0, 0."""
    from PIL import Image, ImageDraw

    picture = Image.new("L", (width, height))
    pen = ImageDraw.Draw(picture)
    for line in graph.points[graph.edges].reshape(-1, 4).tolist():
        pen.line(line, 1, thickness)
    return np.array(picture).view(np.bool_)  # of bytes 0 and 1


def skeleton(mask: Mask) -> Mask:
    """The skeleton of a mask, one pixel wide."""
    from skimage.morphology import skeletonize

    # A true value may be any byte but 0 (Pillow writes 255), but scikit-image uses it as a table index: make it 1.
    thin: Mask = skeletonize(np.where(mask, np.True_, np.False_))  # type: ignore[no-untyped-call]
    return thin.astype(np.bool_)


DENSEST = 0.2
"""Share of pixels on middle lines of roads; they are closer than 10 pixels to each other beyond. Noise has a third, and
a graph of it takes hours."""


def graph_of_mask(mask: Any, tolerance: float = 1.5, spur: float = 10.0) -> RoadGraph:
    """The roads of a mask (H, W): thinned, traced, simplified.

    Pixels of the skeleton are nodes, joined to their neighbours; diagonal steps parallel to two straight ones are left
    out. Crossings less than ``spur`` apart are merged, since thinning splits a crossing of four wide roads into two of
    three. Dead ends shorter than that are artefacts of the mask's outline and are removed. ``tolerance`` is the largest
    distance, in pixels, between the simplified road and the traced one.
    """
    thin = skeleton(np.asarray(mask))
    if thin.sum() > max(DENSEST * thin.size, 1000):
        raise VergenceError(
            f"it is no mask of roads: the middle lines cover {100 * thin.mean():.0f} % of its pixels, more than "
            f"{100 * DENSEST:.0f} %"
        )
    pixels = np.argwhere(thin)[:, ::-1].astype(np.float64)  # x, y
    graph = road_graph(pixels, _neighbours(thin))
    graph = _without_spurs(_joined_crossings(_joined_crossings(graph, 1.5), spur), spur)
    return simplified(graph, tolerance)


def _neighbours(thin: Mask) -> Ints:
    number = np.full((thin.shape[0] + 2, thin.shape[1] + 2), -1, np.int64)
    inner = number[1:-1, 1:-1]
    inner[thin] = np.arange(int(thin.sum()))
    height, width = thin.shape

    def shifted(dy: int, dx: int) -> Ints:
        return number[1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]

    steps = []
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        there = (inner >= 0) & (shifted(dy, dx) >= 0)
        if dy and dx:  # already connected by a horizontal and a vertical step
            there &= (shifted(dy, 0) < 0) & (shifted(0, dx) < 0)
        steps.append(np.stack([inner[there], shifted(dy, dx)[there]], 1))
    return np.concatenate(steps)


def _joined_crossings(graph: RoadGraph, nearest: float) -> RoadGraph:
    """Merges crossings joined by a road shorter than ``nearest``, at their mean."""
    between = np.zeros(len(graph), bool)
    for nodes, edges in roads(graph):
        if min(graph.degrees[nodes[0]], graph.degrees[nodes[-1]]) >= 3 and graph.lengths[edges].sum() < nearest:
            between[edges] = True
    inner = graph.edges[between]
    links = sparse.coo_matrix((np.ones(len(inner)), inner.T), shape=(len(graph.points),) * 2)
    count, label = connected_components(links, directed=False)
    size = np.bincount(label, minlength=count)
    places = np.stack([np.bincount(label, graph.points[:, k], minlength=count) / size for k in (0, 1)], 1)
    return road_graph(places, label[graph.edges])


def _without_spurs(graph: RoadGraph, shortest: float) -> RoadGraph:
    gone = np.zeros(len(graph), bool)
    for nodes, edges in roads(graph):
        ends = sorted((int(graph.degrees[nodes[0]]), int(graph.degrees[nodes[-1]])))
        if ends[0] == 1 and ends[1] >= 3 and graph.lengths[edges].sum() < shortest:
            gone[edges] = True
    return graph.without(gone)
