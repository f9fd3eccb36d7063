"""Families of affine maps that agree with known poses to a degree: what patches are aligned with.

A map (2, 3) is ``[A y]``: offsets around a point x of the first view go to ``y + A (offset)`` in another one. Families
have 2, 3, 4 or 6 degrees of freedom (Raposo and Barreto, ECCV 2020):

    through_point    planes through a point with a known depth      2, for any number of views
    along_line       points on an epipolar line, with the affinities that agree with them, 3, for one view
    Planes           planes at any depth                            3, for any number of views
    affinities       any affinity around a known point              4, for one view
    affine_maps      any affinity around any point                  6, for one view

B counts patches, V views besides the first, P parameters. Coordinates are normalised, poses as in
:mod:`vergence.ops.epipolar`; :class:`InPixels` makes maps from patches to pixels of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.affine_correspondences import induced_derivative
from vergence.ops.epipolar import Induced, homogeneous, induced


class Family(Protocol):
    """Maps (B, V, 2, 3) in V views for parameters (B, P)."""

    def at(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Maps (B, V, 2, 3), and their derivatives (B, V, P, 2, 3)."""

    def rows(self, index: Tensor) -> Family:
        """The family of some of the B patches."""


@dataclass(frozen=True)
class Linear:
    """Maps that are linear in their parameters."""

    base: Tensor
    """(B, V, 2, 3)."""
    basis: Tensor
    """(B, V, P, 2, 3)."""

    def at(self, p: Tensor) -> tuple[Tensor, Tensor]:
        return self.base + torch.einsum("bp,bvprc->bvrc", p, self.basis), self.basis

    def rows(self, index: Tensor) -> Linear:
        return Linear(self.base[index], self.basis[index])

    def nearest(self, maps: Tensor, weight: Tensor | None = None) -> Tensor:
        """Parameters (B, P) of the map that is nearest to ``maps`` (B, V, 2, 3) in the least squares sense."""
        own = torch.ones_like(maps[:, :, 0, 0]) if weight is None else weight
        flat, gap = self.basis.flatten(-2), (maps - self.base).flatten(-2)
        gap = torch.where((own > 0).unsqueeze(-1), gap, 0)
        matrix = torch.einsum("bvpi,bv,bvqi->bpq", flat, own, flat)
        return torch.linalg.solve_ex(matrix, torch.einsum("bvpi,bv,bvi->bp", flat, own, gap))[0]


def through_point(view: Induced) -> Linear:
    """Two degrees of freedom: the first entries ν of planes through a point, of which ``view`` (B, V) says what they
    induce."""
    zero = torch.zeros_like(view.direction)
    k = view.direction
    basis = torch.stack([torch.stack([k, zero, zero], -1), torch.stack([zero, k, zero], -1)], 2)
    return Linear(torch.cat([view.base, view.y.unsqueeze(-1)], -1), basis)


def along_line(E: Tensor, x: Tensor, y: Tensor) -> Linear:
    """Three degrees of freedom (α₁, α₂, s) in one view with essential matrices E (B, 3, 3): the point is that of the
    epipolar line nearest to y, plus s along the line, and the affinity agrees with it (Eq. 4, around x)."""
    line = (E @ homogeneous(x).unsqueeze(-1)).squeeze(-1)
    e = line[:, :2] / line[:, :2].norm(dim=1, keepdim=True)
    d = torch.stack([-e[:, 1], e[:, 0]], 1)
    size = line[:, :2].norm(dim=1, keepdim=True)
    start = y - e * ((e * y).sum(1, keepdim=True) + line[:, 2:] / size)

    def lean(l: Tensor) -> Tensor:  # noqa: E741
        return -e.unsqueeze(-1) * (l / size).unsqueeze(-2)

    block = E[:, :2, :2].mT
    base = lean((block @ start.unsqueeze(-1)).squeeze(-1) + E[:, 2, :2])
    zero = torch.zeros_like(d)
    by_s = torch.cat([lean((block @ d.unsqueeze(-1)).squeeze(-1)), d.unsqueeze(-1)], -1)
    basis = torch.stack([torch.stack([d, zero, zero], -1), torch.stack([zero, d, zero], -1), by_s], 1)
    return Linear(torch.cat([base, start.unsqueeze(-1)], -1).unsqueeze(1), basis.unsqueeze(1))


def affinities(y: Tensor) -> Linear:
    """Four degrees of freedom in one view: the entries of the affinity by rows, around points y (B, 2)."""
    unit = torch.eye(4, dtype=y.dtype, device=y.device).reshape(4, 2, 2)
    basis = F.pad(unit, (0, 1)).expand(len(y), 1, 4, 2, 3)
    return Linear(F.pad(y.unsqueeze(-1), (2, 0)).unsqueeze(1), basis)


def affine_maps(y: Tensor) -> Linear:
    """Six degrees of freedom in one view: the entries of the map by rows; ``y`` (B, 2) says for how many patches."""
    basis = torch.eye(6, dtype=y.dtype, device=y.device).reshape(6, 2, 3).expand(len(y), 1, 6, 2, 3)
    return Linear(y.new_zeros(len(y), 1, 2, 3), basis)


@dataclass(frozen=True)
class Planes:
    """Three degrees of freedom (ν₁, ν₂, inverse depth) in views with poses (B, V, 3, 3) and (B, V, 3): what planes
    at x (B, 2) induce. Not linear in the depth."""

    R: Tensor
    t: Tensor
    x: Tensor

    def at(self, p: Tensor) -> tuple[Tensor, Tensor]:
        view = induced(self.R, self.t, self.x.unsqueeze(1), p[:, 2:])
        slant = p[:, None, :2].expand_as(view.y)
        A = view.base + view.direction.unsqueeze(-1) * slant.unsqueeze(-2)
        return torch.cat([A, view.y.unsqueeze(-1)], -1), induced_derivative(self.R, self.t, view, slant)

    def rows(self, index: Tensor) -> Planes:
        return Planes(self.R[index], self.t[index], self.x[index])


@dataclass(frozen=True)
class InPixels:
    """A family in normalised coordinates, as maps from patches to pixels."""

    family: Family
    frame: Tensor
    """(B, 2, 2): what takes q to offsets around x in the first view, in normalised coordinates."""
    K: Tensor
    """(B, V, 3, 3), intrinsics of the other views."""

    def at(self, p: Tensor) -> tuple[Tensor, Tensor]:
        maps, derivatives = self.family.at(p)
        K = self.K[..., :2, :2]
        pixels = K @ _framed(maps, self.frame[:, None])
        shift = F.pad(self.K[..., :2, 2:], (2, 0))
        return pixels + shift, K.unsqueeze(2) @ _framed(derivatives, self.frame[:, None, None])

    def rows(self, index: Tensor) -> InPixels:
        return InPixels(self.family.rows(index), self.frame[index], self.K[index])


def _framed(maps: Tensor, frame: Tensor) -> Tensor:
    return torch.cat([maps[..., :2] @ frame, maps[..., 2:]], -1)
