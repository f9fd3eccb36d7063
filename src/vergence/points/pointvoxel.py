"""Points and the voxels that hold them: features go from one to the other at every level of a U-Net."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.nn.sparse import Levels, SparseTensor
from vergence.ops.sparse import Interpolation, interpolated, interpolation, voxel_means, voxels_of
from vergence.points.architecture import Sizes

LEVELS = 5
FARTHEST = 2.0**18
"""Voxels from the origin; beyond it, places in float32 are coarser than a thirtieth of a voxel."""
Sight = Literal["raw", "voxel"]
"""The points of the point branch: all of them, or one for each voxel, at its corner (as in the authors' code)."""


@dataclass
class Geometry:
    """Where the points of a batch lie: their voxels at every level, kernel maps and interpolations, each computed once.
    Networks that see the same points share it."""

    places: Tensor
    """(N, 4): cloud, x, y, z in voxels of the finest level."""
    levels: Levels
    kept: Tensor | None = None
    """With one point for each voxel: the points that stand for them, (N,)."""
    owner: Tensor | None = None
    """With one point for each voxel: the place of each point of the batch, (P,)."""
    owners: dict[int, Tensor] = field(default_factory=dict)
    around: dict[tuple[int, bool], Interpolation] = field(default_factory=dict)

    @classmethod
    def of(cls, points: Tensor, cloud: Tensor, voxel: float, sight: Sight = "raw") -> Geometry:
        """From points (P, 3 or more) in metres and the cloud (P,) of each."""
        inner = points[:, :3] / voxel
        if not points.is_meta and len(points) and float(inner.abs().max()) >= FARTHEST:
            reach = float(points[:, :3].abs().max())
            raise VergenceError(f"a scan reaches to {reach:.3g}, too far for voxels of {voxel} m: expected metres")
        if sight == "raw":
            places = torch.cat([cloud.unsqueeze(1).to(inner.dtype), inner], 1)
            voxels, owner = voxels_of(places.floor().long())
            return cls(places, Levels({1: voxels}), owners={1: owner})
        corners = torch.cat([cloud.unsqueeze(1), inner.round().long()], 1)
        corners = corners - _lowest(corners, cloud)
        voxels, owner = voxels_of(corners)
        numbers = torch.arange(len(owner), device=owner.device)
        kept = numbers.new_full((len(voxels),), len(owner)).scatter_reduce(0, owner, numbers, "amin")
        own = torch.arange(len(voxels), device=owner.device)
        return cls(voxels.coordinates.to(inner.dtype), Levels({1: voxels}), kept, owner, {1: own})

    def tensor(self, features: Tensor, stride: int = 1) -> SparseTensor:
        """Means (M, C) of the features (N, C) of the points in each voxel of a level."""
        owner = self._owner(stride)
        return SparseTensor(voxel_means(features, owner, len(self.levels.voxels[stride])), stride, self.levels)

    def points(self, x: SparseTensor, nearest: bool = False) -> Tensor:
        """Features (N, C) at the points, trilinear between voxels."""
        key = (x.stride, nearest)
        if key not in self.around:
            self.around[key] = interpolation(x.voxels, self.places, nearest)
        return interpolated(x.features, self.around[key])

    def _owner(self, stride: int) -> Tensor:
        if stride not in self.owners:
            finer = stride // 2
            self.owners[stride] = self.levels.parent(finer, stride)[self._owner(finer)]
        return self.owners[stride]

    def sizes(self) -> Sizes:
        """Points, voxels and pairs of the five levels, for counting multiply-adds."""
        for stride in (2, 4, 8, 16):
            self.levels.parent(stride // 2, stride)
        levels = [self.levels.voxels[2**level] for level in range(LEVELS)]
        pairs = tuple(float(self.levels.same(voxels.stride, 3, 1).pairs) for voxels in levels)
        return Sizes(float(len(self.places)), tuple(float(len(voxels)) for voxels in levels), pairs)


def _lowest(corners: Tensor, cloud: Tensor) -> Tensor:
    """The least coordinates of each point's cloud, (P, 4), with 0 for the cloud itself."""
    count = int(cloud.max()) + 1 if len(cloud) and not cloud.is_meta else 1
    index = cloud.unsqueeze(1).expand_as(corners)
    low = corners.new_zeros(count, 4).scatter_reduce(0, index, corners, "amin", include_self=False)
    low[:, 0] = 0
    return low[cloud] if not cloud.is_meta else corners
