"""The descriptors: the line integral transform with its ablations, and the baselines, as vectors compared by L1."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vergence.ops.invariants import (
    affine_moment_invariants,
    multiscale_autoconvolution,
    r_transform,
    triple_features,
)
from vergence.ops.lines import (
    binding_integrals,
    directions,
    fourier_invariants,
    normalise_rows,
    polar_moments,
    signature,
    square_root,
    trace_transform,
)
from vergence.retrieval.lineintegral.settings import Method, ModelConfig
from vergence.retrieval.masks import prepared

STANDARDISED: tuple[Method, ...] = ("ami", "msa", "trace")
"""Descriptors of features that differ in size: each is divided by its standard deviation in the gallery."""
REACH = 2.0
"""Fixed lines: the farthest distance from the centroid, in roots of the area."""


def ratios(config: ModelConfig) -> Tensor:
    """The ratios μ (K,) of lines; 1, the binding line, only touches a shape and is left out."""
    places = torch.arange(config.rows, dtype=torch.float64)
    return (places + (0.5 if config.grid == "centres" else 0.0)) / config.rows


def transform(image: Tensor, config: ModelConfig) -> Tensor:
    """Chord lengths ``Ψ`` (K, N) of a shape (H, W) along the config's lines (Eq. 13)."""
    if config.lines == "binding":
        return binding_integrals(image[None], ratios(config).to(image.device), config.angles)[0]
    return _fixed_lines(image, config)


def _fixed_lines(image: Tensor, config: ModelConfig) -> Tensor:
    """A Radon transform at K distances from the centroid, which are the same in every direction."""
    angles = directions(config.angles, image)
    area = image.sum()
    x, y = (torch.arange(side, device=image.device, dtype=image.dtype) for side in (image.shape[1], image.shape[0]))
    centre = torch.stack([image.sum(0) @ x, image.sum(1) @ y]) / area.clamp(min=1e-12)
    middle = centre @ torch.stack([angles.cos(), angles.sin()])
    far = REACH * area.sqrt() * ratios(config).to(image)
    return trace_transform(image[None], (middle - far[:, None])[None], angles)[0]


def normalised(rows: Tensor, config: ModelConfig) -> Tensor:
    """Rows ``Ψ̇`` (K, N) after the affine normalisation (Eq. 24), or as they are."""
    if config.normalisation == "none":
        return rows
    moments = polar_moments(rows if config.power == 4 else rows.sqrt())
    if config.normalisation == "whole":
        moments = moments.sum(0, keepdim=True).expand_as(moments)
    return normalise_rows(rows, square_root(moments))


def invariants(image: Tensor, config: ModelConfig) -> Tensor:
    """The matrix of invariants (K, N // 2 + 1) of a shape (H, W): Fourier magnitudes of each row over the zeroth."""
    return fourier_invariants(normalised(transform(image, config), config))


def describe_image(image: Tensor, config: ModelConfig) -> Tensor:
    """The descriptor (D,) of a shape in an image (H, W) of values from 0 to 1, as it is; differentiable in it."""
    if config.method == "lit":
        return signature(invariants(image, config), config.angles)
    baseline = {
        "ami": affine_moment_invariants,
        "msa": multiscale_autoconvolution,
        "r-transform": r_transform,
        "trace": triple_features,
    }[config.method]
    return baseline(image[None])[0]


def describe(mask: Tensor, config: ModelConfig | None = None) -> Tensor:
    """The descriptor (D,) of the shape of a mask (H, W), cropped and resized first. The distance of two is L1::

    (describe(first) - describe(second)).abs().sum()
    """
    config = config or ModelConfig()
    return describe_image(prepared(mask, config.size), config).float()


def scales(method: Method, gallery: Tensor) -> Tensor:
    """What each feature (D,) of descriptors (N, D) is divided by before they are compared."""
    if method not in STANDARDISED or len(gallery) < 2:
        return gallery.new_ones(gallery.shape[1])
    spread = gallery.std(0)
    return torch.where(spread > 1e-9, spread, 1.0)


def shown(descriptor: Tensor, config: ModelConfig) -> Tensor:
    """A descriptor as a matrix to look at, (K, N / 2) for the line integral transform: centre lines at the top, low
    frequencies at the left."""
    if config.method == "lit":
        return descriptor.view(config.rows, -1)
    columns = math.ceil(math.sqrt(len(descriptor)))
    padded = torch.nn.functional.pad(descriptor, (0, -len(descriptor) % columns))
    return padded.view(-1, columns)
