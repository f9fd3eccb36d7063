"""Cameras: pixels to rays, and points to pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Camera(Protocol):
    """A camera of a number of rows and columns."""

    @property
    def height(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def position(self) -> Tensor:
        """(3,), in the world."""

    def rays(self, places: Tensor) -> Tensor:
        """Directions (P, 3) in the world through pixel places (P, 2), x and y; distances along them are depths."""

    def project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Pixel places (P, 2) and depths (P,) of points (P, 3) in the world."""


@dataclass(frozen=True)
class Pinhole:
    """A pinhole camera. The centre of the top left pixel is at (0, 0)."""

    height: int
    width: int
    focal: float
    """In pixels."""
    position: Tensor
    rotation: Tensor
    """(3, 3): rows are the camera's axes (right, down, forward) in the world."""
    centre: tuple[float, float] | None = None
    """Principal point; the middle of the picture if not given."""

    @property
    def middle(self) -> tuple[float, float]:
        return self.centre or ((self.width - 1) / 2, (self.height - 1) / 2)

    def rays(self, places: Tensor) -> Tensor:
        """The third coordinate in the camera is 1, so distances along the rays are depths along the optical axis."""
        flat = (places - places.new_tensor(self.middle)) / self.focal
        return torch.cat([flat, torch.ones_like(flat[:, :1])], 1) @ self.rotation

    def project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        seen = (points - self.position) @ self.rotation.mT
        depth = seen[:, 2]
        safe = depth.clamp(min=1e-6)
        return seen[:, :2] / safe.unsqueeze(1) * self.focal + seen.new_tensor(self.middle), depth


@dataclass(frozen=True)
class Panorama:
    """An equirectangular camera: columns are the longitude, forward in the middle; rows the latitude, up first."""

    height: int
    width: int
    position: Tensor
    rotation: Tensor
    """(3, 3): rows are the camera's axes (right, down, forward) in the world."""

    def rays(self, places: Tensor) -> Tensor:
        """Unit vectors, so distances along the rays are ranges."""
        longitude = ((places[:, 0] + 0.5) / self.width - 0.5) * 2 * math.pi
        latitude = ((places[:, 1] + 0.5) / self.height - 0.5) * math.pi  # downwards
        flat = latitude.cos()
        own = torch.stack([flat * longitude.sin(), latitude.sin(), flat * longitude.cos()], 1)
        return own @ self.rotation

    def project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        seen = (points - self.position) @ self.rotation.mT
        reach = seen.norm(dim=1)
        longitude = torch.atan2(seen[:, 0], seen[:, 2])
        latitude = torch.asin((seen[:, 1] / reach.clamp(min=1e-9)).clamp(-1, 1))
        x = (longitude / (2 * math.pi) + 0.5) * self.width - 0.5
        y = (latitude / math.pi + 0.5) * self.height - 0.5
        return torch.stack([x, y], 1), reach


def grid(camera: Camera, finer: int = 1) -> Tensor:
    """Places (H * finer * W * finer, 2) of the pixels, each cut into ``finer`` x ``finer``."""
    y = (torch.arange(camera.height * finer, device=camera.position.device) + 0.5) / finer - 0.5
    x = (torch.arange(camera.width * finer, device=camera.position.device) + 0.5) / finer - 0.5
    rows, columns = torch.meshgrid(y, x, indexing="ij")
    return torch.stack([columns, rows], -1).reshape(-1, 2).to(camera.position)


def look_at(position: Tensor, target: Tensor, roll: float = 0.0) -> Tensor:
    """The rotation of a camera at ``position`` that sees ``target`` in its middle, upright but for ``roll``."""
    forward = torch.nn.functional.normalize(target - position, dim=0)
    down = torch.tensor([0.0, 1.0, 0.0]).to(forward)
    right = torch.nn.functional.normalize(torch.linalg.cross(down, forward), dim=0)
    own = torch.stack([right, torch.linalg.cross(forward, right), forward])
    cos, sin = math.cos(roll), math.sin(roll)
    return own.new_tensor([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]]) @ own
