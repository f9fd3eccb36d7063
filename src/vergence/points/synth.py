"""Embedded scenes of rigid objects: boxes and ellipsoids that move a little between two instants.

In the *perfect* world the second cloud is the first one, moved and shuffled: every point has an exact match. In the
*resampled* world the moved surfaces are sampled again, as by a sensor: no point has one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.points.data import Scene
from vergence.points.settings import World

SPREAD = 2.5
"""Largest distance of an object from the centre along each axis, in metres."""
SHIFT = 0.8
"""Largest translation along each axis, in metres."""
TURN = 0.3
"""Largest rotation, in radians."""
SIZES = (0.3, 0.9)
"""Smallest and largest half sides and radii, in metres."""


@dataclass(frozen=True)
class Rigid:
    """Scenes in memory: clouds (S, N, 3) at two instants, the flow of the first, and the object of each point (N,)."""

    p: Tensor
    q: Tensor
    flow: Tensor
    labels: Tensor
    aligned: bool = False

    def __len__(self) -> int:
        return len(self.p)

    def __getitem__(self, index: int) -> Scene:
        return Scene(self.p[index], self.q[index], self.flow[index], torch.ones(self.p.shape[1], dtype=torch.bool))


def rigid(count: int, points: int, objects: int, world: World, *seed: int | str) -> Rigid:
    """``count`` scenes of ``objects`` objects with ``points`` points in all, shared as equally as possible."""
    source = generator("rigid", count, points, objects, world, *seed)
    labels = torch.arange(points) * objects // points  # (N,)
    shapes = _shapes(count, objects, source)

    p = shapes.sampled(labels, source)
    shift = SHIFT * _uniform((count, objects, 3), source)
    turn = _turned(_directions((count, objects), source), TURN * torch.rand(count, objects, generator=source))

    def moved(x: Tensor) -> Tensor:
        centre = shapes.centre[:, labels]
        return (turn[:, labels] @ (x - centre).unsqueeze(-1)).squeeze(-1) + centre + shift[:, labels]

    flow = moved(p) - p
    q = p + flow if world == "perfect" else moved(shapes.sampled(labels, source))
    order = torch.rand(count, points, generator=source).argsort(1)
    return Rigid(p, q.gather(1, order.unsqueeze(-1).expand(-1, -1, 3)), flow, labels)


@dataclass(frozen=True)
class _Shapes:
    """Position, size, rotation and kind of every object (O) in every scene (S)."""

    centre: Tensor  # (S, O, 3)
    half: Tensor  # (S, O, 3)
    pose: Tensor  # (S, O, 3, 3)
    box: Tensor  # (S, O)

    def sampled(self, labels: Tensor, source: torch.Generator) -> Tensor:
        """Random surface points (S, N, 3) of the objects given by labels (N,)."""
        half = self.half[:, labels]
        scenes, points = half.shape[:2]
        round_ = _directions((scenes, points), source) * half
        # A box: uniform inside, then projected to one of its faces, chosen by area.
        area = half.prod(-1, keepdim=True) / half
        face = torch.rand(scenes, points, 1, generator=source) * area.sum(-1, keepdim=True)
        axis = (face > area.cumsum(-1)).sum(-1).clamp_max(2)
        inside = _uniform((scenes, points, 3), source)
        on_face = torch.nn.functional.one_hot(axis, 3).bool()
        flat = torch.where(on_face, inside.sign(), inside) * half
        local = torch.where(self.box[:, labels].unsqueeze(-1), flat, round_)
        return (self.pose[:, labels] @ local.unsqueeze(-1)).squeeze(-1) + self.centre[:, labels]


def _shapes(count: int, objects: int, source: torch.Generator) -> _Shapes:
    low, high = SIZES
    centre = SPREAD * _uniform((count, objects, 3), source)
    half = low + (high - low) * torch.rand(count, objects, 3, generator=source)
    angle = torch.pi * torch.rand(count, objects, generator=source)
    pose = _turned(_directions((count, objects), source), angle)
    return _Shapes(centre, half, pose, torch.rand(count, objects, generator=source) < 0.5)


def _uniform(shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return 2 * torch.rand(shape, generator=source) - 1


def _directions(shape: tuple[int, ...], source: torch.Generator) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, 3, generator=source), dim=-1)


def _turned(axis: Tensor, angle: Tensor) -> Tensor:
    """Rotations (..., 3, 3) by an angle (...) about an axis (..., 3): Rodrigues' formula."""
    x, y, z = axis.unbind(-1)
    nought = torch.zeros_like(x)
    cross = torch.stack([nought, -z, y, z, nought, -x, -y, x, nought], -1).unflatten(-1, (3, 3))
    angle = angle[..., None, None]
    return torch.eye(3) + angle.sin() * cross + (1 - angle.cos()) * cross @ cross
