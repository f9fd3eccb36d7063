"""Kernels of the sampled cost volume, compiled by numba: they need the extra ``fast``.

Features are stored channels last, so that a dot product reads contiguous memory. The fractional part of a pixel's flow
is the same for all displacements. Correlation therefore takes dot products with the (2r + 2)² whole neighbours and
interpolates those; absolute differences are not linear, so there the neighbours themselves are interpolated, first
along rows and then along columns, and never stored for more than one pixel.

Arrays: ``first`` (B, H, W, C), ``second`` (B, H', W', C) with a border of zeros, ``top`` and ``left`` (B, H, W) the
corner of each window in it, ``down`` and ``right`` (B, H, W) the fractional parts, ``costs`` (B, (2r + 1)², H, W).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from vergence.ops.compiling import compiled

FAST = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered, or they are not vectorised; NaN and infinity keep their meaning."""
_fast = partial(compiled, fastmath=FAST)


@_fast
def correlate(first: Any, second: Any, top: Any, left: Any, down: Any, right: Any, costs: Any) -> None:
    """Eq. 2 for some of the images."""
    images, height, width, channels = first.shape
    side = int(np.sqrt(costs.shape[1]))
    share = first.dtype.type(1.0 / channels)
    dots = np.empty((side + 1, side + 1), first.dtype)
    for b in range(images):
        for y in range(height):
            for x in range(width):
                own = first[b, y, x]
                t, e, v, u = top[b, y, x], left[b, y, x], down[b, y, x], right[b, y, x]
                for i in range(side + 1):
                    for j in range(0, side + 1, 2):  # in pairs: both use the same loaded channels
                        one, two = second[b, t + i, e + j], second[b, t + i, e + j + 1]
                        s = first.dtype.type(0)
                        r = first.dtype.type(0)
                        for c in range(channels):
                            s += own[c] * one[c]
                            r += own[c] * two[c]
                        dots[i, j] = s
                        dots[i, j + 1] = r
                for i in range(side):
                    for j in range(side):
                        upper = dots[i, j] + u * (dots[i, j + 1] - dots[i, j])
                        lower = dots[i + 1, j] + u * (dots[i + 1, j + 1] - dots[i + 1, j])
                        costs[b, i * side + j, y, x] = share * (upper + v * (lower - upper))


@_fast
def correlate_whole(first: Any, second: Any, costs: Any) -> None:
    """The same without flow: windows begin at the pixel's own place in the bordered ``second``."""
    images, height, width, channels = first.shape
    side = int(np.sqrt(costs.shape[1]))
    share = first.dtype.type(1.0 / channels)
    for b in range(images):
        for y in range(height):
            for x in range(width):
                own = first[b, y, x]
                for i in range(side):
                    for j in range(0, side - 1, 2):
                        one, two = second[b, y + i, x + j], second[b, y + i, x + j + 1]
                        s = first.dtype.type(0)
                        r = first.dtype.type(0)
                        for c in range(channels):
                            s += own[c] * one[c]
                            r += own[c] * two[c]
                        costs[b, i * side + j, y, x] = share * s
                        costs[b, i * side + j + 1, y, x] = share * r
                    last = second[b, y + i, x + side - 1]
                    s = first.dtype.type(0)
                    for c in range(channels):
                        s += own[c] * last[c]
                    costs[b, i * side + side - 1, y, x] = share * s


@_fast
def differ(first: Any, second: Any, top: Any, left: Any, down: Any, right: Any, costs: Any) -> None:
    """Eq. 3 for some of the images."""
    images, height, width, channels = first.shape
    side = int(np.sqrt(costs.shape[1]))
    share = first.dtype.type(1.0 / channels)
    rows = np.empty((2, side, channels), first.dtype)
    for b in range(images):
        for y in range(height):
            for x in range(width):
                own = first[b, y, x]
                t, e, v, u = top[b, y, x], left[b, y, x], down[b, y, x], right[b, y, x]
                for i in range(side + 1):
                    row, above = rows[i % 2], rows[(i + 1) % 2]
                    for j in range(side):
                        one, two, out = second[b, t + i, e + j], second[b, t + i, e + j + 1], row[j]
                        for c in range(channels):
                            out[c] = one[c] + u * (two[c] - one[c]) - own[c]
                    if i > 0:
                        for j in range(side):
                            upper, lower = above[j], row[j]
                            s = first.dtype.type(0)
                            for c in range(channels):
                                s += abs(upper[c] + v * (lower[c] - upper[c]))
                            costs[b, (i - 1) * side + j, y, x] = share * s


@_fast
def differ_whole(first: Any, second: Any, costs: Any) -> None:
    """The same without flow."""
    images, height, width, channels = first.shape
    side = int(np.sqrt(costs.shape[1]))
    share = first.dtype.type(1.0 / channels)
    for b in range(images):
        for y in range(height):
            for x in range(width):
                own = first[b, y, x]
                for i in range(side):
                    for j in range(side):
                        other = second[b, y + i, x + j]
                        s = first.dtype.type(0)
                        for c in range(channels):
                            s += abs(own[c] - other[c])
                        costs[b, i * side + j, y, x] = share * s


@_fast
def correlate_back(
    first: Any, second: Any, top: Any, left: Any, down: Any, right: Any, grad: Any, by_first: Any, by_second: Any,
    by_flow: Any,
) -> None:  # fmt: skip
    """Gradients of Eq. 2, added to ``by_first``, ``by_second`` (bordered) and ``by_flow`` (B, 2, H, W)."""
    images, height, width, channels = first.shape
    side = int(np.sqrt(grad.shape[1]))
    share = first.dtype.type(1.0 / channels)
    dots = np.empty((side + 1, side + 1), first.dtype)
    weight = np.empty((side + 1, side + 1), first.dtype)
    for b in range(images):
        for y in range(height):
            for x in range(width):
                own, own_grad = first[b, y, x], by_first[b, y, x]
                t, e, v, u = top[b, y, x], left[b, y, x], down[b, y, x], right[b, y, x]
                weight[:] = 0
                for i in range(side):
                    for j in range(side):
                        g = share * grad[b, i * side + j, y, x]
                        weight[i, j] += g * (1 - v) * (1 - u)
                        weight[i, j + 1] += g * (1 - v) * u
                        weight[i + 1, j] += g * v * (1 - u)
                        weight[i + 1, j + 1] += g * v * u
                for i in range(side + 1):
                    for j in range(side + 1):
                        other, other_grad, g = second[b, t + i, e + j], by_second[b, t + i, e + j], weight[i, j]
                        s = first.dtype.type(0)
                        for c in range(channels):
                            s += own[c] * other[c]
                            own_grad[c] += g * other[c]
                            other_grad[c] += g * own[c]
                        dots[i, j] = s
                across = first.dtype.type(0)
                along = first.dtype.type(0)
                for i in range(side):
                    for j in range(side):
                        g = share * grad[b, i * side + j, y, x]
                        a, p, q, z = dots[i, j], dots[i, j + 1], dots[i + 1, j], dots[i + 1, j + 1]
                        across += g * ((1 - v) * (p - a) + v * (z - q))
                        along += g * ((1 - u) * (q - a) + u * (z - p))
                by_flow[b, 0, y, x] = across
                by_flow[b, 1, y, x] = along


@_fast
def differ_back(
    first: Any, second: Any, top: Any, left: Any, down: Any, right: Any, grad: Any, by_first: Any, by_second: Any,
    by_flow: Any,
) -> None:  # fmt: skip
    """Gradients of Eq. 3; where a difference is 0, its gradient is 0. Every loop over channels writes to one array
    only: with more, the compiler cannot vectorise it."""
    images, height, width, channels = first.shape
    side = int(np.sqrt(grad.shape[1]))
    share = first.dtype.type(1.0 / channels)
    one, none = first.dtype.type(1), first.dtype.type(0)
    rows = np.empty((side + 1, side, channels), first.dtype)
    signed = np.zeros((side + 2, side, channels), first.dtype)  # the first and the last row stay zero
    by_rows = np.zeros((side + 2, channels), first.dtype)  # so do these
    for b in range(images):
        for y in range(height):
            for x in range(width):
                own, own_grad = first[b, y, x], by_first[b, y, x]
                t, e, v, u = top[b, y, x], left[b, y, x], down[b, y, x], right[b, y, x]
                for i in range(side + 1):
                    for j in range(side):
                        a, p, out = second[b, t + i, e + j], second[b, t + i, e + j + 1], rows[i, j]
                        for c in range(channels):
                            out[c] = a[c] + u * (p[c] - a[c]) - own[c]
                along = none
                for i in range(side):
                    for j in range(side):
                        g = share * grad[b, i * side + j, y, x]
                        upper, lower, out = rows[i, j], rows[i + 1, j], signed[i + 1, j]
                        for c in range(channels):
                            gap = upper[c] + v * (lower[c] - upper[c])
                            out[c] = g * ((one if gap > 0 else none) - (one if gap < 0 else none))
                        for c in range(channels):
                            own_grad[c] -= out[c]
                        for c in range(channels):
                            along += out[c] * (lower[c] - upper[c])
                across = none
                for i in range(side + 1):
                    for j in range(side):
                        a, p, out = second[b, t + i, e + j], second[b, t + i, e + j + 1], by_rows[j + 1]
                        above, below = signed[i, j], signed[i + 1, j]
                        for c in range(channels):
                            out[c] = v * above[c] + (one - v) * below[c]
                        for c in range(channels):
                            across += out[c] * (p[c] - a[c])
                    for j in range(side + 1):
                        before, after, out = by_rows[j], by_rows[j + 1], by_second[b, t + i, e + j]
                        for c in range(channels):
                            out[c] += u * before[c] + (one - u) * after[c]
                by_flow[b, 0, y, x] = across
                by_flow[b, 1, y, x] = along
