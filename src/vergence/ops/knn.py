"""Nearest neighbours: the k-NN graph of points, and gathering neighbours' features.

On the CPU a KD-tree answers in O(N log N); elsewhere distances are computed in blocks of rows and only the smallest are
selected. Neither sorts a row of distances, and neither holds an N x N matrix. Indices carry no gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

FEW = 128
"""Number of points below which computing all distances is faster than a tree."""
FLAT = 8
"""In more dimensions than this a tree visits nearly every point."""
BLOCK = 1 << 24
"""Number of distances held at a time."""


def nearest(points: Tensor, k: int, queries: Tensor | None = None) -> Tensor:
    """The ``k`` nearest of ``points`` (B, N, D) to each of ``queries`` (B, M, D), nearest first: indices (B, M, k).

    Without queries, the graph of the points themselves: each is its own first neighbour, unless others coincide with
    it. The order among equal distances is not defined.
    """
    queries = points if queries is None else queries
    if not 1 <= k <= points.shape[1]:
        raise ValueError(f"{k} neighbours cannot be taken from {points.shape[1]} points")
    points, queries = points.detach(), queries.detach()
    if points.device.type in ("cpu", "meta") and points.shape[1] >= FEW and points.shape[2] <= FLAT:
        indices: Tensor = kd_tree(points, queries, k)
        return indices
    return _in_blocks(points, queries, k)


def _in_blocks(points: Tensor, queries: Tensor, k: int) -> Tensor:
    if points.dtype in (torch.float16, torch.bfloat16):
        points, queries = points.float(), queries.float()
    rows = max(BLOCK // (points.shape[0] * points.shape[1]), 1)
    exact = "donot_use_mm_for_euclid_dist"
    indices = [
        torch.cdist(part, points, compute_mode=exact).topk(k, largest=False).indices for part in queries.split(rows, 1)
    ]
    return torch.cat(indices, 1)


@torch.library.custom_op("vergence::kd_tree", mutates_args=())
def kd_tree(points: Tensor, queries: Tensor, k: int) -> Tensor:
    """:func:`nearest` by SciPy's KD-tree, one tree per cloud; points are on the CPU."""
    from scipy.spatial import cKDTree

    indices = []
    for cloud, asked in zip(points.double().numpy(), queries.double().numpy(), strict=True):
        # Without median balancing the tree is as exact, twice as fast to build, and safe with many coincident points.
        tree = cKDTree(cloud, compact_nodes=False, balanced_tree=False)
        indices.append(torch.from_numpy(tree.query(asked, k)[1]).reshape(-1, k))
    return torch.stack(indices)


@kd_tree.register_fake
def _(points: Tensor, queries: Tensor, k: int) -> Tensor:
    return queries.new_empty((*queries.shape[:2], k), dtype=torch.int64)


def gathered(values: Tensor, index: Tensor) -> Tensor:
    """Neighbours' features: ``values`` (B, N, C) at ``index`` (B, M, k), as (B, M, k, C). Differentiable."""
    batch, _, channels = values.shape
    flat = index.flatten(1).unsqueeze(-1).expand(-1, -1, channels)
    return values.gather(1, flat).view(batch, *index.shape[1:], channels)
