"""Errors of affine correspondences, surface normals and tracks."""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.ops.epipolar import epipolar_lines, homogeneous


def affinity_error(A: Tensor, truth: Tensor) -> Tensor:
    """The Frobenius norm (...,) of the difference between affinities (..., 2, 2)."""
    return (A - truth).flatten(-2).norm(dim=-1)


def normal_angle(normals: Tensor, truth: Tensor) -> Tensor:
    """Angles (...,) between normals (..., 3) of any length, in degrees; both face the camera."""
    cross = torch.linalg.cross(normals, truth).norm(dim=-1)
    return torch.rad2deg(torch.atan2(cross, (normals * truth).sum(-1)))  # exact for small angles too


def symmetric_epipolar_distance(F: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Distances (...,) of points y (..., 2) from the lines of x and of x from those of y, as root mean squares. F is
    the fundamental matrix (..., 3, 3) for points in pixels."""
    first, second = epipolar_lines(F, x, y)
    away = (homogeneous(y) * second).sum(-1)
    return away.abs() * ((first[..., :2].norm(dim=-1) ** -2 + second[..., :2].norm(dim=-1) ** -2) / 2).sqrt()


def fitted_plane(points: Tensor) -> tuple[Tensor, Tensor]:
    """The unit normal (3,) of the plane nearest to points (N, 3) in the least squares sense, and the distances (N,) of
    the points from it."""
    centred = points - points.mean(0)
    normal = torch.linalg.svd(centred, full_matrices=False).Vh[2]
    return normal, (centred @ normal).abs()
