"""ATSA: a VGG-19 and a flow ladder for colour, a small network for depth, and attention gates between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.dense.atsa.settings import ModelConfig
from vergence.nn.convnorm import ConvNorm, GreyConvNorm
from vergence.ops.precision import full_precision, wide

STEP = 32
"""Height and width are multiples of it."""


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with norms, the input added, a ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = ConvNorm(channels, channels)
        self.second = ConvNorm(channels, channels, rectified=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + x)


def blocks(channels: int, count: int) -> nn.Sequential:
    return nn.Sequential(*(BasicBlock(channels) for _ in range(count)))


# Streams --------------------------------------------------------------------------------------------------------------


class VGGTrunk(nn.Module):
    """The five stages of VGG-19 with batch norms; each ends with a pooling layer."""

    def __init__(self, widths: Sequence[int], depths: Sequence[int], grey: bool = False) -> None:
        super().__init__()
        stages, below = [], 3
        for width, depth in zip(widths, depths, strict=True):
            ends = [(below, width), *[(width, width)] * (depth - 1)]
            stages.append(nn.ModuleList(ConvNorm(*end, bias=True) for end in ends))
            below = width
        if grey:
            stages[0][0] = GreyConvNorm(widths[0])
        self.stages = nn.ModuleList(stages)

    def forward(self, picture: Tensor) -> list[Tensor]:
        """Maps at a quarter, an eighth, a sixteenth and a thirty-second of the size of a picture (B, 3, H, W); a depth
        map (B, 1, H, W) counts as grey."""
        x, outputs = picture, []
        for stage in self.stages:
            for layer in stage:  # type: ignore[attr-defined]
                x = layer(x)
            x = F.max_pool2d(x, 2)
            outputs.append(x)
        return outputs[1:]


class DepthNet(nn.Module):
    """The light depth stream (Table 1): a depth map (B, 1, H, W) to three maps at a quarter of its size."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        (one, two), channels, count = model.depth_stem, model.branches[0], model.blocks
        self.stem = nn.ModuleList([
            nn.Sequential(GreyConvNorm(one), ConvNorm(one, one, bias=True)),
            nn.Sequential(ConvNorm(one, two, bias=True), ConvNorm(two, two, bias=True)),
        ])  # fmt: skip
        self.enter = ConvNorm(two, channels)
        self.first, self.second = blocks(channels, count), blocks(channels, count)
        self.widen = ConvNorm(channels, 4 * channels)
        self.third = blocks(4 * channels, count)

    def forward(self, depth: Tensor) -> list[Tensor]:
        for stage in self.stem:
            depth = F.max_pool2d(stage(depth), 2)
        first = self.first(self.enter(depth))
        second = self.second(first)
        return [first, second, self.third(self.widen(second))]


class Up(nn.Module):
    """From a deeper branch to a shallower one: 1 x 1 convolution, norm, nearest upsampling."""

    def __init__(self, inputs: int, outputs: int, octaves: int) -> None:
        super().__init__()
        self.conv, self.factor = ConvNorm(inputs, outputs, 1, rectified=False), 2**octaves

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(self.conv(x), scale_factor=self.factor, mode="nearest")


def down(inputs: int, outputs: int, octaves: int) -> nn.Sequential:
    """From a shallower branch to a deeper one: 3 x 3 convolutions of stride 2; the last changes the channels."""
    steps = [ConvNorm(inputs, inputs, 3, 2) for _ in range(octaves - 1)]
    return nn.Sequential(*steps, ConvNorm(inputs, outputs, 3, 2, rectified=False))


class LadderLayer(nn.Module):
    """One layer of the ladder: blocks on all branches but the deepest, which has just entered, then fusion."""

    def __init__(self, widths: Sequence[int], count: int, last: bool, unused: bool) -> None:
        super().__init__()
        self.last = last
        own = widths if unused else widths[:-1]
        self.branches = nn.ModuleList(blocks(width, count) for width in own)
        targets = 1 if last else len(widths)
        self.fuse = nn.ModuleList(
            nn.ModuleDict({
                str(j): Up(width, widths[i], j - i) if j > i else down(width, widths[i], i - j)
                for j, width in enumerate(widths) if j != i
            })
            for i in range(targets)
        )  # fmt: skip

    def forward(self, branches: Sequence[Tensor]) -> list[Tensor]:
        """Eqs. 1 and 2: each branch is the sum of all; Eq. 3: in the last layer, the first is all joined."""
        *shallow, deepest = branches
        x = [own(branch) for own, branch in zip(self.branches, shallow, strict=False)] + [deepest]
        fused = []
        for i, row in enumerate(self.fuse):
            parts = [x[j] if i == j else row[str(j)](x[j]) for j in range(len(x))]  # type: ignore[index]
            fused.append(F.relu(torch.cat(parts, 1) if self.last else _sum(parts)))
        return fused


def _sum(parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


class Ladder(nn.Module):
    """The flow ladder: four branches at strides 4 to 32, of which one enters per layer."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        widths = model.branches
        self.transitions = _transitions(model)
        self.layers = nn.ModuleList(LadderLayer(widths[: n + 2], model.blocks, n == 2, model.unused) for n in range(3))

    def forward(self, features: Sequence[Tensor], fuse: Any) -> list[Tensor]:
        """The first branch after each layer, (B, C, H/4, W/4) with C, C and 4 C channels, each as ``fuse(layer, map)``
        returns it, which is also what goes on."""
        entering = [transition(h) for transition, h in zip(self.transitions, features, strict=True)]
        branches, outputs = [entering[0]], []
        for number, layer in enumerate(self.layers):
            branches = layer([*branches, entering[number + 1]])
            branches[0] = fuse(number, branches[0])
            outputs.append(branches[0])
        return outputs


class Plain(nn.Module):
    """In place of a ladder: the features of all stages, upsampled and joined."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.transitions = _transitions(model)
        first, *deeper = model.branches
        self.ups = nn.ModuleList(Up(width, first, n) for n, width in enumerate(deeper, 1))

    def forward(self, features: Sequence[Tensor], fuse: Any) -> list[Tensor]:
        """The joined map alone, as the last of three layers."""
        first, *deeper = (transition(h) for transition, h in zip(self.transitions, features, strict=True))
        joined = F.relu(torch.cat([first, *(up(x) for up, x in zip(self.ups, deeper, strict=True))], 1))
        return [fuse(2, joined)]


def _transitions(model: ModelConfig) -> nn.ModuleList:
    return nn.ModuleList(ConvNorm(*ends) for ends in zip(model.trunk[1:], model.branches, strict=True))


class VGGStream(nn.Module):
    """A VGG trunk with a ladder or without, as a stream of its own."""

    def __init__(self, model: ModelConfig, ladder: bool, grey: bool = False) -> None:
        super().__init__()
        self.trunk = VGGTrunk(model.trunk, model.trunk_depths, grey)
        self.ladder = Ladder(model) if ladder else Plain(model)

    def forward(self, picture: Tensor, fuse: Any = lambda _, x: x) -> list[Tensor]:
        out: list[Tensor] = self.ladder(self.trunk(picture), fuse)
        return out


# Fusion and decoder ---------------------------------------------------------------------------------------------------


class DepthAttention(nn.Module):
    """The gate of a colour map by a depth map (Eqs. 4 to 6), both (B, C, H, W)."""

    def __init__(self, channels: int, inner_sigmoid: bool = True) -> None:
        super().__init__()
        self.key = nn.Conv2d(channels, 1, 1, bias=False)
        self.squeeze = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm = nn.LayerNorm([channels, 1, 1])
        self.excite = nn.Conv2d(channels, channels, 1, bias=False)
        self.inner_sigmoid = inner_sigmoid

    def reset(self) -> None:
        """The last convolution starts at zero."""
        nn.init.kaiming_normal_(self.key.weight, mode="fan_in")
        nn.init.zeros_(self.excite.weight)

    def context(self, depth: Tensor) -> Tensor:
        """α, (B, C, 1, 1): the mean of all positions, weighted by a softmax over them (Eq. 4)."""
        weights = self.key(depth).flatten(2).softmax(2)  # (B, 1, HW)
        return (depth.flatten(2) @ weights.mT).unsqueeze(3)

    def gate(self, depth: Tensor) -> Tensor:
        """β, (B, C, H, W) (Eq. 5)."""
        channels = self.excite(F.relu(self.norm(self.squeeze(self.context(depth)))))
        return torch.sigmoid(depth * (torch.sigmoid(channels) if self.inner_sigmoid else channels))

    def forward(self, colour: Tensor, depth: Tensor) -> Tensor:
        with full_precision(colour):  # the result is between 1/2 and 1, where bfloat16 has steps of 0.004
            return torch.sigmoid(wide(colour) * self.gate(wide(depth)))


class Decoder(nn.Module):
    """Features (B, 4 C, H/4, W/4) to two maps (B, 2, H, W)."""

    def __init__(self, inputs: int, middle: int, last: int) -> None:
        super().__init__()
        ends = ((inputs, middle), (middle, middle), (middle, last), (last, last), (last, last))
        self.layers = nn.ModuleList(ConvNorm(*end, 1, bias=True) for end in ends)
        self.head = nn.Conv2d(last, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x, scale=2 if number in (0, 3) else 1)
        out: Tensor = self.head(x)
        return out


class SideHead(nn.Module):
    """A head on the joined maps of an earlier layer, which the public code builds and does not train."""

    def __init__(self, inputs: int, middle: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ConvNorm(*e, 1, bias=True) for e in ((inputs, middle), *[(middle, middle)] * 2))
        self.head = nn.Conv2d(middle, 2, 1)


class ATSA(nn.Module):
    """Photographs (B, 3, H, W), normalised, and depth (B, 1, H, W), from 0 (far) to 1 (near), to two maps (B, 2, H, W)
    for background and salient object."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.settings = model
        channels = model.branches[0]
        self.colour = VGGStream(model, model.colour == "ladder")
        self.depth: nn.Module | None = None
        if model.depth == "depthnet":
            self.depth = DepthNet(model)
        elif model.depth != "none":
            self.depth = VGGStream(model, model.depth == "ladder", grey=True)
        self.fused = () if self.depth is None else (2,) if "plain" in (model.colour, model.depth) else (0, 1, 2)
        self.attention = nn.ModuleDict({
            str(n): DepthAttention(4 * channels if n == 2 else channels, model.inner_sigmoid)
            for n in self.fused if model.fuse == "attention"
        })  # fmt: skip
        self.decoder = Decoder(4 * channels, 4 * channels, 2 * channels)
        if model.unused:
            self.side = nn.ModuleList(SideHead(n * channels, 2 * channels) for n in (2, 3))
        self.reset()

    def reset(self) -> None:
        """Kernels from N(0, 0.001), in VGG trunks N(0, 0.01), as published; or He's, for training from scratch."""
        published = self.settings.init == "published"
        trunks = {m for trunk in self.modules() if isinstance(trunk, VGGTrunk) for m in trunk.modules()}
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                if published:
                    nn.init.normal_(module.weight, std=0.01 if module in trunks else 0.001)
                else:
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for gate in self.attention.values():
            gate.reset()  # type: ignore[operator]

    def forward(self, picture: Tensor, depth: Tensor) -> Tensor:
        _refuse(picture, depth)
        picture, depth = (t.contiguous(memory_format=torch.channels_last) for t in (picture, depth))  # faster on a CPU
        own = None if self.depth is None else self.depth(depth)

        def fuse(layer: int, colour: Tensor) -> Tensor:
            if own is None or layer not in self.fused:
                return colour
            other = own[layer - 3]
            out: Tensor = self.attention[str(layer)](colour, other) if self.attention else colour + other
            return out

        features = self.colour(picture, fuse)[-1]
        with full_precision(picture):
            out: Tensor = self.decoder(wide(features))
        return torch.sigmoid(out) if self.settings.outputs == "sigmoid" else out

    def saliency(self, picture: Tensor, depth: Tensor) -> Tensor:
        """(B, H, W), from 0 to 1."""
        background, salient = self(picture, depth).float().unbind(1)
        return torch.sigmoid(salient - background)


def _refuse(picture: Tensor, depth: Tensor) -> None:
    fits = picture.dim() == 4 and picture.shape[1] == 3 and depth.shape == (len(picture), 1, *picture.shape[2:])
    if not fits or any(side < STEP or side % STEP for side in picture.shape[2:]):
        raise VergenceError(
            f"expected pictures (B, 3, H, W) and depth (B, 1, H, W) with sides that are multiples of {STEP}, got "
            f"{tuple(picture.shape)} and {tuple(depth.shape)}"
        )


def build(model: ModelConfig) -> ATSA:
    return ATSA(model)


def load_vgg(model: ATSA, state: Mapping[str, Any]) -> str:
    """Load ImageNet's VGG-19 with batch norms under torchvision's names into the trunks; every tensor of its
    convolutions must be there and fit. Returns one sentence that says so."""
    trunks = [module for module in model.modules() if isinstance(module, VGGTrunk)]
    for trunk in trunks:
        number, loaded = 0, {}
        for s, stage in enumerate(trunk.stages):
            for n, _ in enumerate(stage):  # type: ignore[arg-type]
                for part, at, names in (
                    ("conv", number, ("weight", "bias")),
                    ("norm", number + 1, ("weight", "bias", "running_mean", "running_var")),
                ):
                    for name in names:
                        loaded[f"stages.{s}.{n}.{part}.{name}"] = f"features.{at}.{name}"
                number += 3  # convolution, norm, ReLU
            number += 1  # pooling
        expected = trunk.state_dict()
        for own, theirs in loaded.items():
            if theirs not in state:
                raise VergenceError(f"the weights have no {theirs!r}: expected VGG-19 with batch norms (vgg19_bn)")
            if state[theirs].shape != expected[own].shape:
                raise VergenceError(
                    f"the weights have {theirs!r} of shape {tuple(state[theirs].shape)}, expected "
                    f"{tuple(expected[own].shape)}"
                )
        trunk.load_state_dict({own: state[theirs] for own, theirs in loaded.items()}, strict=False)
    streams = "both trunks start" if len(trunks) == 2 else "the colour trunk starts"
    return f"{streams} from ImageNet weights, the rest is new"
