"""Saliency of people: maps of the body and of its joints, predicted from a feature map, and pooling by them (He and
Liu, ECCV 2020)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

Fusion = Literal["mean", "product", "mask", "pose"]


class Saliency(NamedTuple):
    """What a head predicts for (B, C, H, W)."""

    mask: Tensor
    """(B, H, W): where the person is, from 0 to 1."""
    parts: Tensor
    """(B, parts, H, W): where the joints are."""


class SaliencyHead(nn.Module):
    """A 1 x 1 convolution for the mask and one for the parts: ``channels (1 + parts) + 1 + parts`` parameters."""

    def __init__(self, channels: int, parts: int = 13) -> None:
        super().__init__()
        self.mask = nn.Conv2d(channels, 1, 1)
        self.pose = nn.Conv2d(channels, parts, 1)

    def forward(self, x: Tensor) -> Saliency:
        return Saliency(self.mask(x)[:, 0].sigmoid(), self.pose(x).sigmoid())


def fused(found: Saliency, fusion: Fusion = "mean") -> Tensor:
    """One map (B, H, W) with sum one: the mask, the sum of the parts, or both, each scaled to a largest value of one
    before they are averaged or multiplied."""
    mask, pose = found.mask, found.parts.sum(1)
    if fusion in ("mean", "product"):
        mask, pose = (m / m.amax((1, 2), keepdim=True).clamp(min=1e-6) for m in (mask, pose))
    maps = {"mask": mask, "pose": pose, "mean": (mask + pose) / 2, "product": mask * pose}[fusion]
    return maps / maps.sum((1, 2), keepdim=True).clamp(min=1e-6)


def saliency_pool(x: Tensor, saliency: Tensor) -> Tensor:
    """Weighted sums (B, C) of (B, C, H, W) by maps (B, H, W), whose sums are one."""
    return torch.einsum("bchw,bhw->bc", x, saliency)


def map_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """The Frobenius norm of the difference of maps (B, ..., H, W), averaged over the batch (Eqs. 1 and 2); its gradient
    is finite where the maps are equal."""
    squared = (predicted - target).square().flatten(1).sum(1)
    return ((squared + 1e-12).sqrt() - 1e-6).mean()
