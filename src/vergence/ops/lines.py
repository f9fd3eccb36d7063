"""Integrals of images along lines that a shape places itself: the line integral transform (Wang and Gao, 2020).

A line ``(λ, θ)`` holds the points with ``x cos θ + y sin θ = λ``; x points right and y down, in pixels, and the centre
of the first pixel is (0, 0). An image is zero outside, and linear between the centres of neighbouring pixels.

A line is sampled where it crosses the rows of the image, or its columns if it is flatter, so that one sample is the
mean of two neighbours in that row. That is a product and two look-ups per row crossed, for all lines of all images at
once; a rotated copy of the image, as in a Radon transform on a fixed grid, is never made.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.precision import wide

SAMPLES = {"cpu": 250_000}
"""Samples held in memory at a time, by device: on a CPU as many as its cache holds. Elsewhere :data:`MANY`."""
MANY = 64_000_000
Functional = Callable[[Tensor, Tensor], Tensor]
"""Of values (..., J, S) along lines, S samples each, and the distance (J, 1) between samples: numbers (..., J)."""


def directions(count: int, like: Tensor) -> Tensor:
    """Angles (N,) from 0 to below 2π; ``count`` is even, so that each has an opposite."""
    if count < 2 or count % 2:
        raise ValueError(f"directions come in opposite pairs, got {count}")
    turns = torch.arange(count, device=like.device, dtype=torch.float64) / count
    return (2 * math.pi * turns).to(wide(like).dtype)


def supports(images: Tensor, angles: Tensor, level: float = 0.5) -> Tensor:
    """Support functions ``σ(θ)`` (B, N) of the shapes in images (B, H, W): the least ``x cos θ + y sin θ`` of a shape,
    infinite for an empty one.

    A shape is bounded where its image, linear between pixels, crosses ``level``: half a pixel outside the last pixel of
    a mask of 0 and 1, and with sub-pixel precision in an antialiased one. The outermost crossings of each row and
    column include every corner of the convex hull. Differentiable in the image.
    """
    images = wide(images)
    cos, sin = angles.cos(), angles.sin()
    return torch.minimum(_row_supports(images, cos, sin, level), _row_supports(images.mT, sin, cos, level))


def _row_supports(images: Tensor, cos: Tensor, sin: Tensor, level: float) -> Tensor:
    inside = images >= level
    width, filled = images.shape[-1], inside.any(-1)
    rows = torch.arange(images.shape[-2], device=images.device, dtype=images.dtype)
    padded = F.pad(images, (1, 1))
    ends = []
    for step, found in ((-1, inside), (1, inside.flip(-1))):
        first = found.byte().argmax(-1, keepdim=True)
        last = first if step < 0 else width - 1 - first
        own, next_ = padded.gather(-1, last + 1), padded.gather(-1, last + 1 + step)
        share = (own - level) / torch.where(own > next_, own - next_, 1.0)  # rows without a shape are left out below
        ends.append(last + step * share)  # (B, H, 1)
    along = torch.minimum(ends[0] * cos, ends[1] * cos) + rows[:, None] * sin  # (B, H, N)
    return along.masked_fill(~filled.unsqueeze(-1), torch.inf).amin(1)


def line_offsets(support: Tensor, ratios: Tensor) -> Tensor:
    """Offsets ``Γ(μ, θ)`` (B, K, N) of lines between two binding lines (Eq. 11), for supports (B, N) over the full
    circle and ratios μ (K,): 0 is half way between the two, 1 the binding line at ``σ(θ)``."""
    opposite = support.roll(-(support.shape[-1] // 2), -1)
    middle, half = (support - opposite) / 2, (-opposite - support) / 2
    return middle.unsqueeze(-2) - ratios.to(support).unsqueeze(-1) * half.unsqueeze(-2)


def integral(values: Tensor, step: Tensor) -> Tensor:
    """The integral along a line."""
    return values.sum(-1) * step[..., 0]


def trace_transform(images: Tensor, offsets: Tensor, angles: Tensor, functional: Functional = integral) -> Tensor:
    """A functional (..., B, L, N) of images (B, H, W) along lines at ``offsets`` (B, L, N) and ``angles`` (N,).

    By default the integral: a Radon transform at any set of lines. It is differentiable in images and offsets.
    """
    if images.dim() != 3 or offsets.dim() != 3 or len(images) != len(offsets) or offsets.shape[-1:] != angles.shape:
        raise ValueError(
            f"lines of images (B, H, W) are offsets (B, L, N) and angles (N,), got {tuple(images.shape)}, "
            f"{tuple(offsets.shape)} and {tuple(angles.shape)}"
        )
    images = wide(images)
    offsets, angles = offsets.to(images.dtype), angles.to(images.dtype)
    cos, sin = angles.cos(), angles.sin()
    steep = cos.abs() >= sin.abs()
    parts, order = [], []
    for chosen, image, along, across in ((steep, images, cos, sin), (~steep, images.mT, sin, cos)):
        index = chosen.nonzero()[:, 0]
        for some in index.split(_at_once(offsets, image.shape[1])):
            parts.append(_sampled(image, offsets[..., some], along[some], across[some], functional))
            order.append(some)
    return torch.cat(parts, -1).index_select(-1, torch.cat(order).argsort())


def _at_once(offsets: Tensor, rows: int) -> int:
    """The number of directions whose samples are held at a time."""
    return max(_samples(offsets) // max(offsets.shape[0] * offsets.shape[1] * rows, 1), 1)


def _samples(like: Tensor) -> int:
    return SAMPLES.get(like.device.type, MANY)


def _sampled(images: Tensor, offsets: Tensor, cos: Tensor, sin: Tensor, functional: Functional) -> Tensor:
    """A functional along lines that cross every row: in row y at ``(λ - y sin θ) / cos θ``."""
    count, height, width = images.shape
    padded = F.pad(images, (1, 2))  # columns -1 to W + 1
    values, slopes = padded[..., :-1].flatten(), padded.diff(dim=-1).flatten()
    rows = torch.arange(height, device=images.device, dtype=torch.int32)
    start, lean = (offsets / cos + 1).unsqueeze(-1), (-sin / cos).unsqueeze(-1)
    places = torch.addcmul(start, lean, rows.to(images.dtype)).clamp_(0, width + 1)  # (B, L, J, H)
    index = places.detach().to(torch.int32)
    share = places.sub_(index).flatten()
    index += rows * (width + 2)
    index += (torch.arange(count, device=images.device, dtype=torch.int32) * (height * (width + 2))).view(-1, 1, 1, 1)
    index = index.flatten()
    sampled = torch.addcmul(values.index_select(0, index), slopes.index_select(0, index), share)
    return functional(sampled.view(places.shape), 1 / cos.abs().unsqueeze(-1))


def binding_integrals(images: Tensor, ratios: Tensor, count: int = 180) -> Tensor:
    """The line integral transform ``Ψ(μ, θ)`` (B, K, N) of images (B, H, W), at ratios μ (K,) and N = ``count`` angles
    over the full circle (Eq. 13); zero for an empty image.

    Lines at opposite angles are parallel, so only half of the directions are sampled, with twice the lines. Memory does
    not grow with the number of images beyond that of the result.
    """
    angles = directions(count, images)
    size = max(_samples(images) // max(count * len(ratios) * max(images.shape[-2:]), 1), 1)
    return torch.cat([_binding(part, ratios, angles) for part in images.split(size)])


def _binding(images: Tensor, ratios: Tensor, angles: Tensor) -> Tensor:
    support = supports(images, angles)
    offsets = line_offsets(torch.where(support.isfinite(), support, 0), ratios)
    half, rows = len(angles) // 2, len(ratios)
    both = torch.cat([offsets[..., :half], -offsets[..., half:]], 1)
    integrals = trace_transform(images, both, angles[:half])
    found = torch.cat([integrals[:, :rows], integrals[:, rows:]], 2)
    return torch.where(support.isfinite().all(-1).view(-1, 1, 1), found, 0)  # without a shape there are no lines


# Affine normalisation of rows -----------------------------------------------------------------------------------------


def polar_moments(rows: Tensor) -> Tensor:
    """Second moments (..., 2, 2) of the regions whose radius at angle θ is a row (..., N) over the full circle:
    ``1/4 ∫ Ψ⁴ θθᵀ dθ`` (Eq. 17 in polar form)."""
    angles = directions(rows.shape[-1], rows)
    unit = torch.stack([angles.cos(), angles.sin()])  # (2, N)
    pairs = torch.stack([unit[i] * unit[j] for i in (0, 1) for j in (0, 1)], 1)  # (N, 4)
    return ((wide(rows) ** 4) @ pairs).unflatten(-1, (2, 2)) * (math.pi / (2 * rows.shape[-1]))


def square_root(matrix: Tensor, floor: float = 1e-6) -> Tensor:
    """The symmetric root Δ (..., 2, 2) with ``ΔΔᵀ = M`` of positive definite matrices, in closed form: it stays
    differentiable where both eigenvalues are equal.

    A nearly singular matrix gets the root of one whose determinant is at least ``(floor trace)²``; zero stays zero.
    """
    trace = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
    determinant = matrix[..., 0, 0] * matrix[..., 1, 1] - matrix[..., 0, 1] * matrix[..., 1, 0]
    least = torch.where(trace > 0, (floor * trace) ** 2, 1.0)
    root = torch.where(trace > 0, torch.maximum(determinant, least).sqrt(), 0.0)
    scale = torch.where(trace > 0, trace + 2 * root, 1.0).sqrt()
    return (matrix + root[..., None, None] * torch.eye(2).to(matrix)) / scale[..., None, None]


def normalise_rows(rows: Tensor, roots: Tensor) -> Tensor:
    """Rows (..., N) normalised by roots (..., 2, 2) of their moments, ``Ψ(∠Δθ) / ‖Δθ‖`` (Eq. 24), linear between
    angles. Rows of a shape and of its affine image then differ by a factor and a shift, and are mirrored if it is."""
    rows = wide(rows)
    count = rows.shape[-1]
    angles = directions(count, rows)
    moved = roots @ torch.stack([angles.cos(), angles.sin()])  # (..., 2, N)
    radius = torch.linalg.vector_norm(moved, dim=-2)
    empty = radius == 0
    moved = torch.where(empty.unsqueeze(-2), 1.0, moved)  # no angle, and no gradient
    place = torch.atan2(moved[..., 1, :], moved[..., 0, :]) * (count / (2 * math.pi))
    first = place.detach().floor()
    share, index = place - first, first.long()
    low, high = (rows.gather(-1, (index + more) % count) for more in (0, 1))
    return torch.where(empty, 0.0, torch.lerp(low, high, share) / torch.where(empty, 1.0, radius))


def fourier_invariants(rows: Tensor) -> Tensor:
    """Magnitudes of the discrete Fourier transform of rows (..., N), as shares of the zeroth: (..., N // 2 + 1), whose
    first is 1. They do not change if a row is shifted, mirrored or scaled. A row of zeros gives 1, 0, 0, ..."""
    spectrum = torch.fft.rfft(wide(rows)).abs()
    empty = spectrum[..., :1] == 0
    shares = spectrum / torch.where(empty, 1.0, spectrum[..., :1])
    first = torch.arange(spectrum.shape[-1], device=rows.device) == 0
    return torch.where(empty, first.to(shares), shares)


def signature(invariants: Tensor, count: int) -> Tensor:
    """Invariants (..., K, N // 2 + 1) of rows of N = ``count`` as one vector (..., K * (N // 2)), such that the L1
    distance of two vectors is that of the whole K x N magnitudes: the zeroth is always 1, and the upper half of a
    spectrum mirrors the lower."""
    weights = invariants.new_full((invariants.shape[-1] - 1,), 2.0)
    if count % 2 == 0:
        weights[-1] = 1.0  # the highest frequency has no mirror image
    return (invariants[..., 1:] * weights).flatten(-2)
