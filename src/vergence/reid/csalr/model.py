"""PCB and PCB-RPP (Sun et al., 2018) on a residual network with attention after its stages (Sec. 3.3).

Attention stands between the stages, each module with a branch of deep supervision: its input times what it adds, before
the residual, is averaged and classified. The last map is pooled into parts, by stripes or by a soft part classifier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.core.files import load_archive, load_tensors
from vergence.nn import (
    CompressedSelfAttention2d,
    CompressedSelfAttentionLowRank2d,
    NearestLandmark2d,
    PlainLowRank2d,
    ResNet,
    SelfAttention2d,
)
from vergence.ops import Patches

Attention = Literal["none", "sa", "csa", "csalr", "csalr-plain", "nearest"]
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
SHRINKS = 4
"""How many times smaller than the picture the map after the first stage is; each further one but the last halves it."""


@dataclass(frozen=True)
class Model:
    """Which network, which attention, where, and how its last map becomes a descriptor."""

    backbone: Literal["resnet-tiny", "resnet18", "resnet50"] = "resnet50"
    """The residual network; its last stage keeps the size of the one before."""
    attention: Attention = "csalr"
    """none, sa (whole), csa, csalr, csalr-plain (without the patch indicator) or nearest (the control)."""
    stages: tuple[int, ...] = (1, 2, 3)
    """The stages it comes after."""
    grid: tuple[int, int] = (24, 4)
    """Landmarks down and across, of compressed attention."""
    landmarks: Literal["quarter", "half", "full", "double"] = "full"
    """As many as the grid has, or fewer (half as many rows, then columns), or twice as many columns (Table 2)."""
    groups: int = 2
    """Groups of channels with attention of their own; sa always has one."""
    inner: int = 0
    """Width of queries and keys in each group (0: an eighth of its channels, at least 16)."""
    temperature: float = 1.0
    """What the logits of attention are divided by; the paper has 1, others the root of inner."""
    supervision: float = 1.0
    """Weight of the deep supervision of each module (0: none)."""
    parts: int = 6
    """Horizontal parts of the descriptor."""
    pooling: Literal["stripes", "refined"] = "stripes"
    """PCB's stripes, or PCB-RPP's soft parts, which a second phase of training refines from the stripes."""
    embedding: int = 256
    """Channels of a part before its classifier."""
    dropout: float = 0.5
    """Of the pooled parts, in training."""

    def __post_init__(self) -> None:
        if not set(self.stages) <= {1, 2, 3, 4} or len(set(self.stages)) < len(self.stages):
            raise VergenceError(f"attention comes after stages from 1 to 4, each once, got {self.stages}")
        for name in ("groups", "parts", "embedding"):
            if getattr(self, name) < 1:
                raise VergenceError(f"a model's {name} is at least 1, got {getattr(self, name)}")
        if not self.temperature > 0:
            raise VergenceError(f"a model's temperature is above 0, got {self.temperature}")
        if min(self.grid) < 1 or self.inner < 0 or not self.supervision >= 0 or not 0 <= self.dropout < 1:
            raise VergenceError(
                "a model has a grid of at least 1 x 1, inner and supervision of at least 0 and a dropout below 1, got "
                f"{self.grid}, {self.inner}, {self.supervision} and {self.dropout}"
            )

    @property
    def landmark_grid(self) -> tuple[int, int]:
        """Landmarks down and across, after thinning out."""
        rows, columns = self.grid
        if self.landmarks == "double":
            return rows, 2 * columns
        return (
            max(rows // 2, 1) if self.landmarks in ("quarter", "half") else rows,
            max(columns // 2, 1) if self.landmarks == "quarter" else columns,
        )


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
    """Refined part pooling: each position is shared out to the parts by a classifier, (B, C, H, W) to (B, parts, C)."""

    def __init__(self, channels: int, parts: int, dropout: float) -> None:
        super().__init__()
        self.parts = parts
        self.dropout = nn.Dropout(dropout)
        self.classify = nn.Conv2d(channels // 8, parts, 1)

    def shares(self, x: Tensor) -> Tensor:
        """How much of each position belongs to each part, (B, parts, H, W); they sum to one."""
        coarse = self.dropout(x).unflatten(1, (-1, 8)).mean(2)  # eight channels together, as the public code has it
        return self.classify(coarse - coarse.mean((2, 3), keepdim=True)).softmax(1)

    def forward(self, x: Tensor) -> Tensor:
        shares = self.parts * self.shares(x).flatten(2)  # (B, parts, N)
        return shares @ x.flatten(2).mT / shares.shape[-1]


@dataclass(frozen=True)
class Answers:
    """What training looks at: logits of each part and of each branch of deep supervision, (B, classes) each."""

    parts: Sequence[Tensor]
    branches: Sequence[Tensor]


class PartNetwork(nn.Module):
    """A residual network with attention and part pooling: images to descriptors, or to answers for training."""

    def __init__(self, model: Model, classes: int, refined: bool) -> None:
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

    def trunk(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The last map (B, C, H, W), and logits of the branches on the way."""
        x, branches = self.backbone.stem(images), []
        for number in range(1, self.backbone.stage_count + 1):
            stage = f"layer{number}"
            x = self.backbone.get_submodule(stage)(x)
            if stage in self.attention:
                attention = cast(SelfAttention2d, self.attention[stage])
                mixed = attention.mix(x)
                if self.training and stage in self.supervision:
                    branches.append(self.supervision[stage]((x * mixed).mean((2, 3))))
                x = x + attention.alpha * mixed
        return x, branches

    def forward(self, images: Tensor) -> Tensor:
        """Images (B, 3, H, W) to descriptors: the parts, each of length one, side by side, (B, parts * C)."""
        return F.normalize(self.pool(self.trunk(images)[0]), dim=-1).flatten(1)

    def answers(self, images: Tensor) -> Answers:
        """What training looks at, for images (B, 3, H, W)."""
        last, branches = self.trunk(images)
        parts = self.reduce(self.dropout(self.pool(last)))  # (B, parts, embedding), the same weights for all
        parts = self.norm(parts.mT).mT.relu()
        return Answers([c(p) for c, p in zip(self.classifiers, parts.unbind(1), strict=True)], branches)


def _attention(model: Model, channels: int) -> SelfAttention2d:
    inner = model.inner or None
    if model.attention == "sa":
        return SelfAttention2d(channels, inner, temperature=model.temperature)
    return COMPRESSED[model.attention](channels, inner, model.landmark_grid, model.groups, model.temperature)


def build(model: Model, classes: int, refined: bool) -> PartNetwork:
    """The network for so many identities, in the memory layout that CPUs and GPUs like best."""
    network = PartNetwork(model, classes, refined)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def refine(network: PartNetwork, model: Model) -> None:
    """PCB becomes PCB-RPP: the part classifier takes the place of the stripes, everything else stays."""
    device = next(network.parameters()).device
    network.pool = SoftParts(network.backbone.outputs, model.parts, model.dropout).to(device)


def load_backbone(network: PartNetwork, path: Path) -> str:
    """Start from ImageNet: a state dict with torchvision's names, as safetensors or a torch archive of plain tensors.

    Everything but the classifier must be there and fit. Says what was read.
    """
    safe = path.suffix == ".safetensors"
    found: dict[str, Any] = dict(load_tensors(path)[0]) if safe else load_archive(path)
    found = found.get("state_dict", found)
    own = network.backbone.state_dict()
    for name, tensor in own.items():
        given = found.get(name)
        if given is None and name.endswith("num_batches_tracked"):  # files from before this was counted
            found[name] = tensor
        elif not isinstance(given, Tensor):
            raise VergenceError(f"{path} has no {name!r}: expected a ResNet under torchvision's names")
        elif given.shape != tensor.shape:
            raise VergenceError(f"{path} has {name!r} of shape {tuple(given.shape)}, expected {tuple(tensor.shape)}")
    network.backbone.load_state_dict({name: found[name] for name in own})
    return f"the backbone starts from {path}"


def attended(
    network: PartNetwork, images: Tensor, points: Sequence[tuple[float, float]]
) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """Descriptors of images (B, 3, H, W); what ``points`` look at after each stage with attention, (B, P, h, w); and
    the maps (B, C, h, w) that the attention saw.

    Points are (x, y) as shares of the width and height.
    """
    seen: dict[str, Tensor] = {}

    def keep(stage: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen[stage] = output

        return hook

    hooks = [network.backbone.get_submodule(s).register_forward_hook(keep(s)) for s in network.attention]
    try:
        descriptors = network(images)
    finally:
        for hook in hooks:
            hook.remove()
    modules = {stage: cast(SelfAttention2d, network.attention[stage]) for stage in seen}
    looks = {stage: modules[stage].attention(x, positions(x, points)) for stage, x in seen.items()}
    return descriptors, looks, seen


def positions(x: Tensor, points: Sequence[tuple[float, float]]) -> Tensor:
    """The positions of a map (B, C, h, w) under points (x, y) given as shares, (P,)."""
    height, width = x.shape[-2:]
    index = [min(int(b * height), height - 1) * width + min(int(a * width), width - 1) for a, b in points]
    return torch.tensor(index, device=x.device)
