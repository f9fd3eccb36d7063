"""Pre-activation ResNets for small images (He et al., 2016b), in the forms the nonlocal papers use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.pointwise import Pointwise
from vergence.nn.stages import Insert, Residual, Stages


class PreBasic(nn.Module):
    """BN-ReLU-3x3, BN-ReLU-3x3, and the input added."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.shortcut = _shortcut(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(F.relu(self.bn1(x)))
        out = self.conv2(F.relu(self.bn2(out)))
        return out + self.shortcut(x)


class PreBottleneck(nn.Module):
    """BN-ReLU-1x1, BN-ReLU-3x3, BN-ReLU-1x1 to four times the width, and the input added."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.shortcut = _shortcut(inputs, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(F.relu(self.bn1(x)))
        out = self.conv2(F.relu(self.bn2(out)))
        out = self.conv3(F.relu(self.bn3(out)))
        return out + self.shortcut(x)


class PreResNet(Stages):
    """A 3x3 stem, three stages at strides 1, 2, 2, BN-ReLU, global average, linear classifier.

    ``head="mixed"`` is the nonlocal authors' head: a 1x1 convolution with BN-ReLU before the average, dropout after it.
    """

    def __init__(
        self,
        classes: int,
        depths: Sequence[int],
        widths: Sequence[int] = (16, 32, 64),
        block: Literal["basic", "bottleneck"] = "basic",
        head: Literal["plain", "mixed"] = "mixed",
        dropout: float = 0.5,
        at: Sequence[str] = (),
        insert: Insert | None = None,
    ) -> None:
        super().__init__()
        kind: Residual = PreBasic if block == "basic" else PreBottleneck
        self.conv1 = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        outputs = self.add_stages(kind, widths[0], depths, widths, at, insert)
        self.bn = nn.BatchNorm2d(outputs)
        self.mix = (
            nn.Sequential(nn.Conv2d(outputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())
            if head == "mixed"
            else nn.Identity()
        )
        self.dropout = nn.Dropout(dropout if head == "mixed" else 0.0)
        self.fc = nn.Linear(outputs, classes)
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Images (B, 3, H, W) to logits (B, classes)."""
        features = self.mix(F.relu(self.bn(self.run_stages(self.conv1(x)))))
        return self.fc(self.dropout(features.mean((2, 3))))


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(Pointwise(inputs, outputs, stride), nn.BatchNorm2d(outputs))
