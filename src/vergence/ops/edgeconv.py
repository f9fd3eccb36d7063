"""Edge convolution (DGCNN's): one linear layer, a batch norm and a leaky ReLU on every edge of a neighbour graph, then
the maximum over each point's edges; and neighbours in feature space.

The direct form gathers ``[x_i, x_j - x_i]`` for all k N edges and multiplies them. This one costs less, and is exact:

* the layer is linear, so it is applied to points: with weights [A, B], edge (i, j) is ``u_i + v_j``, where ``u = (A -
  B) x`` and ``v = B x``: two products of N rows instead of one of k N;
* norm and ReLU are monotonous (where a scale is negative, v's sign is flipped), so the maximum over edges is that of
  v over the neighbours, and both are applied to N values;
* mean and variance over all edges follow from sums over points, and so do their gradients;
* a maximum and its place are found in one pass over 64-bit keys that hold a value and a row.
"""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from vergence.ops.knn import FLAT, nearest

Distance = Literal["hilbert", "euclidean"]
TREE = 2048
"""Number of points from which a KD-tree is faster than all distances, in few dimensions."""
LONG = 600
"""Rows longer than this are left to PyTorch's selection."""
BLOCK = 1 << 22
"""Number of distances held at a time."""


# Neighbours -----------------------------------------------------------------------------------------------------------


def on_sphere(x: Tensor) -> Tensor:
    """Vectors (..., D) divided by their length; a zero vector stays zero. Euclidean distances between them are those of
    Eq. 8 of Pattern-Net: ``2 (1 - cos)``."""
    return x / x.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)


def feature_neighbours(x: Tensor, k: int, distance: Distance = "euclidean") -> Tensor:
    """The ``k`` nearest of the rows of ``x`` (G, N, D) to each of them, itself included, in no particular order:
    indices (G, N, k). With fewer than ``k`` rows, all of them. ``hilbert`` compares directions only."""
    x = x.detach()
    x = x if x.dtype in (torch.float32, torch.float64) else x.float()
    x = on_sphere(x) if distance == "hilbert" else x - x.mean(1, keepdim=True)
    groups, count, channels = x.shape
    k = min(k, count)
    if x.device.type in ("cpu", "meta") and channels <= FLAT and count >= TREE:
        return nearest(x, k)
    size = max(BLOCK // (count * count), 1)
    return torch.cat([_nearest(part, k) for part in x.split(size)]) if groups > size else _nearest(x, k)


def _nearest(x: Tensor, k: int) -> Tensor:
    squares = (x * x).sum(-1)
    # Instead of a row's own square, which would not change its order, the largest: then none is negative.
    least = squares + squares.amax(1, keepdim=True)
    distances = torch.baddbmm(least.unsqueeze(1), x, x.mT, alpha=-2)
    if x.device.type != "cpu" or x.dtype != torch.float32 or torch.compiler.is_compiling():
        return distances.topk(k, largest=False, sorted=False).indices
    return _smallest(distances, k)


def _smallest(values: Tensor, k: int) -> Tensor:
    """The places (G, N, k) of the smallest of non-negative numbers (G, N, M), on the CPU.

    The k smallest of a row lie in the k blocks with the smallest minima: only those are searched.
    """
    count = values.shape[2]
    width = 4 if count < 1024 else 8 if count < 4096 else 16
    if count % width or count // width <= 1.5 * k:
        return _selected(values, k)
    blocks = values.unflatten(2, (width, -1))  # a block is a column: minima over rows are fast
    chosen = _selected(blocks.amin(2), k)
    candidates = blocks.gather(3, chosen.unsqueeze(2).expand(-1, -1, width, -1)).flatten(2)
    place = _selected(candidates, k)
    return chosen.gather(2, place % k) + place // k * (count // width)


def _selected(values: Tensor, k: int) -> Tensor:
    if k == values.shape[2]:
        return torch.arange(k).expand(*values.shape[:2], k)
    if values.shape[2] > LONG:
        return values.topk(k, largest=False, sorted=False).indices
    keys = _keys(values.view(torch.int32), torch.arange(values.shape[2], dtype=torch.int32))
    return torch.from_numpy(np.partition(keys.numpy(), k - 1)[..., :k]) & ROW


ROW = 0xFFFFFFFF
"""The bits of a key that hold a row."""
HIGH = 1 if sys.byteorder == "little" else 0
"""Where the high half of a number lies."""


def _keys(order: Tensor, rows: Tensor) -> Tensor:
    """64-bit numbers with ``order`` (int32) in their high half and ``rows``, which broadcast, in their low one."""
    halves = torch.empty((*order.shape, 2), dtype=torch.int32)
    halves[..., HIGH] = order
    halves[..., 1 - HIGH] = rows
    return halves.view(torch.int64).squeeze(-1)


# Convolution ----------------------------------------------------------------------------------------------------------


def edge_convolution(
    x: Tensor,
    neighbours: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    scale: Tensor,
    shift: Tensor,
    statistics: tuple[Tensor, Tensor] | None = None,
    slope: float = 0.2,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """``max over j of leaky_relu(norm(weight @ [x_i, x_j - x_i] + bias))`` for points (G, N, C) with neighbours
    (G, N, k): the result (G, N, D), and mean and variance (D,) of the products over all edges.

    ``weight`` is (D, 2 C). ``statistics`` are the mean and variance to normalise with; without them, those of the edges
    themselves, as a batch norm does in training. Differentiable once.
    """
    groups, count, channels = x.shape
    of_centre, of_edge = weight.split(channels, 1)
    rows = x.reshape(-1, channels)
    centre, near = F.linear(rows, torch.cat([of_centre - of_edge, of_edge])).chunk(2, 1)
    if bias is not None:
        centre = centre + bias
    first = count * torch.arange(groups, device=x.device).view(-1, 1, 1)
    flat = (neighbours + first).view(groups * count, -1)
    if statistics is None:
        run: Any = _BatchEdges.apply
        out, mean, variance = run(centre, near, flat, scale, shift, slope, eps)
    else:
        mean, variance = statistics
        sign = _sign(scale)
        gain = scale * (variance + eps).rsqrt()
        out = F.leaky_relu((centre + sign * neighbour_max(near * sign, flat) - mean) * gain + shift, slope)
    return out.view(groups, count, -1), mean, variance


def neighbour_max(values: Tensor, index: Tensor) -> Tensor:
    """Maxima (M, C) of the rows of ``values`` (N, C) that ``index`` (M, k) names. Differentiable once; of equal values,
    one gets the gradient."""
    if torch.is_grad_enabled() and values.requires_grad:
        run: Any = _NeighbourMax.apply
        best: Tensor = run(values, index)
        return best
    best = values.index_select(0, index[:, 0])
    for column in index.mT[1:]:
        best = torch.maximum(best, values.index_select(0, column))
    return best


class _NeighbourMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor) -> Tensor:
        best, place = _peaks(values, index)
        ctx.save_for_backward(place)
        ctx.count = len(values)
        return best

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        (place,) = ctx.saved_tensors
        return grad.new_zeros(ctx.count, grad.shape[1]).scatter_add_(0, place, grad), None


def _sign(scale: Tensor) -> Tensor:
    return torch.where(scale < 0, -1.0, 1.0).to(scale.dtype)


def _peaks(values: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima over named rows, and the rows that they are in; both (M, C)."""
    columns = index.mT.contiguous()
    if values.device.type == "cpu" and values.dtype == torch.float32:
        bits = values.contiguous().view(torch.int32)
        order = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # negative numbers are stored as sign and size
        keys = _keys(order, torch.arange(len(values), dtype=torch.int32).unsqueeze(1))
        best = keys.index_select(0, columns[0])
        for column in columns[1:]:
            torch.maximum(best, keys.index_select(0, column), out=best)
        place = best & ROW
        return values.gather(0, place), place
    best = values.index_select(0, columns[0])
    place = columns[0].unsqueeze(1).expand_as(best)
    for column in columns[1:]:
        other = values.index_select(0, column)
        place = torch.where(other > best, column.unsqueeze(1), place)
        best = torch.maximum(best, other)
    return best, place


class _BatchEdges(torch.autograd.Function):
    """Norm over all edges, leaky ReLU and maximum, from the two halves (R, D) of the layer and the graph (R, k)."""

    @staticmethod
    def forward(
        ctx: Any, centre: Tensor, near: Tensor, index: Tensor, scale: Tensor, shift: Tensor, slope: float, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        k, edges = index.shape[1], index.numel()
        middle = centre.mean(0), near.mean(0)
        # The norm removes constants; subtracting them first keeps the sums below accurate.
        u, v = centre - middle[0], near - middle[1]
        degree = index.flatten().bincount(minlength=len(v)).to(v.dtype).unsqueeze(1)
        around = F.embedding_bag(index, v, mode="sum")
        mean = (degree * v).sum(0) / edges
        squares = (u * (k * u + 2 * around)).sum(0) + (degree * v * v).sum(0)
        variance = (squares / edges - mean.square()).clamp_min(0)
        sign = _sign(scale)
        best, place = _peaks(v * sign, index)
        spread = (variance + eps).rsqrt()
        normal = (u + best * sign - mean) * spread
        out = torch.addcmul(shift, normal, scale)
        ctx.save_for_backward(u, v, index, degree, around, place, normal, scale, shift, mean, spread)
        ctx.slope = slope
        mean = mean + middle[0] + middle[1]
        ctx.mark_non_differentiable(mean, variance)
        return F.leaky_relu_(out, slope), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> Any:
        u, v, index, degree, around, place, normal, scale, shift, mean, spread = ctx.saved_tensors
        k, edges = index.shape[1], index.numel()
        grad = torch.where(torch.addcmul(shift, normal, scale) > 0, grad, ctx.slope * grad)
        of_shift, of_scale = grad.sum(0), (grad * normal).sum(0)
        gain = scale * spread
        peaks = grad * gain
        # Every edge gets -(constant + slope z) from mean and variance: summed by centre, and by neighbour.
        slope = gain * of_scale * spread / edges
        constant = gain * of_shift / edges - slope * mean
        of_centre = peaks - k * (constant + slope * u) - slope * around
        of_near = torch.zeros_like(v).scatter_add_(0, place, peaks)
        of_near -= degree * (constant + slope * v) + slope * _sum_of_sources(u, index)
        return of_centre, of_near, None, of_scale, of_shift, None, None


def _sum_of_sources(values: Tensor, index: Tensor) -> Tensor:
    """For each row, the sum of ``values`` (R, D) over the rows that name it in ``index`` (R, k): edges are sorted by
    their end."""
    ends, order = index.flatten().sort()
    first = torch.searchsorted(ends, torch.arange(len(values), device=values.device))
    return F.embedding_bag(order // index.shape[1], values, first, mode="sum")
