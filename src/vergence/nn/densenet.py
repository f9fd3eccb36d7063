"""DenseNet-BC for small images (Huang et al., 2017): a layer gets the outputs of all layers of its block."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError


class DenseLayer(nn.Module):
    """BN-ReLU-1x1 to four times the growth, BN-ReLU-3x3 to the growth; the output is appended to the input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        new = self.conv1(F.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(F.relu(self.norm2(new)))], 1)


class Transition(nn.Sequential):
    """BN-ReLU-1x1 to half the channels, and an average over 2 x 2 pixels."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, outputs, 1, bias=False), nn.AvgPool2d(2))


class DenseNet(nn.Module):
    """DenseNet-BC: ``DenseNet(10)`` has a depth of 100 and a growth of 12, 769,162 parameters.

    With 0 classes there is no classifier, and the output is the average of the last map.
    """

    def __init__(self, classes: int, depth: int = 100, growth: int = 12, channels: int = 3) -> None:
        super().__init__()
        layers, rest = divmod(depth - 4, 6)
        if rest or layers < 1:
            raise VergenceError(f"a DenseNet-BC has a depth of 6n + 4, such as 40 or 100, got {depth}")
        width = 2 * growth
        parts: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1, bias=False)]
        for block in range(3):
            if block:
                parts.append(Transition(width, width // 2))
                width //= 2
            for _ in range(layers):
                parts.append(DenseLayer(width, growth))
                width += growth
        self.features = nn.Sequential(*parts, nn.BatchNorm2d(width), nn.ReLU())
        self.outputs = width
        self.fc = nn.Linear(width, classes) if classes else nn.Identity()
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Images (B, channels, H, W) to logits (B, classes)."""
        return self.fc(self.features(x).mean((2, 3)))
