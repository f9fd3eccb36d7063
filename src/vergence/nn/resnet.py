"""ResNets for images (He et al., 2016a) under the usual parameter names, so that public weights load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.pointwise import Pointwise
from vergence.nn.stages import Insert, Residual, Stages


class Basic(nn.Module):
    """3x3-BN-ReLU, 3x3-BN, and the input added."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _downsample(inputs, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1-BN-ReLU, 3x3-BN-ReLU (with the stride), 1x1-BN to four times the width, and the input added."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = _downsample(inputs, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(Stages):
    """ResNet-18 (basic blocks, depths 2-2-2-2), ResNet-50 (bottlenecks, 3-4-6-3) and their relatives.

    ``last_stride=1`` keeps the last stage at the size of the one before, as is usual in re-identification and
    detection. With 0 classes there is no classifier, and the output is the average of the last map.
    """

    def __init__(
        self,
        classes: int,
        depths: Sequence[int],
        block: Literal["basic", "bottleneck"],
        widths: Sequence[int] = (64, 128, 256, 512),
        at: Sequence[str] = (),
        insert: Insert | None = None,
        last_stride: int = 2,
    ) -> None:
        super().__init__()
        kind: Residual = Basic if block == "basic" else Bottleneck
        self.conv1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        strides = [1, *[2] * (len(depths) - 2), last_stride]
        self.outputs = self.add_stages(kind, widths[0], depths, widths, at, insert, strides)
        self.fc = nn.Linear(self.outputs, classes) if classes else nn.Identity()
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def stem(self, x: Tensor) -> Tensor:
        """Images (B, 3, H, W) to the input of the first stage, at a quarter of their size."""
        return self.maxpool(F.relu(self.bn1(self.conv1(x))))

    def forward(self, x: Tensor) -> Tensor:
        """Images (B, 3, H, W) to logits (B, classes)."""
        return self.fc(self.run_stages(self.stem(x)).mean((2, 3)))


def _downsample(inputs: int, outputs: int, stride: int) -> nn.Module | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(Pointwise(inputs, outputs, stride), nn.BatchNorm2d(outputs))


def load_imagenet(backbone: nn.Module, state: Mapping[str, Tensor]) -> str:
    """Load ImageNet weights with torchvision's names into a ResNet; every tensor but the classifier's must be there and
    fit. Returns one sentence that says so."""
    expected = backbone.state_dict()
    for name, tensor in expected.items():
        weight = state.get(name)
        if weight is None and name.endswith("num_batches_tracked"):  # absent from old files
            continue
        if weight is None:
            raise VergenceError(f"the weights have no {name!r}: expected a ResNet under torchvision's names")
        if weight.shape != tensor.shape:
            raise VergenceError(
                f"the weights have {name!r} of shape {tuple(weight.shape)}, expected {tuple(tensor.shape)}"
            )
    backbone.load_state_dict({name: state.get(name, tensor) for name, tensor in expected.items()})
    return "the backbone starts from ImageNet weights, the rest is new"
