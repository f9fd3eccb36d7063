"""DLA-34 (Yu et al., Deep Layer Aggregation, CVPR 2018) with a seventh level, and DLA-Up, as feature pyramids use them.

Parameters of the base have the names of the published ImageNet weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLOPE = 0.01
"""Of the leaky rectifier."""


def conv(inputs: int, outputs: int, size: int = 3, stride: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size, divided by ``stride``."""
    return nn.Conv2d(inputs, outputs, size, stride, dilation * (size // 2), dilation, bias=False)


def normed(inputs: int, outputs: int, size: int = 3, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """Convolution, batch norm, leaky ReLU."""
    return nn.Sequential(
        conv(inputs, outputs, size, stride, dilation), nn.BatchNorm2d(outputs), nn.LeakyReLU(SLOPE, inplace=True)
    )


class Block(nn.Module):
    """Two convolutions around which ``residual`` leads."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs), nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        out = F.leaky_relu(self.bn1(self.conv1(x)), SLOPE)
        return F.leaky_relu(self.bn2(self.conv2(out)) + (x if residual is None else residual), SLOPE)


class Root(nn.Module):
    """Aggregates the outputs of a tree."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv, self.bn = conv(inputs, outputs, 1), nn.BatchNorm2d(outputs)

    def forward(self, *children: Tensor) -> Tensor:
        return F.leaky_relu(self.bn(self.conv(torch.cat(children, 1))), SLOPE)


class Tree(nn.Module):
    """Hierarchical aggregation of depth ``levels``."""

    def __init__(
        self, levels: int, inputs: int, outputs: int, stride: int = 1, level_root: bool = False, root: int = 0
    ) -> None:
        super().__init__()
        root = (root or 2 * outputs) + (inputs if level_root else 0)
        self.levels, self.level_root, self.stride = levels, level_root, stride
        if levels == 1:
            self.tree1: nn.Module = Block(inputs, outputs, stride)
            self.tree2: nn.Module = Block(outputs, outputs)
            self.root = Root(root, outputs)
        else:
            self.tree1 = Tree(levels - 1, inputs, outputs, stride)
            self.tree2 = Tree(levels - 1, outputs, outputs, root=root + outputs)
        self.project = nn.Sequential(conv(inputs, outputs, 1), nn.BatchNorm2d(outputs)) if inputs != outputs else None

    def forward(self, x: Tensor, residual: Tensor | None = None, children: Sequence[Tensor] = ()) -> Tensor:
        bottom = F.max_pool2d(x, self.stride) if self.stride > 1 else x
        shortcut = self.project(bottom) if self.project is not None else bottom
        children = [*children, bottom] if self.level_root else list(children)
        inner = self.tree1(x, shortcut)
        out: Tensor
        if self.levels == 1:
            out = self.root(self.tree2(inner), inner, *children)
        else:
            out = self.tree2(inner, children=[*children, inner])
        return out


class DLA34(nn.Module):
    """Seven maps of pictures (B, 3, H, W), each half as large as the one before."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        self.base_layer = normed(3, channels[0], 7)
        self.level0 = normed(channels[0], channels[0])
        self.level1 = normed(channels[0], channels[1], stride=2)
        for level, depth in zip(range(2, 7), (1, 2, 2, 1, 1), strict=True):
            tree = Tree(depth, channels[level - 1], channels[level], 2, level_root=level > 2)
            self.add_module(f"level{level}", tree)

    def forward(self, x: Tensor) -> list[Tensor]:
        x, maps = self.base_layer(x), []
        for level in range(7):
            x = self.get_submodule(f"level{level}")(x)
            maps.append(x)
        return maps


class Aggregate(nn.Module):
    """Iterative aggregation: maps are projected, enlarged to the first one's size, and joined one after another."""

    def __init__(self, outputs: int, inputs: Sequence[int], factors: Sequence[int]) -> None:
        super().__init__()
        self.project = nn.ModuleList(nn.Identity() if c == outputs else normed(c, outputs, 1) for c in inputs)
        self.up = nn.ModuleList(nn.Identity() if f == 1 else _enlarging(outputs, f) for f in factors)
        self.node = nn.ModuleList(normed(2 * outputs, outputs) for _ in inputs[1:])

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        raised = [up(project(x)) for x, up, project in zip(maps, self.up, self.project, strict=True)]
        out, nodes = raised[0], []
        for node, x in zip(self.node, raised[1:], strict=True):
            out = node(torch.cat([out, x], 1))
            nodes.append(out)
        return nodes


class DLAUp(nn.Module):
    """The pyramid of DLA-34 from 1/2 to 1/64, in which fine maps know what coarse ones saw: six, fine to coarse."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        self.base = DLA34(channels)
        used = list(channels[1:])
        inputs, scales = list(used), [2**level for level in range(len(used))]
        self.aggregate = nn.ModuleList()
        for j in range(len(used) - 2, -1, -1):
            factors = [scale // scales[j] for scale in scales[j:]]
            self.aggregate.append(Aggregate(used[j], inputs[j:], factors))
            scales[j + 1 :] = [scales[j]] * len(scales[j + 1 :])
            inputs[j + 1 :] = [used[j]] * len(inputs[j + 1 :])

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = self.base(x)[1:]
        pyramid = [maps[-1]]
        for number, aggregate in enumerate(self.aggregate):
            nodes = aggregate(maps[-number - 2 :])
            maps[-number - 1 :] = nodes
            pyramid.append(nodes[-1])
        return pyramid[::-1]


def _enlarging(channels: int, factor: int) -> nn.ConvTranspose2d:
    """A transposed convolution of each channel that begins as bilinear interpolation."""
    up = nn.ConvTranspose2d(channels, channels, 2 * factor, factor, factor // 2, groups=channels, bias=False)
    centre = (2 * factor - 1 - factor % 2) / (2 * factor)
    ramp = torch.tensor([1 - abs(i / factor - centre) for i in range(2 * factor)], device=up.weight.device)
    with torch.no_grad():
        up.weight.copy_((ramp.view(-1, 1) * ramp).expand_as(up.weight))
    return up


def initialised(module: nn.Module, deviation: float = 0.02) -> None:
    """Draws convolutions from N(0, ``deviation``²), as HD³ does; transposed ones of single channels stay."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d) or (isinstance(part, nn.ConvTranspose2d) and part.groups == 1):
            nn.init.normal_(part.weight, 0, deviation)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def grid_size(height: int, width: int, multiple: int) -> tuple[int, int]:
    """The nearest size whose sides are multiples, at least one."""
    return tuple(max(multiple, multiple * math.floor(side / multiple + 0.5)) for side in (height, width))  # type: ignore[return-value]
