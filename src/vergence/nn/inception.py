"""InceptionV3 (Szegedy et al., 2016) under torchvision's parameter names, as published or for panoramas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.wrapped import WrapConv2d, pooled

TAPS = (64, 192, 288, 2048)
"""Channels after Conv2d_2b, Conv2d_4a, Mixed_5d and Mixed_7c."""


class ConvNorm(nn.Module):
    """Convolution, norm, ReLU."""

    def __init__(
        self, inputs: int, outputs: int, size: int | tuple[int, int], stride: int = 1, dilation: int = 1,
        wraps: bool = False, padded: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv = WrapConv2d(inputs, outputs, size, stride, dilation, bias=False, wraps=wraps, padded=padded)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


class InceptionA(nn.Module):
    """1x1, 5x5, twice 3x3, and a pool, at one resolution."""

    def __init__(self, inputs: int, pool: int, wraps: bool) -> None:
        super().__init__()
        conv = partial(ConvNorm, wraps=wraps)
        self.wraps = wraps
        self.branch1x1 = conv(inputs, 64, 1)
        self.branch5x5_1, self.branch5x5_2 = conv(inputs, 48, 1), conv(48, 64, 5)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = conv(inputs, 64, 1), conv(64, 96, 3)
        self.branch3x3dbl_3 = conv(96, 96, 3)
        self.branch_pool = conv(inputs, pool, 1)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        pool = self.branch_pool(pooled(x, "average", 1, self.wraps, True))
        return torch.cat([self.branch1x1(x), self.branch5x5_2(self.branch5x5_1(x)), double, pool], 1)


class InceptionB(nn.Module):
    """Halves the resolution."""

    def __init__(self, inputs: int, wraps: bool, padded: bool) -> None:
        super().__init__()
        self.wraps, self.padded = wraps, padded
        conv = partial(ConvNorm, wraps=wraps)
        self.branch3x3 = conv(inputs, 384, 3, 2, padded=padded)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = conv(inputs, 64, 1), conv(64, 96, 3)
        self.branch3x3dbl_3 = conv(96, 96, 3, 2, padded=padded)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, pooled(x, "max", 2, self.wraps, self.padded)], 1)


class InceptionC(nn.Module):
    """Convolutions of 7 x 7 in two steps."""

    def __init__(self, inputs: int, width: int, wraps: bool) -> None:
        super().__init__()
        conv = partial(ConvNorm, wraps=wraps)
        self.wraps = wraps
        self.branch1x1 = conv(inputs, 192, 1)
        self.branch7x7_1, self.branch7x7_2 = conv(inputs, width, 1), conv(width, width, (1, 7))
        self.branch7x7_3 = conv(width, 192, (7, 1))
        self.branch7x7dbl_1, self.branch7x7dbl_2 = conv(inputs, width, 1), conv(width, width, (7, 1))
        self.branch7x7dbl_3, self.branch7x7dbl_4 = conv(width, width, (1, 7)), conv(width, width, (7, 1))
        self.branch7x7dbl_5 = conv(width, 192, (1, 7))
        self.branch_pool = conv(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        single = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        pool = self.branch_pool(pooled(x, "average", 1, self.wraps, True))
        return torch.cat([self.branch1x1(x), single, double, pool], 1)


class InceptionD(nn.Module):
    """Halves the resolution, unless the stride is 1."""

    def __init__(self, inputs: int, wraps: bool, padded: bool, stride: int = 2) -> None:
        super().__init__()
        self.wraps, self.padded, self.stride = wraps, padded, stride
        conv = partial(ConvNorm, wraps=wraps)
        self.branch3x3_1, self.branch3x3_2 = conv(inputs, 192, 1), conv(192, 320, 3, stride, padded=padded)
        self.branch7x7x3_1, self.branch7x7x3_2 = conv(inputs, 192, 1), conv(192, 192, (1, 7))
        self.branch7x7x3_3 = conv(192, 192, (7, 1))
        self.branch7x7x3_4 = conv(192, 192, 3, stride, padded=padded)

    def forward(self, x: Tensor) -> Tensor:
        single = self.branch3x3_2(self.branch3x3_1(x))
        double = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return torch.cat([single, double, pooled(x, "max", self.stride, self.wraps, self.padded)], 1)


class InceptionE(nn.Module):
    """Branches that end in 1x3 beside 3x1."""

    def __init__(self, inputs: int, wraps: bool, dilation: int = 1) -> None:
        super().__init__()
        conv = partial(ConvNorm, wraps=wraps)
        wide = partial(ConvNorm, wraps=wraps, dilation=dilation)
        self.wraps = wraps
        self.branch1x1 = conv(inputs, 320, 1)
        self.branch3x3_1 = conv(inputs, 384, 1)
        self.branch3x3_2a, self.branch3x3_2b = wide(384, 384, (1, 3)), wide(384, 384, (3, 1))
        self.branch3x3dbl_1, self.branch3x3dbl_2 = conv(inputs, 448, 1), wide(448, 384, 3)
        self.branch3x3dbl_3a, self.branch3x3dbl_3b = wide(384, 384, (1, 3)), wide(384, 384, (3, 1))
        self.branch_pool = conv(inputs, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        single, double = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        pool = self.branch_pool(pooled(x, "average", 1, self.wraps, True))
        return torch.cat(
            [self.branch1x1(x), self.branch3x3_2a(single), self.branch3x3_2b(single), self.branch3x3dbl_3a(double),
             self.branch3x3dbl_3b(double), pool], 1,
        )  # fmt: skip


class InceptionV3(nn.Module):
    """Images (B, 3, H, W) from -1 to 1 to logits (B, classes), without the auxiliary classifier; published for
    299 x 299. With 0 classes it is a backbone.

    ``padded`` adds borders to the convolutions that are published without, so that resolutions halve exactly;
    ``wraps`` continues columns around. ``last_stride`` of 1 keeps the last stage at a sixteenth, with dilations of 2.
    """

    def __init__(self, classes: int = 1000, padded: bool = False, wraps: bool = False, last_stride: int = 2) -> None:
        super().__init__()
        self.padded, self.wraps = padded, wraps
        stem = partial(ConvNorm, wraps=wraps, padded=padded)
        self.Conv2d_1a_3x3, self.Conv2d_2a_3x3 = stem(3, 32, 3, 2), stem(32, 32, 3)
        self.Conv2d_2b_3x3 = ConvNorm(32, 64, 3, wraps=wraps)
        self.Conv2d_3b_1x1, self.Conv2d_4a_3x3 = ConvNorm(64, 80, 1), stem(80, 192, 3)
        self.Mixed_5b, self.Mixed_5c = InceptionA(192, 32, wraps), InceptionA(256, 64, wraps)
        self.Mixed_5d = InceptionA(288, 64, wraps)
        self.Mixed_6a = InceptionB(288, wraps, padded)
        self.Mixed_6b, self.Mixed_6c = InceptionC(768, 128, wraps), InceptionC(768, 160, wraps)
        self.Mixed_6d, self.Mixed_6e = InceptionC(768, 160, wraps), InceptionC(768, 192, wraps)
        self.Mixed_7a = InceptionD(768, wraps, padded, last_stride)
        self.Mixed_7b, self.Mixed_7c = (InceptionE(inputs, wraps, 3 - last_stride) for inputs in (1280, 2048))
        self.fc = nn.Linear(2048, classes) if classes else nn.Identity()

    def taps(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Maps at a half, a quarter, an eighth and at the end: after Conv2d_2b, Conv2d_4a, Mixed_5d and Mixed_7c."""
        first = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        second = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(pooled(first, "max", 2, self.wraps, self.padded)))
        third = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(pooled(second, "max", 2, self.wraps, self.padded))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(third)))))
        return first, second, third, self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.taps(x)[-1].mean((2, 3)))


def load_imagenet(backbone: InceptionV3, state: Mapping[str, Tensor]) -> str:
    """Load ImageNet weights with torchvision's names; the auxiliary and the last classifier are left out. Returns one
    sentence that says so."""
    expected = {name: tensor for name, tensor in backbone.state_dict().items() if not name.startswith("fc.")}
    for name, tensor in expected.items():
        weight = state.get(name)
        if weight is None and name.endswith("num_batches_tracked"):  # absent from old files
            continue
        if weight is None:
            raise VergenceError(f"the weights have no {name!r}: expected an InceptionV3 under torchvision's names")
        if weight.shape != tensor.shape:
            raise VergenceError(
                f"the weights have {name!r} of shape {tuple(weight.shape)}, expected {tuple(tensor.shape)}"
            )
    backbone.load_state_dict({name: state.get(name, tensor) for name, tensor in expected.items()}, strict=False)
    return "the backbone starts from ImageNet weights, the rest is new"
