"""Spatially-adaptive convolution: a kernel that is weighted anew at every pixel, by attention computed from an image of
coordinates (Xu et al., `SqueezeSegV3`, ECCV 2020, Eqs. 3 and 4).

    y[m] = Σ W[m, n, i, j] · A[n, i, j] · x[n, p + i', q + j'],     A = sigmoid(conv(coordinates))

As published, x is unfolded to 9 C channels, and so is the attention: both are written to memory several times. Here
tiles of a few hundred pixels go through all steps while they are in the cache: coordinates, one matrix product to the
attention, the sigmoid, the product with the neighbours (a strided view of x), one matrix product to the output. The
backward pass computes the attention of a tile again instead of storing it.

Batch norm of the attention needs no attention either: the map is linear in the patches of the coordinates, and so its
mean and variance follow from their mean and covariance (`Patches.norm`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.precision import full_precision, wide

CACHED, LARGE = 1 << 17, 1 << 26
"""Values of the attention of a tile: on a CPU they stay in its cache; elsewhere the memory is the limit."""


def adaptive_convolution(
    x: Tensor,
    coordinates: Tensor,
    attention: Tensor,
    attention_bias: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """Features (B, C, H, W) convolved by ``weight`` (O, C, K, K) times the attention of each pixel: (B, O, H, W).

    The attention is the sigmoid of coordinates (B, D, H, W) convolved by a kernel (T, D, k, k) with a bias (T,), both
    sides padded by zeros. Its channels are those of `torch.nn.functional.unfold`: T = C K² (SAC-ISK, channel ``n K² + i
    K + j``) or K² (SAC-SK, the same for all n). Exact and differentiable in everything.
    """
    outputs, channels, side, _ = weight.shape
    each = attention.shape[0] // side**2
    if attention.shape[0] != each * side**2 or each not in (1, channels) or side % 2 == 0 or weight.shape[3] != side:
        raise ValueError(
            f"an attention has K² or C K² channels for a kernel (O, C, K, K) with odd K, got {attention.shape[0]} for "
            f"{tuple(weight.shape)}"
        )
    if x.shape[2:] != coordinates.shape[2:] or len(x) != len(coordinates) or attention.shape[1] != coordinates.shape[1]:
        raise ValueError(
            f"features and coordinates have one shape and an attention its channels, got {tuple(x.shape)}, "
            f"{tuple(coordinates.shape)} and {tuple(attention.shape)}"
        )
    with full_precision(x):
        kind, x = x.dtype, wide(x)
        if x.is_meta or torch.compiler.is_compiling():
            return _whole(x, coordinates, attention, attention_bias, weight, bias)
        # Pixels are rows of matrices, whose columns are ordered by place first and channel second.
        to_attention = attention.reshape(each, side**2, -1, *attention.shape[2:]).permute(3, 4, 2, 1, 0)
        shift = attention_bias.view(each, -1).mT.reshape(-1)
        to_output = weight.permute(2, 3, 1, 0).reshape(-1, outputs)
        plan = _Plan(side, attention.shape[-1], each == 1)
        out: Tensor = _Adaptive.apply(
            x, wide(coordinates), to_attention.reshape(-1, each * side**2), shift, to_output, bias, plan
        )  # type: ignore[no-untyped-call]
        return out.permute(0, 3, 1, 2).to(kind)


def _whole(x: Tensor, coordinates: Tensor, attention: Tensor, shift: Tensor, weight: Tensor, bias: Any) -> Tensor:
    """The definition, for tracing and counting."""
    outputs, channels, side, _ = weight.shape
    scale = F.conv2d(coordinates.to(x), attention, shift, padding=attention.shape[-1] // 2).sigmoid()
    if len(attention) == side**2:
        scale = scale.repeat(1, channels, 1, 1)
    unfolded = F.unfold(x, side, padding=side // 2).view(len(x), -1, *x.shape[2:])
    return F.conv2d(unfolded * scale, weight.reshape(outputs, -1, 1, 1), bias)


@dataclass(frozen=True)
class _Plan:
    """Sides of the kernel and of the attention's own, and whether all channels share one attention."""

    side: int
    reach: int
    shared: bool

    def tiles(self, x: Tensor, columns: int) -> Iterator[tuple[int, slice, slice]]:
        """Image, rows and columns of each tile of (B, H, W, ...)."""
        pixels = max(1, (CACHED if x.device.type == "cpu" else LARGE) // columns)
        high, wide = max(1, pixels // x.shape[2]), min(pixels, x.shape[2])
        for image in range(len(x)):
            for top in range(0, x.shape[1], high):
                for left in range(0, x.shape[2], wide):
                    yield image, slice(top, min(top + high, x.shape[1])), slice(left, min(left + wide, x.shape[2]))


def _framed(x: Tensor, side: int) -> Tensor:
    """Images (B, C, H, W) as (B, H + side - 1, W + side - 1, C) with zeros around them."""
    half = side // 2
    return F.pad(x.permute(0, 2, 3, 1), (0, 0, half, half, half, half)).contiguous()


def _band(x: Tensor, side: int, image: int, rows: slice) -> Tensor:
    """The rows of an image with those around them, framed by zeros: (1, rows + side - 1, W + side - 1, C)."""
    half, height = side // 2, x.shape[2]
    first, last = rows.start - half, rows.stop + half
    seen = x[image : image + 1, :, max(first, 0) : min(last, height)].permute(0, 2, 3, 1)
    return F.pad(seen, (0, 0, half, half, max(-first, 0), max(last - height, 0))).contiguous()


def _windows(framed: Tensor, side: int, tile: tuple[int, slice, slice]) -> Tensor:
    """A view (h, w, side, side C) of the windows around the pixels of a tile."""
    image, rows, columns = tile
    of_image, of_row, of_column, _ = framed.stride()
    size = (rows.stop - rows.start, columns.stop - columns.start, side, side * framed.shape[3])
    start = framed.storage_offset() + image * of_image + rows.start * of_row + columns.start * of_column
    return framed.as_strided(size, (of_row, of_column, of_row, 1), start)


def _add_windows(framed: Tensor, values: Tensor, side: int, tile: tuple[int, slice, slice]) -> None:
    """The adjoint of `_windows`: adds values (h, w, side, side, C) where they came from."""
    image, rows, columns = tile
    for i in range(side):
        for j in range(side):
            target = framed[image, rows.start + i : rows.stop + i, columns.start + j : columns.stop + j]
            target.add_(values[:, :, i, j])


class _Adaptive(torch.autograd.Function):
    """Features (B, C, H, W) to (B, H, W, O), tile by tile."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, coordinates: Tensor, to_attention: Tensor, shift: Tensor, to_output: Tensor,
        bias: Tensor | None, plan: _Plan,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(x, coordinates, to_attention, shift, to_output)
        ctx.plan, ctx.biased = plan, bias is not None
        places = _framed(coordinates, plan.reach)
        batch, _, height, width = x.shape
        out = x.new_empty(batch, height, width, to_output.shape[1])
        kept = _Buffers(x)
        for tile in plan.tiles(out, len(to_output)):
            image, rows, columns = tile
            if columns.start == 0:  # a new band of rows
                band = _band(x, plan.side, image, rows)
            windows = _windows(band, plan.side, (0, slice(0, rows.stop - rows.start), columns))
            patches = kept.copy(0, _windows(places, plan.reach, tile))
            scale = kept(1, len(patches), len(shift))
            torch.addmm(shift, patches, to_attention, out=scale)
            scale.sigmoid_()
            if plan.shared:
                seen = kept(2, len(patches), len(to_output))
                spread = scale.view(*windows.shape[:3], plan.side, 1)
                torch.mul(windows.unflatten(3, (plan.side, -1)), spread, out=seen.view(*spread.shape[:4], -1))
            else:
                seen = scale
                seen.view(windows.shape).mul_(windows)
            target = out[image, rows, columns]
            if target.is_contiguous():
                flat = target.view(-1, out.shape[3])
                torch.mm(seen, to_output, out=flat) if bias is None else torch.addmm(bias, seen, to_output, out=flat)
            else:
                made = seen @ to_output
                target.copy_((made if bias is None else made + bias).view(target.shape))
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *given: Tensor) -> Any:
        plan, (grad,) = ctx.plan, given
        x, coordinates, to_attention, shift, to_output = ctx.saved_tensors
        framed, places = _framed(x, plan.side), _framed(coordinates, plan.reach)
        needs = ctx.needs_input_grad
        to_x, to_places = torch.zeros_like(framed), torch.zeros_like(places) if needs[1] else None
        d_attention, d_shift, d_output = map(torch.zeros_like, (to_attention, shift, to_output))
        grad = grad.contiguous()
        for tile in plan.tiles(grad, len(to_output)):
            image, rows, columns = tile
            taps = _windows(framed, plan.side, tile).unflatten(3, (plan.side, -1))  # (h, w, side, side, C)
            patches = _windows(places, plan.reach, tile).reshape(-1, len(to_attention))
            scale = torch.addmm(shift, patches, to_attention).sigmoid_()
            spread = scale.view(*taps.shape[:4], -1)
            above = grad[image, rows, columns].reshape(-1, grad.shape[3])
            seen = torch.mul(taps, spread, out=x.new_empty(taps.shape))
            d_output.addmm_(seen.view(len(patches), -1).mT, above)
            d_seen = (above @ to_output.mT).view(taps.shape)
            d_scale = torch.mul(d_seen, taps, out=seen)
            d_scale = (d_scale.sum(-1) if plan.shared else d_scale).view(scale.shape)
            d_scale = torch.ops.aten.sigmoid_backward(d_scale, scale)
            d_attention.addmm_(patches.mT, d_scale)
            d_shift += d_scale.sum(0)
            if needs[0]:
                _add_windows(to_x, d_seen.mul_(spread), plan.side, tile)
            if to_places is not None:
                d_patches = (d_scale @ to_attention.mT).view(*taps.shape[:2], plan.reach, plan.reach, -1)
                _add_windows(to_places, d_patches, plan.reach, tile)
        d_bias = grad.sum((0, 1, 2)) if ctx.biased else None
        return (
            _unframed(to_x, plan.side) if needs[0] else None,
            None if to_places is None else _unframed(to_places, plan.reach),
            d_attention, d_shift, d_output, d_bias, None,
        )  # fmt: skip


def _unframed(framed: Tensor, side: int) -> Tensor:
    half = side // 2
    height, width = framed.shape[1] - 2 * half, framed.shape[2] - 2 * half
    return framed[:, half : half + height, half : half + width].permute(0, 3, 1, 2)


class _Buffers:
    """Memory that all tiles of one pass use again."""

    def __init__(self, like: Tensor) -> None:
        self.like = like
        self.held: dict[int, Tensor] = {}

    def __call__(self, number: int, rows: int, columns: int) -> Tensor:
        held = self.held.get(number)
        if held is None or held.numel() < rows * columns:
            held = self.held[number] = self.like.new_empty(rows * columns)
        return held[: rows * columns].view(rows, columns)

    def copy(self, number: int, windows: Tensor) -> Tensor:
        """Windows (h, w, side, side C) as rows of a matrix."""
        rows = self(number, windows.shape[0] * windows.shape[1], windows.shape[2] * windows.shape[3])
        rows.view(windows.shape).copy_(windows)
        return rows


@dataclass(frozen=True)
class Patches:
    """Mean (D k k,) and covariance (D k k, D k k) of the k x k patches of coordinates, over ``count`` pixels."""

    mean: Tensor
    covariance: Tensor
    count: int

    @classmethod
    def of(cls, coordinates: Tensor, side: int) -> Patches:
        """Of coordinates (B, D, H, W) padded by zeros; the order is that of a kernel (T, D, k, k)."""
        with full_precision(coordinates):
            coordinates = wide(coordinates)
            batch, channels, height, width = coordinates.shape
            size, count = channels * side**2, batch * height * width
            order = torch.arange(size, device=coordinates.device).view(side, side, channels).permute(2, 0, 1).flatten()
            total = coordinates.new_zeros(size, dtype=torch.float64)
            products = coordinates.new_zeros(size, size, dtype=torch.float64)
            if not coordinates.is_meta:
                framed = _framed(coordinates, side)
                for tile in _Plan(side, side, True).tiles(coordinates.permute(0, 2, 3, 1), size):
                    patches = _windows(framed, side, tile).reshape(-1, size)
                    total += patches.sum(0)
                    products += patches.mT @ patches
            mean = total / count
            covariance = products / count - mean.outer(mean)
            kind = coordinates.dtype
            return cls(mean[order].to(kind), covariance[order][:, order].to(kind), count)

    def norm(self, kernel: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (T,) over all pixels of the coordinates convolved by a kernel (T, D, k, k) with a bias:
        what batch norm would measure on the map."""
        flat = kernel.flatten(1)
        return flat @ self.mean + bias, ((flat @ self.covariance) * flat).sum(1).clamp(min=0)
