"""Set convolution: a small network on every edge of a neighbour graph, then the maximum over each point's edges.

The direct form concatenates neighbours' features and edge vectors into a (k N) x C matrix and applies 1x1 convolutions,
each followed by an instance norm (over all edges of a cloud) and a leaky ReLU. This one costs less:

* the first layer is linear, so it is computed per point, before gathering: edge (i, j) is ``near[j] - centre[i]``. So
  are its norm and their gradients, because sums over edges can be written as sums over points;
* edges are processed in runs that stay in the cache: normalise, rectify, multiply, and sum up what the next norm needs;
* the last norm and the ReLU are increasing (where a scale is negative, the layer's sign is flipped), so they are
  applied after the maximum, to N values instead of k N;
* backward gathers the first layer again, and writes its gradients over the products that forward stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from vergence.ops.room import room

CACHED = 1 << 18
"""Number of values in a run of edges on the CPU: a megabyte of float32."""


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

    ``near`` (B, N, C₁), ``centre`` (B, M, C₁) and ``neighbours`` (B, M, k), indices below N, define the first layer;
    ``weights`` are those of the L - 1 others, (C₂, C₁) and so on, at least one. ``scales`` and ``shifts`` belong to the
    L instance norms. The result is (B, M, C_L).
    """
    layers = len(scales)
    if len(weights) != layers - 1 or len(shifts) != layers or layers < 2:
        raise ValueError(
            f"a set convolution of L layers, at least 2, has L - 1 weights after the first and L norms; got "
            f"{len(weights)} weights, {layers} scales and {len(shifts)} shifts"
        )
    params = (*weights, *scales, *shifts)
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in (near, centre, *params))):
        return _convolved(near, centre, neighbours, params, slope, eps, keep=False)[0]
    run: Any = _SetConvolution.apply
    features: Tensor = run(near, centre, neighbours, slope, eps, *params)
    return features


def _convolved(
    near: Tensor, centre: Tensor, neighbours: Tensor, params: Sequence[Tensor], slope: float, eps: float, keep: bool
) -> tuple[Tensor, list[_Kept | None]]:
    """The result, and what backward needs for each part of the batch."""
    parts = _Edges.parted(near, centre, neighbours, params, eps)
    results = [_forward(edges, params, slope, eps, keep) for _, edges in parts]
    return torch.cat([out for out, _ in results]), [kept for _, kept in results]


class _Norm(NamedTuple):
    """An instance norm with the statistics of its edges, ``y = z * gain + offset``; all fields are (B, 1, C)."""

    mean: Tensor
    spread: Tensor
    gain: Tensor
    offset: Tensor

    @classmethod
    def of(cls, sums: Tensor, squares: Tensor, edges: int, scale: Tensor, shift: Tensor, eps: float) -> _Norm:
        """From sums over all edges, (B, 1, C), in float64 because there are many."""
        mean = sums / edges
        variance = (squares / edges - mean.square()).clamp_min(0)
        mean, spread = mean.to(scale.dtype), (variance + eps).rsqrt().to(scale.dtype)
        gain = scale * spread
        return cls(mean, spread, gain, shift - mean * gain)

    def __call__(self, z: Tensor) -> Tensor:
        return torch.addcmul(self.offset, z, self.gain)

    def backward(self, grad_scale: Tensor, grad_shift: Tensor, edges: int) -> tuple[Tensor, Tensor]:
        """``slope`` and ``constant`` of ``dz = gain * dy + slope * z + constant``: the terms of mean and variance."""
        slope = -self.gain * self.spread * grad_scale / edges
        return slope, -self.gain * grad_shift / edges - slope * self.mean


class _Edges:
    """The first layer of some clouds, with its norm: values on the edges of a run of points, gathered on demand.

    A cloud too large for the cache is processed alone, in several runs; small ones are processed together, in one.
    """

    def __init__(
        self, near: Tensor, centre: Tensor, neighbours: Tensor, scale: Tensor, shift: Tensor, eps: float, widest: int
    ) -> None:
        self.clouds, self.points, self.k = neighbours.shape
        self.count = self.points * self.k
        self.step = max(CACHED // (self.k * widest), 1) if _in_runs(near) and self.clouds == 1 else self.points
        # The norm removes constants; subtracting them first keeps the sums below accurate.
        self.near, self.centre = near - near.mean(1, keepdim=True), centre - centre.mean(1, keepdim=True)
        first = near.shape[1] * torch.arange(self.clouds, device=near.device)
        flat = neighbours.flatten(1) + first.unsqueeze(1)  # indices into the points of all clouds
        self.neighbours = [run.flatten() for run in self.by_edge(flat)]
        ones = torch.ones(flat.numel(), dtype=near.dtype, device=near.device)
        degree = ones.new_zeros(near.shape[0] * near.shape[1]).index_add_(0, flat.flatten(), ones)
        self.degree = degree.view(self.clouds, -1, 1)
        """The number of points that each is a neighbour of."""
        around = F.embedding_bag(flat.view(-1, self.k), self.near.flatten(0, 1), mode="sum")
        self.around = around.view_as(self.centre)
        """For each point, the sum over its neighbours."""
        self.norm = self._norm(scale, shift, eps)
        self._near = self.norm(self.near).flatten(0, 1)
        self._centre = self.by_point(self.centre * self.norm.gain)

    @staticmethod
    def parted(
        near: Tensor, centre: Tensor, neighbours: Tensor, params: Sequence[Tensor], eps: float
    ) -> Iterator[tuple[slice, _Edges]]:
        """The clouds of a batch, as many together as fit the cache, and their slice of the batch."""
        clouds, points, k = neighbours.shape
        _, scales, shifts = _parted(params)
        widest = max(p.shape[0] for p in params)
        if not _in_runs(near):
            yield slice(None), _Edges(near, centre, neighbours, scales[0], shifts[0], eps, widest)
            return
        size = max(4 * CACHED // (points * k * widest), 1)
        for low in range(0, clouds, size):
            part = slice(low, low + size)
            yield part, _Edges(near[part], centre[part], neighbours[part], scales[0], shifts[0], eps, widest)

    def _norm(self, scale: Tensor, shift: Tensor, eps: float) -> _Norm:
        """Sums over edges of ``near[j] - centre[i]`` and of its square, from sums over points."""
        near, centre, around = (_wide(values) for values in (self.near, self.centre, self.around))
        sums = (self.degree * near).sum(1, keepdim=True) - self.k * centre.sum(1, keepdim=True)
        squares = (self.degree * near.square()).sum(1, keepdim=True)
        squares = squares + (centre * (self.k * centre - 2 * around)).sum(1, keepdim=True)
        return _Norm.of(sums, squares, self.count, scale, shift, eps)

    def backward(self, of_near: Tensor, of_points: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Gradients of near, centre, scale and shift, from those of the norm's results, summed by neighbour (B, N, C)
        and by point (B, M, C)."""
        norm, near, centre = self.norm, self.near, self.centre
        of_shift = of_points.sum(1, keepdim=True)
        moments = (near * of_near).sum(1, keepdim=True) - (centre * of_points).sum(1, keepdim=True)
        of_scale = (moments - norm.mean * of_shift) * norm.spread
        slope, constant = norm.backward(of_scale, of_shift, self.count)
        # For each point, the sum over those it is a neighbour of: the reversed graph, edges sorted by their end.
        ends, order = torch.cat(self.neighbours).sort()
        first = torch.searchsorted(ends, torch.arange(near.shape[0] * near.shape[1], device=near.device))
        seen = F.embedding_bag(order // self.k, centre.flatten(0, 1), first, mode="sum").view_as(near)
        grad_near = norm.gain * of_near + slope * (self.degree * near - seen) + constant * self.degree
        grad_centre = norm.gain * of_points + slope * (self.around - self.k * centre) + constant * self.k
        return grad_near, -grad_centre, of_scale.sum((0, 1)), of_shift.sum((0, 1))

    @property
    def runs(self) -> range:
        return range(len(self.neighbours))

    def by_point(self, values: Tensor) -> tuple[Tensor, ...]:
        """Values of points (B, M, C), run by run."""
        return values.split(self.step, 1)

    def by_edge(self, values: Tensor) -> tuple[Tensor, ...]:
        """Values of edges (B, M k, ...), run by run."""
        return values.split(self.step * self.k, 1)

    def bundled(self, values: Tensor) -> Tensor:
        """The edges of a run, grouped by point: (B, points, k, C)."""
        return values.view(self.clouds, -1, self.k, values.shape[-1])

    def __getitem__(self, run: int) -> Tensor:
        """The output of the first norm, (B, edges of the run, C)."""
        y = self._near.index_select(0, self.neighbours[run])
        self.bundled(y).sub_(self._centre[run].unsqueeze(2))
        return y.view(self.clouds, -1, y.shape[-1])

    def sums(self, channels: int) -> Tensor:
        """Memory for one sum per run, (runs, B, 1, channels)."""
        return self.near.new_empty(len(self.neighbours), self.clouds, 1, channels)

    def room(self, channels: int) -> Tensor:
        """Memory for values on all edges, (B, edges, channels)."""
        return room((self.clouds, self.count, channels), self.near)


class _SetConvolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, near: Tensor, centre: Tensor, neighbours: Tensor, slope: float, eps: float, *params: Tensor
    ) -> Tensor:
        out, ctx.kept = _convolved(near, centre, neighbours, params, slope, eps, keep=True)
        ctx.save_for_backward(near, centre, neighbours, *params)
        ctx.slope, ctx.eps = slope, eps
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        near, centre, neighbours, *params = ctx.saved_tensors
        totals = [torch.zeros_like(p) for p in params]
        grads = torch.zeros_like(near), torch.zeros_like(centre)
        for i, (place, edges) in enumerate(_Edges.parted(near, centre, neighbours, params, ctx.eps)):
            kept, ctx.kept[i] = ctx.kept[i], None
            if kept is None:  # consumed by an earlier backward pass
                _, kept = _forward(edges, params, ctx.slope, ctx.eps, keep=True)
            grads[0][place], grads[1][place] = _backward(edges, kept, grad[place], params, ctx.slope, totals)
        return *grads, None, None, None, *totals


class _Kept(NamedTuple):
    """What backward needs for some clouds."""

    products: list[Tensor]
    """Of the layers after the first, (B, edges, C), the last one with its sign flipped where its scale is negative."""
    norms: list[_Norm]
    peaks: Tensor
    """The maxima of the last products over neighbours, (B, points, C)."""


def _parted(params: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]]:
    """Weights, scales and shifts."""
    layers = (len(params) + 1) // 3
    return params[: layers - 1], params[layers - 1 : 2 * layers - 1], params[2 * layers - 1 :]


def _in_runs(values: Tensor) -> bool:
    """Whether to process edges in cache-sized runs: on the CPU, unless the code is being compiled or exported."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()


def _wide(values: Tensor) -> Tensor:
    """As float64, where the device supports it."""
    return values if values.device.type == "mps" else values.double()


def _sign(scale: Tensor) -> Tensor:
    return torch.where(scale < 0, -1.0, 1.0).to(scale.dtype)


def _forward(
    edges: _Edges, params: Sequence[Tensor], slope: float, eps: float, keep: bool
) -> tuple[Tensor, _Kept | None]:
    weights, scales, shifts = _parted(params)
    last = len(scales) - 1
    norms = [edges.norm]
    products: list[Tensor] = []
    sign = _sign(scales[last])
    peaks = edges.near.new_empty(edges.clouds, edges.points, len(sign))
    tops = edges.by_point(peaks)
    for layer in range(1, last + 1):
        scale, weight = scales[layer], weights[layer - 1].mT
        if layer == last:
            scale, weight = scale.abs(), weight * sign
        below = edges.by_edge(products[-1]) if layer > 1 else ()
        if keep or layer < last:
            products = [*products, edges.room(len(scale))] if keep else [edges.room(len(scale))]
        outs = edges.by_edge(products[-1]) if keep or layer < last else ()
        sums, squares = edges.sums(len(scale)), edges.sums(len(scale))
        for run in edges.runs:
            h = F.leaky_relu_(norms[-1](below[run]) if below else edges[run], slope)
            z = _product(h, weight, outs[run]) if outs else h @ weight
            torch.sum(z, 1, keepdim=True, out=sums[run])
            torch.sum(z.square(), 1, keepdim=True, out=squares[run])
            if layer == last:
                torch.amax(edges.bundled(z), 2, out=tops[run])
        norms.append(_Norm.of(_wide(sums).sum(0), _wide(squares).sum(0), edges.count, scale, shifts[layer], eps))
    return F.leaky_relu_(norms[last](peaks), slope), _Kept(products, norms, peaks) if keep else None


def _backward(
    edges: _Edges, kept: _Kept, grad: Tensor, params: Sequence[Tensor], slope: float, totals: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Adds to ``totals``, in the order of the parameters; returns the gradients of near and centre.

    ``kept`` is consumed: the gradients of each norm's results are written over its products.
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
    of_near, of_points = torch.zeros_like(edges.near), torch.empty_like(edges.centre)
    of_runs = edges.by_point(of_points)
    above: tuple[Tensor, ...] = ()  # gradients of a layer's norm output, by run; at the last layer only at its peaks
    for layer in range(last, 0, -1):
        norm = kept.norms[layer]
        turn = sign if layer == last else torch.ones_like(scales[layer])
        grad_scales[layer].add_(of_scale.sum((0, 1)) * turn)
        grad_shifts[layer].add_(of_shift.sum((0, 1)))
        factor, constant = norm.backward(of_scale, of_shift, edges.count)
        weight = weights[layer - 1] * turn[:, None]
        product = kept.products[layer - 1]
        zs, unders = edges.by_edge(product), edges.by_edge(kept.products[layer - 2]) if layer > 1 else ()
        # A run's product is no longer needed once the gradient of the layer below is known.
        passed = zs if product.shape[2] == weight.shape[1] or layer == 1 else edges.by_edge(edges.room(weight.shape[1]))
        of_weight = torch.zeros_like(weight)
        sums, moments = edges.sums(weight.shape[1]), edges.sums(weight.shape[1])
        for run in edges.runs:
            dz = torch.addcmul(constant, zs[run], factor)
            if layer == last:
                _add_at_peaks(edges.bundled(dz), edges.bundled(zs[run]), tops[run], at_tops[run])
            else:
                dz.addcmul_(above[run], norm.gain)
            y = kept.norms[layer - 1](unders[run]) if unders else edges[run]
            of_weight.addmm_(dz.flatten(0, 1).mT, F.leaky_relu(y, slope).flatten(0, 1))
            if not unders:
                dy = _rectified_(dz @ weight, y, slope)
                of_near.flatten(0, 1).index_add_(0, edges.neighbours[run], dy.flatten(0, 1))
                torch.sum(edges.bundled(dy), 2, out=of_runs[run])
                continue
            dy = _rectified_(_product(dz, weight, passed[run]), y, slope)
            torch.sum(dy, 1, keepdim=True, out=sums[run])
            torch.sum(torch.mul(unders[run], dy, out=y), 1, keepdim=True, out=moments[run])
        grad_weights[layer - 1].add_(of_weight * turn[:, None])
        if unders:
            of_shift, below = sums.sum(0), kept.norms[layer - 1]
            of_scale = (moments.sum(0) - below.mean * of_shift) * below.spread
            above = passed
    grad_near, grad_centre, of_scale, of_shift = edges.backward(of_near, of_points)
    grad_scales[0].add_(of_scale)
    grad_shifts[0].add_(of_shift)
    return grad_near, grad_centre


def _product(x: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    """``x @ weight`` over the last dimension, written to ``out``."""
    torch.mm(x.flatten(0, 1), weight, out=out.flatten(0, 1))
    return out


def _rectified_(grad: Tensor, y: Tensor, slope: float) -> Tensor:
    """The gradient at the input y of a leaky ReLU, in place."""
    result: Tensor = torch.ops.aten.leaky_relu_backward.grad_input(grad, y, slope, False, grad_input=grad)
    return result


def _add_at_peaks(grad: Tensor, z: Tensor, peaks: Tensor, values: Tensor) -> None:
    """Add ``values`` (B, points, C) to ``grad`` (B, points, k, C) where z is maximal; ties share equally."""
    hits = (z - peaks.unsqueeze(2)).eq_(0)  # as floats: comparing into booleans is three times slower
    grad.addcmul_(hits, (values / hits.sum(2)).unsqueeze(2))
