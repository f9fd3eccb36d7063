"""ResNeXt for images (Xie et al. 2017): bottlenecks whose 3x3 convolution has groups, under torchvision's names."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.stages import Stages


class Grouped(nn.Module):
    """1x1-BN-ReLU, 3x3-BN-ReLU in 32 groups of 4 channels times the stage, 1x1-BN to four times the width, and the
    input added."""

    expansion = 4
    groups = 32

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        inner = 2 * width  # 4 channels of 32 groups where a plain bottleneck has 64
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, groups=self.groups, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        same = stride == 1 and inputs == 4 * width
        shortcut = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        self.downsample = None if same else shortcut

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNeXt50(Stages):
    """The stem and the stages of ResNeXt-50 32x4d: images (B, 3, H, W) to maps (B, 2048, H / 32, W / 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.outputs = self.add_stages(Grouped, 64, (3, 4, 6, 3), (64, 128, 256, 512), (), None)
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        return self.run_stages(self.maxpool(F.relu(self.bn1(self.conv1(x)))))
