"""Sparse convolution and the exchange between points and voxels, written out: dictionaries of coordinates, and a loop
over voxels. :func:`convolution_by_offsets` is the algorithm of torchsparse's CPU code with PyTorch's own operators."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor

Voxel = tuple[int, ...]


def _places(coordinates: Tensor) -> dict[Voxel, int]:
    return {tuple(row): number for number, row in enumerate(coordinates.tolist())}


def _offsets(kernel: int, dilation: int = 1) -> list[Voxel]:
    first = -(kernel // 2) if kernel % 2 else 0
    side = [dilation * (first + step) for step in range(kernel)]
    return list(product(side, side, side))


def kernel_map(
    inputs: Tensor, outputs: Tensor, kernel: int, stride: int = 1, dilation: int = 1
) -> list[tuple[int, int, int]]:
    """Triples (offset, input, output) of a convolution between voxels (M, 4) and (N, 4): one lookup for each output and
    offset."""
    where = _places(inputs)
    found = []
    for number, (dx, dy, dz) in enumerate(_offsets(kernel, dilation)):
        for output, (cloud, x, y, z) in enumerate(outputs.tolist()):
            place = where.get((cloud, stride * x + dx, stride * y + dy, stride * z + dz))
            if place is not None:
                found.append((number, place, output))
    return found


def convolution(
    inputs: Tensor, outputs: Tensor, features: Tensor, weight: Tensor, kernel: int, stride: int = 1, dilation: int = 1
) -> Tensor:
    """Features (N, C_out) at the output voxels, summed pair by pair."""
    rows = [features.new_zeros(weight.shape[2]) for _ in range(len(outputs))]
    for number, place, output in kernel_map(inputs, outputs, kernel, stride, dilation):
        rows[output] = rows[output] + features[place] @ weight[number]
    return torch.stack(rows)


def coarser(coordinates: Tensor, factor: int = 2) -> Tensor:
    """The distinct voxels ``factor`` times as wide, in order."""
    distinct = {(cloud, x // factor, y // factor, z // factor) for cloud, x, y, z in coordinates.tolist()}
    return torch.tensor(sorted(distinct))


def point_to_voxel(places: Tensor, features: Tensor, coordinates: Tensor, stride: int) -> Tensor:
    """Eq. 2: the mean of the points (N, C) in each voxel (M, 4)."""
    where = _places(coordinates)
    own: list[list[Tensor]] = [[] for _ in range(len(coordinates))]
    for row, (cloud, *xyz) in zip(features, places.tolist(), strict=True):
        own[where[(int(cloud), *(int(v // stride) for v in xyz))]].append(row)
    return torch.stack([torch.stack(rows).mean(0) for rows in own])


def voxel_to_point(places: Tensor, features: Tensor, coordinates: Tensor, stride: int) -> Tensor:
    """Trilinear interpolation between the corners that have a voxel."""
    where = _places(coordinates)
    result = []
    for cloud, *xyz in places.tolist():
        total, weights = features.new_zeros(features.shape[1]), 0.0
        base = [int(v / stride // 1) for v in xyz]
        for corner in product((0, 1), repeat=3):
            place = where.get((int(cloud), *(b + c for b, c in zip(base, corner, strict=True))))
            if place is None:
                continue
            weight = 1.0
            for value, low, c in zip(xyz, base, corner, strict=True):
                share = value / stride - low
                weight *= share if c else 1 - share
            total, weights = total + weight * features[place], weights + weight
        result.append(total / (weights + 1e-8))
    return torch.stack(result)


# With whole arrays ----------------------------------------------------------------------------------------------------


def maps_by_offsets(coordinates: Tensor, kernel: int = 3) -> list[tuple[Tensor, Tensor]]:
    """For each offset the input and output voxels of a submanifold convolution: one search for each offset."""
    low, high = coordinates.amin(0) - kernel, coordinates.amax(0) + kernel
    span = (high - low + 1).tolist()
    radix = torch.tensor([span[1] * span[2] * span[3], span[2] * span[3], span[3], 1])
    keys = ((coordinates - low) * radix).sum(1)
    order = keys.argsort()
    ordered = keys[order]
    maps = []
    for offset in _offsets(kernel):
        wanted = keys + (torch.tensor([0, *offset]) * radix).sum()
        place = torch.searchsorted(ordered, wanted).clamp(max=len(keys) - 1)
        outputs = (ordered[place] == wanted).nonzero().squeeze(1)
        maps.append((order[place[outputs]], outputs))
    return maps


def convolution_by_offsets(features: Tensor, weight: Tensor, maps: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """For each offset: gather all its rows, multiply, and add them to the output."""
    total = features.new_zeros(len(features), weight.shape[2])
    for (inputs, outputs), part in zip(maps, weight, strict=True):
        total = total.index_add(0, outputs, features[inputs] @ part)
    return total
