"""Projection of a sweep and the vote of neighbours, as in the public code: sorting points, unfolding windows."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor


def project(points: NDArray[np.float32], height: int = 64, width: int = 2048) -> NDArray[np.int64]:
    """``LaserScan.do_range_projection``: (H, W), the point of each pixel, or -1; the nearest point wins."""
    up, down = 3.0 / 180.0 * np.pi, -25.0 / 180.0 * np.pi
    field = abs(down) + abs(up)
    depth = np.linalg.norm(points, 2, axis=1)
    yaw = -np.arctan2(points[:, 1], points[:, 0])
    pitch = np.arcsin(points[:, 2] / depth)
    x = 0.5 * (yaw / np.pi + 1.0) * width
    y = (1.0 - (pitch + abs(down)) / field) * height
    x = np.maximum(0, np.minimum(width - 1, np.floor(x))).astype(np.int32)
    y = np.maximum(0, np.minimum(height - 1, np.floor(y))).astype(np.int32)
    order = np.argsort(depth)[::-1]
    index = np.full((height, width), -1, dtype=np.int64)
    index[y[order], x[order]] = np.arange(len(points))[order]
    return index


def vote(
    ranges: Tensor, labels: Tensor, own: Tensor, row: Tensor, column: Tensor, classes: int, k: int = 7,
    search: int = 7, sigma: float = 1.0, cutoff: float = 1.0,
) -> Tensor:  # fmt: skip
    """``KNN.forward``: every window of the image is unfolded, then those of the points are taken."""
    width = ranges.shape[1]
    pad = (search - 1) // 2
    windows = F.unfold(ranges[None, None], (search, search), padding=(pad, pad))
    index = row * width + column
    around = windows[:, :, index]
    around[around < 0] = math.inf
    centre = (search * search - 1) // 2
    around[:, centre, :] = own
    apart = (around - own).abs()
    at = torch.arange(search).to(ranges)
    grid = torch.stack([at.repeat(search, 1), at.repeat(search, 1).T], -1)
    bell = (1 / (2 * math.pi * sigma**2)) * torch.exp(-torch.sum((grid - (search - 1) / 2) ** 2, -1) / (2 * sigma**2))
    weights = (1 - bell / bell.sum()).view(1, -1, 1)
    nearest, which = (apart * weights).topk(k, dim=1, largest=False, sorted=False)
    names = F.unfold(labels[None, None].to(ranges), (search, search), padding=(pad, pad))[:, :, index]
    votes = names.gather(1, which).long()
    votes[nearest > cutoff] = classes
    counts = torch.zeros((1, classes + 1, len(own)), dtype=ranges.dtype)
    counts.scatter_add_(1, votes, torch.ones_like(nearest))
    return counts[:, 1:-1].argmax(dim=1)[0] + 1
