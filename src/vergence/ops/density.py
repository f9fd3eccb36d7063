"""Displacements as densities over a grid of whole ones (HD³: Yin, Darrell and Yu, CVPR 2019), and losses over pixels.

A density (B, (2r + 1)², H, W) has one bin per displacement, by rows.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def vector2density(vector: Tensor, reach: int) -> Tensor:
    """Displacements (B, 2, H, W), clamped to ``reach``, shared out bilinearly among their four nearest bins."""
    side = 2 * reach + 1
    bins = torch.arange(-reach, reach + 1, dtype=vector.dtype, device=vector.device).view(1, -1, 1, 1)
    x, y = ((1 - (axis.unsqueeze(1) - bins).abs()).clamp_min(0) for axis in vector.clamp(-reach, reach).unbind(1))
    return (y.unsqueeze(2) * x.unsqueeze(1)).view(len(vector), side * side, *vector.shape[2:])


def density2vector(logits: Tensor) -> Tensor:
    """Displacements (B, 2, H, W) of densities given by logits: the mean over the 2 x 2 bins with the largest mass.
    Differentiable, but for the choice of the bins."""
    side = math.isqrt(logits.shape[1])
    reach = side // 2
    mass = logits.softmax(1).unflatten(1, (side, side))  # (B, rows, columns, H, W)
    pairs = mass[:, :, :-1] + mass[:, :, 1:]
    corner = (pairs[:, :-1] + pairs[:, 1:]).flatten(1, 2).argmax(1, keepdim=True)
    top, left = corner // (side - 1), corner % (side - 1)
    first = top * side + left
    flat = mass.flatten(1, 2)
    a, b, c, d = (flat.gather(1, first + step) for step in (0, 1, side, side + 1))
    whole = a + b + c + d
    x, y = left - reach + (b + d) / whole, top - reach + (c + d) / whole
    return torch.cat([x, y], 1)


def confidence(logits: Tensor) -> Tensor:
    """The mass of the 2 x 2 bins that :func:`density2vector` takes, (B, H, W), from 0 to 1."""
    side = math.isqrt(logits.shape[1])
    mass = logits.softmax(1).unflatten(1, (side, side))
    pairs = mass[:, :, :-1] + mass[:, :, 1:]
    return (pairs[:, :-1] + pairs[:, 1:]).flatten(1, 2).amax(1)


def divergence(logits: Tensor, target: Tensor) -> Tensor:
    """The Kullback-Leibler divergence of ``target`` densities from those of logits, per pixel: (B, H, W)."""
    return (torch.special.xlogy(target, target) - target * F.log_softmax(logits, 1)).sum(1)


def loss_max_pooling(losses: Tensor, share: float, valid: Tensor | None = None) -> Tensor:
    """The mean of the highest ``share`` of the losses of valid pixels, of each image (B, ...) and then over images: the
    maximum of ``Σ w ℓ`` over weights with ``|w|₁ ≤ 1`` and ``|w|∞ ≤ 1 / (share n)`` (Rota Bulò et al., CVPR 2017)."""
    if not 0 < share <= 1:
        raise ValueError(f"the share of pixels is above 0 and at most 1, got {share:g}")
    flat = losses.flatten(1)
    mask = torch.ones_like(flat) if valid is None else valid.flatten(1).to(flat.dtype)
    count = mask.sum(1, keepdim=True)
    if share == 1:
        return ((flat * mask).sum(1, keepdim=True) / count.clamp_min(1)).mean()
    masked = torch.where(mask > 0, flat, torch.full_like(flat, -math.inf))
    ordered = masked.sort(1, descending=True).values
    # Whole weights for the first ⌊share n⌋ pixels and the rest for the next one.
    budget = (share * count).clamp_min(torch.finfo(flat.dtype).tiny)
    rank = torch.arange(flat.shape[1], dtype=flat.dtype, device=flat.device)
    weight = (budget - rank).clamp(0, 1) * (ordered > -math.inf)
    kept = torch.where(weight > 0, ordered, torch.zeros_like(ordered))
    return ((kept * weight).sum(1, keepdim=True) / budget * (count > 0)).mean()
