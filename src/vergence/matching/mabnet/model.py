"""MABNet: features from multibranch bottlenecks, a concatenation volume, hourglasses, and the expected disparity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.matching.mabnet.settings import ModelConfig
from vergence.nn.folded import Kept, computed_in
from vergence.ops.precision import full_precision, wide
from vergence.ops.stereo import soft_argmin, volume_convolution

STEP = 16
"""Height, width and disparities are multiples of it: a quarter of the resolution, halved twice."""


class ConvNorm(nn.Module):
    """A convolution over two or three dimensions, its batch norm and, if ``rectified``, a ReLU.

    In evaluation the norm is folded into the kernel, which is kept until the weights change."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int | tuple[int, ...] = 3,
        stride: int = 1,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        dims: int = 2,
        rectified: bool = False,
        transposed: bool = False,
    ) -> None:
        super().__init__()
        sides = (size,) * dims if isinstance(size, int) else size
        gaps = (dilation,) * dims if isinstance(dilation, int) else dilation
        ends = (inputs, outputs) if transposed else (outputs, inputs // groups)
        self.weight = nn.Parameter(torch.empty(*ends, *sides))
        self.norm: nn.BatchNorm2d | nn.BatchNorm3d = (nn.BatchNorm2d if dims == 2 else nn.BatchNorm3d)(outputs)
        self.stride, self.dilation, self.groups = stride, gaps, groups
        self.padding = tuple(gap * (side // 2) for gap, side in zip(gaps, sides, strict=True))
        self.rectified, self.transposed, self.dims = rectified, transposed, dims
        self._kept: Kept[Tensor] = Kept()

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self._kept.forget()
            out = self.norm(self.convolved(x, self.weight, None))
        else:
            out = self.convolved(x, *self.folded(x))
        return F.relu(out, inplace=True) if self.rectified else out

    def convolved(self, x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
        if self.transposed:
            return F.conv_transpose3d(x, kernel, bias, self.stride, self.padding, output_padding=1)
        if self.dims == 3 and _by_onednn(x, kernel):
            steps = [self.stride] * 3
            return torch.mkldnn_convolution(x, kernel, bias, self.padding, steps, self.dilation, self.groups)
        convolve: Any = F.conv2d if self.dims == 2 else F.conv3d
        out: Tensor = convolve(x, kernel, bias, self.stride, self.padding, self.dilation, self.groups)
        return out

    def folded(self, x: Tensor) -> list[Tensor]:
        """The kernel with the norm folded in, and the remaining bias, in the type that convolutions of ``x`` use."""
        norm, kind = self.norm, computed_in(x)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        sources = (self.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var)

        def make() -> list[Tensor]:
            weight, scale, shift, mean, variance = sources
            gain = scale * (variance + norm.eps).rsqrt()
            shape = (1, -1) if self.transposed else (-1, 1)
            kernel = weight * gain.view(*shape, *[1] * self.dims)
            return [kernel.to(kind), (shift - mean * gain).to(kind)]

        return self._kept(make, *sources, kind=kind)


def _by_onednn(x: Tensor, kernel: Tensor) -> bool:
    """Whether to ask for oneDNN's convolution: for a single small volume PyTorch chooses one that is several times as
    slow and unfolds the volume in memory."""
    plain = x.device.type == "cpu" and x.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    learning = torch.is_grad_enabled() and (x.requires_grad or kernel.requires_grad)
    return plain and len(x) == 1 and not learning and not torch.compiler.is_compiling()


class VolumeNorm(ConvNorm):
    """:class:`ConvNorm` of a concatenation volume, computed from the features of both pictures."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__(2 * features, outputs, dims=3, rectified=True)

    def of(self, left: Tensor, right: Tensor, levels: int) -> Tensor:
        """The first layer on the volume of features (B, C, H, W): (B, O, levels, H, W)."""
        if self.training:
            self._kept.forget()
            out = self.norm(volume_convolution(left, right, self.weight, None, levels))
        else:
            kernel, bias = self.folded(left)
            out = volume_convolution(left, right, kernel, bias, levels)
        return F.relu(out, inplace=True)


def shuffled(x: Tensor, groups: int = 2) -> Tensor:
    """Channels of ``groups`` equal parts in turn."""
    return x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


def interleaved(first: Tensor, second: Tensor) -> Tensor:
    """Two tensors joined along the channels and shuffled: a channel of each in turn."""
    return torch.stack([first, second], 2).flatten(1, 2)


# Blocks ---------------------------------------------------------------------------------------------------------------


class MAB2d(nn.Module):
    """The multibranch bottleneck: dilations 1, 2, 4, ... with widths ``shares`` of half the channels.

    Where shape stays the same, half of the channels pass unchanged; otherwise all of them are transformed twice.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1, shares: Sequence[float] = (1, 0.5, 0.25)) -> None:
        super().__init__()
        half = outputs // 2
        self.same = stride == 1 and inputs == outputs
        self.widths = [widened(share, half) for share in shares]
        total = sum(self.widths)
        # The pointwise convolutions of all branches, side by side.
        self.expand = ConvNorm(half if self.same else inputs, total, 1, rectified=True)
        self.spatial = nn.ModuleList(
            ConvNorm(width, width, 3, stride, 2**number, groups=width) for number, width in enumerate(self.widths)
        )
        self.merge = ConvNorm(total, half, 1)
        if not self.same:
            self.shortcut = nn.Sequential(ConvNorm(inputs, inputs, 3, stride, groups=inputs), ConvNorm(inputs, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        passed, seen = x.chunk(2, 1) if self.same else (self.shortcut(x), x)
        parts = self.expand(seen).split(self.widths, 1)
        merged = self.merge(torch.cat([conv(part) for conv, part in zip(self.spatial, parts, strict=True)], 1))
        return interleaved(passed, merged)


class MAB3d(nn.Module):
    """The bottleneck for volumes: half of the channels pass unchanged; each branch convolves the others along the
    disparity, dense over channels, then in the plane channel by channel."""

    def __init__(self, channels: int, shares: Sequence[float] = (1, 0.5)) -> None:
        super().__init__()
        half = channels // 2
        widths = [widened(share, half) for share in shares]
        self.branches = nn.ModuleList(
            nn.Sequential(
                ConvNorm(half, width, (3, 1, 1), 1, (2**n, 1, 1), dims=3, rectified=True),
                ConvNorm(width, width, (1, 3, 3), 1, (1, 2**n, 2**n), width, 3),
            )
            for n, width in enumerate(widths)
        )
        self.merge = ConvNorm(sum(widths), half, 1, dims=3)

    def forward(self, x: Tensor) -> Tensor:
        passed, seen = x.chunk(2, 1)
        return interleaved(passed, self.merge(torch.cat([branch(seen) for branch in self.branches], 1)))


class BasicBlock(nn.Module):
    """The residual block of PSMNet: two convolutions, and no ReLU after the sum."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.convs = nn.Sequential(ConvNorm(inputs, outputs, 3, stride, rectified=True), ConvNorm(outputs, outputs))
        changes = stride != 1 or inputs != outputs
        self.shortcut = ConvNorm(inputs, outputs, 1, stride) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.convs(x) + self.shortcut(x)
        return out


def widened(share: float, half: int) -> int:
    """The width of a branch."""
    width = share * half
    if width < 1 or width != int(width):
        raise VergenceError(f"a branch with a share of {share:g} of {half} channels has {width:g}: expected 1 or more")
    return int(width)


# The network ----------------------------------------------------------------------------------------------------------


class Features(nn.Module):
    """Features of one picture, (B, 3, H, W) to (B, C, H/4, W/4)."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        stem, neck, *widths = (round(width * model.widen) for width in (model.stem, model.neck, *model.widths))
        self.stem = nn.Sequential(*(
            ConvNorm(inputs, stem, 3, stride, rectified=True) for inputs, stride in ((3, 2), (stem, 1), (stem, 1))
        ))  # fmt: skip

        def block(inputs: int, outputs: int, stride: int) -> nn.Module:
            if model.block == "resnet":
                return BasicBlock(inputs, outputs, stride)
            return MAB2d(inputs, outputs, stride, model.shares)

        groups, below = [], stem
        for number, (count, width) in enumerate(zip(model.blocks, widths, strict=True)):
            ends = [(below, width, 2 if number == 1 else 1), *[(width, width, 1)] * (count - 1)]
            groups.append(nn.Sequential(*(block(*end) for end in ends)))
            below = width
        self.groups = nn.ModuleList(groups)
        self.joined = ConvNorm(sum(widths[1:]), neck, rectified=True)
        self.last = nn.Conv2d(neck, model.channels, 1, bias=False)

    def forward(self, picture: Tensor) -> Tensor:
        x, outputs = self.stem(picture), []
        for group in self.groups:
            x = group(x)
            outputs.append(x)
        out: Tensor = self.last(self.joined(torch.cat(outputs[1:], 1)))
        return out


class MultiBranchHourglass(nn.Module):
    """An hourglass whose halving convolutions come in pairs, with dilations 1 and 2."""

    def __init__(self, channels: int, shares: Sequence[float]) -> None:
        super().__init__()

        def halving(outputs: int, count: int) -> nn.ModuleList:
            dilations = (1, 2) * (count // 2)
            return nn.ModuleList(ConvNorm(channels, outputs, 3, 2, d, dims=3, rectified=True) for d in dilations)

        self.down = halving(channels, 2)
        self.middle = nn.ModuleList(MAB3d(channels, shares) for _ in range(2))
        self.again = halving(channels // 2, 4)
        self.bottom = MAB3d(2 * channels, shares)
        self.up = ConvNorm(2 * channels, 2 * channels, 3, 2, dims=3, transposed=True)
        self.out = ConvNorm(2 * channels, channels, 3, 2, dims=3, transposed=True)

    def forward(self, x: Tensor) -> Tensor:
        before = [mab(conv(x)) for mab, conv in zip(self.middle, self.down, strict=True)]
        small = [conv(before[number // 2]) for number, conv in enumerate(self.again)]
        up = self.up(self.bottom(torch.cat(small, 1)))
        out: Tensor = self.out(F.relu(up + torch.cat(before, 1)))
        return out


class PlainHourglass(nn.Module):
    """The hourglass of PSMNet: one convolution in place of each pair."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = 2 * channels
        self.down = ConvNorm(channels, wide, 3, 2, dims=3, rectified=True)
        self.middle = ConvNorm(wide, wide, dims=3, rectified=True)
        self.again = ConvNorm(wide, wide, 3, 2, dims=3, rectified=True)
        self.bottom = ConvNorm(wide, wide, dims=3, rectified=True)
        self.up = ConvNorm(wide, wide, 3, 2, dims=3, transposed=True)
        self.out = ConvNorm(wide, channels, 3, 2, dims=3, transposed=True)

    def forward(self, x: Tensor) -> Tensor:
        before = self.middle(self.down(x))
        out: Tensor = self.out(F.relu(self.up(self.bottom(self.again(before))) + before))
        return out


class MABNet(nn.Module):
    """Disparity from a pair."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.settings = model
        c = model.channels
        self.features = Features(model)
        self.first = VolumeNorm(c, c)
        self.second = ConvNorm(c, c, dims=3, rectified=True)
        self.residual = nn.Sequential(ConvNorm(c, c, dims=3, rectified=True), ConvNorm(c, c, dims=3))
        self.hourglasses = nn.ModuleList(
            MultiBranchHourglass(c, model.shares3d) if model.hourglass == "multibranch" else PlainHourglass(c)
            for _ in range(model.hourglasses)
        )
        self.heads = nn.ModuleList(
            nn.Sequential(ConvNorm(c, c, dims=3, rectified=True), nn.Conv3d(c, 1, 3, padding=1, bias=False))
            for _ in range(model.hourglasses)
        )
        self.reset()

    def reset(self) -> None:
        """Kernels from N(0, sqrt(2 / (taps x outputs))), as published."""
        for module in self.modules():
            if isinstance(module, MAB2d):
                for rows, width in zip(module.expand.weight.split(module.widths), module.widths, strict=True):
                    _normal(rows, width)
        merged = {module.expand for module in self.modules() if isinstance(module, MAB2d)}
        for module in self.modules():
            if isinstance(module, ConvNorm) and module not in merged:
                _normal(module.weight, module.weight.shape[1 if module.transposed else 0])
            elif isinstance(module, nn.Conv2d | nn.Conv3d):
                _normal(module.weight, module.weight.shape[0])

    def forward(self, left: Tensor, right: Tensor, disparities: int | None = None) -> Tensor | list[Tensor]:
        """The disparity (B, H, W) of the left picture; while training, a list with that of each hourglass.

        Pictures are (B, 3, H, W), normalised. ``disparities`` are those of the settings unless given: the network is
        convolutional along them too."""
        with full_precision(left):  # the mean disparity follows small differences of scores
            scores = self.scores(wide(left), wide(right), disparities or self.settings.disparities)
            if self.training:
                return [soft_argmin(some) for some in scores]
            return soft_argmin(scores[-1])

    def scores(self, left: Tensor, right: Tensor, disparities: int) -> list[Tensor]:
        """Scores (B, disparities / 4, H / 4, W / 4) after each hourglass; in evaluation, of the last alone."""
        _refuse(left, right, disparities)
        # While training, norms see one picture of the pairs at a time, as published.
        if self.training:
            one, other = self.features(left), self.features(right)
        else:
            one, other = self.features(torch.cat([left, right])).chunk(2)
        x = self.second(self.first.of(one, other, disparities // 4))
        start = self.residual(x) + x
        out, total, scores = start, None, []
        for hourglass, head in zip(self.hourglasses, self.heads, strict=True):
            out = hourglass(out) + start
            own = head(out).squeeze(1)
            total = own if total is None else total + own
            scores.append(total)
        return scores


def _normal(weight: Tensor, outputs: Any) -> None:
    with torch.no_grad():
        if not weight.is_meta:
            weight.normal_().mul_((2 / (math.prod(weight.shape[2:]) * outputs)) ** 0.5)


def _refuse(left: Tensor, right: Tensor, disparities: int) -> None:
    if left.dim() != 4 or left.shape[1] != 3 or left.shape != right.shape:
        raise VergenceError(
            f"a pair is two tensors (B, 3, H, W) of one shape, got {tuple(left.shape)} and {tuple(right.shape)}"
        )
    for name, value in (("height", left.shape[2]), ("width", left.shape[3]), ("disparities", disparities)):
        if value < STEP or value % STEP:
            raise VergenceError(f"{name} must be a multiple of {STEP}, got {value}")


def build(model: ModelConfig) -> MABNet:
    return MABNet(model)
