"""The networks of the appendix: a backbone for pictures, clips or tracklets, and a nonlocal block in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.core.files import load_archive, load_tensors
from vergence.nn import BLOCKS, P3DResNet, PreResNet, ResNet, ResNet3d, ResNetTP, SharedAffinity, VideoTransformer
from vergence.nn.resnet3d import inflate
from vergence.nn.stages import Insert

Block = Literal[
    "none", "nl", "nl-gaussian", "nl-dot", "nl-concatenation", "ns", "a2", "cgnl", "cgnl-dot", "cc", "cc-twice", "snl",
    "gsnl", "chebysnl", "cayleysnl", "cayleysnl-relu", "cayleyexact",
]  # fmt: skip

ForPictures = Literal[
    "preresnet-tiny", "preresnet20", "preresnet56-bottleneck", "preresnet56-basic", "resnet18", "resnet50"
]
ForClips = Literal[
    "i3d-tiny", "i3d50", "resnext3d-tiny", "resnext3d101", "p3d-tiny", "p3d63", "p3d199", "vtn-tiny", "vtn"
]
ForTracklets = Literal["resnet-tp-tiny", "resnet50-tp"]
Backbone = Literal[ForPictures, ForClips, ForTracklets]

_MAKERS: Mapping[str, Callable[..., nn.Module]] = {
    # One block a stage and half the width: it must not see from one side of a picture to the other.
    "preresnet-tiny": partial(PreResNet, depths=(1, 1, 1), widths=(8, 16, 32)),
    "preresnet20": partial(PreResNet, depths=(3, 3, 3)),
    # What the authors call PreResNet-56: nine bottlenecks a stage, 83 layers.
    "preresnet56-bottleneck": partial(PreResNet, depths=(9, 9, 9), block="bottleneck"),
    # What is usually called so: nine basic blocks a stage, no 1x1 convolution before the average.
    "preresnet56-basic": partial(PreResNet, depths=(9, 9, 9), head="plain"),
    "resnet18": partial(ResNet, depths=(2, 2, 2, 2), block="basic"),
    "resnet50": partial(ResNet, depths=(3, 4, 6, 3), block="bottleneck"),
    "i3d-tiny": partial(ResNet3d, depths=(1, 1, 1), widths=(4, 8, 16), stem="small"),
    "i3d50": ResNet3d,
    "resnext3d-tiny": partial(ResNet3d, depths=(1, 1, 1), widths=(8, 16, 32), stem="small", groups=4, expansion=2),
    # What MARS is trained as: the ResNeXt-101 of the public 3D ResNets.
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


@dataclass(frozen=True)
class Model:
    """Which network, which block, and where."""

    backbone: Backbone = "preresnet56-bottleneck"
    """The network: for pictures, for clips (i3d, resnext3d, p3d, vtn) or for tracklets (tp)."""
    block: Block = "snl"
    """The nonlocal block; of a video transformer, what stands in the place of its attention (none: its own)."""
    at: tuple[str, ...] = ("layer1.1",)
    """The residual blocks it comes after: layer1.1 is the second of the first stage. Not of a video transformer."""
    inner: int = 0
    """Width of the block's embeddings (0: half its channels; of criss-cross, an eighth)."""
    units: int = 1
    """Blocks in a row at each place, with one affinity for all of them."""
    over: Literal["clip", "frame"] = "clip"
    """tp: what a block sees at a time, all frames or each by itself."""
    dropout: float = 0.5
    """Before the classifier; plain ResNets have none."""

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise VergenceError(f"dropout is a share from 0 to below 1, got {self.dropout}")
        if not 0 <= self.inner <= 65_536:
            raise VergenceError(f"inner is a number of channels (0: half of the block's), got {self.inner}")
        if not 1 <= self.units <= 1000:
            raise VergenceError(f"units is a number of blocks, at least 1, got {self.units}")

    def check(self, kind: Any, what: str) -> None:
        """Refuse a backbone that does not see what the data is."""
        names = get_args(kind)
        if self.backbone not in names:
            raise VergenceError(f"{self.backbone} does not take {what}: expected {', '.join(names)}")


class Network(Protocol):
    """A network and the nonlocal blocks in it, by place."""

    @property
    def inserted(self) -> dict[str, nn.Module]: ...

    def __call__(self, x: Tensor) -> Tensor: ...


def build(model: Model, classes: int) -> nn.Module:
    """The network for so many classes."""
    options: dict[str, Any] = {}
    insert = _insert(model)
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
        # A quarter faster on a CPU; and tokens (B, N, C) are then the map as it lies in memory.
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _insert(model: Model) -> Insert | None:
    if model.block == "none":
        return None
    kind = BLOCKS[model.block]

    def insert(channels: int) -> nn.Module:
        made = partial(kind, inner=model.inner or None)
        return made(channels) if model.units == 1 else SharedAffinity(channels, made, model.units)

    return insert


def load_backbone(network: nn.Module, path: Path) -> str:
    """Start from published weights of the backbone (safetensors, or a torch archive of plain tensors); those of an
    image network are inflated where the backbone sees clips. Says what stays as it was made."""
    found: dict[str, Any] = dict(load_tensors(path)[0]) if path.suffix == ".safetensors" else load_archive(path)
    found = found.get("state_dict", found)
    state = {name.removeprefix("module."): value for name, value in found.items() if isinstance(value, Tensor)}
    target = network.encoder if isinstance(network, VideoTransformer) else network
    try:
        new = inflate(target, state)
    except VergenceError as error:
        raise VergenceError(f"{path}: {error}") from None
    made = "blocks" if "fc.weight" in set(target.state_dict()) - set(new) else "blocks and classifier"
    inserted = tuple(name for name in new if ".after_" in name or name.startswith("fc."))
    missing = [name for name in new if name not in inserted and not name.endswith("num_batches_tracked")]
    left = f"; {len(missing)} more weights are new, the first {missing[0]}" if missing else ""
    return f"the backbone starts from {path}; {made} are new{left}"


def attention(
    network: Network, seen: Tensor, points: Sequence[tuple[float, float]]
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """What a network answers to pictures (B, 3, H, W) or clips (B, T, 3, H, W); for every nonlocal block what
    ``points`` look at, (B, P, h, w) or (B, P, t, h, w); and the maps that the blocks got.

    Points are (x, y) as shares of the width and height; of a clip, in its middle frame.
    """
    maps: dict[str, Tensor] = {}
    inputs: dict[str, Tensor] = {}

    def keep(place: str) -> Any:
        def hook(block: nn.Module, given: tuple[Tensor, ...]) -> None:
            x = given[0]
            *frames, height, width = x.shape[2:]
            start = frames[0] // 2 * height * width if frames else 0
            cells = [min(int(v * height), height - 1) * width + min(int(u * width), width - 1) for u, v in points]
            index = torch.tensor([start + cell for cell in cells], dtype=torch.long, device=x.device)
            maps[place], inputs[place] = cast(Any, block).attention(x, index), x

        return hook

    hooks = [block.register_forward_pre_hook(keep(place)) for place, block in network.inserted.items()]
    try:
        answer = network(seen)
    finally:
        for hook in hooks:
            hook.remove()
    return answer, maps, inputs
