"""Affine correspondences made consistent with known poses, and the oriented points they belong to.

An affine correspondence is a point x in the first view, its image y in another one, and the matrix A (2, 2) that takes
offsets around x to offsets around y. It agrees with the poses if ``ỹᵀ E x̃ = 0`` and ``Aᵀ e + l = 0``, where e and l
are the first two entries of the epipolar lines ``E x̃`` and ``Eᵀ ỹ`` (Raposo and Barreto, ECCV 2020, Eq. 2).

Corrections are closed forms for whole batches: orthogonal projections on the correspondences that agree. A row that is
not finite stays so, and touches no other. Coordinates are normalised, poses and planes as in
:mod:`vergence.ops.epipolar`; V counts the views besides the first. Everything is differentiable.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vergence.ops.epipolar import Induced, epipolar_lines, homogeneous, induced, plane_through


def inconsistency(E: Tensor, x: Tensor, y: Tensor, A: Tensor) -> Tensor:
    """The three constraints (..., 3) of Eq. 2, zero for a correspondence that agrees with E."""
    first, second = epipolar_lines(E, x, y)
    point = (homogeneous(y) * second).sum(-1, keepdim=True)
    return torch.cat([point, (A.mT @ second[..., :2, None]).squeeze(-1) + first[..., :2]], -1)


def correct_affinity(E: Tensor, x: Tensor, y: Tensor, A: Tensor) -> Tensor:
    """The affinities (..., 2, 2) nearest to A that agree with E while both points stay (2 degrees of freedom, Eq. 6).

    The form of the paper's Eq. 7 divides by the first entry of a line and fails where lines are horizontal, as in
    rectified pairs; this one has no such case. Points should agree with E, for instance after triangulation.
    """
    first, second = epipolar_lines(E, x, y)
    l, e = first[..., :2], second[..., :2]  # noqa: E741
    missed = (A.mT @ e.unsqueeze(-1)).squeeze(-1) + l
    return A - e.unsqueeze(-1) * missed.unsqueeze(-2) / e.square().sum(-1)[..., None, None]


def correct_correspondence(
    E: Tensor, x: Tensor, y: Tensor, A: Tensor, origin: Tensor | None = None, weight: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The point (..., 2) and the affinity (..., 2, 2) that agree with E and are nearest to y and A together (3 degrees
    of freedom, Eq. 4).

    Nearest means ``|A' - A|² + weight |v' - v|²``, where v is the image of ``origin`` (..., 2) under the affine map.
    That is x unless given; the paper's own choice, the zero of the coordinates, makes the result depend on where
    that zero is.
    """
    offset = torch.zeros_like(x) if origin is None else origin - x
    _, second = epipolar_lines(E, x, y)
    e = second[..., :2]
    # Unknowns are the columns of A and v, three vectors of two: y is v - A offset, and l depends on y.
    spread = homogeneous(-offset)  # y as a combination of the three
    on_y = torch.cat([e.unsqueeze(-2), E[..., :2, :2].mT.expand(*e.shape[:-1], 2, 2)], -2)  # rows: the point, l
    on_column = E.new_tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    M = spread[..., None, :, None] * on_y.unsqueeze(-2) + on_column[..., None] * e[..., None, None, :]
    M = M.flatten(-2)  # (..., 3, 6)
    constant = torch.cat([second[..., 2:], E[..., 2, :2].expand_as(e)], -1)
    m = torch.cat([A.mT.flatten(-2), y + (A @ offset.unsqueeze(-1)).squeeze(-1)], -1)
    metric = m.new_tensor([1.0, 1.0, 1.0, 1.0, 1 / weight, 1 / weight])
    missed = (M @ m.unsqueeze(-1)).squeeze(-1) + constant
    step = torch.linalg.solve_ex(M * metric @ M.mT, missed)[0]
    m = m - metric * (M.mT @ step.unsqueeze(-1)).squeeze(-1)
    A = m[..., :4].unflatten(-1, (2, 2)).mT
    return m[..., 4:] - (A @ offset.unsqueeze(-1)).squeeze(-1), A


class Corrected(NamedTuple):
    """Correspondences of one plane per point."""

    y: Tensor
    """(..., V, 2)."""
    A: Tensor
    """(..., V, 2, 2)."""
    plane: Tensor
    """(..., 3)."""


def correct_views(
    R: Tensor, t: Tensor, x: Tensor, inverse_depth: Tensor, A: Tensor, weight: Tensor | None = None
) -> Corrected:
    """The affinities nearest to A (..., V, 2, 2) that one plane through the point induces in all views (2 degrees of
    freedom for any number of views, Eq. 9 and 10).

    Points are those of the triangulated point at x (..., 2) with ``inverse_depth`` (...,). ``weight`` (..., V) is 0 for
    views that do not see it. With :func:`~vergence.ops.epipolar.induced` the least squares of the paper become one
    weighted mean, which also works if all camera centres are on a line, where Eq. 8 divides zero by zero.
    """
    view = induced(R, t, x.unsqueeze(-2), inverse_depth.unsqueeze(-1))
    slant = _slant(view, A, weight)
    fitted = view.base + view.direction.unsqueeze(-1) * slant[..., None, None, :]
    return Corrected(view.y, fitted, plane_through(x, slant, inverse_depth))


def _slant(view: Induced, A: Tensor, weight: Tensor | None) -> Tensor:
    """The first two entries (..., 2) of the plane that explains A best."""
    k = view.direction if weight is None else view.direction * weight.unsqueeze(-1)
    gap = A - view.base
    if weight is not None:
        gap = torch.where((weight > 0)[..., None, None], gap, torch.zeros_like(gap))
    return (gap * k.unsqueeze(-1)).sum((-3, -2)) / (view.direction * k).sum((-2, -1)).unsqueeze(-1)


def correct_plane(
    R: Tensor,
    t: Tensor,
    x: Tensor,
    y: Tensor,
    A: Tensor,
    weight: Tensor | None = None,
    point_weight: float = 1.0,
    steps: int = 20,
) -> Corrected:
    """As :func:`correct_views`, but points y (..., V, 2) move too (3 degrees of freedom for any number of views, the
    problem of Eq. 12): the plane that minimises ``Σ |A' - A|² + point_weight |y' - y|²``, by Gauss-Newton with
    analytic derivatives. x stays."""
    own = torch.ones_like(y[..., 0]) if weight is None else weight.to(y)
    seen = own > 0
    y, A = torch.where(seen[..., None], y, 0), torch.where(seen[..., None, None], A, 0)
    rho = _inverse_depth(R, t, x, y, own)
    slant = _slant(induced(R, t, x.unsqueeze(-2), rho.unsqueeze(-1)), A, own)
    p = torch.cat([slant, rho.unsqueeze(-1)], -1)
    cost, step = _plane_step(R, t, x, y, A, own, point_weight, p)
    for _ in range(steps):
        trial = p + step
        new, next_step = _plane_step(R, t, x, y, A, own, point_weight, trial)
        better = (new < cost).unsqueeze(-1)
        p, step = torch.where(better, trial, p), torch.where(better, next_step, step / 4)
        cost = torch.minimum(new, cost)
    view = induced(R, t, x.unsqueeze(-2), p[..., 2:])
    fitted = view.base + view.direction.unsqueeze(-1) * p[..., None, None, :2]
    return Corrected(view.y, fitted, plane_through(x, p[..., :2], p[..., 2]))


def _inverse_depth(R: Tensor, t: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Linear estimates (...,) from ``(R x̃ + ρ t)`` parallel to ỹ."""
    moved = (R @ homogeneous(x)[..., None, :, None]).squeeze(-1)
    along, have = t[..., :2] - y * t[..., 2:], y * moved[..., 2:] - moved[..., :2]
    return (weight * (along * have).sum(-1)).sum(-1) / (weight * along.square().sum(-1)).sum(-1)


def induced_derivative(R: Tensor, t: Tensor, view: Induced, slant: Tensor) -> Tensor:
    """Derivatives (..., 3, 2, 3) of the affine map ``[A y]`` of a view by (ν₁, ν₂, inverse depth)."""
    k, s = view.direction, view.depth.unsqueeze(-1)
    zero = torch.zeros_like(k)
    by_slant = [torch.stack([k, zero, zero], -1), torch.stack([zero, k, zero], -1)]
    turn, zoom = R[..., 2, :2] / s, t[..., 2:] / s
    base = -k.unsqueeze(-1) * turn.unsqueeze(-2) - view.base * zoom.unsqueeze(-1)
    affinity = base - 2 * (k * zoom).unsqueeze(-1) * slant.unsqueeze(-2)
    return torch.stack([*by_slant, torch.cat([affinity, k.unsqueeze(-1)], -1)], -3)


def _plane_step(
    R: Tensor, t: Tensor, x: Tensor, y: Tensor, A: Tensor, weight: Tensor, point_weight: float, p: Tensor
) -> tuple[Tensor, Tensor]:
    view = induced(R, t, x.unsqueeze(-2), p[..., 2:])
    slant = p[..., None, :2]
    fitted = view.base + view.direction.unsqueeze(-1) * slant.unsqueeze(-2)
    J = induced_derivative(R, t, view, slant.expand_as(view.y)).flatten(-2)  # (..., V, 3, 6)
    gap = torch.cat([A - fitted, (y - view.y).unsqueeze(-1)], -1).flatten(-2)
    metric = gap.new_tensor([1.0, 1.0, point_weight] * 2) * weight.unsqueeze(-1)
    matrix = torch.einsum("...vpi,...vi,...vqi->...pq", J, metric, J)
    right = torch.einsum("...vpi,...vi,...vi->...p", J, metric, gap)
    return (metric * gap.square()).sum((-2, -1)), torch.linalg.solve_ex(matrix, right)[0]


def estimate_plane(R: Tensor, t: Tensor, x: Tensor, y: Tensor, A: Tensor, weight: Tensor | None = None) -> Tensor:
    """Planes (..., 3) from correspondences of V views, y (..., V, 2) and A (..., V, 2, 2), by the linear system of
    Eq. 13: ``σ H(j; x, y, A) = R + t nᵀ`` for every view, in the least squares sense.

    The equality holds up to a scale σ, which the paper's system does not have: it is an unknown of every view here, as
    ``σ j`` is. Both are eliminated in closed form, which leaves three equations for n.
    """
    x_, y_ = homogeneous(x).unsqueeze(-2), homogeneous(y)
    long_x, long_y = x_.norm(dim=-1, keepdim=True), y_.norm(dim=-1, keepdim=True)
    x_, y_ = (x_ / long_x).expand_as(y_), y_ / long_y
    third = (y - (A @ x[..., None, :, None]).squeeze(-1)).unsqueeze(-1)
    S = torch.cat([torch.cat([A, third], -1), _last_row(A)], -2)  # H for j = 0
    # What σ j adds is ỹ times a row orthogonal to x̃; the rest of a matrix M is M - ỹỹᵀM off ỹ, and ỹᵀM x̃ along it.
    S_off, R_off, t_off = (_off(M, y_) for M in (S, R, t.unsqueeze(-1)))
    t_off, t_on = t_off.squeeze(-1), (y_ * t).sum(-1, keepdim=True)
    S_on, R_on = long_y / long_x, (y_.unsqueeze(-2) @ R @ x_.unsqueeze(-1)).squeeze(-1)
    scale_n = (S_off.mT @ t_off.unsqueeze(-1)).squeeze(-1) + S_on * t_on * x_
    scale_scale = S_off.square().sum((-2, -1)).unsqueeze(-1) + S_on.square()
    scale_R = (S_off * R_off).sum((-2, -1)).unsqueeze(-1) + S_on * R_on
    identity = torch.eye(3, dtype=x.dtype, device=x.device)
    n_n = t_off.square().sum(-1)[..., None, None] * identity
    n_n = n_n + t_on.square().unsqueeze(-1) * x_.unsqueeze(-1) * x_.unsqueeze(-2)
    n_R = (R_off.mT @ t_off.unsqueeze(-1)).squeeze(-1) + t_on * R_on * x_
    matrix = n_n - scale_n.unsqueeze(-1) * scale_n.unsqueeze(-2) / scale_scale.unsqueeze(-1)
    right = scale_n * scale_R / scale_scale - n_R
    if weight is not None:
        seen = weight > 0
        matrix = torch.where(seen[..., None, None], matrix, 0) * weight[..., None, None]
        right = torch.where(seen[..., None], right, 0) * weight[..., None]
    return torch.linalg.solve_ex(matrix.sum(-3), right.sum(-2))[0]


def _last_row(A: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(A[..., :1, :]), torch.ones_like(A[..., :1, :1])], -1)


def _off(matrix: Tensor, direction: Tensor) -> Tensor:
    """The part of the columns of a matrix (..., 3, C) that is orthogonal to unit vectors (..., 3)."""
    u = direction.unsqueeze(-1)
    return matrix - u @ (u.mT @ matrix)


def oriented_point(plane: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The point (..., 3) of a plane that is seen at x, and the unit normal (..., 3) towards the camera. The plane's
    distance is ``1 / |plane|``."""
    along = (plane * homogeneous(x)).sum(-1, keepdim=True)
    return homogeneous(x) / along, -torch.sign(along) * plane / plane.norm(dim=-1, keepdim=True)
