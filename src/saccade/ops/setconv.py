"""Set convolution: a small network on every edge of a neighbour graph, then the greatest over each point's edges.

The direct form gathers neighbours' features beside the edges' vectors into a (k N) x C matrix and sends it through 1x1
convolutions, each followed by an instance norm (over all edges of a cloud) and a leaky ReLU. The same costs less:

* the first layer is linear, so it is taken a point at a time, before gathering: edge (i, j) is ``near[j] - centre[i]``;
* edges go through in runs that stay in the cache: normalise, rectify, multiply, and add up what the next norm needs;
* the last norm and the ReLU are increasing (where a scale is negative, the layer's sign is turned), so they are taken
  after the greatest, of N values instead of k N;
* backward gathers the first layer again, and writes its gradients over the products that forward kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

CACHED = 1 << 17
"""Numbers in a run of edges on the CPU: half a megabyte of float32."""


def set_convolution(
    near: Tensor,
    centre: Tensor,
    neighbours: Tensor,
    weights: Sequence[Tensor],
    scales: Sequence[Tensor],
    shifts: Sequence[Tensor],
    slope: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``max over j of f(near[j] - centre[i])``, with j the ``neighbours`` of i and f a network with L layers.
    Differentiable once, in everything but the indices.

    ``near`` (B, N, C₁), ``centre`` (B, M, C₁) and ``neighbours`` (B, M, k), indices below N, stand for the first layer;
    ``weights`` are the L - 1 others, (C₂, C₁) and so on, at least one. ``scales`` and ``shifts`` are those of the L
    instance norms. The result is (B, M, C_L).
    """
    layers = len(scales)
    if len(weights) != layers - 1 or len(shifts) != layers or layers < 2:
        raise ValueError(
            f"a set convolution of L layers, at least 2, has L - 1 weights after the first and L norms; got "
            f"{len(weights)} weights, {layers} scales and {len(shifts)} shifts"
        )
    run: Any = _SetConvolution.apply
    made: Tensor = run(near, centre, neighbours, slope, eps, *weights, *scales, *shifts)
    return made


class _Norm(NamedTuple):
    """An instance norm that has seen its edges, ``y = z * gain + offset``; everything is (B, 1, C)."""

    mean: Tensor
    spread: Tensor
    gain: Tensor
    offset: Tensor

    @classmethod
    def of(cls, sums: Tensor, squares: Tensor, edges: int, scale: Tensor, shift: Tensor, eps: float) -> _Norm:
        """From the sums of every run, (runs, B, C); their total is float64, for there are many edges."""
        mean = sums.double().sum(0).unsqueeze(1) / edges
        variance = (squares.double().sum(0).unsqueeze(1) / edges - mean.square()).clamp_min(0)
        mean, spread = mean.to(scale.dtype), (variance + eps).rsqrt().to(scale.dtype)
        gain = scale * spread
        return cls(mean, spread, gain, shift - mean * gain)

    def __call__(self, z: Tensor) -> Tensor:
        return torch.addcmul(self.offset, z, self.gain)

    def backward(self, grad_scale: Tensor, grad_shift: Tensor, edges: int) -> tuple[Tensor, Tensor]:
        """``dz = gain * dy + slope * z + constant``: the last two, which come from mean and variance."""
        slope = -self.gain * self.spread * grad_scale / edges
        return slope, -self.gain * grad_shift / edges - slope * self.mean


class _Edges:
    """The first layer of some clouds: the values on the edges of a run of points, gathered when asked for.

    A cloud that is too large for the cache goes alone, in several runs; small ones go together, in one.
    """

    def __init__(self, near: Tensor, centre: Tensor, neighbours: Tensor, widest: int) -> None:
        # The first norm takes constants out; without them its sums of squares keep their digits.
        self.near = (near - near.mean(1, keepdim=True)).flatten(0, 1)
        self.clouds, self.points, self.k = neighbours.shape
        self.count = self.points * self.k
        alone = near.device.type == "cpu" and self.clouds == 1
        self.step = max(CACHED // (self.k * widest), 1) if alone else self.points
        self.centre = self.by_point(centre - centre.mean(1, keepdim=True))
        first = near.shape[1] * torch.arange(self.clouds, device=near.device)
        self.neighbours = [run.flatten() for run in self.by_edge(neighbours.flatten(1) + first.unsqueeze(1))]

    @staticmethod
    def parted(
        near: Tensor, centre: Tensor, neighbours: Tensor, params: Sequence[Tensor]
    ) -> Iterator[tuple[slice, _Edges]]:
        """The clouds of a batch, as many together as the cache can bear, and their place in the batch."""
        clouds, points, k = neighbours.shape
        widest = max(p.shape[0] for p in params)
        size = max(4 * CACHED // (points * k * widest), 1) if near.device.type == "cpu" else clouds
        for low in range(0, clouds, size):
            some = slice(low, low + size)
            yield some, _Edges(near[some], centre[some], neighbours[some], widest)

    @property
    def runs(self) -> range:
        return range(len(self.centre))

    def by_point(self, values: Tensor) -> tuple[Tensor, ...]:
        """What points have (B, M, C), run by run."""
        return values.split(self.step, 1)

    def by_edge(self, values: Tensor) -> tuple[Tensor, ...]:
        """What edges have (B, M k, ...), run by run."""
        return values.split(self.step * self.k, 1)

    def bundled(self, values: Tensor) -> Tensor:
        """The edges of a run, a point's together: (B, points, k, C)."""
        return values.view(self.clouds, -1, self.k, values.shape[-1])

    def __getitem__(self, run: int) -> Tensor:
        """The first layer's values, (B, edges of the run, C)."""
        z = self.near.index_select(0, self.neighbours[run])
        self.bundled(z).sub_(self.centre[run].unsqueeze(2))
        return z.view(self.clouds, -1, z.shape[-1])

    def sums(self, channels: int) -> Tensor:
        """A place for one sum a run, (runs, B, channels)."""
        return self.near.new_empty(len(self.centre), self.clouds, channels)

    def room(self, channels: int) -> Tensor:
        """A place for values on all edges, (B, edges, channels)."""
        shape = (self.clouds, self.count, channels)
        if self.near.device.type != "cpu":
            return self.near.new_empty(shape)
        # NumPy asks the system for large pages: the first touch of so much memory costs a quarter.
        held = np.empty(math.prod(shape) * self.near.element_size(), np.uint8)
        return torch.from_numpy(held).view(self.near.dtype).view(shape)


class _SetConvolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, near: Tensor, centre: Tensor, neighbours: Tensor, slope: float, eps: float, *params: Tensor
    ) -> Tensor:
        made = [
            _forward(edges, params, slope, eps, keep=any(ctx.needs_input_grad))
            for _, edges in _Edges.parted(near, centre, neighbours, params)
        ]
        ctx.save_for_backward(near, centre, neighbours, *params)
        ctx.kept, ctx.slope, ctx.eps = [kept for _, kept in made], slope, eps
        return torch.cat([out for out, _ in made])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        near, centre, neighbours, *params = ctx.saved_tensors
        totals = [torch.zeros_like(p) for p in params]
        grads = torch.zeros_like(near), torch.zeros_like(centre)
        for i, (place, edges) in enumerate(_Edges.parted(near, centre, neighbours, params)):
            kept, ctx.kept[i] = ctx.kept[i], None
            if kept is None:  # used up by a backward before this one
                _, kept = _forward(edges, params, ctx.slope, ctx.eps, keep=True)
            _backward(edges, kept, grad[place], params, ctx.slope, totals, grads[0][place], grads[1][place])
        return *grads, None, None, None, *totals


class _Kept(NamedTuple):
    """What backward needs of some clouds."""

    products: list[Tensor]
    """Of the layers after the first, (B, edges, C), the last one with its sign turned where its scale is negative."""
    norms: list[_Norm]
    peaks: Tensor
    """The greatest of the last products, (B, points, C)."""


def _parted(params: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]]:
    """Weights, scales and shifts."""
    layers = (len(params) + 1) // 3
    return params[: layers - 1], params[layers - 1 : 2 * layers - 1], params[2 * layers - 1 :]


def _sign(scale: Tensor) -> Tensor:
    return torch.where(scale < 0, -1.0, 1.0).to(scale.dtype)


def _forward(
    edges: _Edges, params: Sequence[Tensor], slope: float, eps: float, keep: bool
) -> tuple[Tensor, _Kept | None]:
    weights, scales, shifts = _parted(params)
    last = len(scales) - 1
    norms: list[_Norm] = []
    products: list[Tensor] = []
    sign = _sign(scales[last])
    peaks = edges.near.new_empty(edges.clouds, edges.points, len(sign))
    tops = edges.by_point(peaks)
    for layer, (scale, shift) in enumerate(zip(scales, shifts, strict=True)):
        channels = len(scale)
        sums, squares = edges.sums(channels), edges.sums(channels)
        below = edges.by_edge(products[-1]) if layer > 1 else edges
        if layer > 0 and (keep or layer < last):
            products = [*products, edges.room(channels)] if keep else [edges.room(channels)]
            outs = edges.by_edge(products[-1])
        else:
            outs = ()
        weight = (weights[layer - 1] * sign[:, None] if layer == last else weights[layer - 1]).mT if layer else None
        for run in edges.runs:
            if weight is None:
                z = edges[run]
            else:
                h = F.leaky_relu_(norms[-1](below[run]), slope)
                z = _product(h, weight, outs[run]) if outs else h @ weight
            torch.sum(z, 1, out=sums[run])
            torch.sum(z.square(), 1, out=squares[run])
            if layer == last:
                torch.amax(edges.bundled(z), 2, out=tops[run])
        norms.append(_Norm.of(sums, squares, edges.count, scale.abs() if layer == last else scale, shift, eps))
    return F.leaky_relu_(norms[last](peaks), slope), _Kept(products, norms, peaks) if keep else None


def _backward(
    edges: _Edges,
    kept: _Kept,
    grad: Tensor,
    params: Sequence[Tensor],
    slope: float,
    totals: list[Tensor],
    grad_near: Tensor,
    grad_centre: Tensor,
) -> None:
    """Adds to ``totals``, in the order of the parameters, and to the gradients of the first layer's values.

    ``kept`` is used up: the gradients of each norm's results are written over the products they came through.
    """
    weights, scales, _ = _parted(params)
    grad_weights, grad_scales, grad_shifts = _parted(totals)
    last = len(scales) - 1
    sign = _sign(scales[last])
    norm = kept.norms[last]
    at_peak = _rectified_(grad.clone(), norm(kept.peaks), slope)
    of_shift = at_peak.sum(1, keepdim=True)
    of_scale = (at_peak * (kept.peaks - norm.mean)).sum(1, keepdim=True) * norm.spread
    tops, at_tops = edges.by_point(kept.peaks), edges.by_point(at_peak * norm.gain)
    above: tuple[Tensor, ...] = ()  # gradients of what a layer's norm gave, run by run; at the last, only at its peaks
    for layer in range(last, -1, -1):
        norm = kept.norms[layer]
        grad_scales[layer].add_(of_scale.sum((0, 1)) * (sign if layer == last else 1))
        grad_shifts[layer].add_(of_shift.sum((0, 1)))
        factor, constant = norm.backward(of_scale, of_shift, edges.count)
        if layer == 0:
            break
        below = kept.norms[layer - 1]
        weight = weights[layer - 1] * sign[:, None] if layer == last else weights[layer - 1]
        product = kept.products[layer - 1]
        zs, unders = edges.by_edge(product), edges.by_edge(kept.products[layer - 2]) if layer > 1 else edges
        # A run's product has done its work when the gradient of what is below it is known.
        passed = zs if product.shape[2] == weight.shape[1] else edges.by_edge(edges.room(weight.shape[1]))
        of_weight = torch.zeros_like(weight)
        sums, moments = edges.sums(weight.shape[1]), edges.sums(weight.shape[1])
        for run in edges.runs:
            dz = torch.addcmul(constant, zs[run], factor)
            if layer == last:
                _add_at_peaks(edges.bundled(dz), edges.bundled(zs[run]), tops[run], at_tops[run])
            else:
                dz.addcmul_(above[run], norm.gain)
            under = unders[run]
            y = below(under)
            of_weight.addmm_(dz.flatten(0, 1).mT, F.leaky_relu(y, slope).flatten(0, 1))
            dy = _rectified_(_product(dz, weight, passed[run]), y, slope)
            torch.sum(dy, 1, out=sums[run])
            torch.sum(torch.mul(under, dy, out=y), 1, out=moments[run])
        grad_weights[layer - 1].add_(of_weight * sign[:, None] if layer == last else of_weight)
        of_shift = sums.sum(0).unsqueeze(1)
        of_scale = (moments.sum(0).unsqueeze(1) - below.mean * of_shift) * below.spread
        above = passed
    for run, centre in enumerate(edges.by_point(grad_centre)):
        dz = torch.addcmul(constant, edges[run], factor).addcmul_(above[run], norm.gain)
        grad_near.flatten(0, 1).index_add_(0, edges.neighbours[run], dz.flatten(0, 1))
        centre.sub_(edges.bundled(dz).sum(2))


def _product(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """``x @ weight`` over the last dimension, written to ``out``."""
    torch.mm(x.flatten(0, 1), weight, out=out.flatten(0, 1))
    return out


def _rectified_(grad: Tensor, y: Tensor, slope: float) -> Tensor:
    """The gradient before a leaky ReLU of y, in place."""
    made: Tensor = torch.ops.aten.leaky_relu_backward.grad_input(grad, y, slope, False, grad_input=grad)
    return made


def _add_at_peaks(grad: Tensor, z: Tensor, peaks: Tensor, values: Tensor) -> None:
    """Add ``values`` (B, points, C) to ``grad`` (B, points, k, C) where z is greatest; equal values share."""
    hits = (z - peaks.unsqueeze(2)).eq_(0)  # as floats: comparing into booleans is three times slower
    grad.addcmul_(hits, (values / hits.sum(2)).unsqueeze(2))
