"""Winograd convolution, with fewer products (Winograd, `Arithmetic Complexity of Computations`; Lavin and Gray, CVPR
2016).

Tiles of (m + k - 1)² pixels give m² outputs of a k x k kernel. Read as a polynomial along each side and evaluated at
m + k - 1 points, a convolution is a product at every point, and over channels a matrix product: with m = 4, 2.25
products per output and pair of channels for 3 x 3 kernels and 4 for 5 x 5, not 9 and 25. The result is the same up to
rounding.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from math import prod

import torch
from torch import Tensor

POINTS = (1.0, 2.0, 0.5)
"""Polynomials are evaluated at 0, at these and their negatives, and at infinity."""
ONE = 1
"""Index of the point one among them."""
TILE = 4
"""Outputs per side of a tile."""
LARGEST = 2**22
"""Number of values up to which a buffer is kept for reuse."""


def tiled_kernel(kernel: Tensor) -> Tensor:
    """A kernel (O, I, k, k), k = 3 or 5, prepared for `tiled_convolution`: its values (P², I, O) at P = k + 3 points.
    Differentiable."""
    k = kernel.shape[-1]
    points = _points(TILE + k - 1)
    rows = [[p**n / prod(p - q for q in points if q != p) for n in range(k)] for p in points]
    values = torch.tensor([*rows, [0.0] * (k - 1) + [1.0]], dtype=torch.float64, device=kernel.device)
    return torch.einsum("px,qy,oixy->pqio", values, values, kernel.double()).flatten(0, 1).to(kernel).contiguous()


def tiled_convolution(x: Tensor, kernel: Tensor, bias: Tensor | None = None, padding: int = 0) -> Tensor:
    """Images (B, I, H, W) convolved by a `tiled_kernel` (P², I, O): (B, O, H', W'), channels last in memory. Not
    differentiable: tensors that require gradients are refused unless gradients are off."""
    given = (x, kernel) if bias is None else (x, kernel, bias)
    if torch.is_grad_enabled() and any(t.requires_grad for t in given):
        raise ValueError("tiled_convolution has no gradient: call it under torch.no_grad(), or use torch's conv2d")
    points, (inputs, outputs) = round(kernel.shape[0] ** 0.5), kernel.shape[1:]
    k = points - TILE + 1
    batch, _, *sides = x.shape
    height, width = (side + 2 * padding - k + 1 for side in sides)
    down, across = -(-height // TILE), -(-width // TILE)
    framed = _framed(x.permute(0, 2, 3, 1), padding, (down * TILE + k - 1, across * TILE + k - 1))
    rows = _room(1, x, points, batch, down, framed.shape[2], inputs)
    _evaluate([framed[:, n : n + TILE * down : TILE] for n in range(points)], rows.unbind(0))
    tiles = _room(2, x, points, points, batch, down, across, inputs)
    _evaluate([rows[..., n : n + TILE * across : TILE, :] for n in range(points)], tiles.unbind(1))
    products = _room(3, x, points, points, batch, down, across, outputs)
    torch.bmm(tiles.view(points**2, -1, inputs), kernel, out=products.view(points**2, -1, outputs))
    if bias is not None:
        products[ONE, ONE].add_(bias)  # all powers of one are one: the bias is added to every output
    rows = _room(1, x, points, batch, down, across, TILE, outputs)
    _interpolate(products.unbind(1), rows.unbind(-2))
    out = x.new_empty(batch, down, TILE, across, TILE, outputs)
    _interpolate(rows.unbind(0), out.unbind(2))
    return out.view(batch, down * TILE, across * TILE, outputs)[:, :height, :width].permute(0, 3, 1, 2)


def _framed(x: Tensor, padding: int, sides: tuple[int, int]) -> Tensor:
    """Images (B, H, W, C) with ``padding`` zeros before, and after as many as fill the ``sides``."""
    if not padding and x.shape[1:3] == sides:
        return x
    framed = _room(0, x, len(x), *sides, x.shape[-1])
    bottom, right = padding + x.shape[1], padding + x.shape[2]
    for margin in (framed[:, :padding], framed[:, bottom:], framed[:, :, :padding], framed[:, :, right:]):
        margin.zero_()
    framed[:, padding:bottom, padding:right] = x
    return framed


class _Kept(threading.local):
    """Buffers that a thread reuses: allocating fresh pages takes longer than all the sums."""

    def __init__(self) -> None:
        self.rooms: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}


_kept = _Kept()


def _room(number: int, like: Tensor, *shape: int) -> Tensor:
    key, size = (number, like.dtype, like.device), prod(shape)
    if size > LARGEST:
        return like.new_empty(shape)
    held = _kept.rooms.get(key)
    if held is None or held.numel() < size:
        with torch.inference_mode(False):  # so that it can be written to in any mode
            held = _kept.rooms[key] = torch.empty(size, dtype=like.dtype, device=like.device)
    return held[:size].view(shape)


@cache
def _points(count: int) -> tuple[float, ...]:
    """All points but infinity, which comes last."""
    if count % 2 or not 4 <= count <= 2 * len(POINTS) + 2:
        raise ValueError(f"tiled kernels have a side of 3 or 5, got {count - TILE + 1}")
    return (0.0, *(sign * point for point in POINTS[: count // 2 - 1] for sign in (1.0, -1.0)))


@cache
def _without(point: float, count: int) -> tuple[float, ...]:
    """The coefficients of Π (t² - q²) over all points q > 0 except ``point``."""
    coefficients = [1.0]
    for q in _points(count):
        if q > 0 and q != point:
            coefficients = [a - q * q * b for a, b in zip([0.0, *coefficients], [*coefficients, 0.0], strict=True)]
    return tuple(coefficients)


def _evaluate(taps: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    """The factor of the kernel's value at each point: for the point p, the taps weighted by the coefficients of
    Π (t - q) over the other points. That is t (t + p) Π (t² - q²): opposite points differ by a sign."""
    count = len(taps)
    even, odd = (_room(number, out[0], *out[0].shape) for number in (4, 5))
    for at, point in enumerate(_points(count)):
        if point > 0:
            weights = _without(point, count)
            _weighted(taps[2::2], weights, even)
            _weighted(taps[1::2], weights, odd)
            torch.add(even, odd, alpha=point, out=out[at])
            torch.sub(even, odd, alpha=point, out=out[at + 1])
    _weighted(taps[0::2], _without(0, count), out[0])
    _weighted(taps[1::2], _without(0, count), out[-1])


def _weighted(taps: Sequence[Tensor], weights: Sequence[float], out: Tensor) -> None:
    """``Σ weight · tap``; the last weight is one."""
    *first, last = zip(taps, weights, strict=False)
    torch.add(last[0], first[0][0], alpha=first[0][1], out=out)
    for tap, weight in first[1:]:
        out.add_(tap, alpha=weight)


def _interpolate(values: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    """Output n from the products at each point, ``Σ p^n value``; the one at infinity contributes to the last only."""
    points = [(at, p) for at, p in enumerate(_points(len(values))) if p > 0]
    shape = values[0].shape
    pairs = [(p, _room(4 + 2 * i, out[0], *shape), _room(5 + 2 * i, out[0], *shape)) for i, (_, p) in enumerate(points)]
    for (at, _), (_, even, odd) in zip(points, pairs, strict=True):
        torch.add(values[at], values[at + 1], out=even)
        torch.sub(values[at], values[at + 1], out=odd)
    for n, result in enumerate(out):
        (_, *start), *others = pairs  # the point one comes first and needs no weight
        torch.add(start[n % 2], others[0][1 + n % 2], alpha=others[0][0] ** n, out=result)
        for p, *pair in others[1:]:
            result.add_(pair[n % 2], alpha=p**n)
    out[0].add_(values[0])
    out[-1].add_(values[-1])
