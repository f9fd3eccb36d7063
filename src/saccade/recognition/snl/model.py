"""The classifiers of the appendix: a residual network with one nonlocal block after a residual block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.nn import BLOCKS, PreResNet, ResNet, SharedAffinity
from saccade.nn.stages import Insert, Stages

Block = Literal[
    "none", "nl", "nl-gaussian", "nl-dot", "nl-concatenation", "ns", "a2", "cgnl", "cgnl-dot", "cc", "cc-twice", "snl",
    "gsnl", "chebysnl", "cayleysnl", "cayleysnl-relu", "cayleyexact",
]  # fmt: skip

Backbone = Literal[
    "preresnet-tiny", "preresnet20", "preresnet56-bottleneck", "preresnet56-basic", "resnet18", "resnet50"
]

_PRERESNETS: Mapping[str, Mapping[str, Any]] = {
    # One block a stage and half the width: it must not see from one side of a picture to the other.
    "preresnet-tiny": {"depths": (1, 1, 1), "widths": (8, 16, 32)},
    "preresnet20": {"depths": (3, 3, 3)},
    # What the authors call PreResNet-56: nine bottlenecks a stage, 83 layers.
    "preresnet56-bottleneck": {"depths": (9, 9, 9), "block": "bottleneck"},
    # What is usually called so: nine basic blocks a stage, no 1x1 convolution before the average.
    "preresnet56-basic": {"depths": (9, 9, 9), "head": "plain"},
}
_RESNETS: Mapping[str, Mapping[str, Any]] = {
    "resnet18": {"depths": (2, 2, 2, 2), "block": "basic"},
    "resnet50": {"depths": (3, 4, 6, 3), "block": "bottleneck"},
}


@dataclass(frozen=True)
class Model:
    """Which network, which block, and where."""

    backbone: Backbone = "preresnet56-bottleneck"
    """The residual network."""
    block: Block = "snl"
    """The nonlocal block."""
    at: tuple[str, ...] = ("layer1.1",)
    """The residual blocks it comes after: layer1.1 is the second of the first stage."""
    inner: int = 0
    """Width of the block's embeddings (0: half its channels; of criss-cross, an eighth)."""
    units: int = 1
    """Blocks in a row at each place, with one affinity for all of them."""
    dropout: float = 0.5
    """Before the classifier of a PreResNet."""

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise SaccadeError(f"dropout is a share from 0 to below 1, got {self.dropout}")
        if not 0 <= self.inner <= 65_536:
            raise SaccadeError(f"inner is a number of channels (0: half of the block's), got {self.inner}")
        if not 1 <= self.units <= 1000:
            raise SaccadeError(f"units is a number of blocks, at least 1, got {self.units}")


def build(model: Model, classes: int) -> Stages:
    """The network for so many classes."""
    insert: Insert | None = None
    if model.block != "none":
        kind = BLOCKS[model.block]

        def insert(channels: int) -> nn.Module:
            made = partial(kind, inner=model.inner or None)
            return made(channels) if model.units == 1 else SharedAffinity(channels, made, model.units)

    network: Stages
    if model.backbone in _RESNETS:
        network = ResNet(classes, at=model.at, insert=insert, **_RESNETS[model.backbone])
    else:
        network = PreResNet(classes, dropout=model.dropout, at=model.at, insert=insert, **_PRERESNETS[model.backbone])
    # A quarter faster on a CPU; and tokens (B, N, C) are then the map as it lies in memory.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def attention(
    network: Stages, images: Tensor, points: Sequence[tuple[float, float]]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits of images (B, 3, H, W), and for every inserted block what ``points`` look at, (B, P, h, w).

    Points are (x, y) as shares of the width and height.
    """
    seen: dict[str, Tensor] = {}

    def keep(place: str) -> Any:
        def hook(block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            height, width = inputs[0].shape[-2:]
            index = [min(int(y * height), height - 1) * width + min(int(x * width), width - 1) for x, y in points]
            seen[place] = block.attention(inputs[0], torch.tensor(index, device=images.device))  # type: ignore[operator]

        return hook

    hooks = [block.register_forward_pre_hook(keep(place)) for place, block in network.inserted.items()]
    try:
        logits = network(images)
    finally:
        for hook in hooks:
            hook.remove()
    return logits, seen
