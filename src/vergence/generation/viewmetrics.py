"""Pictures made for a view against the real ones: differences, what is nearest, and what a code says of its view."""

from __future__ import annotations

import math

import torch
from skimage.metrics import structural_similarity
from torch import Tensor

RIDGE = 1e-2
"""Of the linear probe, relative to the mean square of the codes."""


def as_bytes(pictures: Tensor) -> Tensor:
    """Pictures from -1 to 1 as bytes, on the CPU."""
    return ((pictures.float().cpu() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def difference(one: Tensor, other: Tensor) -> Tensor:
    """Mean absolute difference of bytes (B, 3, S, S), (B,), from 0 to 255."""
    return (one.double() - other.double()).abs().flatten(1).mean(1)


def similarity(one: Tensor, other: Tensor) -> Tensor:
    """SSIM of bytes (B, 3, S, S), (B,): scikit-image's, mean over colours."""
    pairs = zip(one.numpy(), other.numpy(), strict=True)
    values = [structural_similarity(a, b, channel_axis=0, data_range=255) for a, b in pairs]  # type: ignore[no-untyped-call]
    return torch.tensor(values, dtype=torch.float64)


def nearest(made: Tensor, real: Tensor, group: Tensor) -> float:
    """Per cent of pictures whose nearest real one (L1) within their group is their own."""
    right = []
    for key in group.unique():
        own = (group == key).nonzero().flatten()
        if len(own) > 1:
            one, other = (side[own].flatten(1).float() for side in (made, real))
            right.append(torch.cdist(one, other, p=1).argmin(1) == torch.arange(len(own)))
    return 100 * mean_of(torch.cat(right)) if right else math.nan


def others_mean(real: Tensor, group: Tensor) -> float:
    """L1 of the mean of all other objects in the same view: what a picture costs that ignores its input."""
    parts = []
    for key in group.unique():
        own = real[group == key].double()
        if len(own) > 1:
            parts.append(difference((own.sum(0) - own) / (len(own) - 1), own))
    return mean_of(torch.cat(parts)) if parts else math.nan


def probe(codes: Tensor, views: Tensor, objects: Tensor) -> float:
    """Per cent of views that ridge regression on the codes (N, d) of every other object names right on the rest."""
    _, place = objects.unique(return_inverse=True)
    known = place % 2 == 0
    if known.all() or not known.any():
        return math.nan
    width = int(views.max()) + 1
    full = torch.cat([codes, torch.ones(len(codes), 1, dtype=codes.dtype)], 1)
    x, y = full[known], torch.eye(width, dtype=codes.dtype)[views[known]]
    square = x.mT @ x
    ridge = RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=codes.dtype)
    weights = torch.linalg.solve(square + ridge, x.mT @ y)
    return 100 * mean_of((full[~known] @ weights).argmax(1) == views[~known])


def mean_of(values: Tensor) -> float:
    return float(values.double().mean())
