"""PCB and PCB-RPP (Sun et al., 2018) on a residual network with attention after its stages (Sec. 3.3).

Each attention module sits between two stages and has a deep-supervision branch: the product of its input and its output
before the residual is averaged and classified. The last map is pooled into parts, by stripes or a soft part classifier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn import (
    CompressedSelfAttention2d,
    CompressedSelfAttentionLowRank2d,
    NearestLandmark2d,
    PlainLowRank2d,
    ResNet,
    SelfAttention2d,
)
from vergence.nn.probe import caught, cells
from vergence.ops import Patches
from vergence.reid.csalr.settings import ModelConfig

COMPRESSED: Mapping[str, type[CompressedSelfAttention2d]] = {
    "csa": CompressedSelfAttention2d,
    "csalr": CompressedSelfAttentionLowRank2d,
    "csalr-plain": PlainLowRank2d,
    "nearest": NearestLandmark2d,
}
_BACKBONES: Mapping[str, Mapping[str, Any]] = {
    "resnet-tiny": {"depths": (1, 1, 1, 1), "block": "basic", "widths": (16, 32, 48, 64)},
    "resnet18": {"depths": (2, 2, 2, 2), "block": "basic"},
    "resnet50": {"depths": (3, 4, 6, 3), "block": "bottleneck"},
}


class Stripes(nn.Module):
    """PCB's pooling: the mean of each of ``parts`` horizontal stripes, (B, C, H, W) to (B, parts, C)."""

    def __init__(self, parts: int) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        if self.parts > height:
            raise VergenceError(f"{self.parts} parts do not fit a map of {height} rows: make pictures higher")
        return Patches(height, width, self.parts, 1).mean(x.flatten(2).mT)


class SoftParts(nn.Module):
    """Refined part pooling: a classifier softly assigns positions to parts, (B, C, H, W) to (B, parts, C)."""

    def __init__(self, channels: int, parts: int, dropout: float) -> None:
        super().__init__()
        self.parts = parts
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Conv2d(channels // 8, parts, 1)

    def shares(self, x: Tensor) -> Tensor:
        """Soft assignment of positions to parts, (B, parts, H, W); sums to one over the parts."""
        coarse = (
            self.dropout(x).unflatten(1, (-1, 8)).mean(2)
        )  # average groups of eight channels, as the public code does
        return self.classify(coarse - coarse.mean((2, 3), keepdim=True)).softmax(1)

    def forward(self, x: Tensor) -> Tensor:
        shares = self.parts * self.shares(x).flatten(2)  # (B, parts, N)
        return shares @ x.flatten(2).mT / shares.shape[-1]


@dataclass(frozen=True)
class Answers:
    """Training outputs: logits of each part and of each deep-supervision branch, (B, classes) each."""

    parts: Sequence[Tensor]
    branches: Sequence[Tensor]


class PartNetwork(nn.Module):
    """A residual network with attention and part pooling: images to descriptors, or to logits for training."""

    def __init__(self, model: ModelConfig, classes: int, refined: bool) -> None:
        super().__init__()
        self.backbone = ResNet(0, last_stride=1, **_BACKBONES[model.backbone])
        expansion = 4 if _BACKBONES[model.backbone]["block"] == "bottleneck" else 1
        widths = [w * expansion for w in _BACKBONES[model.backbone].get("widths", (64, 128, 256, 512))]
        stages = sorted(model.stages) if model.attention != "none" else []
        self.attention = nn.ModuleDict({f"layer{s}": _attention(model, widths[s - 1]) for s in stages})
        supervised = stages if model.supervision else []
        self.supervision = nn.ModuleDict({f"layer{s}": nn.Linear(widths[s - 1], classes) for s in supervised})
        outputs = self.backbone.outputs
        self.pool: nn.Module = Stripes(model.parts)
        if refined:
            self.pool = SoftParts(outputs, model.parts, model.dropout)
        self.dropout = nn.Dropout(model.dropout)
        self.reduce = nn.Linear(outputs, model.embedding, bias=False)
        self.norm = nn.BatchNorm1d(model.embedding)
        self.classifiers = nn.ModuleList(nn.Linear(model.embedding, classes) for _ in range(model.parts))
        nn.init.kaiming_normal_(self.reduce.weight, mode="fan_out")
        for classifier in (*self.classifiers, *self.supervision.values()):
            nn.init.normal_(classifier.weight, std=0.001)
            nn.init.zeros_(classifier.bias)

    def attention_after(self, stage: str) -> SelfAttention2d:
        """The attention module of a stage that has one: ``layer1`` to ``layer4``."""
        return cast(SelfAttention2d, self.attention[stage])

    def trunk(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The last feature map (B, C, H, W), and in training the logits of the deep-supervision branches."""
        x, branches = self.backbone.stem(images), []
        for number in range(1, self.backbone.stage_count + 1):
            stage = f"layer{number}"
            x = self.backbone.get_submodule(stage)(x)
            if stage in self.attention:
                attention = self.attention_after(stage)
                mixed = attention.mix(x)
                if self.training and stage in self.supervision:
                    branches.append(self.supervision[stage]((x * mixed).mean((2, 3))))
                x = x + attention.alpha * mixed
        return x, branches

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 3, H, W) to descriptors: L2-normalised parts, concatenated, (B, parts * C)."""
        return F.normalize(self.pool(self.trunk(images)[0]), dim=-1).flatten(1)

    def answers(self, images: Tensor) -> Answers:
        """Logits for training on images (B, 3, H, W)."""
        last, branches = self.trunk(images)
        parts = self.reduce(self.dropout(self.pool(last)))  # (B, parts, embedding), weights shared by the parts
        parts = self.norm(parts.mT).mT.relu()
        return Answers([c(p) for c, p in zip(self.classifiers, parts.unbind(1), strict=True)], branches)


def _attention(model: ModelConfig, channels: int) -> SelfAttention2d:
    inner = model.inner or None
    if model.attention == "sa":
        return SelfAttention2d(channels, inner, temperature=model.temperature)
    return COMPRESSED[model.attention](channels, inner, model.landmark_grid, model.groups, model.temperature)


def build(model: ModelConfig, classes: int, refined: bool) -> PartNetwork:
    """The network for ``classes`` identities, in the channels-last layout that is fastest on CPUs and GPUs."""
    network = PartNetwork(model, classes, refined)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def refine(network: PartNetwork, model: ModelConfig) -> None:
    """Turns PCB into PCB-RPP in place: the part classifier replaces the stripes, everything else stays."""
    device = next(network.parameters()).device
    network.pool = SoftParts(network.backbone.outputs, model.parts, model.dropout).to(device)


def attended(
    network: PartNetwork, images: Tensor, points: Sequence[tuple[float, float]]
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """Descriptors of images (B, 3, H, W), the attention maps of ``points`` by stage, (B, P, h, w), and the feature maps
    (B, C, h, w) that went into each attention module.

    Points are (x, y) as fractions of the width and height.
    """
    stages = {stage: network.backbone.get_submodule(stage) for stage in network.attention}
    descriptors, seen = caught(stages, lambda: network(images))
    looks = {stage: network.attention_after(stage).attention(x, cells(x, points)) for stage, x in seen.items()}
    return descriptors, looks, seen
