"""Graphs over points of a picture by Delaunay triangulation."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor


def delaunay_edges(points: Tensor) -> Tensor:
    """Edges (E, 2) between points (N, 2), in both directions and sorted.

    Fewer than three points, or points on one line, have no triangles: they are all joined. A point at the place of
    another is joined with that one."""
    from scipy.spatial import Delaunay, QhullError

    if points.dim() != 2 or points.shape[1] != 2 or not bool(points.isfinite().all()):
        raise ValueError(f"points to join are finite numbers (N, 2), got {tuple(points.shape)}")
    count = len(points)
    try:
        if count < 3:
            raise QhullError
        triangles = Delaunay(points.detach().cpu().double().numpy())
    except QhullError:
        pairs = set(itertools.permutations(range(count), 2))
    else:
        pairs = {pair for corners in triangles.simplices.tolist() for pair in itertools.permutations(corners, 2)}
        for point, _, nearest in triangles.coplanar.tolist():
            pairs |= {(point, nearest), (nearest, point)}
    return torch.tensor(sorted(pairs), dtype=torch.long, device=points.device).reshape(-1, 2)
