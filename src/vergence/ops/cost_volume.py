"""Cost volumes of optical flow: what a pixel costs at every displacement around the flow found so far.

=====================  ===============================================================================================
``sampled``            ``I1(x) · I2(x + δ + F(x))``: every pixel searches around its own flow (Hofinger et al., ECCV
                       2020, Eqs. 2 and 3)
``warped``             ``I1(x) · I2(x + δ + F(x + δ))``: I2 is warped once and then shifted (Eq. 1; PWC-Net, HD³), so
                       that displaced pixels move by the flow of other pixels
=====================  ===============================================================================================

Costs are means over channels, of products (``corr``) or of absolute differences (``sad``). I2 is read bilinearly, and
is zero outside of the image. Displacements δ are ordered by rows: channel ``(δy + r) (2r + 1) + δx + r``.

On a CPU both run in kernels compiled by numba if the extra ``fast`` is installed, and otherwise in PyTorch, in parcels
that fit the cache. Both have their own gradients and store nothing per displacement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.flow import warp

Cost = Literal["corr", "sad"]
Parcel = tuple[slice, Tensor, Tensor, Tensor]
BYTES = 1 << 18
"""Size of a parcel of windows in PyTorch, which stays in the cache."""
FEWEST = 16
"""The fewest pixels of a parcel."""


def sampled_cost_volume(
    first: Tensor, second: Tensor, flow: Tensor | None, reach: int, metric: Cost = "corr"
) -> Tensor:
    """Costs (B, (2 reach + 1)², H, W) of features (B, C, H, W) around ``flow`` (B, 2, H, W; None is zero).
    Differentiable in features and flow."""
    _refuse(first, second, flow, reach, metric)
    if flow is None:
        return warped_cost_volume(first, second, None, reach, metric)
    kind = torch.promote_types(first.dtype, second.dtype)
    wide = torch.float32 if kind in (torch.float16, torch.bfloat16) else kind
    costs: Tensor = _sampled(first.to(wide), second.to(wide), flow.to(wide), reach, metric == "sad")
    return costs.to(kind)


def warped_cost_volume(first: Tensor, second: Tensor, flow: Tensor | None, reach: int, metric: Cost = "corr") -> Tensor:
    """The same with ``second`` warped by ``flow`` before it is shifted."""
    _refuse(first, second, flow, reach, metric)
    kind = torch.promote_types(first.dtype, second.dtype)
    wide = torch.float32 if kind in (torch.float16, torch.bfloat16) else kind
    moved = second.to(wide) if flow is None else warp(second.to(wide), flow.to(wide))
    costs: Tensor = _shifted(first.to(wide), moved, reach, metric == "sad")
    return costs.to(kind)


def _refuse(first: Tensor, second: Tensor, flow: Tensor | None, reach: int, metric: str) -> None:
    if first.dim() != 4 or first.shape != second.shape or not first.is_floating_point():
        raise ValueError(
            f"features are floats (B, C, H, W) of one shape, got {tuple(first.shape)} and {tuple(second.shape)}"
        )
    if flow is not None and flow.shape != (len(first), 2, *first.shape[2:]):
        raise ValueError(f"flow for features {tuple(first.shape)} is (B, 2, H, W), got {tuple(flow.shape)}")
    if reach < 0 or metric not in ("corr", "sad"):
        raise ValueError(f"a cost volume has reach >= 0 and the metric corr or sad, got {reach} and {metric!r}")


# Operators ------------------------------------------------------------------------------------------------------------


@torch.library.custom_op("vergence::sampled_costs", mutates_args=())
def _sampled(first: Tensor, second: Tensor, flow: Tensor, reach: int, absolute: bool) -> Tensor:
    kernels = compiled() if first.device.type == "cpu" else None
    if kernels is None:
        return sampled_in_torch(first, second, flow, reach, absolute)
    costs = first.new_empty(len(first), (2 * reach + 1) ** 2, *first.shape[2:])
    parts = [*_windowed(first, second, flow, reach), costs]
    _in_threads(kernels.differ if absolute else kernels.correlate, parts)
    return costs


@torch.library.custom_op("vergence::sampled_costs_backward", mutates_args=())
def _sampled_backward(
    grad: Tensor, first: Tensor, second: Tensor, flow: Tensor, reach: int, absolute: bool
) -> tuple[Tensor, Tensor, Tensor]:
    kernels = compiled() if first.device.type == "cpu" else None
    if kernels is None:
        return backward_in_torch(grad, first, second, flow, reach, absolute)
    parts = _windowed(first, second, flow, reach)
    by_first, by_second, by_flow = torch.zeros_like(parts[0]), torch.zeros_like(parts[1]), torch.empty_like(flow)
    kernel = kernels.differ_back if absolute else kernels.correlate_back
    _in_threads(kernel, [*parts, grad.contiguous(), by_first, by_second, by_flow.contiguous()])
    return _planes(by_first), _planes(_without_border(by_second, 2 * reach + 2)), by_flow


@torch.library.custom_op("vergence::shifted_costs", mutates_args=())
def _shifted(first: Tensor, second: Tensor, reach: int, absolute: bool) -> Tensor:
    kernels = compiled() if first.device.type == "cpu" else None
    if kernels is None:
        return shifted_in_torch(first, second, reach, absolute)
    costs = first.new_empty(len(first), (2 * reach + 1) ** 2, *first.shape[2:])
    parts = [_last(first), F.pad(_last(second), (0, 0, reach, reach, reach, reach)), costs]
    _in_threads(kernels.differ_whole if absolute else kernels.correlate_whole, parts)
    return costs


@_sampled.register_fake
def _sampled_shape(first: Tensor, second: Tensor, flow: Tensor, reach: int, absolute: bool) -> Tensor:
    return first.new_empty(len(first), (2 * reach + 1) ** 2, *first.shape[2:])


@_shifted.register_fake
def _shifted_shape(first: Tensor, second: Tensor, reach: int, absolute: bool) -> Tensor:
    return first.new_empty(len(first), (2 * reach + 1) ** 2, *first.shape[2:])


@_sampled_backward.register_fake
def _backward_shapes(grad: Tensor, first: Tensor, second: Tensor, flow: Tensor, *_: Any) -> Any:
    return torch.empty_like(first), torch.empty_like(second), torch.empty_like(flow)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.reach, ctx.absolute = inputs
    ctx.save_for_backward(*tensors)


def _of_sampled(ctx: Any, grad: Tensor) -> Any:
    return *_sampled_backward(grad.contiguous(), *ctx.saved_tensors, ctx.reach, ctx.absolute), None, None


def _of_shifted(ctx: Any, grad: Tensor) -> Any:
    first, second = ctx.saved_tensors
    still = first.new_zeros(len(first), 2, *first.shape[2:])
    by_first, by_second, _ = _sampled_backward(grad.contiguous(), first, second, still, ctx.reach, ctx.absolute)
    return by_first, by_second, None, None


_sampled.register_autograd(_of_sampled, setup_context=_keep)
_shifted.register_autograd(_of_shifted, setup_context=_keep)


# Compiled -------------------------------------------------------------------------------------------------------------


@cache
def compiled() -> ModuleType | None:
    """The kernels of the extra ``fast``, if installed; imported on first use: numba takes a second to import."""
    try:
        from vergence.ops import windows
    except ImportError:
        return None
    return windows


def _in_threads(kernel: Callable[..., None], parts: list[Tensor]) -> None:
    """Runs a kernel on one image after another, in as many threads as PyTorch uses."""
    arrays = [part.detach().numpy() for part in parts]
    threads = min(torch.get_num_threads(), len(arrays[0]))
    if threads < 2:
        kernel(*arrays)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda b: kernel(*(array[b : b + 1] for array in arrays)), range(len(arrays[0]))))


def _windowed(first: Tensor, second: Tensor, flow: Tensor, reach: int) -> list[Tensor]:
    """Features channels last, ``second`` with a border of zeros, and for every pixel the corner of its window in that
    and the fractional part of its flow. Windows that would leave the border lie in it."""
    border, (height, width) = 2 * reach + 2, first.shape[2:]
    around = F.pad(_last(second), (0, 0, border, border, border, border))
    rows = torch.arange(height, dtype=flow.dtype, device=flow.device).view(-1, 1)
    columns = torch.arange(width, dtype=flow.dtype, device=flow.device)
    y, x = rows + flow[:, 1], columns + flow[:, 0]
    top, left = y.floor(), x.floor()
    corners = [
        (at - reach + border).nan_to_num(0.0).clamp(0, side + border).int().contiguous()
        for at, side in ((top, height), (left, width))
    ]
    return [_last(first), around, *corners, (y - top).contiguous(), (x - left).contiguous()]


def _last(features: Tensor) -> Tensor:
    return features.detach().permute(0, 2, 3, 1).contiguous()


def _planes(features: Tensor) -> Tensor:
    return features.permute(0, 3, 1, 2).contiguous()


def _without_border(features: Tensor, border: int) -> Tensor:
    return features[:, border:-border, border:-border]


# In PyTorch -----------------------------------------------------------------------------------------------------------


def sampled_in_torch(first: Tensor, second: Tensor, flow: Tensor, reach: int, absolute: bool) -> Tensor:
    """The sampled volume without compiled kernels, on any device."""
    side = 2 * reach + 1
    own, windows, down, right = _gathering(first, second, flow, reach)
    costs = own.new_empty(len(own), side * side)
    for rows, around, _ in windows:
        v, u = down[rows], right[rows]
        if absolute:
            near = _interpolated(around, v, u)
            gap = near.sub_(own[rows, None, None]).abs_()
            costs[rows] = gap.mean(-1).flatten(1)
        else:
            dots = torch.bmm(own[rows].unsqueeze(1), around.flatten(1, 2).mT).view(-1, side + 1, side + 1)
            costs[rows] = _interpolated(dots.unsqueeze(-1), v, u).flatten(1) / own.shape[1]
    return costs.view(len(first), *first.shape[2:], -1).permute(0, 3, 1, 2).contiguous()


def backward_in_torch(
    grad: Tensor, first: Tensor, second: Tensor, flow: Tensor, reach: int, absolute: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the sampled volume without compiled kernels."""
    side, channels = 2 * reach + 1, first.shape[1]
    own, windows, down, right = _gathering(first, second, flow, reach)
    given = _last(grad).view(-1, side, side, 1) / channels
    by_first = torch.zeros_like(own)
    by_second = second.new_zeros(_bordered_size(second, reach), channels)
    by_flow = flow.new_zeros(len(own), 2)
    for rows, around, places in windows:
        v, u, g = down[rows], right[rows], given[rows]
        if absolute:
            g = g * (_interpolated(around, v, u) - own[rows, None, None]).sign()
            by_first[rows] = -g.sum((1, 2))
            spread, source = _spread(g, v, u), around
        else:
            source = torch.bmm(own[rows].unsqueeze(1), around.flatten(1, 2).mT).view(-1, side + 1, side + 1, 1)
            weight = _spread(g, v, u)
            by_first[rows] = torch.bmm(weight.flatten(1).unsqueeze(1), around.flatten(1, 2)).squeeze(1)
            spread = weight * own[rows, None, None]
        by_second.index_add_(0, places, spread.reshape(-1, channels))
        v, u = v.view(-1, 1, 1, 1), u.view(-1, 1, 1, 1)
        across, along = source[:, :, 1:] - source[:, :, :-1], source[:, 1:] - source[:, :-1]
        by_flow[rows, 0] = (g * ((1 - v) * across[:, :-1] + v * across[:, 1:])).sum((1, 2, 3))
        by_flow[rows, 1] = (g * ((1 - u) * along[:, :, :-1] + u * along[:, :, 1:])).sum((1, 2, 3))
    batch, _, height, width = first.shape
    border = 2 * reach + 2
    whole = by_second.view(batch, height + 2 * border, width + 2 * border, channels)
    return (
        _planes(by_first.view(batch, height, width, channels)),
        _planes(_without_border(whole, border)),
        by_flow.view(batch, height, width, 2).permute(0, 3, 1, 2).contiguous(),
    )


def shifted_in_torch(first: Tensor, second: Tensor, reach: int, absolute: bool) -> Tensor:
    """The volume without flow, one displacement after another."""
    height, width = first.shape[2:]
    around = F.pad(second, (reach,) * 4)
    costs = first.new_empty(len(first), (2 * reach + 1) ** 2, height, width)
    for number in range(costs.shape[1]):
        dy, dx = divmod(number, 2 * reach + 1)
        other = around[..., dy : dy + height, dx : dx + width]
        costs[:, number] = ((first - other).abs() if absolute else first * other).mean(1)
    return costs


def _bordered_size(second: Tensor, reach: int) -> int:
    batch, _, height, width = second.shape
    return batch * (height + 4 * reach + 4) * (width + 4 * reach + 4)


def _gathering(
    first: Tensor, second: Tensor, flow: Tensor, reach: int
) -> tuple[Tensor, Iterator[tuple[slice, Tensor, Tensor]], Tensor, Tensor]:
    """The first features (N, C), parcels of windows (slice of N, neighbours (n, 2r + 2, 2r + 2, C), their rows in the
    bordered second features), and fractional parts (N,)."""
    last, around, top, left, down, right = _windowed(first, second, flow, reach)
    channels, side = first.shape[1], 2 * reach + 2
    flat = around.view(-1, channels)
    image = torch.arange(len(first), device=flow.device).view(-1, 1, 1) * around.shape[1]
    corner = ((image + top) * around.shape[2] + left).flatten()
    steps = torch.arange(side, device=flow.device)
    offsets = (steps.view(-1, 1) * around.shape[2] + steps).flatten()
    parcel = max(BYTES // (side * side * channels * flat.element_size()), FEWEST)

    def windows() -> Iterator[tuple[slice, Tensor, Tensor]]:
        for begin in range(0, len(corner), parcel):
            rows = slice(begin, begin + parcel)
            places = (corner[rows].unsqueeze(1) + offsets).flatten()
            yield rows, flat.index_select(0, places).view(-1, side, side, channels), places

    return last.view(-1, channels), windows(), down.flatten(), right.flatten()


def _interpolated(window: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Windows (n, s + 1, s + 1, C) read at fractional places: (n, s, s, C)."""
    v, u = down.view(-1, 1, 1, 1), right.view(-1, 1, 1, 1)
    across = torch.lerp(window[:, :, :-1], window[:, :, 1:], u)
    return torch.lerp(across[:, :-1], across[:, 1:], v)


def _spread(grad: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """The transpose of :func:`_interpolated`: (n, s, s, C) to (n, s + 1, s + 1, C)."""
    v, u = down.view(-1, 1, 1, 1), right.view(-1, 1, 1, 1)
    tall = F.pad(grad * (1 - v), (0, 0, 0, 0, 0, 1)) + F.pad(grad * v, (0, 0, 0, 0, 1, 0))
    return F.pad(tall * (1 - u), (0, 0, 0, 1)) + F.pad(tall * u, (0, 0, 1, 0))


def volume_channels(reach: int) -> int:
    """The number of displacements: 81 for a reach of 4, 289 for 8."""
    return math.prod((2 * reach + 1, 2 * reach + 1))
