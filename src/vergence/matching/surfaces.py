"""True surfaces behind the pixels of a picture: planes (n · X = 1, in the camera) to compare estimates with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from vergence.matching.cameras import Camera
from vergence.ops.epipolar import homogeneous

CELL = 8
"""Pixels: in cells of this side, points of a cloud that are farther than the nearest ones are hidden."""
HIDDEN = 1.05


class Surface(Protocol):
    """Tangent planes of what a camera sees."""

    def planes(self, pixels: Tensor) -> Tensor:
        """Planes (B, 3) at pixels (B, 2); NaN where the surface is unknown, or not smooth."""


@dataclass(frozen=True, eq=False)
class Rendered:
    """Exact depth and normals at the centres of pixels."""

    own: Camera
    depth: Tensor
    """(H, W), infinite where nothing is seen."""
    normal: Tensor
    """(3, H, W), in the world."""

    def planes(self, pixels: Tensor) -> Tensor:
        height, width = self.depth.shape
        at = pixels.round().long()
        inside = (at >= 0).all(1) & (at < torch.tensor([width, height])).all(1)
        x, y = torch.where(inside[:, None], at, 0).unbind(1)
        rays = homogeneous(self.own.normalised(torch.stack([x, y], 1).double()))
        normal = self.normal[:, y, x].double().mT @ self.own.R.mT
        plane = normal / ((normal * rays).sum(1) * self.depth[y, x].double()).unsqueeze(1)
        known = inside & self.depth[y, x].isfinite() & plane.isfinite().all(1)
        return torch.where(known[:, None], plane, torch.nan)


@dataclass(frozen=True, eq=False)
class Measured:
    """Measured depths at places of a picture. The inverse depth of a plane is linear over a picture, so a plane is
    fitted to those within ``radius`` pixels; where they are not on one, the surface counts as not smooth."""

    own: Camera
    places: Any
    """(M, 2) array, pixels."""
    inverse: Any
    """(M,) array, inverse depths."""
    radius: float = 10.0
    least: int = 20
    """The least number of measurements for a fit."""
    tolerance: float = 0.004
    """The largest root mean square residual, as a share of the inverse depth."""
    _tree: list[Any] = field(default_factory=list)

    def planes(self, pixels: Tensor) -> Tensor:
        if not self._tree:
            from scipy.spatial import cKDTree

            self._tree.append(cKDTree(self.places))
        found = np.full((len(pixels), 3), np.nan)
        near = self._tree[0].query_ball_point(pixels.numpy(), self.radius) if len(pixels) else []
        for row, index in enumerate(near):
            if len(index) >= self.least:
                found[row] = self._fit(np.asarray(index), pixels[row].numpy())
        return torch.from_numpy(found)

    def _fit(self, index: Any, middle: Any) -> Any:
        places, inverse = self.places[index], self.inverse[index]
        if (np.abs(places.mean(0) - middle) > self.radius / 4).any():  # only one side is known
            return np.nan
        rays = homogeneous(self.own.normalised(torch.from_numpy(places))).numpy()
        plane, *_ = np.linalg.lstsq(rays, inverse, rcond=None)
        off = np.sqrt(np.mean((rays @ plane - inverse) ** 2))
        return plane if off <= self.tolerance * np.abs(inverse).mean() else np.nan


def from_depth(own: Camera, depth: Any, radius: float = 10.0, tolerance: float = 0.004) -> Measured:
    """From a depth map (H, W); what is not finite or not above 0 is unknown."""
    known = np.isfinite(depth) & (depth > 0)
    rows, columns = np.nonzero(known)
    area = int(0.7 * np.pi * radius**2)
    return Measured(own, np.stack([columns, rows], 1).astype(float), 1.0 / depth[known], radius, area, tolerance)


def from_cloud(own: Camera, cloud: Tensor, size: Sequence[int], radius: float = 10.0) -> Measured:
    """From points (M, 3) of the world, without those that others hide. ``size`` is the picture's (height, width)."""
    pixels, depth = own.project(cloud.double())
    height, width = size
    inside = (depth > 0) & (pixels > -0.5).all(1) & (pixels < torch.tensor([width, height]) - 0.5).all(1)
    places, far = pixels[inside].numpy(), depth[inside].numpy()
    cells = (places // CELL).astype(int) + 1
    number = cells[:, 1] * (width // CELL + 3) + cells[:, 0]
    nearest = np.full(int(number.max(initial=0)) + 1, np.inf)
    np.minimum.at(nearest, number, far)
    front = far <= HIDDEN * nearest[number]
    return Measured(own, places[front], 1 / far[front], radius)
