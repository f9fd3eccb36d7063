"""Attention over channels and places of a feature map: voxel attention (Ji et al., ECCV 2020) and CBAM (Woo et al.,
2018), each with either half alone.

All of them keep the shape of the map, so that they go behind any trunk.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Halves = Literal["both", "channels", "places"]


class VoxelAttention(nn.Module):
    """``a = v f`` with ``v = S x C``: a softmax S over places of the mean over channels, and a gate C for each channel
    from its mean over places (Eqs. 1-3). ``places`` alone has no parameters; the others have ``2 channels inner``."""

    def __init__(self, channels: int, inner: int = 800, halves: Halves = "both") -> None:
        super().__init__()
        self.halves = halves
        if halves != "places":
            self.squeeze = nn.Linear(channels, inner, bias=False)
            self.excite = nn.Linear(inner, channels, bias=False)

    def over_places(self, f: Tensor) -> Tensor:
        """S (B, 1, H, W), with sum 1 over places."""
        return f.mean(1).flatten(1).softmax(1).view(len(f), 1, *f.shape[2:])

    def over_channels(self, f: Tensor) -> Tensor:
        """C (B, channels, 1, 1), from 0 to 1."""
        gate = self.excite(self.squeeze(f.mean((2, 3))).relu()).sigmoid()
        return gate[:, :, None, None]

    def forward(self, f: Tensor) -> Tensor:
        """(B, channels, H, W) to the same shape."""
        if self.halves != "channels":
            f_places = self.over_places(f)
            return f * f_places if self.halves == "places" else f * f_places * self.over_channels(f)
        return f * self.over_channels(f)


class CBAM(nn.Module):
    """Gates of channels, from their means and maxima over places through one network, and then of places, from means
    and maxima over channels through a 7 x 7 convolution."""

    def __init__(self, channels: int, reduction: int = 16, kernel: int = 7) -> None:
        super().__init__()
        inner = max(channels // reduction, 1)
        self.network = nn.Sequential(nn.Linear(channels, inner), nn.ReLU(), nn.Linear(inner, channels))
        self.conv = nn.Conv2d(2, 1, kernel, padding=kernel // 2)

    def forward(self, f: Tensor) -> Tensor:
        """(B, channels, H, W) to the same shape."""
        gate = (self.network(f.mean((2, 3))) + self.network(f.amax((2, 3)))).sigmoid()
        f = f * gate[:, :, None, None]
        return f * self.conv(torch.stack([f.mean(1), f.amax(1)], 1)).sigmoid()
