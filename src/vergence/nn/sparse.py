"""Layers for sparse voxels: convolutions that share the kernel maps of their level.

::

    x = SparseTensor.of(coordinates, features)          # (N, 4) whole numbers: cloud, x, y, z; and (N, C)
    y = SparseConv3d(C, 32)(x)                          # 3 x 3 x 3, at the same voxels
    z = SparseConv3d(32, 64, kernel=2, stride=2)(y)     # half the resolution
    back = SparseConv3d(64, 32, kernel=2, stride=2, transposed=True)(z)    # at the voxels of y again
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.ops.sparse import (
    KernelMap,
    Voxels,
    coarser,
    sparse_convolution,
    sparse_max_pool,
    strided_map,
    submanifold_map,
    voxel_means,
    voxels_of,
)


@dataclass
class Levels:
    """The voxels of every level of one input, and the kernel maps between them, each computed once."""

    voxels: dict[int, Voxels] = field(default_factory=dict)
    """By stride."""
    parents: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    """By the strides of both levels: the coarse voxel of each fine one."""
    maps: dict[tuple[int, int, int, int], KernelMap] = field(default_factory=dict)
    """By the strides of both levels, kernel and dilation."""

    def same(self, stride: int, kernel: int, dilation: int) -> KernelMap:
        """The map of a submanifold convolution."""
        key = (stride, stride, kernel, dilation)
        if key not in self.maps:
            self.maps[key] = submanifold_map(self.voxels[stride], kernel, dilation)
        return self.maps[key]

    def down(self, stride: int, factor: int, kernel: int, dilation: int) -> KernelMap:
        """The map of a strided convolution; its output voxels are added to the levels."""
        key = (stride, stride * factor, kernel, dilation)
        if key not in self.maps:
            parent = self.parent(stride, stride * factor)
            self.maps[key] = strided_map(
                self.voxels[stride], self.voxels[stride * factor], parent, kernel, dilation
            )  # fmt: skip
        return self.maps[key]

    def up(self, stride: int, factor: int, kernel: int, dilation: int) -> KernelMap:
        """The map of a transposed convolution, back to voxels that are there already."""
        if stride // factor not in self.voxels:
            raise VergenceError(f"there are no voxels of stride {stride // factor} to go back to from {stride}")
        return self.down(stride // factor, factor, kernel, dilation).reversed()

    def parent(self, fine: int, coarse: int) -> Tensor:
        """The coarse voxel of each fine one, (M,)."""
        if (fine, coarse) not in self.parents:
            self.voxels[coarse], self.parents[fine, coarse] = coarser(self.voxels[fine], coarse // fine)
        return self.parents[fine, coarse]


@dataclass(frozen=True)
class SparseTensor:
    """Features (M, C) of the occupied voxels of one level."""

    features: Tensor
    stride: int
    levels: Levels

    @classmethod
    def of(cls, coordinates: Tensor, features: Tensor) -> SparseTensor:
        """From coordinates (N, 4) and features (N, C); those in the same voxel are averaged."""
        voxels, owner = voxels_of(coordinates)
        return cls(voxel_means(features, owner, len(voxels)), voxels.stride, Levels({voxels.stride: voxels}))

    @property
    def voxels(self) -> Voxels:
        return self.levels.voxels[self.stride]

    def with_features(self, features: Tensor) -> SparseTensor:
        """The same voxels with other features."""
        return replace(self, features=features)

    def dense(self, size: tuple[int, int, int], clouds: int = 1) -> Tensor:
        """The grid (clouds, C, X, Y, Z) filled with zeros; coordinates are from 0 on."""
        grid = self.features.new_zeros(clouds, *size, self.features.shape[1])
        cloud, x, y, z = self.voxels.coordinates.unbind(1)
        return grid.index_put((cloud, x, y, z), self.features).permute(0, 4, 1, 2, 3)


def joined(first: SparseTensor, second: SparseTensor) -> SparseTensor:
    """Features of two tensors at the same voxels, one after the other."""
    return first.with_features(torch.cat([first.features, second.features], 1))


class SparseConv3d(nn.Module):
    """Convolution at occupied voxels: with stride 1 at the input's, with a larger one at the coarser voxels that hold
    them, and transposed back to the voxels that were made coarser."""

    def __init__(
        self,
        inner: int,
        outer: int,
        kernel: int = 3,
        stride: int = 1,
        dilation: int = 1,
        transposed: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.dilation, self.transposed = kernel, stride, dilation, transposed
        self.weight = nn.Parameter(torch.empty(kernel**3, inner, outer))
        self.bias = nn.Parameter(torch.zeros(outer)) if bias else None
        bound = 1 / math.sqrt((outer if transposed else inner) * kernel**3)
        nn.init.uniform_(self.weight, -bound, bound)

    def extra_repr(self) -> str:
        form = f"{self.weight.shape[1]}, {self.weight.shape[2]}, kernel={self.kernel}, stride={self.stride}"
        return form + (", transposed" if self.transposed else "")

    def pairs(self, x: SparseTensor) -> tuple[KernelMap, int]:
        """The kernel map of this layer on a tensor, and the stride of its output."""
        levels = x.levels
        if self.stride == 1:
            return levels.same(x.stride, self.kernel, self.dilation), x.stride
        if self.transposed:
            return levels.up(x.stride, self.stride, self.kernel, self.dilation), x.stride // self.stride
        return levels.down(x.stride, self.stride, self.kernel, self.dilation), x.stride * self.stride

    def forward(self, x: SparseTensor) -> SparseTensor:
        features, weight = x.features, self.weight
        device = features.device.type
        if device != "meta" and torch.is_autocast_enabled(device):
            features = features.to(torch.get_autocast_dtype(device))
        if self.kernel == 1 and self.stride == 1:
            out, stride = features @ weight[0].to(features.dtype), x.stride
        else:
            pairs, stride = self.pairs(x)
            out = sparse_convolution(features, weight, pairs)
        return replace(x, features=out if self.bias is None else out + self.bias.to(out.dtype), stride=stride)


class SparseMaxPool3d(nn.Module):
    """The largest features of the voxels in each coarser voxel."""

    def __init__(self, stride: int = 2) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: SparseTensor) -> SparseTensor:
        pairs = x.levels.down(x.stride, self.stride, self.stride, 1)
        return replace(x, features=sparse_max_pool(x.features, pairs), stride=x.stride * self.stride)


class PerVoxel(nn.Module):
    """A module on features (M, C), such as a norm or an activation, applied to a sparse tensor."""

    def __init__(self, module: nn.Module | Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: SparseTensor) -> SparseTensor:
        return x.with_features(self.module(x.features))
