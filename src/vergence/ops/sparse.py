"""Convolutions on the occupied voxels of a grid: kernel maps, and gather, multiply, scatter.

Voxels of a level are kept in lexicographic order of (cloud, x, y, z), so that neighbours are found by searching sorted
64-bit keys: one search for each column of a kernel, since the neighbours of a column follow each other, and half of
them, since a map of an offset is the reversed map of the opposite one. A kernel map is computed once for a level and
shared by its layers. Multiplications run offset by offset in blocks of rows that stay in the cache.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vergence.ops.precision import wide
from vergence.ops.rows import weighted_rows

ROWS = 8192
"""Rows that are gathered, multiplied and scattered at a time."""
KEYS = 1 << 62
"""Keys are below this."""


@dataclass(frozen=True)
class Voxels:
    """Occupied voxels of one level, sorted: coordinates (M, 4) as int64, cloud first. ``stride`` is the side of a voxel
    in voxels of the finest level."""

    coordinates: Tensor
    stride: int = 1

    def __len__(self) -> int:
        return len(self.coordinates)


@dataclass(frozen=True)
class KernelMap:
    """Pairs of input and output voxels for every offset of a kernel, one offset after another."""

    inputs: Tensor
    """(T,)."""
    outputs: Tensor
    """(T,)."""
    counts: tuple[int, ...]
    """Number of pairs of each offset."""
    sizes: tuple[int, int]
    """Number of input and of output voxels."""
    identity: int = -1
    """The offset whose pairs are every voxel with itself; -1 if there is none."""

    @property
    def pairs(self) -> int:
        """T: multiply-adds are T times the channels of input and output."""
        return sum(self.counts)

    def reversed(self) -> KernelMap:
        """The map of the transposed convolution."""
        return KernelMap(self.outputs, self.inputs, self.counts, (self.sizes[1], self.sizes[0]), self.identity)


# Voxels --------------------------------------------------------------------------------------------------------------


def voxels_of(coordinates: Tensor, stride: int = 1) -> tuple[Voxels, Tensor]:
    """The distinct voxels of coordinates (N, 4), and the voxel of each row, (N,)."""
    if coordinates.dim() != 2 or coordinates.shape[1] != 4 or coordinates.is_floating_point():
        raise ValueError(f"coordinates are whole numbers (N, 4), got {tuple(coordinates.shape)} of {coordinates.dtype}")
    coordinates = coordinates.long()
    if coordinates.device.type == "meta":
        return Voxels(coordinates, stride), coordinates[:, 0]
    packing = _Packing.around(coordinates)
    keys, inverse = torch.unique(packing.keys(coordinates), return_inverse=True)
    return Voxels(packing.coordinates(keys), stride), inverse


def coarser(voxels: Voxels, factor: int = 2) -> tuple[Voxels, Tensor]:
    """The voxels ``factor`` times as wide that hold these, and the one that each is in, (M,)."""
    scale = torch.tensor([1, factor, factor, factor], device=voxels.coordinates.device)
    parents = torch.div(voxels.coordinates, scale, rounding_mode="floor")
    return voxels_of(parents, voxels.stride * factor)


@dataclass(frozen=True)
class _Packing:
    """How four coordinates become one key: a mixed radix that keeps their lexicographic order."""

    low: Tensor
    radix: Tensor

    @classmethod
    def around(cls, coordinates: Tensor, reach: int = 0) -> _Packing:
        """Room for the coordinates and those up to ``reach`` beyond them."""
        margin = torch.tensor([0, reach, reach, reach], device=coordinates.device)
        if not len(coordinates):
            return cls(torch.zeros_like(margin), torch.ones_like(margin))
        low = coordinates.amin(0) - margin
        span = coordinates.amax(0) + margin - low + 1
        total = 1
        for side in span.tolist():
            total *= max(int(side), 1)
        if total >= KEYS or bool((span < 1).any()):
            extent = " x ".join(f"{int(side):,}" for side in span[1:].tolist())
            raise ValueError(f"voxels over an extent of {extent} have no 64-bit keys: are the coordinates in metres?")
        ones = span.new_ones(1)
        return cls(low, torch.cat([span[1:].flip(0).cumprod(0).flip(0), ones]))

    def keys(self, coordinates: Tensor) -> Tensor:
        return ((coordinates - self.low) * self.radix).sum(1)

    def coordinates(self, keys: Tensor) -> Tensor:
        parts = []
        for radix in self.radix:
            parts.append(torch.div(keys, radix, rounding_mode="floor"))
            keys = keys - parts[-1] * radix
        return torch.stack(parts, 1) + self.low


# Kernel maps ---------------------------------------------------------------------------------------------------------


def offsets(kernel: int, dilation: int = 1) -> Tensor:
    """Offsets (kernel^3, 3) in the order of a dense kernel: centred for odd sizes, from 0 on for even ones."""
    first = -(kernel // 2) if kernel % 2 else 0
    side = torch.arange(first, first + kernel) * dilation
    return torch.cartesian_prod(side, side, side).reshape(-1, 3)


def submanifold_map(voxels: Voxels, kernel: int = 3, dilation: int = 1) -> KernelMap:
    """Pairs of a convolution whose outputs are the input voxels; the kernel's size is odd."""
    if kernel % 2 == 0:
        raise ValueError(f"a submanifold convolution has a kernel of odd size, got {kernel}")
    count, size = kernel**3, len(voxels)
    own = torch.arange(size, device=voxels.coordinates.device)
    if voxels.coordinates.device.type == "meta":
        return KernelMap(own.repeat(count), own.repeat(count), (size,) * count, (size, size), count // 2)
    packing = _Packing.around(voxels.coordinates, kernel // 2 * dilation)
    keys = packing.keys(voxels.coordinates)
    pairs: list[tuple[Tensor, Tensor]] = [(own, own)] * count
    half = kernel // 2
    for dx, dy in itertools.product(range(-half, half + 1), repeat=2):
        if (dx, dy) > (0, 0):
            continue  # the reversed pairs of the opposite column
        shift = dilation * (dx * packing.radix[1] + dy * packing.radix[2])
        for dz, inputs, outputs in _column(keys, keys + shift, half, dilation):
            place = ((dx + half) * kernel + dy + half) * kernel + dz + half
            if place < count // 2:
                pairs[place], pairs[count - 1 - place] = (inputs, outputs), (outputs, inputs)
    return _joined(pairs, (size, size), count // 2)


def _column(keys: Tensor, middle: Tensor, half: int, dilation: int) -> list[tuple[int, Tensor, Tensor]]:
    """For each step along z: the keys found at ``middle`` plus that step, and the rows that asked."""
    last = len(keys) - 1
    found = []
    wanted = middle - half * dilation
    place = torch.searchsorted(keys, wanted)
    for dz in range(-half, half + 1):
        hit = keys[place.clamp(max=last)] == wanted
        rows = hit.nonzero().squeeze(1)
        found.append((dz, place[rows], rows))
        wanted = wanted + dilation
        # With steps of one, the next key of a column is the one after a key that was found.
        place = place + hit if dilation == 1 else torch.searchsorted(keys, wanted)
    return found


def strided_map(fine: Voxels, coarse: Voxels, parent: Tensor, kernel: int = 2, dilation: int = 1) -> KernelMap:
    """Pairs of a convolution from ``fine`` to ``coarse`` voxels, which are those of :func:`coarser`. A kernel as wide
    as the stride covers each coarse voxel; other kernels are placed as :func:`offsets` says."""
    factor, sizes, count = coarse.stride // fine.stride, (len(fine), len(coarse)), kernel**3
    if fine.coordinates.device.type == "meta":
        own = torch.arange(len(fine), device="meta")
        return KernelMap(own, own, (len(fine), *(0,) * (count - 1)), sizes)
    if kernel == factor and dilation == 1:  # every fine voxel is in one place of one kernel
        within = fine.coordinates[:, 1:] - factor * coarse.coordinates[parent, 1:]
        which = (within[:, 0] * kernel + within[:, 1]) * kernel + within[:, 2]
        order = which.argsort(stable=True)
        return KernelMap(order, parent[order], tuple(which.bincount(minlength=count).tolist()), sizes)
    shifts = offsets(kernel, dilation)
    packing = _Packing.around(torch.cat([fine.coordinates, _spread(coarse, factor)]), int(shifts.abs().max()))
    keys, centres = packing.keys(fine.coordinates), packing.keys(_spread(coarse, factor))
    pairs = []
    for dx, dy, dz in shifts.tolist():
        wanted = centres + dx * packing.radix[1] + dy * packing.radix[2] + dz
        place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        rows = (keys[place] == wanted).nonzero().squeeze(1)
        pairs.append((place[rows], rows))
    return _joined(pairs, sizes)


def _spread(coarse: Voxels, factor: int) -> Tensor:
    return coarse.coordinates * torch.tensor([1, factor, factor, factor], device=coarse.coordinates.device)


def _joined(pairs: list[tuple[Tensor, Tensor]], sizes: tuple[int, int], identity: int = -1) -> KernelMap:
    inputs, outputs = (torch.cat(side) for side in zip(*pairs, strict=True))
    return KernelMap(inputs, outputs, tuple(len(side) for side, _ in pairs), sizes, identity)


# Convolution ---------------------------------------------------------------------------------------------------------


def sparse_convolution(features: Tensor, weight: Tensor, pairs: KernelMap) -> Tensor:
    """Features (M_out, C_out) of a convolution of ``features`` (M_in, C_in) with ``weight`` (offsets, C_in, C_out).

    Equal to the dense convolution of the grid filled with zeros, read at the output voxels. Differentiable in features
    and weight; products of half precision are summed in float32.
    """
    if len(pairs.counts) != len(weight) or features.shape != (pairs.sizes[0], weight.shape[1]):
        raise ValueError(
            f"features of {pairs.sizes[0]} voxels are expected for {len(pairs.counts)} offsets; got "
            f"{tuple(features.shape)} and weights {tuple(weight.shape)}"
        )
    result: Tensor = _Convolution.apply(features, weight.to(features.dtype), pairs)  # type: ignore[no-untyped-call]
    return result


@dataclass(frozen=True)
class _Chunk:
    """Pairs that are gathered and scattered together: of several offsets where these have few, or a part of one."""

    inputs: Tensor
    outputs: Tensor
    offsets: tuple[int, ...]
    counts: list[int]
    """Pairs of each offset."""


def _chunks(pairs: KernelMap) -> list[_Chunk]:
    """All pairs in chunks of at most :data:`ROWS`; without those of the identity, which need no gathering."""
    spans: list[list[tuple[int, int, int]]] = [[]]
    start = room = 0
    for number, count in enumerate(pairs.counts):
        end = start + count
        if number == pairs.identity:
            spans.append([])
            start = end
        while start < end:
            if not spans[-1] or not room:
                spans.append([])
                room = ROWS
            taken = min(room, end - start)
            spans[-1].append((number, start, start + taken))
            start, room = start + taken, room - taken
    chunks = []
    for span in filter(None, spans):
        whole = slice(span[0][1], span[-1][2])
        numbers, counts = tuple(n for n, _, _ in span), [last - first for _, first, last in span]
        chunks.append(_Chunk(pairs.inputs[whole], pairs.outputs[whole], numbers, counts))
    return chunks


class _Convolution(torch.autograd.Function):
    """Gather, multiply, scatter; nothing is kept for the backward pass but its inputs."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, pairs: KernelMap) -> Tensor:
        ctx.save_for_backward(features, weight)
        ctx.pairs = pairs
        return _gathered_products(features, weight, pairs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (gradient,) = gradients
        features, weight = ctx.saved_tensors
        pairs: KernelMap = ctx.pairs
        gradient = gradient.contiguous()
        own = by_weight = None
        if ctx.needs_input_grad[0]:
            own = _gathered_products(gradient, weight.mT, pairs.reversed())
        if ctx.needs_input_grad[1]:
            total = torch.zeros_like(wide(weight))
            if pairs.identity >= 0:
                total[pairs.identity] = features.mT @ gradient
            for chunk in _chunks(pairs):
                left = features.index_select(0, chunk.inputs).split(chunk.counts)
                right = gradient.index_select(0, chunk.outputs).split(chunk.counts)
                for number, a, b in zip(chunk.offsets, left, right, strict=True):
                    total[number] += a.mT @ b
            by_weight = total.to(weight.dtype)
        return own, by_weight, None


def _gathered_products(features: Tensor, weight: Tensor, pairs: KernelMap) -> Tensor:
    total = wide(features.new_zeros(0)).new_zeros(pairs.sizes[1], weight.shape[2])
    if pairs.identity >= 0:
        total += features @ weight[pairs.identity]
    by_offset = weight.unbind(0)
    for chunk in _chunks(pairs):
        rows = features.index_select(0, chunk.inputs)
        products = rows.new_empty(len(rows), weight.shape[2])
        parts = zip(chunk.offsets, rows.split(chunk.counts), products.split(chunk.counts), strict=True)
        for number, part, product in parts:
            torch.mm(part, by_offset[number], out=product)
        total.index_add_(0, chunk.outputs, products.to(total.dtype))
    return total.to(features.dtype)


def sparse_max_pool(features: Tensor, pairs: KernelMap) -> Tensor:
    """The largest features (M_out, C) among the voxels that a kernel covers; equal maxima share the gradient."""
    index = pairs.outputs.unsqueeze(1).expand(-1, features.shape[1])
    empty = features.new_zeros(pairs.sizes[1], features.shape[1])
    return empty.scatter_reduce(0, index, features.index_select(0, pairs.inputs), "amax", include_self=False)


# Between points and voxels -------------------------------------------------------------------------------------------


def voxel_means(features: Tensor, owner: Tensor, count: int) -> Tensor:
    """Means (count, C) of the features (N, C) of the points in each voxel ``owner`` (N,); zero without points."""
    total = wide(features.new_zeros(0)).new_zeros(count, features.shape[1])
    total = total.index_add(0, owner, features.to(total.dtype))
    points = torch.zeros(count, dtype=total.dtype, device=total.device)
    points = points.index_add(0, owner, torch.ones_like(owner, dtype=total.dtype))
    return (total / points.clamp(min=1).unsqueeze(1)).to(features.dtype)


@dataclass(frozen=True)
class Interpolation:
    """Voxels around points, and their weights, (N, 8) each; a corner without a voxel has the weight 0."""

    corners: Tensor
    weights: Tensor


def interpolation(voxels: Voxels, places: Tensor, nearest: bool = False) -> Interpolation:
    """Trilinear weights of the voxels around ``places`` (N, 4): cloud, then x, y, z in voxels of the finest level.

    A voxel's features sit at its lowest corner. Weights of corners without a voxel go to the others in proportion; a
    point without any has weights of 0. ``nearest`` takes the voxel that holds the point alone.
    """
    scaled = places[:, 1:] / voxels.stride
    base = scaled.floor()
    share = scaled - base
    corner = torch.cartesian_prod(*[torch.arange(2, device=places.device)] * 3)  # (8, 3)
    if nearest:
        weights = (corner.sum(1) == 0).to(places).expand(len(places), 8)
    else:
        sides = torch.stack([1 - share, share], 1)  # (N, 2, 3)
        weights = sides[:, corner[:, 0], 0] * sides[:, corner[:, 1], 1] * sides[:, corner[:, 2], 2]
    if voxels.coordinates.device.type == "meta":
        return Interpolation(torch.zeros(len(places), 8, dtype=torch.long, device="meta"), weights)
    low = torch.cat([places[:, :1], base], 1).long()
    packing = _Packing.around(torch.cat([voxels.coordinates, low]), 1)
    keys, lowest = packing.keys(voxels.coordinates), packing.keys(low)
    found = []
    for dx, dy in ((0, 0), (0, 1), (1, 0), (1, 1)):
        wanted = lowest + dx * packing.radix[1] + dy * packing.radix[2]
        place = torch.searchsorted(keys, wanted)
        for _ in range(2):
            hit = keys[place.clamp(max=len(keys) - 1)] == wanted
            found.append(torch.where(hit, place, -1))
            wanted, place = wanted + 1, place + hit
    corners = torch.stack(found, 1)
    weights = weights * (corners >= 0)
    weights = weights / (weights.sum(1, keepdim=True) + 1e-8)
    return Interpolation(corners.clamp(min=0), weights)


def interpolated(features: Tensor, around: Interpolation) -> Tensor:
    """Features (N, C) at points, from features (M, C) of voxels. Differentiable in the features."""
    result: Tensor = _Interpolated.apply(features, around.corners, around.weights)  # type: ignore[no-untyped-call]
    return result


class _Interpolated(torch.autograd.Function):
    """Weighted rows, whose gradient is added corner by corner: that of ``embedding_bag`` sorts all corners first."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, corners: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(corners, weights)
        ctx.voxels = len(features)
        return weighted_rows(features, corners, weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = gradients
        corners, weights = ctx.saved_tensors
        total = wide(gradient.new_zeros(0)).new_zeros(ctx.voxels, gradient.shape[1])
        for corner, weight in zip(corners.unbind(1), weights.to(total.dtype).unbind(1), strict=True):
            rows = weight.nonzero().squeeze(1) if not weight.is_meta else corner
            part = gradient.index_select(0, rows).to(total.dtype) * weight.index_select(0, rows).unsqueeze(1)
            total.index_add_(0, corner.index_select(0, rows), part)
        return total.to(gradient.dtype), None, None
