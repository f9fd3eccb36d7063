"""Backbones for clips: the small C3D, a 3D ResNet-18 and R(2+1)D-18.

Clips are (B, T, 3, H, W); maps are (B, C, t, h, w). Every backbone has ``maps(clip)``, ``flat(maps)`` with ``outputs``
numbers per clip, and ReLUs that are modules, for guided backpropagation.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.resnet3d import Conv3d, Pointwise3d, channels_first


class C3D(nn.Module):
    """Five convolutions 3x3x3 with batch normalisation, each followed by max pooling (the first one in space only).

    The last pooling belongs to ``flat``: of 16 frames of 112 pixels, ``maps`` are (256, 2, 7, 7) and ``flat`` 4096
    numbers. Sizes are rounded up, so that nothing is cut off.
    """

    def __init__(self, widths: Sequence[int], frames: int, size: int) -> None:
        super().__init__()
        if len(widths) != 5:
            raise VergenceError(f"a C3D has five widths, got {tuple(widths)}")
        self.convs = nn.ModuleList(
            nn.Sequential(Conv3d(inputs, outputs, (3, 3, 3)), nn.BatchNorm3d(outputs), nn.ReLU())
            for inputs, outputs in zip((3, *widths), widths, strict=False)
        )
        kernels = ((1, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 2), (2, 2, 2))
        self.pools = nn.ModuleList(nn.MaxPool3d(kernel, ceil_mode=True) for kernel in kernels)
        self.outputs = widths[-1] * -(-frames // 16) * (-(-size // 32)) ** 2

    def maps(self, clip: Tensor) -> Tensor:
        x = self.convs[0](channels_first(clip))
        for pool, conv in zip(self.pools, self.convs[1:], strict=False):
            x = conv(pool(x))
        return x

    def flat(self, maps: Tensor) -> Tensor:
        return self.pools[-1](maps).flatten(1)


class R2Plus1(nn.Sequential):
    """A 3x3x3 convolution as one in space and one in time, with as many parameters (Tran et al., 2018)."""

    def __init__(self, inputs: int, outputs: int, between: int, stride: int = 1) -> None:
        super().__init__(
            Conv3d(inputs, between, (1, 3, 3), (1, stride, stride)),
            nn.BatchNorm3d(between),
            nn.ReLU(),
            Conv3d(between, outputs, (3, 1, 1), (stride, 1, 1)),
        )


class Block(nn.Module):
    """Two convolutions with batch normalisation and a shortcut. ``kind``: ``2d`` and ``3d`` kernels, or ``2+1d``."""

    def __init__(self, inputs: int, width: int, stride: int, kind: str) -> None:
        super().__init__()
        strides = (1 if kind == "2d" else stride, stride, stride)
        if kind == "2+1d":
            between = 27 * inputs * width // (9 * inputs + 3 * width)  # also for the second, as in the public weights
            self.conv1: nn.Module = R2Plus1(inputs, width, between, stride)
            self.conv2: nn.Module = R2Plus1(width, width, between)
        else:
            kernel = (1 if kind == "2d" else 3, 3, 3)
            self.conv1, self.conv2 = Conv3d(inputs, width, kernel, strides), Conv3d(width, width, kernel)
        self.bn1, self.bn2 = nn.BatchNorm3d(width), nn.BatchNorm3d(width)
        same = inputs == width and stride == 1
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(Pointwise3d(inputs, width, strides), nn.BatchNorm3d(width))
        )

        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()  # modules, for guided backpropagation

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(out + self.shortcut(x))


class ResNet18(nn.Module):
    """Four stages of two blocks, averaged over time and space.

    ``r3d18`` has a stem 1x7x7 with pooling, 1x3x3 kernels in the first two stages and 3x3x3 in the others, as in the
    authors' code; ``r2plus1d18`` is the published R(2+1)D.
    """

    def __init__(self, network: str, widths: Sequence[int]) -> None:
        super().__init__()
        if len(widths) != 4:
            raise VergenceError(f"a ResNet-18 has four widths, got {tuple(widths)}")
        first = widths[0]
        if network == "r2plus1d18":
            between = 45 * first // 64
            layers = [Conv3d(3, between, (1, 7, 7), (1, 2, 2)), nn.BatchNorm3d(between), nn.ReLU(),
                      Conv3d(between, first, (3, 1, 1)), nn.BatchNorm3d(first), nn.ReLU()]  # fmt: skip
        else:
            layers = [Conv3d(3, first, (1, 7, 7), (1, 2, 2)), nn.BatchNorm3d(first), nn.ReLU(),
                      nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1))]  # fmt: skip
        self.stem = nn.Sequential(*layers)
        kinds = ("2+1d",) * 4 if network == "r2plus1d18" else ("2d", "2d", "3d", "3d")
        self.stages = nn.ModuleList(
            nn.Sequential(Block(inputs, width, 1 if number == 0 else 2, kind), Block(width, width, 1, kind))
            for number, (inputs, width, kind) in enumerate(zip((first, *widths), widths, kinds, strict=False))
        )
        self.outputs = widths[-1]

    def maps(self, clip: Tensor) -> Tensor:
        x = self.stem(channels_first(clip))
        for stage in self.stages:
            x = stage(x)
        return x

    def flat(self, maps: Tensor) -> Tensor:
        return maps.mean((2, 3, 4))
