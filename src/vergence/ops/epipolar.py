"""Two and more calibrated views of a point: epipolar lines, triangulation, and what a plane does to a neighbourhood.

All coordinates are normalised: pixels after the inverse of the intrinsics. A pose ``R`` (..., 3, 3), ``t`` (..., 3)
takes points of the first camera to another one, ``R X + t``. A plane is ``n`` (..., 3) with ``n · X = 1`` for its
points X in the first camera: the normal divided by the distance. Every function is differentiable.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def homogeneous(x: Tensor) -> Tensor:
    """Points (..., 2) with a third coordinate of 1, (..., 3)."""
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


def cross_matrix(t: Tensor) -> Tensor:
    """``[t]``, (..., 3, 3), with ``[t] X = t × X``, of vectors (..., 3)."""
    a, b, c = t.unbind(-1)
    zero = torch.zeros_like(a)
    return torch.stack([zero, -c, b, c, zero, -a, -b, a, zero], -1).unflatten(-1, (3, 3))


def essential(R: Tensor, t: Tensor) -> Tensor:
    """The essential matrix ``[t] R``, (..., 3, 3): ``ỹᵀ E x̃ = 0`` for the images x and y of one point."""
    return cross_matrix(t) @ R


def epipolar_lines(E: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The epipolar line of y in the first image, ``Eᵀ ỹ``, and that of x in the second, ``E x̃``: (..., 3) each."""
    first = (E.mT @ homogeneous(y).unsqueeze(-1)).squeeze(-1)
    second = (E @ homogeneous(x).unsqueeze(-1)).squeeze(-1)
    return first, second


def relative_pose(R1: Tensor, t1: Tensor, R2: Tensor, t2: Tensor) -> tuple[Tensor, Tensor]:
    """The pose that takes points of the first camera to the second, of two poses that take points of the world to
    them."""
    R = R2 @ R1.mT
    return R, t2 - (R @ t1.unsqueeze(-1)).squeeze(-1)


class Induced(NamedTuple):
    """The image of a point in another view, and the affinities that planes through the point can induce there:
    ``base + direction νᵀ`` for the first two entries ν of the plane."""

    y: Tensor
    """(..., 2)."""
    base: Tensor
    """(..., 2, 2)."""
    direction: Tensor
    """(..., 2), also the derivative of y by the inverse depth."""
    depth: Tensor
    """(...,), depth in the other view in relation to that in the first; not positive behind the camera."""


def induced(R: Tensor, t: Tensor, x: Tensor, inverse_depth: Tensor) -> Induced:
    """What planes through the point at x (..., 2) with ``inverse_depth`` (...,) do in a view: the homography
    ``R + t nᵀ`` to first order around x, where ``n = (ν, inverse_depth - ν · x)``."""
    moved = (R @ homogeneous(x).unsqueeze(-1)).squeeze(-1) + inverse_depth.unsqueeze(-1) * t
    depth = moved[..., 2]
    s = depth.unsqueeze(-1)
    y = moved[..., :2] / s
    base = (R[..., :2, :2] - y.unsqueeze(-1) * R[..., 2:, :2]) / s.unsqueeze(-1)
    return Induced(y, base, (t[..., :2] - y * t[..., 2:]) / s, depth)


def plane_through(x: Tensor, slant: Tensor, inverse_depth: Tensor) -> Tensor:
    """The plane (..., 3) with first entries ``slant`` (..., 2) through the point at x with this inverse depth."""
    return torch.cat([slant, inverse_depth.unsqueeze(-1) - (slant * x).sum(-1, keepdim=True)], -1)


def plane_affinity(R: Tensor, t: Tensor, n: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The image (..., 2) of x in another view by way of the plane n, and the affinity (..., 2, 2) of neighbourhoods:
    the derivative of the homography ``R + t nᵀ`` at x."""
    view = induced(R, t, x, (n * homogeneous(x)).sum(-1))
    return view.y, view.base + view.direction.unsqueeze(-1) * n[..., None, :2]


def triangulate(
    R: Tensor, t: Tensor, points: Tensor, weight: Tensor | None = None, steps: int = 10
) -> tuple[Tensor, Tensor]:
    """The points (B, 3) whose images are nearest to ``points`` (B, N, 2) in N views with poses (B, N, 3, 3) and
    (B, N, 3), and their root mean square distances (B,) from them.

    The start is linear (DLT); ``steps`` of Gauss-Newton then minimise squared distances in the images, weighted by
    ``weight`` (B, N), which is 0 where a view does not see the point. For two views this is the optimum of Hartley
    and Sturm. A step that raises the sum is not taken.
    """
    weight = torch.ones_like(points[..., 0]) if weight is None else weight.to(points)
    points = torch.where((weight > 0).unsqueeze(-1), points, torch.zeros_like(points))
    rows = R[..., :2, :] - points.unsqueeze(-1) * R[..., 2:, :]  # (B, N, 2, 3)
    right = points * t[..., 2:] - t[..., :2]
    X = _least_squares(rows, right, weight)
    error, step = _reprojection(R, t, points, weight, X)
    for _ in range(steps):
        trial = X + step
        new, next_step = _reprojection(R, t, points, weight, trial)
        better = new < error
        X = torch.where(better.unsqueeze(-1), trial, X)
        step = torch.where(better.unsqueeze(-1), next_step, step / 4)
        error = torch.where(better, new, error)
    return X, (error / weight.sum(-1)).clamp(min=0).sqrt()


def _reprojection(R: Tensor, t: Tensor, points: Tensor, weight: Tensor, X: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of squared distances (B,), and the Gauss-Newton steps (B, 3) from X."""
    seen = (R @ X[:, None, :, None]).squeeze(-1) + t
    depth = seen[..., 2:]
    image = seen[..., :2] / depth
    rows = (R[..., :2, :] - image.unsqueeze(-1) * R[..., 2:, :]) / depth.unsqueeze(-1)
    gap = points - image
    return (weight * gap.square().sum(-1)).sum(-1), _least_squares(rows, gap, weight)


def _least_squares(rows: Tensor, right: Tensor, weight: Tensor) -> Tensor:
    """Solutions (B, 3) of rows (B, N, 2, 3) times X = right (B, N, 2) by normal equations."""
    heavy = rows * weight[..., None, None]
    matrix = torch.einsum("bnri,bnrj->bij", heavy, rows)
    return torch.linalg.solve_ex(matrix, torch.einsum("bnri,bnr->bi", heavy, right))[0]
