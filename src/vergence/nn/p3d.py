"""Pseudo-3D residual networks (Qiu et al., 2017): a 3x3x3 kernel becomes 1x3x3 over space and 3x1x1 over time.

Three ways to put the two together take turns from block to block: one after the other (A), side by side (B), and the
second added to the first (C). Names and sizes are those of the public PyTorch code, where the last stage processes
frames one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.pointwise import Pointwise
from vergence.nn.resnet3d import Conv3d, Pointwise3d, Stem, channels_first, initialise
from vergence.nn.stages import Insert, Stages

Kind = Literal["A", "B", "C"]


class PseudoBottleneck(nn.Module):
    """1x1x1, a spatial and a temporal convolution as ``kind`` says, 1x1x1 to four times the width, the input added.

    The stride is in the first convolution, and in space only.
    """

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.conv1 = Pointwise3d(inputs, width, (1, stride, stride))
        self.bn1 = nn.BatchNorm3d(width)
        self.conv2 = Conv3d(width, width, (1, 3, 3))
        self.bn2 = nn.BatchNorm3d(width)
        self.conv3 = Conv3d(width, width, (3, 1, 1))
        self.bn3 = nn.BatchNorm3d(width)
        self.conv4 = Pointwise3d(width, 4 * width)
        self.bn4 = nn.BatchNorm3d(4 * width)
        self.downsample = (
            None
            if stride == 1 and inputs == 4 * width
            else nn.Sequential(Pointwise3d(inputs, 4 * width, (1, stride, stride)), nn.BatchNorm3d(4 * width))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, C, T, H, W)."""
        out = F.relu(self.bn1(self.conv1(x)))
        space = F.relu(self.bn2(self.conv2(out)))
        time = F.relu(self.bn3(self.conv3(out if self.kind == "B" else space)))
        out = self.bn4(self.conv4(time if self.kind == "A" else space + time))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class FrameBottleneck(nn.Module):
    """A bottleneck on each frame, with the stride in its first convolution."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Pointwise(inputs, width, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv_normal = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn_normal = nn.BatchNorm2d(width)
        self.conv4 = Pointwise(width, 4 * width)
        self.bn4 = nn.BatchNorm2d(4 * width)
        self.downsample = (
            None
            if stride == 1 and inputs == 4 * width
            else nn.Sequential(Pointwise(inputs, 4 * width, stride), nn.BatchNorm2d(4 * width))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, C, T, H, W)."""
        frames = x.transpose(1, 2).flatten(0, 1)
        out = F.relu(self.bn1(self.conv1(frames)))
        out = F.relu(self.bn_normal(self.conv_normal(out)))
        out = self.bn4(self.conv4(out))
        out = F.relu(out + (frames if self.downsample is None else self.downsample(frames)))
        return out.unflatten(0, (len(x), -1)).transpose(1, 2)


class P3DResNet(Stages):
    """A pseudo-3D ResNet: depths 3-4-6-3 are P3D-63, 3-8-36-3 the published P3D-199.

    Time is halved after the stem and after every stage but the last, which processes frames one by one (16 frames have
    become one by then). The stem is 1x7x7 at stride 2 with 2x3x3 max pooling, or for ``small`` clips 1x3x3 at stride 1
    without pooling.
    """

    def __init__(
        self,
        classes: int,
        depths: Sequence[int] = (3, 4, 6, 3),
        widths: Sequence[int] = (64, 128, 256, 512),
        at: Sequence[str] = (),
        insert: Insert | None = None,
        *,
        stem: Stem = "published",
        kinds: Sequence[Kind] = ("A", "B", "C"),
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if not kinds or not set(kinds) <= {"A", "B", "C"}:
            raise VergenceError(f"kinds of pseudo-3D blocks are A, B and C in any order, got {tuple(kinds)}")
        small = stem == "small"
        self.conv1_custom = Conv3d(3, widths[0], (1, 3, 3)) if small else Conv3d(3, widths[0], (1, 7, 7), (1, 2, 2))
        self.bn1 = nn.BatchNorm3d(widths[0])
        # With ceil_mode the last of an odd number of frames is kept.
        self.maxpool_2 = nn.MaxPool3d((2, 1, 1), (2, 1, 1), ceil_mode=True)
        self.maxpool = (
            nn.Identity() if small else nn.Sequential(self.maxpool_2, nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)))
        )
        turns = _Turns(kinds, sum(depths[:-1]))
        self.outputs = self.add_stages(turns, widths[0], depths, widths, at, insert)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(self.outputs, classes) if classes else nn.Identity()
        initialise(self)

    def run_stages(self, x: Tensor) -> Tensor:
        """Apply all stages and inserted blocks, halving the number of frames after each stage but the last."""
        for number in range(1, self.stage_count + 1):
            x = self.get_submodule(f"layer{number}")(x)
            if number < self.stage_count:
                x = self.maxpool_2(x)
        return x

    def features(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to the last maps (B, C, t, h, w)."""
        return self.run_stages(self.maxpool(F.relu(self.bn1(self.conv1_custom(channels_first(clip))))))

    def forward(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to logits (B, classes); without classes the mean of the last maps."""
        return self.fc(self.dropout(self.features(clip).mean((2, 3, 4))))

    @staticmethod
    def image_name(name: str) -> str:
        """The name of the same weight in an image network, which has no temporal convolutions."""
        name = name.replace("conv1_custom", "conv1")
        if re.match(r"layer\d+\.\d+\.(conv|bn)", name):
            name = re.sub(r"\.(conv|bn)3\.", r".\1_over_time.", name)
            name = re.sub(r"\.(conv|bn)4\.", r".\g<1>3.", name)
            name = re.sub(r"\.(conv|bn)_normal\.", r".\g<1>2.", name)
        return name


class _Turns:
    """Builds the first ``deep`` blocks as pseudo-3D ones, taking the kinds in turn, and the others as frame blocks."""

    expansion = 4

    def __init__(self, kinds: Sequence[Kind], deep: int) -> None:
        self.kinds, self.deep, self.made = tuple(kinds), deep, 0

    def __call__(self, inputs: int, width: int, stride: int, /) -> nn.Module:
        number, self.made = self.made, self.made + 1
        if number >= self.deep:
            return FrameBottleneck(inputs, width, stride)
        return PseudoBottleneck(inputs, width, stride, self.kinds[number % len(self.kinds)])
