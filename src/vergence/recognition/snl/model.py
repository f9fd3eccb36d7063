"""The networks of the appendix: a backbone for pictures, clips or tracklets, and a nonlocal block in it; or a block
alone, for tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor, nn

from vergence.nn import (
    BLOCKS,
    NonlocalBlock,
    P3DResNet,
    PreResNet,
    ResNet,
    ResNet3d,
    ResNetTP,
    SharedAffinity,
    VideoTransformer,
)
from vergence.nn.probe import caught, cells
from vergence.nn.resnet3d import inflate
from vergence.nn.stages import Insert, Stages
from vergence.recognition.snl.settings import ForPictures, ForTracklets, ModelConfig


class TokenFilter(nn.Module):
    """A single nonlocal block on tokens (B, N, C), linear but for its affinity: no norm, so that ``Y = X + F(A, Z)``.

    Without a block, F looks at the token alone: ``X + X W``.
    """

    def __init__(self, width: int, insert: Insert | None) -> None:
        super().__init__()
        self.block = insert(width) if insert else None
        self.alone = None if insert else nn.Linear(width, width, bias=False)
        for module in self.modules():
            if isinstance(module, NonlocalBlock):
                module.norm = nn.Identity()

    @property
    def inserted(self) -> dict[str, nn.Module]:
        return {"block": self.block} if self.block is not None else {}

    def forward(self, x: Tensor) -> Tensor:
        if self.block is None:
            assert self.alone is not None
            return x + self.alone(x)
        seen: Tensor = self.block(x.mT.unsqueeze(2))  # a map of one row
        return seen.squeeze(2).mT


Network = Stages | VideoTransformer | TokenFilter
"""A network that takes nonlocal blocks; ``inserted`` has them by place."""

_MAKERS: Mapping[str, Callable[..., Network]] = {
    # One block per stage and half the width: its receptive field must not span both sides of a picture.
    "preresnet-tiny": partial(PreResNet, depths=(1, 1, 1), widths=(8, 16, 32)),
    "preresnet20": partial(PreResNet, depths=(3, 3, 3)),
    # What the authors call PreResNet-56: nine bottlenecks per stage, 83 layers.
    "preresnet56-bottleneck": partial(PreResNet, depths=(9, 9, 9), block="bottleneck"),
    # The usual PreResNet-56: nine basic blocks per stage, no 1x1 convolution before the average.
    "preresnet56-basic": partial(PreResNet, depths=(9, 9, 9), head="plain"),
    "resnet18": partial(ResNet, depths=(2, 2, 2, 2), block="basic"),
    "resnet50": partial(ResNet, depths=(3, 4, 6, 3), block="bottleneck"),
    "i3d-tiny": partial(ResNet3d, depths=(1, 1, 1), widths=(4, 8, 16), stem="small"),
    "i3d50": ResNet3d,
    "resnext3d-tiny": partial(ResNet3d, depths=(1, 1, 1), widths=(8, 16, 32), stem="small", groups=4, expansion=2),
    # The network of MARS: the ResNeXt-101 of the public 3D ResNets.
    "resnext3d101": partial(ResNet3d, depths=(3, 4, 23, 3), widths=(128, 256, 512, 1024), groups=32, expansion=2),
    "p3d-tiny": partial(P3DResNet, depths=(1, 1, 1), widths=(4, 8, 16), stem="small"),
    "p3d63": P3DResNet,
    "p3d199": partial(P3DResNet, depths=(3, 8, 36, 3)),
    "vtn-tiny": partial(VideoTransformer, depths=(1, 1), widths=(16, 32), layers=2, heads=2, tokens="places"),
    "vtn": VideoTransformer,
    "resnet-tp-tiny": partial(ResNetTP, depths=(1, 1, 1), widths=(16, 32, 48), block="basic", last_stride=1),
    "resnet50-tp": ResNetTP,
}
_WITH_DROPOUT = ("preresnet", "i3d", "resnext3d", "p3d", "vtn")


def build(model: ModelConfig, classes: int) -> Network:
    """Builds the network for ``classes`` classes, or for tokens that are so many channels wide."""
    options: dict[str, Any] = {}
    insert = _insert(model)
    if model.backbone == "tokens":
        return TokenFilter(classes, insert)
    if model.backbone.startswith("vtn"):
        options["mixer"] = insert or "attention"
    else:
        options |= {"at": model.at, "insert": insert}
    if model.backbone.startswith(_WITH_DROPOUT):
        options["dropout"] = model.dropout
    if model.backbone in get_args(ForTracklets):
        options["block_over"] = model.over
    network = _MAKERS[model.backbone](classes, **options)
    if model.backbone in get_args(ForPictures):
        # A quarter faster on a CPU; and tokens (B, N, C) are then a view of the map.
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _insert(model: ModelConfig) -> Insert | None:
    if model.block == "none":
        return None
    block = partial(BLOCKS[model.block], inner=model.inner or None)
    return block if model.units == 1 else lambda channels: SharedAffinity(channels, block, model.units)


def load_backbone(network: Network, state: Mapping[str, Tensor]) -> str:
    """Loads published weights into the backbone; those of an image network are inflated for backbones that take clips.
    Returns a sentence that says which weights are new."""
    backbone = network.encoder if isinstance(network, VideoTransformer) else network
    new = inflate(backbone, state)
    parts = "blocks" if "fc.weight" in set(backbone.state_dict()) - set(new) else "blocks and classifier"
    missing = [
        name
        for name in new
        if ".after_" not in name and not name.startswith("fc.") and not name.endswith("num_batches_tracked")
    ]
    others = f"; {len(missing)} more weights are new, the first {missing[0]}" if missing else ""
    return f"the backbone starts from trained weights; {parts} are new{others}"


def blocks(network: Network) -> dict[str, NonlocalBlock | SharedAffinity]:
    """The nonlocal blocks of a network, by place."""
    kinds = (NonlocalBlock, SharedAffinity)
    return {place: block for place, block in network.inserted.items() if isinstance(block, kinds)}


def attention(
    network: Network, pictures: Tensor, points: Sequence[tuple[float, float]]
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """The logits for pictures (B, 3, H, W) or clips (B, T, 3, H, W), the attention maps of ``points`` for every
    nonlocal block, (B, P, h, w) or (B, P, t, h, w), and the feature maps that went into the blocks.

    Points are (x, y) as fractions of the width and height; of a clip, in its middle frame.
    """
    inserted = blocks(network)
    logits, inputs = caught(inserted, lambda: network(pictures), inputs=True)
    maps = {place: inserted[place].attention(x, cells(x, points)) for place, x in inputs.items()}
    return logits, maps, inputs
