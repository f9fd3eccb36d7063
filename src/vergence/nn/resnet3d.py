"""3D residual networks for clips: the "I3D" ResNets of the nonlocal papers and 3D ResNeXts (Hara et al., 2018; Carreira
& Zisserman, 2017).

Bottlenecks have 3x3x3 kernels and halve time where they halve the image. Parameter names are those of the image
networks and of the public 3D weights, so that the latter load and the former can be inflated (:func:`inflate`).
Clips are (B, T, 3, H, W), as everywhere; the maps inside, and the inputs of inserted blocks, are (B, C, T, H, W).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.stages import Insert, Stages

Edges = Literal["zeros", "repeated"]
"""Temporal padding before the first and after the last frame: zeros, as published, or that frame repeated."""
Stem = Literal["published", "small"]


class Conv3d(nn.Conv3d):
    """A convolution over time and space without bias, padded to keep the size up to its stride."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        edges: Edges = "zeros",
        groups: int = 1,
    ) -> None:
        around = (kernel[0] // 2, kernel[1] // 2, kernel[2] // 2)
        super().__init__(inputs, outputs, kernel, stride, around, groups=groups, bias=False)
        self.edges = edges

    def forward(self, x: Tensor) -> Tensor:
        if self.edges == "zeros" or self.kernel_size[0] == 1:
            return super().forward(x)
        time, rows, columns = (k // 2 for k in self.kernel_size)
        longer = F.pad(x, (0, 0, 0, 0, time, time), mode="replicate")
        return F.conv3d(longer, self.weight, None, self.stride, (0, rows, columns), groups=self.groups)


class Pointwise3d(nn.Conv3d):
    """A 1x1x1 convolution without bias that takes every ``stride``-th place first, then mixes channels.

    Same values, parameter and name as the strided form; see :class:`vergence.nn.pointwise.Pointwise`.
    """

    def __init__(self, inputs: int, outputs: int, stride: int | tuple[int, int, int] = 1) -> None:
        super().__init__(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        time, rows, columns = self.stride
        return F.conv3d(x[..., ::time, ::rows, ::columns], self.weight)


class Bottleneck3d(nn.Module):
    """1x1x1-BN-ReLU, 3x3x3-BN-ReLU (with the stride), 1x1x1-BN to ``expansion`` times the width, and the input added.

    In a ResNeXt the 3x3x3 convolution has several ``groups``.
    """

    def __init__(
        self, inputs: int, width: int, stride: int, edges: Edges = "zeros", groups: int = 1, expansion: int = 4
    ) -> None:
        super().__init__()
        outputs = expansion * width
        self.conv1 = Pointwise3d(inputs, width)
        self.bn1 = nn.BatchNorm3d(width)
        self.conv2 = Conv3d(width, width, (3, 3, 3), stride, edges, groups)
        self.bn2 = nn.BatchNorm3d(width)
        self.conv3 = Pointwise3d(width, outputs)
        self.bn3 = nn.BatchNorm3d(outputs)
        self.downsample = (
            None
            if stride == 1 and inputs == outputs
            else nn.Sequential(Pointwise3d(inputs, outputs, stride), nn.BatchNorm3d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Maps (B, C, T, H, W)."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet3d(Stages):
    """A 3D ResNet: with the defaults the 50 layers that the nonlocal papers call I3D.

    The stem is 7x7x7 at stride (1, 2, 2) with 3x3x3 max pooling at stride 2, as published, or for ``small`` clips 3x3x3
    at stride 1 without pooling; it has a quarter of the channels of the first stage. Stages have strides 1, 2, 2, ...
    in time and space.

    Depths 3-4-23-3, widths 128 to 1024, 32 groups and an expansion of 2 are the 3D ResNeXt-101 of Hara et al.

    Inflated from an image network, one with ``edges="repeated"`` computes for a clip that repeats one image what the
    image network computes for it. With zeros, as published, that holds only for frames so far from both ends that no
    kernel reaches beyond them.
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
        edges: Edges = "zeros",
        groups: int = 1,
        expansion: int = 4,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if groups < 1 or expansion < 1 or any(width % groups for width in widths) or widths[0] * expansion % 4:
            raise VergenceError(
                f"groups must divide every width, and 4 the channels of the first stage; got {groups} groups, widths "
                f"{tuple(widths)} and an expansion of {expansion}"
            )
        small, first = stem == "small", widths[0] * expansion // 4
        self.conv1 = Conv3d(3, first, (3, 3, 3), 1, edges) if small else Conv3d(3, first, (7, 7, 7), (1, 2, 2), edges)
        self.bn1 = nn.BatchNorm3d(first)
        self.maxpool = nn.Identity() if small else nn.MaxPool3d(3, 2, 1)
        self.outputs = self.add_stages(_Bottlenecks(edges, groups, expansion), first, depths, widths, at, insert)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(self.outputs, classes) if classes else nn.Identity()
        initialise(self)

    def features(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to the last maps (B, C, t, h, w)."""
        return self.run_stages(self.maxpool(F.relu(self.bn1(self.conv1(channels_first(clip))))))

    def forward(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to logits (B, classes); without classes the mean of the last maps."""
        return self.fc(self.dropout(self.features(clip).mean((2, 3, 4))))


class _Bottlenecks:
    """Builds bottlenecks that differ only in width and stride."""

    def __init__(self, edges: Edges, groups: int, expansion: int) -> None:
        self.edges, self.groups, self.expansion = edges, groups, expansion

    def __call__(self, inputs: int, width: int, stride: int, /) -> nn.Module:
        return Bottleneck3d(inputs, width, stride, self.edges, self.groups, self.expansion)


def channels_first(clip: Tensor) -> Tensor:
    """A clip (B, T, 3, H, W) as a map (B, 3, T, H, W)."""
    if clip.dim() != 5 or clip.shape[2] != 3 or not clip.shape[1]:
        raise VergenceError(f"clips are (B, T, 3, H, W) with at least one frame, got {tuple(clip.shape)}")
    return clip.transpose(1, 2)


def initialise(network: nn.Module) -> None:
    """Initialise convolutions as He et al. (2015), by fan-out."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Conv3d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def inflate(network: nn.Module, state: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Load the weights of an image network into one for clips (Carreira & Zisserman, 2017); returns the names of the
    parameters that keep their values.

    A kernel is spread evenly over time, so that its sum over time is the image kernel. A pseudo-3D network takes
    spatial kernels unchanged; its temporal ones keep their initial values. So do inserted blocks, and a classifier with
    another number of classes. A checkpoint of the network itself is loaded as it is.
    """
    own = network.state_dict()
    rename = getattr(network, "image_name", str)
    if all(name in state for name in own if name.endswith(".weight") and rename(name) != name):
        rename = str  # the network's own names
    weights: dict[str, Tensor] = {}
    for name, weight in own.items():
        image = state.get(rename(name))
        if image is None or (name.startswith("fc.") and image.shape != weight.shape):
            continue
        inflated = image
        if weight.dim() == 5 and image.dim() == 4:
            inflated = image.unsqueeze(2).expand(-1, -1, weight.shape[2], -1, -1) / weight.shape[2]
        if inflated.shape != weight.shape:
            raise VergenceError(
                f"the image network's {rename(name)!r} is {tuple(image.shape)}, which cannot be inflated to "
                f"{tuple(weight.shape)}"
            )
        weights[name] = inflated.to(weight)
    if not any(name.startswith("layer") for name in weights):
        names = f"names like {next(iter(state))!r}" if state else "no weights"
        raise VergenceError(f"expected the weights of a ResNet, with names like 'layer1.0.conv1.weight'; got {names}")
    with torch.no_grad():
        network.load_state_dict(weights, strict=False)
    return tuple(name for name in own if name not in weights)
