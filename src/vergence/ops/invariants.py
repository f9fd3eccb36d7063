"""Invariants of shapes from moments, projections and traces: the baselines of the line integral transform.

Images are (B, H, W) of values from 0 to 1; all functions are differentiable in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from vergence.ops.lines import (
    Functional,
    directions,
    fourier_invariants,
    integral,
    line_offsets,
    normalise_rows,
    polar_moments,
    square_root,
    supports,
    trace_transform,
)
from vergence.ops.precision import wide

LINES = 64
"""Lines per direction across a shape."""
TINY = 1e-12


# Moments --------------------------------------------------------------------------------------------------------------


def central_moments(images: Tensor, order: int = 3) -> Tensor:
    """Central moments (B, order + 1, order + 1) by the powers of x and y, divided by the area to the power of
    ``1 + (p + q) / 2``: those of a shape of area 1. An empty image has zeros."""
    images = wide(images)
    area = images.sum((1, 2))
    scale = torch.where(area > 0, area, 1.0)
    powers = []
    for axis in (2, 1):
        place = torch.arange(images.shape[axis], device=images.device, dtype=images.dtype)
        mass = images.sum(3 - axis)  # along the other axis
        centred = (place - (mass @ place / scale).unsqueeze(1)) / scale.sqrt().unsqueeze(1)
        powers.append(torch.stack([centred**p for p in range(order + 1)], 2))  # (B, side, order + 1)
    return torch.einsum("bhw,bwp,bhq->bpq", images, *powers) / scale.view(-1, 1, 1)


def affine_moment_invariants(images: Tensor) -> Tensor:
    """The four affine moment invariants (B, 4) of Flusser and Suk (1993), each the root of its degree, with its sign:
    they are linear in the moments then, and of similar size."""
    m = central_moments(images)
    m20, m11, m02 = m[:, 2, 0], m[:, 1, 1], m[:, 0, 2]
    m30, m21, m12, m03 = m[:, 3, 0], m[:, 2, 1], m[:, 1, 2], m[:, 0, 3]
    second = m20 * m02 - m11**2
    third = -(m30**2) * m03**2 + 6 * m30 * m21 * m12 * m03 - 4 * m30 * m12**3 - 4 * m21**3 * m03 + 3 * m21**2 * m12**2
    mixed = m20 * (m21 * m03 - m12**2) - m11 * (m30 * m03 - m21 * m12) + m02 * (m30 * m12 - m21**2)
    fifth = (
        m20**3 * m03**2 - 6 * m20**2 * m11 * m12 * m03 - 6 * m20**2 * m02 * m21 * m03 + 9 * m20**2 * m02 * m12**2
        + 12 * m20 * m11**2 * m21 * m03 + 6 * m20 * m11 * m02 * m30 * m03 - 18 * m20 * m11 * m02 * m21 * m12
        - 8 * m11**3 * m30 * m03 - 6 * m20 * m02**2 * m30 * m12 + 9 * m20 * m02**2 * m21**2
        + 12 * m11**2 * m02 * m30 * m12 - 6 * m11 * m02**2 * m30 * m21 + m02**3 * m30**2
    )  # fmt: skip
    pairs = ((second, 2), (third, 4), (mixed, 3), (fifth, 5))
    return torch.stack([_signed_root(value, degree) for value, degree in pairs], 1)


def _signed_root(value: Tensor, degree: int) -> Tensor:
    size = torch.where(value == 0, 1.0, value.abs()) ** (1 / degree)
    return value.sign() * size


# Projections ----------------------------------------------------------------------------------------------------------


def projections(
    images: Tensor, count: int = 90, lines: int = LINES, functional: Functional = integral
) -> tuple[Tensor, Tensor]:
    """A functional (..., B, L, J) of images along L equally spaced lines across the shape in J = ``count`` directions
    over half a circle, and the distance (B, J) between lines; zero for an empty image."""
    images = wide(images)
    angles = directions(2 * count, images)
    support = supports(images, angles)
    empty = ~support.isfinite().all(-1)
    support = torch.where(empty.unsqueeze(-1), 0.0, support)
    ratios = (2 * torch.arange(lines, device=images.device) + 1 - lines) / lines
    offsets = line_offsets(support, ratios)[..., :count]
    width = (-support.roll(-count, -1) - support)[:, :count]
    traced = [
        trace_transform(image, offset, angles[:count], functional)
        for image, offset in zip(images.split(1), offsets.split(1), strict=True)
    ]
    values = torch.cat(traced, -3)
    return torch.where(empty.view(-1, 1, 1), 0.0, values), width / lines


def r_transform(images: Tensor, count: int = 90) -> Tensor:
    """The R-transform (Tabbone et al., 2006) as invariants (B, count // 2): Fourier magnitudes of the integral of the
    squared Radon transform over offsets, as shares of the zeroth. Invariant to similarities only."""
    values, spacing = projections(images, count)
    return fourier_invariants((values**2).sum(1) * spacing)[:, 1:]


def weight_triples(parts: int = 4) -> list[tuple[float, float, float]]:
    """Weights (α, β, γ) that sum to 1, α ≥ β ≥ γ, where β and γ are multiples of ``1 / parts`` from -1 to 1: 29 with
    four parts, without the trivial (1, 0, 0)."""
    pairs = [(b, c) for c in range(-parts, parts + 1) for b in range(c, parts + 1) if parts - b - c >= b]
    return [((parts - b - c) / parts, b / parts, c / parts) for b, c in pairs if (b, c) != (0, 0)]


def multiscale_autoconvolution(
    images: Tensor, triples: Sequence[tuple[float, float, float]] | None = None, count: int = 90, waves: int = 256
) -> Tensor:
    """Multi-scale autoconvolution (Rahtu, Salo and Heikkilä, 2005), (B, T): the probability that
    ``α X₁ + β X₂ + γ X₀`` of three random points of the shape lies in the shape, for each triple (α, β, γ).

    By Parseval it is an integral of products of the Fourier transform at scaled frequencies. In polar coordinates those
    lie on one ray, and a ray is the transform of one projection. It is affine-invariant, and 1 for a convex shape if no
    weight is negative.
    """
    triples = weight_triples() if triples is None else triples
    values, spacing = projections(images, count)  # (B, L, J)
    lines = values.shape[1]
    mass = values.sum(1, keepdim=True)
    density = values / torch.where(mass > 0, mass, 1.0)
    # Frequencies are relative to the width of the shape in each direction, so that one matrix serves all of them.
    step = math.pi / 8
    waves_ = step * torch.arange(waves, device=values.device, dtype=values.dtype)
    place = torch.arange(lines, device=values.device, dtype=values.dtype) / lines
    scales = {abs(scale) for triple in triples for scale in triple} | {1.0}
    rays: dict[float, Tensor] = {}
    for scale in scales:
        phase = scale * waves_[:, None] * place  # (M, L)
        ray = torch.complex(phase.cos(), -phase.sin()) @ density.to(torch.complex(phase, phase).dtype)  # (B, M, J)
        rays[scale], rays[-scale] = ray, ray.conj()
    width = spacing * lines
    area = (mass[:, 0] * spacing).mean(-1)
    share = area.unsqueeze(1) / torch.where(width > 0, width, 1.0) ** 2  # (B, J): of r dr = ν dν / width²
    found = []
    for triple in triples:
        product = rays[1.0].conj()
        for scale in triple:
            product = product * (rays[scale] if scale else 1.0)
        # The trapezoidal rule for ∫ ν g(ν) dν, with its first correction where |ν| has a kink.
        radial = (product.real * waves_[:, None]).sum(1) * step + product.real[:, 0] * step**2 / 12
        found.append((radial * share).sum(-1) * (2 * math.pi / count) / (2 * math.pi) ** 2)
    return torch.stack(found, 1)


# The trace transform's triple features --------------------------------------------------------------------------------


def _traces(values: Tensor, step: Tensor) -> Tensor:
    """Two trace functionals (2, ..., J), which grow as the length of the line: the integral, and the cube root of the
    second central moment."""
    length, mass = step[..., 0], values.sum(-1)
    safe = torch.where(mass > TINY, mass, 1.0)
    place = torch.arange(values.shape[-1], device=values.device, dtype=values.dtype)
    place = place - place.mean()
    variance = (values @ place**2) / safe - ((values @ place) / safe) ** 2
    moment = (mass * length**3 * variance).clamp(min=TINY) ** (1 / 3)
    return torch.stack([mass * length, torch.where(mass > TINY, moment, 0.0)])


def _diametric(traced: Tensor, spacing: Tensor) -> list[tuple[Tensor, float]]:
    """Diametric functionals (..., J) of traces (..., L, J): maximum, total variation, two norms, and the mean distance
    from the centre of mass. Beside each the power of ``‖Aᵀθ‖`` by which an affine map A multiplies it.

    (The variance would be useless: that of a Radon transform is a quadratic form of θ for every shape.)
    """
    lines = traced.mT
    share = lines / lines.sum(-1, keepdim=True).clamp(min=TINY)
    place = torch.arange(lines.shape[-1], device=lines.device, dtype=lines.dtype)
    away = (place - (share @ place).unsqueeze(-1)).abs()
    return [
        (lines.amax(-1), -1.0),
        (lines.diff(dim=-1).abs().sum(-1), -1.0),
        (((lines**2).sum(-1) * spacing).clamp(min=TINY) ** (1 / 2), 1 / 2 - 1),
        (((lines**4).sum(-1) * spacing).clamp(min=TINY) ** (1 / 4), 1 / 4 - 1),
        ((share * away).sum(-1) * spacing, 1.0),
    ]


def triple_features(images: Tensor, count: int = 90, harmonics: int = 12) -> Tensor:
    """Affine-invariant triple features of the trace transform (Petrou and Kadyrov, 2004), a subset: two trace
    functionals, five diametric ones, and as circus functionals the magnitudes of harmonics: (B, 10 * harmonics).

    A map ``x' = A x + s`` multiplies the length of a line by ``|det A| / ‖Aᵀθ‖`` and the distance between lines by
    ``‖Aᵀθ‖``, so it multiplies the circus function of two functionals by a known power of ``‖Aᵀθ‖``. Raised to the
    power that makes this ``‖Aᵀθ‖⁻¹``, the function is the radius of a region that A maps linearly, and is normalised as
    the rows of the line integral transform are.
    """
    traced, spacing = projections(images, count, functional=_traces)  # (2, B, L, J)
    features = []
    for values in traced:
        for circus, power in _diametric(values, spacing):
            radius = torch.where(circus > TINY, circus.clamp(min=TINY) ** (-1 / power), 0.0)
            radius = radius / radius.amax(-1, keepdim=True).clamp(min=TINY)  # the factor cancels below
            whole = torch.cat([radius, radius], -1)  # opposite directions see the same lines
            normalised = normalise_rows(whole, square_root(polar_moments(whole)))
            features.append(fourier_invariants(normalised)[:, 2 : 2 * harmonics + 1 : 2])
    return torch.cat(features, 1)
