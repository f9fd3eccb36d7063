"""Plain forms of stereo matching: volumes filled level by level, whole enlarged scores, and MABNet as its authors wrote
it, one small layer at a time. Slow and easy to read; fast forms are compared with them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def concatenation_volume(left: Tensor, right: Tensor, levels: int) -> Tensor:
    """(B, 2C, levels, H, W), filled one level after the other."""
    batch, channels, height, width = left.shape
    volume = left.new_zeros(batch, 2 * channels, levels, height, width)
    for d in range(min(levels, width)):
        volume[:, :channels, d, :, d:] = left[..., d:]
        volume[:, channels:, d, :, d:] = right[..., : width - d]
    return volume


def soft_argmin(scores: Tensor) -> Tensor:
    """The mean disparity (B, 4H, 4W) under the softmax of scores (B, D, H, W) enlarged four times."""
    _, depth, height, width = scores.shape
    size = (4 * depth, 4 * height, 4 * width)
    whole = F.interpolate(scores.unsqueeze(1), size, mode="trilinear", align_corners=False).squeeze(1)
    levels = torch.arange(4 * depth, device=scores.device, dtype=scores.dtype).view(1, -1, 1, 1)
    return torch.sum(F.softmax(whole, dim=1) * levels, 1)


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Channels viewed as (groups, C / groups), transposed and flattened."""
    batch, channels, *rest = x.shape
    return x.view(batch, groups, channels // groups, *rest).transpose(1, 2).contiguous().view(batch, channels, *rest)


# MABNet ---------------------------------------------------------------------------------------------------------------


def convbn(inputs: int, outputs: int, size: int, stride: int, dilation: int = 1, groups: int = 1) -> nn.Sequential:
    padding = dilation if dilation > 1 else size // 2
    conv = nn.Conv2d(inputs, outputs, size, stride, padding, dilation, groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


def convbn_3d(inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    conv = nn.Conv3d(inputs, outputs, 3, stride, dilation, dilation, bias=False)
    return nn.Sequential(conv, nn.BatchNorm3d(outputs))


class MAB(nn.Module):
    """The bottleneck for pictures, with one module per branch."""

    def __init__(self, inputs: int, outputs: int, stride: int, shares: Sequence[float]) -> None:
        super().__init__()
        half = outputs // 2
        self.same = stride == 1 and inputs == outputs
        seen = half if self.same else inputs
        self.branches = nn.ModuleList()
        for number, share in enumerate(shares):
            width = int(share * half)
            pointwise, spatial = convbn(seen, width, 1, 1), convbn(width, width, 3, stride, 2**number, width)
            self.branches.append(nn.Sequential(*pointwise, nn.ReLU(), *spatial))
        self.merge = convbn(sum(int(share * half) for share in shares), half, 1, 1)
        if not self.same:
            self.shortcut = nn.Sequential(*convbn(inputs, inputs, 3, stride, 1, inputs), *convbn(inputs, half, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        if self.same:
            half = x.shape[1] // 2
            passed, seen = x[:, :half], x[:, half:]
        else:
            passed, seen = self.shortcut(x), x
        merged = self.merge(torch.cat([branch(seen) for branch in self.branches], 1))
        return channel_shuffle(torch.cat([passed, merged], 1), 2)


class MAB3d(nn.Module):
    """The bottleneck for volumes."""

    def __init__(self, channels: int, shares: Sequence[float]) -> None:
        super().__init__()
        half = channels // 2
        self.branches = nn.ModuleList()
        for number, share in enumerate(shares):
            width, gap = int(share * half), 2**number
            along = nn.Conv3d(half, width, (3, 1, 1), 1, (gap, 0, 0), (gap, 1, 1), bias=False)
            spatial = nn.Conv3d(width, width, (1, 3, 3), 1, (0, gap, gap), (1, gap, gap), width, bias=False)
            self.branches.append(nn.Sequential(along, nn.BatchNorm3d(width), nn.ReLU(), spatial, nn.BatchNorm3d(width)))
        total = sum(int(share * half) for share in shares)
        self.merge = nn.Sequential(nn.Conv3d(total, half, 1, bias=False), nn.BatchNorm3d(half))

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[1] // 2
        merged = self.merge(torch.cat([branch(x[:, half:]) for branch in self.branches], 1))
        return channel_shuffle(torch.cat([x[:, :half], merged], 1), 2)


class Features(nn.Module):
    def __init__(
        self, stem: int, blocks: Sequence[int], widths: Sequence[int], neck: int, channels: int, shares: Sequence[float]
    ) -> None:
        super().__init__()
        layers = [(*convbn(inputs, stem, 3, stride), nn.ReLU()) for inputs, stride in ((3, 2), (stem, 1), (stem, 1))]
        self.stem = nn.Sequential(*(layer for part in layers for layer in part))
        self.groups, below = nn.ModuleList(), stem
        for number, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            first = MAB(below, width, 2 if number == 1 else 1, shares)
            self.groups.append(nn.Sequential(first, *(MAB(width, width, 1, shares) for _ in range(count - 1))))
            below = width
        self.lastconv = nn.Sequential(
            *convbn(sum(widths[1:]), neck, 3, 1), nn.ReLU(), nn.Conv2d(neck, channels, 1, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        outputs = []
        for group in self.groups:
            x = group(x)
            outputs.append(x)
        out: Tensor = self.lastconv(torch.cat(outputs[1:], 1))
        return out


class Hourglass(nn.Module):
    def __init__(self, c: int, shares: Sequence[float]) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Sequential(*convbn_3d(c, c, 2, gap), nn.ReLU()) for gap in (1, 2))
        self.middle = nn.ModuleList(MAB3d(c, shares) for _ in range(2))
        self.again = nn.ModuleList(nn.Sequential(*convbn_3d(c, c // 2, 2, gap), nn.ReLU()) for gap in (1, 2, 1, 2))
        self.bottom = MAB3d(2 * c, shares)
        self.up = nn.Sequential(
            nn.ConvTranspose3d(2 * c, 2 * c, 3, 2, 1, output_padding=1, bias=False), nn.BatchNorm3d(2 * c)
        )
        self.out = nn.Sequential(nn.ConvTranspose3d(2 * c, c, 3, 2, 1, output_padding=1, bias=False), nn.BatchNorm3d(c))

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.middle[0](self.down[0](x)), self.middle[1](self.down[1](x))
        parts = [self.again[0](first), self.again[1](first), self.again[2](second), self.again[3](second)]
        bottom = self.bottom(torch.cat(parts, 1))
        out: Tensor = self.out(F.relu(self.up(bottom) + torch.cat([first, second], 1)))
        return out


class MABNet(nn.Module):
    """The network as published: the volume is built and convolved, norms are layers of their own, and the enlarged
    scores are held as a whole."""

    def __init__(
        self,
        stem: int,
        blocks: Sequence[int],
        widths: Sequence[int],
        neck: int,
        channels: int,
        hourglasses: int,
        shares: Sequence[float],
        shares3d: Sequence[float],
    ) -> None:
        super().__init__()
        c = channels
        self.features = Features(stem, blocks, widths, neck, c, shares)
        self.dres0 = nn.Sequential(*convbn_3d(2 * c, c), nn.ReLU(), *convbn_3d(c, c), nn.ReLU())
        self.dres1 = nn.Sequential(*convbn_3d(c, c), nn.ReLU(), *convbn_3d(c, c))
        self.hourglasses = nn.ModuleList(Hourglass(c, shares3d) for _ in range(hourglasses))
        self.classif = nn.ModuleList(
            nn.Sequential(*convbn_3d(c, c), nn.ReLU(), nn.Conv3d(c, 1, 3, padding=1, bias=False))
            for _ in range(hourglasses)
        )

    def forward(self, left: Tensor, right: Tensor, disparities: int) -> list[Tensor]:
        """The disparity (B, H, W) of every hourglass; in evaluation, of the last alone."""
        volume = concatenation_volume(self.features(left), self.features(right), disparities // 4)
        cost0 = self.dres0(volume)
        cost0 = self.dres1(cost0) + cost0
        out, costs = cost0, list[Tensor]()
        for hourglass, classif in zip(self.hourglasses, self.classif, strict=True):
            out = hourglass(out) + cost0
            cost = classif(out).squeeze(1)
            costs.append(cost + costs[-1] if costs else cost)
        return [soft_argmin(cost) for cost in (costs if self.training else costs[-1:])]
