"""Rays against solids: boxes, ellipsoids, cylinders and cones, each the affine image of a unit shape.

A solid is intersected with the few rays that meet its bounding sphere, so the cost grows with what is visible of it
and not with the number of solids times the number of rays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

BOX, ELLIPSOID, CYLINDER, CONE = range(4)
"""Unit shapes: the cube from -1 to 1; the unit ball; the cylinder of radius 1 about the second axis, from -1 to 1; and
the cone with its apex at -1 (up) and a base of radius 1 at 1."""
NEAR = 1e-4
"""Hits nearer than this, in multiples of the ray's direction, are the surface that the ray starts from."""

AT_ONCE = 32
"""Solids whose bounding balls are tried at once."""


@dataclass(frozen=True)
class Solids:
    """n solids: points of the unit shape are mapped by ``frame @ x + centre``."""

    shape: Tensor
    """(n,), one of BOX, ELLIPSOID, CYLINDER, CONE."""
    frame: Tensor
    """(n, 3, 3): columns are the half axes."""
    centre: Tensor
    """(n, 3)."""
    inside: Tensor
    """(n,), whether a solid is seen from within only, as the walls of a room are."""

    def __len__(self) -> int:
        return len(self.shape)

    def moved(self, rotation: Tensor, shift: Tensor) -> Solids:
        """The solids after rigid motions ``x -> rotation @ x + shift``, (n, 3, 3) and (n, 3)."""
        centre = (rotation @ self.centre.unsqueeze(-1)).squeeze(-1) + shift
        return replace(self, frame=rotation @ self.frame, centre=centre)


@dataclass(frozen=True)
class Hits:
    """The first hit of each of P rays."""

    distance: Tensor
    """(P,) in multiples of the ray's direction; infinite for rays that hit nothing."""
    owner: Tensor
    """(P,), index of the solid; -1 for none."""
    local: Tensor
    """(P, 3), coordinates in the unit shape."""

    @property
    def any(self) -> Tensor:
        return self.owner >= 0


def cast(solids: Solids, origins: Tensor, directions: Tensor) -> Hits:
    """First hits of rays from ``origins`` (P, 3) or (3,) along ``directions`` (P, 3), of any length."""
    count = len(directions)
    distance = directions.new_full((count,), torch.inf)
    owner = torch.full((count,), -1, dtype=torch.long, device=directions.device)
    inverse = torch.linalg.inv(solids.frame)
    for index, rays in _candidates(solids, origins, directions):
        some = origins if origins.dim() == 1 else origins[rays]
        o = (some - solids.centre[index]) @ inverse[index].mT
        d = directions[rays] @ inverse[index].mT
        hit = _enter(int(solids.shape[index]), o.expand_as(d), d, bool(solids.inside[index]))
        closer = hit < distance[rays]
        distance[rays] = torch.where(closer, hit, distance[rays])
        owner[rays] = torch.where(closer, index, owner[rays])
    points = origins + torch.where(owner >= 0, distance, 0).unsqueeze(1) * directions
    local = torch.einsum("pij,pj->pi", inverse[owner], points - solids.centre[owner])
    return Hits(distance, owner, local)


def _candidates(solids: Solids, origins: Tensor, directions: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Every solid with the rays that meet its bounding ball, by matrix products over many solids at once."""
    radii = solids.frame.square().sum((1, 2))  # squared
    start = origins.expand_as(directions)
    squared, own, back = (directions * directions).sum(1), (start * start).sum(1), (directions * start).sum(1)
    for first in range(0, len(solids), AT_ONCE):
        centre, radius = solids.centre[first : first + AT_ONCE], radii[first : first + AT_ONCE].unsqueeze(1)
        along = centre @ directions.mT - back
        away = (centre * centre).sum(1, keepdim=True) - 2 * (centre @ start.mT) + own
        slack = radius + 1e-4 * away  # single precision
        near = ((along > 0) & (away - along * along / squared <= slack)) | (away <= slack)
        which, rays = near.nonzero(as_tuple=True)
        for offset, some in enumerate(rays.split(which.bincount(minlength=len(centre)).tolist())):
            if len(some):
                yield first + offset, some


def _enter(shape: int, o: Tensor, d: Tensor, inside: bool) -> Tensor:
    """Distances at which rays (R, 3) enter a unit shape; if they start in it or it is seen from within, at which they
    leave it. Infinite for those that miss it."""
    first, last = {BOX: _box, ELLIPSOID: _ball, CYLINDER: _cylinder, CONE: _cone}[shape](o, d)
    hit = last if inside else torch.where(first > NEAR, first, last)
    return torch.where((first <= last) & (hit > NEAR), hit, torch.inf)


def _slab(o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Interval in which a coordinate is from -1 to 1."""
    safe = torch.where(d.abs() < 1e-12, torch.full_like(d, 1e-12), d)
    one, other = (-1 - o) / safe, (1 - o) / safe
    return torch.minimum(one, other), torch.maximum(one, other)


def _box(o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    first, last = _slab(o, d)
    return first.amax(1), last.amin(1)


def _roots(a: Tensor, half: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Interval in which ``a t^2 + 2 half t + c <= 0``, for a > 0; empty (first > last) without real roots."""
    inner = half * half - a * c
    root = inner.clamp(min=0).sqrt()
    a = a.clamp(min=1e-12)
    empty = inner < 0
    first, last = (-half - root) / a, (-half + root) / a
    return first.masked_fill(empty, torch.inf), last.masked_fill(empty, -torch.inf)


def _ball(o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    return _roots((d * d).sum(1), (o * d).sum(1), (o * o).sum(1) - 1)


def _cylinder(o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    around = torch.tensor([1.0, 0.0, 1.0], dtype=o.dtype, device=o.device)
    first, last = _roots((d * d * around).sum(1), (o * d * around).sum(1), (o * o * around).sum(1) - 1)
    low, high = _slab(o[:, 1], d[:, 1])
    return torch.maximum(first, low), torch.minimum(last, high)


def _cone(o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """``x^2 + z^2 <= ((y + 1) / 2)^2`` between -1 and 1: below the apex the quadratic's sign decides which part of a
    ray is inside, so its two roots and the ends of the slab are tried as borders."""
    height = (o[:, 1] + 1) / 2
    slope = d[:, 1] / 2
    a = d[:, 0] ** 2 + d[:, 2] ** 2 - slope**2
    half = o[:, 0] * d[:, 0] + o[:, 2] * d[:, 2] - height * slope
    c = o[:, 0] ** 2 + o[:, 2] ** 2 - height**2
    low, high = _slab(o[:, 1], d[:, 1])
    inner = half * half - a * c
    root = inner.clamp(min=0).sqrt()
    safe = torch.where(a.abs() < 1e-9, torch.full_like(a, 1e-9), a)
    borders = torch.stack([(-half - root) / safe, (-half + root) / safe], 1).sort(1).values
    borders = borders.clamp(low.unsqueeze(1), high.unsqueeze(1))
    borders = torch.where((inner < 0).unsqueeze(1), low.unsqueeze(1), borders)
    edges = torch.cat([low.unsqueeze(1), borders, high.unsqueeze(1)], 1)  # three pieces, each in or out as a whole
    middle = (edges[:, 1:] + edges[:, :-1]) / 2
    within = a.unsqueeze(1) * middle**2 + 2 * half.unsqueeze(1) * middle + c.unsqueeze(1) <= 0
    within &= edges[:, 1:] > edges[:, :-1]
    first = edges[:, :-1].masked_fill(~within, torch.inf).amin(1)
    last = edges[:, 1:].masked_fill(~within, -torch.inf).amax(1)
    return first, last


def normals(solids: Solids, hits: Hits) -> Tensor:
    """Unit normals (P, 3) at the hits, outwards (inwards for solids seen from within); zero where nothing was hit."""
    x, shape = hits.local, solids.shape[hits.owner]
    face = x.abs().argmax(1, keepdim=True)
    on_box = torch.zeros_like(x).scatter(1, face, x.gather(1, face).sign())
    cap = x[:, 1].abs() > 1 - 1e-4
    round_about = torch.stack([x[:, 0], torch.zeros_like(x[:, 1]), x[:, 2]], 1)
    on_cap = torch.stack([torch.zeros_like(x[:, 1]), x[:, 1].sign(), torch.zeros_like(x[:, 1])], 1)
    on_cylinder = torch.where(cap.unsqueeze(1), on_cap, round_about)
    slant = torch.stack([x[:, 0], -(x[:, 1] + 1) / 4, x[:, 2]], 1)
    on_cone = torch.where((x[:, 1] > 1 - 1e-4).unsqueeze(1), on_cap, slant)
    local = torch.stack([on_box, x, on_cylinder, on_cone], 1)  # (P, shape, 3)
    chosen = local.gather(1, shape.view(-1, 1, 1).expand(-1, 1, 3)).squeeze(1)
    inverse = torch.linalg.inv(solids.frame)[hits.owner]
    world = torch.nn.functional.normalize(torch.einsum("pij,pi->pj", inverse, chosen), dim=1)
    sign = torch.where(solids.inside[hits.owner], -1.0, 1.0).to(world)
    return world * (sign * hits.any).unsqueeze(1)


def charts(solids: Solids, hits: Hits) -> Tensor:
    """Surface coordinates (P, 2) in metres: faces of boxes unrolled one by one, round solids by angle and height."""
    x, owner = hits.local, hits.owner
    half = solids.frame.norm(dim=1)[owner]  # (P, 3)
    flat = x * half
    face = x.abs().argmax(1)
    along = torch.tensor([[2, 1], [0, 2], [0, 1]], device=x.device)[face]  # the two other axes of a face
    side = (face.double() * 2 + (x.gather(1, face.unsqueeze(1)).squeeze(1) > 0)).to(x)
    on_box = flat.gather(1, along) + side.unsqueeze(1) * 0.37  # so that no two faces show the same piece
    radius = (half[:, 0] + half[:, 2]) / 2
    angle = torch.atan2(x[:, 2], x[:, 0])
    height = torch.where(
        solids.shape[owner] == ELLIPSOID, torch.asin(x[:, 1].clamp(-1, 1)) * half[:, 1], x[:, 1] * half[:, 1]
    )
    around = torch.stack([angle * radius, height], 1)
    return torch.where((solids.shape[owner] == BOX).unsqueeze(1), on_box, around)
