"""A residual network, attention over its last map, the maximum over places and batch normalisation (Sec. 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vergence.nn.resnet import ResNet
from vergence.nn.voxel_attention import CBAM, Halves, VoxelAttention
from vergence.reid.adtc.settings import ModelConfig
from vergence.reid.rounds import Trail

_BACKBONES: Mapping[str, Mapping[str, Any]] = {
    "resnet-tiny": {"depths": (1, 1, 1, 1), "block": "basic", "widths": (16, 32, 64, 128)},
    "resnet50": {"depths": (3, 4, 6, 3), "block": "bottleneck"},
}
_HALVES: Mapping[str, Halves] = {"voxel": "both", "channel": "channels", "spatial": "places"}


class ReidNetwork(nn.Module):
    """Pictures to descriptors. The classifier exists while identities are known; the trail holds the labels of all
    rounds."""

    def __init__(self, model: ModelConfig, classes: int, rounds: int, pictures: int) -> None:
        super().__init__()
        self.backbone = ResNet(0, last_stride=model.last_stride, **_BACKBONES[model.backbone])
        channels = self.backbone.outputs
        self.attention = _attention(model, channels)
        self.norm = nn.BatchNorm1d(channels)
        self.classifier = nn.Linear(channels, classes) if classes else None
        self.trail = Trail(rounds, pictures)
        if self.classifier is not None:
            nn.init.normal_(self.classifier.weight, std=0.001)
            nn.init.zeros_(self.classifier.bias)

    def maps(self, images: Tensor) -> Tensor:
        """Images (B, 3, H, W) to the last feature map f (B, C, h, w)."""
        return self.backbone.run_stages(self.backbone.stem(images))

    def embed(self, f: Tensor) -> Tensor:
        """A feature map f (B, C, h, w) to descriptors g (B, C)."""
        return self.norm(self.attention(f).amax((2, 3)))

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 3, H, W) to descriptors g (B, C), compared by Euclidean distance."""
        return self.embed(self.maps(images))

    def places(self, f: Tensor) -> Tensor | None:
        """How strongly each place of a feature map counts, (B, h, w) with sum 1; None if attention has no such map."""
        attention = self.attention
        if isinstance(attention, VoxelAttention) and attention.halves != "channels":
            return attention.over_places(f)[:, 0]
        return None


def _attention(model: ModelConfig, channels: int) -> nn.Module:
    if model.attention == "none":
        return nn.Identity()
    if model.attention == "cbam":
        return CBAM(channels)
    return VoxelAttention(channels, model.inner, _HALVES[model.attention])


def build(model: ModelConfig, classes: int, rounds: int, pictures: int) -> ReidNetwork:
    """The network, in the channels-last layout that is fastest on CPUs and GPUs."""
    network = ReidNetwork(model, classes, rounds, pictures)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network
