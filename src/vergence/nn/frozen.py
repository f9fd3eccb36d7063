"""ResNets whose batch norms are constants, as detectors have them, under the usual parameter names.

A norm with fixed statistics and fixed scale is a part of the convolution before it. Both run as one convolution by
scaled kernels, in training too: that saves a pass over every map, forward and backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.folded import Kept
from vergence.nn.stages import Residual, Stages


class FrozenNorm(nn.Module):
    """A batch norm that learns nothing; its four tensors are buffers, named as in `torch.nn.BatchNorm2d`."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((channels,), value))

    def terms(self) -> tuple[Tensor, Tensor]:
        """Factors and shifts of the channels."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return scale, self.bias - self.running_mean * scale

    def forward(self, x: Tensor) -> Tensor:
        scale, shift = self.terms()
        return x * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)


class Normed(nn.Module):
    """Base of blocks of convolutions and frozen norms: :meth:`run` applies one of each as a single convolution."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, Kept[Tensor]] = {}

    def run(self, x: Tensor, conv: str, norm: str) -> Tensor:
        """The convolution and the norm of these names."""
        layer, fixed = self.get_submodule(conv), self.get_submodule(norm)
        assert isinstance(layer, nn.Conv2d)
        assert isinstance(fixed, FrozenNorm)

        def folded() -> list[Tensor]:
            scale, shift = fixed.terms()
            return [layer.weight * scale.view(-1, 1, 1, 1), shift]

        sources = (layer.weight, fixed.weight, fixed.bias, fixed.running_mean, fixed.running_var)
        weight, bias = self._kept.setdefault(conv, Kept())(folded, *sources)
        return F.conv2d(x, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)


class FrozenBottleneck(Normed):
    """1x1, 3x3 (with the stride), 1x1 to four times the width, and the input added."""

    expansion = 4
    strides_first = False

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        first, second = (stride, 1) if self.strides_first else (1, stride)
        self.conv1 = nn.Conv2d(inputs, width, 1, first, bias=False)
        self.bn1 = FrozenNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, 1, bias=False)
        self.bn2 = FrozenNorm(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = FrozenNorm(4 * width)
        self.downsample = _downsample(inputs, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu_(self.run(x, "conv1", "bn1"))
        out = F.relu_(self.run(out, "conv2", "bn2"))
        out = self.run(out, "conv3", "bn3")
        return F.relu_(out + (x if self.downsample is None else self.run(x, "downsample.0", "downsample.1")))


class CaffeBottleneck(FrozenBottleneck):
    """The stride at the first 1x1 convolution, as in the weights that were converted from Caffe."""

    strides_first = True


class FrozenBasic(Normed):
    """3x3 (with the stride), 3x3, and the input added."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = FrozenNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = FrozenNorm(width)
        self.downsample = _downsample(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu_(self.run(x, "conv1", "bn1"))
        out = self.run(out, "conv2", "bn2")
        return F.relu_(out + (x if self.downsample is None else self.run(x, "downsample.0", "downsample.1")))


Block = Literal["basic", "bottleneck", "strided-first", "caffe"]
BLOCKS: dict[str, Residual] = {
    "basic": FrozenBasic,
    "bottleneck": FrozenBottleneck,
    "strided-first": CaffeBottleneck,
    "caffe": CaffeBottleneck,
}


class FrozenResNet(Stages, Normed):
    """The stem and the first stages of a ResNet with frozen norms. Names are torchvision's.

    ``strided-first`` has the strides at the first convolution of a bottleneck, as weights converted from Caffe need
    them, and ``caffe`` also pools as Caffe does.
    """

    def __init__(
        self,
        depths: Sequence[int] = (3, 4, 6, 3),
        block: Block = "bottleneck",
        widths: Sequence[int] = (64, 128, 256, 512),
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = FrozenNorm(widths[0])
        self.maxpool = nn.MaxPool2d(3, 2, 0, ceil_mode=True) if block == "caffe" else nn.MaxPool2d(3, 2, 1)
        kind = BLOCKS[block]
        self.outputs = self.add_stages(kind, widths[0], depths, widths[: len(depths)], (), None)
        self.channels = tuple(width * kind.expansion for width in widths[: len(depths)])
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def maps(self, x: Tensor) -> list[Tensor]:
        """Pictures (B, 3, H, W) to the maps of all stages, at strides 4, 8, ..."""
        x = self.maxpool(F.relu_(self.run(x, "conv1", "bn1")))
        maps = []
        for number in range(1, self.stage_count + 1):
            x = self.get_submodule(f"layer{number}")(x)
            maps.append(x)
        return maps

    def forward(self, x: Tensor) -> Tensor:
        """The last map."""
        return self.maps(x)[-1]


def _downsample(inputs: int, outputs: int, stride: int) -> nn.Module | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), FrozenNorm(outputs))
