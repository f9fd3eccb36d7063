"""Blocks for range images: spatially-adaptive convolutions (SqueezeSegV3) and the operators they are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.folded import Kept
from vergence.nn.prepared import FEWEST, fused, quick
from vergence.ops.adaptive import Patches, adaptive_convolution
from vergence.ops.winograd import TILE, tiled_convolution, tiled_kernel

STRIP = 1 << 20
"""Values of the tiles of a strip of rows, which Winograd's convolution takes at once."""


class Coordinates:
    """The coordinates (B, 3, H, W) at one resolution, with the statistics that all blocks there share."""

    def __init__(self, image: Tensor) -> None:
        self.image = image
        self._patches: dict[int, Patches] = {}

    def patches(self, side: int) -> Patches:
        """Moments of the patches of this side."""
        if side not in self._patches:
            self._patches[side] = Patches.of(self.image, side)
        return self._patches[side]

    def halved(self) -> Coordinates:
        """At half the width."""
        size = (self.image.shape[2], self.image.shape[3] // 2)
        return Coordinates(F.interpolate(self.image, size, mode="bilinear", align_corners=True))


def gain_and_shift(norm: nn.BatchNorm2d, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Batch norm as a factor and a summand of each channel."""
    gain = norm.weight * (variance + norm.eps).rsqrt()
    return gain, norm.bias - mean * gain


def learnt(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The statistics that a norm uses in evaluation."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    return norm.running_mean, norm.running_var


class Normed(nn.Module):
    """A convolution, its batch norm, and a leaky ReLU with this slope; one convolution in evaluation."""

    def __init__(self, conv: nn.Conv2d | nn.ConvTranspose2d, slope: float, momentum: float = 0.01) -> None:
        super().__init__()
        self.conv, self.norm, self.slope = conv, nn.BatchNorm2d(conv.out_channels, momentum=momentum), slope
        self._kept: Kept[Tensor] = Kept()

    def forward(self, x: Tensor, before: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """The output for ``x``; or for ``before(x)``, which is computed a few rows at a time where that is possible."""
        if self.training:
            self._kept.forget()  # PyTorch's version counter does not see a norm's writes to its statistics
        fast = not self.training and quick(x) == torch.float32
        if before is not None and not (fast and self._tiles):
            x, before = before(x), None
        if not fast:
            return F.leaky_relu(self.norm(self.conv(x)), self.slope)
        sources = [t for t in (*self.conv.parameters(), *self.norm.parameters(), *learnt(self.norm)) if t is not None]
        weight, bias = self._kept(self._folded, *sources)
        if self._tiles:
            return tiled_in_strips(x, weight, bias, self.slope, before)
        if isinstance(self.conv, nn.ConvTranspose2d):
            return F.leaky_relu_(doubled(x, weight, bias), self.slope)
        return F.leaky_relu_(convolved(x, weight, bias, self.conv), self.slope)

    @property
    def _tiles(self) -> bool:
        conv = self.conv
        plain = isinstance(conv, nn.Conv2d) and conv.kernel_size == (3, 3) and conv.stride == (1, 1)
        return plain and min(conv.in_channels, conv.out_channels) >= FEWEST

    def _folded(self) -> list[Tensor]:
        gain, shift = gain_and_shift(self.norm, *learnt(self.norm))
        across = [1, -1] if isinstance(self.conv, nn.ConvTranspose2d) else [-1, 1]
        weight = self.conv.weight * gain.view(*across, 1, 1)
        bias = shift if self.conv.bias is None else self.conv.bias * gain + shift
        if isinstance(self.conv, nn.ConvTranspose2d):
            return [doubling(weight), bias]
        return [tiled_kernel(weight) if self._tiles else weight.contiguous(memory_format=torch.channels_last), bias]


class Head(nn.Conv2d):
    """A convolution to scores, without the unfolded image that PyTorch builds for one image on one thread."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if quick(x) != torch.float32 else convolved(x, self.weight, self.bias, self)


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, like: nn.Conv2d) -> Tensor:
    """A convolution with the strides and the padding of another, by oneDNN."""
    if like.kernel_size == (1, 1) and like.stride == (1, 1):
        return F.linear(x.permute(0, 2, 3, 1), weight[:, :, 0, 0], bias).permute(0, 3, 1, 2)
    if fused() is None:
        return F.conv2d(x, weight, bias, like.stride, like.padding)
    padding, stride = (list(map(int, numbers)) for numbers in (like.padding, like.stride))
    return torch.mkldnn_convolution(x, weight, bias, padding, stride, [1, 1], 1)


def doubling(weight: Tensor) -> Tensor:
    """The kernel (I, O, 1, 4) of a transposed convolution with a stride of 2 and a padding of 1 as a matrix (3 I, 2 O):
    from the pixels to the left, here and to the right, to the two pixels that a pixel becomes."""
    left, here, right = (torch.zeros_like(weight[:, :, 0, :2]) for _ in range(3))  # (I, O, 2)
    left[..., 0], here[..., 0] = weight[:, :, 0, 3], weight[:, :, 0, 1]
    here[..., 1], right[..., 1] = weight[:, :, 0, 2], weight[:, :, 0, 0]
    return torch.cat([left, here, right]).transpose(1, 2).flatten(1).contiguous()


def doubled(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """Images (B, I, H, W) at twice their width (B, O, H, 2 W), by a matrix of `doubling`; row by row."""
    batch, inputs, height, width = x.shape
    out = x.new_empty(batch, height, 2 * width, len(bias))
    shift = bias.repeat(2)
    for image in range(batch):
        for row in range(height):
            framed = F.pad(x[image, :, row].mT, (0, 0, 1, 1)).contiguous()
            windows = framed.as_strided((width, 3 * inputs), (inputs, 1))
            torch.addmm(shift, windows, matrix, out=out[image, row].view(width, -1))
    return out.permute(0, 3, 1, 2)


def tiled_in_strips(
    x: Tensor, kernel: Tensor, bias: Tensor, slope: float, before: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Winograd's 3 x 3 convolution with a leaky ReLU, a few rows at a time, so that its tiles stay small; of
    ``before(x)`` if that is given, a function of each pixel."""
    batch, _, height, width = x.shape
    out = x.new_empty(batch, height, width, kernel.shape[2])
    rows = max(1, STRIP // (len(kernel) * kernel.shape[1] * batch * -(-width // TILE))) * TILE
    for top in range(0, height, rows):
        above, below = top == 0, top + rows >= height
        strip = x[:, :, max(top - 1, 0) : top + rows + 1]
        strip = F.pad(strip if before is None else before(strip), (1, 1, int(above), int(below)))
        made = tiled_convolution(strip, kernel, bias).permute(0, 2, 3, 1)
        torch.ops.aten.leaky_relu.out(made, slope, out=out[:, top : top + rows])
    return out.permute(0, 3, 1, 2)


class Adaptive(nn.Module):
    """SAC-ISK or SAC-SK: the kernel is weighted at every pixel by attention from the coordinates around it (Eq. 4)."""

    def __init__(self, channels: int, reach: int, shared: bool) -> None:
        super().__init__()
        self.attention = nn.Conv2d(3, 9 * (1 if shared else channels), reach, padding=reach // 2)
        self.attention_norm = nn.BatchNorm2d(self.attention.out_channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, at: Coordinates) -> Tensor:
        return adaptive_convolution(x, at.image, *self.attending(at), self.conv.weight, self.conv.bias)

    def attending(self, at: Coordinates) -> tuple[Tensor, Tensor]:
        """Kernel and bias of the attention, with its batch norm folded in: in training too, where the statistics of the
        map are computed from those of the coordinates."""
        norm, conv = self.attention_norm, self.attention
        assert conv.bias is not None
        if not self.training:
            gain, shift = gain_and_shift(norm, *learnt(norm))
        else:
            patches = at.patches(conv.kernel_size[0])
            mean, variance = patches.norm(conv.weight, conv.bias)
            _track(norm, mean, variance, patches.count)
            gain, shift = gain_and_shift(norm, mean, variance)
        return conv.weight * gain.view(-1, 1, 1, 1), conv.bias * gain + shift


@torch.no_grad()
def _track(norm: nn.BatchNorm2d, mean: Tensor, variance: Tensor, count: int) -> None:
    """Update the running statistics as batch norm does."""
    moving_mean, moving_variance = learnt(norm)
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    moving_mean.lerp_(mean.detach(), norm.momentum or 0.0)
    moving_variance.lerp_(variance.detach() * (count / max(count - 1, 1)), norm.momentum or 0.0)


class PerPlace(nn.Module):
    """SAC-S or SAC-IS: features are scaled at every pixel, then convolved."""

    def __init__(self, channels: int, reach: int, shared: bool) -> None:
        super().__init__()
        self.attention = nn.Conv2d(3, 1 if shared else channels, reach, padding=reach // 2)
        self.attention_norm = nn.BatchNorm2d(self.attention.out_channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, at: Coordinates) -> Tensor:
        scale = self.attention_norm(self.attention(at.image)).sigmoid()
        return self.conv(x * scale)


class Everything(nn.Module):
    """SAC-OISK, the general form: its attention has 9 C² channels, so it is for tests."""

    def __init__(self, channels: int, reach: int) -> None:
        super().__init__()
        self.attention = nn.Conv2d(3, 9 * channels**2, reach, padding=reach // 2)
        self.attention_norm = nn.BatchNorm2d(self.attention.out_channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, at: Coordinates) -> Tensor:
        scale = self.attention_norm(self.attention(at.image)).sigmoid()
        kernel = self.conv.weight.flatten(1)
        taps = F.unfold(x, 3, padding=1).unflatten(2, x.shape[2:])
        out = torch.einsum("ot,bothw,bthw->bohw", kernel, scale.unflatten(1, kernel.shape), taps)
        assert self.conv.bias is not None
        return out + self.conv.bias.view(-1, 1, 1)


class Plain(nn.Module):
    """An ordinary 3 x 3 convolution."""

    def __init__(self, channels: int, reach: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, at: Coordinates) -> Tensor:
        return self.conv(self.scaled(x, at))

    def scaled(self, x: Tensor, at: Coordinates) -> Tensor:
        """What is convolved."""
        return x


class SqueezeExcite(Plain):
    """SE: channels are scaled by attention from their means, the same everywhere."""

    def __init__(self, channels: int, reach: int) -> None:
        super().__init__(channels, reach)
        between = max(channels // 16, 4)
        self.mlp = nn.Sequential(nn.Conv2d(channels, between, 1), nn.ReLU(), nn.Conv2d(between, channels, 1))

    def scaled(self, x: Tensor, at: Coordinates) -> Tensor:
        return x * self.mlp(x.mean((2, 3), keepdim=True)).sigmoid()


class ChannelsAndPlaces(SqueezeExcite):
    """CBAM: channels are scaled from their means and maxima, then places from those over the channels."""

    def __init__(self, channels: int, reach: int) -> None:
        super().__init__(channels, reach)
        self.places = nn.Conv2d(2, 1, reach, padding=reach // 2, bias=False)

    def scaled(self, x: Tensor, at: Coordinates) -> Tensor:
        x = x * (self.mlp(x.mean((2, 3), keepdim=True)) + self.mlp(x.amax((2, 3), keepdim=True))).sigmoid()
        return x * self.places(torch.cat([x.mean(1, True), x.amax(1, True)], 1)).sigmoid()


class ContextAggregation(SqueezeExcite):
    """CAM of SqueezeSegV2: channels are scaled at every pixel from the maxima around it."""

    def __init__(self, channels: int, reach: int) -> None:
        super().__init__(channels, reach)
        self.pool = nn.MaxPool2d(reach, 1, reach // 2)

    def scaled(self, x: Tensor, at: Coordinates) -> Tensor:
        return x * self.mlp(self.pool(x)).sigmoid()


class PixelAdaptive(Plain):
    """PAC: neighbours count by a Gaussian of their distance in the coordinates, which is not learnt."""

    def forward(self, x: Tensor, at: Coordinates) -> Tensor:
        near = F.unfold(at.image, 3, padding=1).unflatten(1, (3, 9)) - at.image.flatten(2).unsqueeze(2)
        scale = (-near.square().sum(1) / 2).exp().unsqueeze(1)  # (B, 1, 9, H W)
        taps = F.unfold(x, 3, padding=1).unflatten(1, (-1, 9)) * scale
        kernel = self.conv.weight
        return F.conv2d(taps.view(len(x), -1, *x.shape[2:]), kernel.view(len(kernel), -1, 1, 1), self.conv.bias)


OPERATORS: dict[str, Any] = {
    "isk": lambda channels, reach: Adaptive(channels, reach, shared=False),
    "sk": lambda channels, reach: Adaptive(channels, reach, shared=True),
    "is": lambda channels, reach: PerPlace(channels, reach, shared=False),
    "s": lambda channels, reach: PerPlace(channels, reach, shared=True),
    "oisk": Everything,
    "plain": Plain,
    "se": SqueezeExcite,
    "cbam": ChannelsAndPlaces,
    "cam": ContextAggregation,
    "pac": PixelAdaptive,
}


class Block(nn.Module):
    """An operator with batch norm and ReLU, a convolution with the same, and the identity."""

    def __init__(self, channels: int, operator: str, reach: int) -> None:
        super().__init__()
        self.operator = OPERATORS[operator](channels, reach)
        self.norm = nn.BatchNorm2d(channels)
        self.second = Normed(nn.Conv2d(channels, channels, 3, padding=1), 0.0, momentum=0.1)
        self._kept: Kept[Tensor] = Kept()

    def forward(self, x: Tensor, at: Coordinates) -> Tensor:
        if self.training:
            self._kept.forget()
        if self.training or not isinstance(self.operator, Adaptive) or quick(x) != torch.float32:
            return x + self.second(F.relu(self.norm(self.operator(x, at))))
        operator = self.operator
        norms = (*learnt(self.norm), *learnt(operator.attention_norm))
        sources = [*operator.parameters(), *self.norm.parameters(), *norms]
        seen = adaptive_convolution(x, at.image, *self._kept(lambda: self._folded(at), *sources)).relu_()
        return self.second(seen).add_(x)

    def _folded(self, at: Coordinates) -> list[Tensor]:
        """Attention and kernel, each with its bias and with its norm folded in."""
        gain, shift = gain_and_shift(self.norm, *learnt(self.norm))
        conv = self.operator.conv
        return [*self.operator.attending(at), conv.weight * gain.view(-1, 1, 1, 1), conv.bias * gain + shift]


class Residual(nn.Module):
    """RangeNet's block: a 1 x 1 convolution to ``between`` channels, a 3 x 3 convolution back, and the identity."""

    def __init__(self, channels: int, between: int) -> None:
        super().__init__()
        self.first = Normed(nn.Conv2d(channels, between, 1, bias=False), 0.1)
        self.second = Normed(nn.Conv2d(between, channels, 3, padding=1, bias=False), 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return plus(self.second(x, self.first), x)


def plus(fresh: Tensor, other: Tensor) -> Tensor:
    """Their sum; where there are no gradients it is written into the first, which nobody else may hold."""
    return fresh + other if torch.is_grad_enabled() else fresh.add_(other)
