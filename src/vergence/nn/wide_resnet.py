"""Wide ResNets for small images (Zagoruyko and Komodakis, 2016): few pre-activation blocks with many channels."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.stages import Stages


class WideBasic(nn.Module):
    """BN-ReLU-3x3, BN-ReLU-3x3, and the input added; where the shape changes, a 1x1 convolution of BN-ReLU's output."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        same = stride == 1 and inputs == width
        self.shortcut = None if same else nn.Conv2d(inputs, width, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        seen = F.relu(self.bn1(x))
        out = self.conv2(F.relu(self.bn2(self.conv1(seen))))
        return out + (x if self.shortcut is None else self.shortcut(seen))


class WideResNet(Stages):
    """``WideResNet(10)`` is WRN-28-10, 36,479,194 parameters: a 3x3 stem to 16 channels, three stages, BN-ReLU, global
    average, linear classifier. With 0 classes there is no classifier, and the output is the average."""

    def __init__(self, classes: int, depth: int = 28, width: int = 10, channels: int = 3) -> None:
        super().__init__()
        blocks, rest = divmod(depth - 4, 6)
        if rest or blocks < 1:
            raise VergenceError(f"a wide ResNet has a depth of 6n + 4, such as 16 or 28, got {depth}")
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        widths = [16 * width, 32 * width, 64 * width]
        self.outputs = self.add_stages(WideBasic, 16, [blocks] * 3, widths, (), None)
        self.bn = nn.BatchNorm2d(self.outputs)
        self.fc = nn.Linear(self.outputs, classes) if classes else nn.Identity()
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Images (B, channels, H, W) to logits (B, classes)."""
        return self.fc(F.relu(self.bn(self.run_stages(self.conv1(x)))).mean((2, 3)))
