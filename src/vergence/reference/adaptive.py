"""Spatially-adaptive convolution by its definition, and SqueezeSegV3 as the public code has it: features and attention
are unfolded to nine times their channels and written whole."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def adaptive_sum(x: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
    """Eqs. 3 and 4 as sums over six indices, for one image: x (C, H, W), scale (C, H, W, K, K), weight (O, C, K, K)."""
    outputs, channels, side, _ = weight.shape
    half = side // 2
    _, height, width = x.shape
    rows = []
    for m in range(outputs):
        for p in range(height):
            for q in range(width):
                total = x.new_zeros(())
                for n in range(channels):
                    for i in range(side):
                        for j in range(side):
                            u, v = p + i - half, q + j - half
                            if 0 <= u < height and 0 <= v < width:
                                total = total + weight[m, n, i, j] * scale[n, p, q, i, j] * x[n, u, v]
                rows.append(total)
    return torch.stack(rows).view(outputs, height, width)


def block(part: Any, x: Tensor, xyz: Tensor) -> Tensor:
    """``SACBlock.forward`` with the weights of one of our blocks."""
    sac, batch, channels, height, width = part.operator, *x.shape
    unfolded = F.unfold(x, 3, padding=1).view(batch, 9 * channels, height, width)
    attention = torch.sigmoid(sac.attention_norm(sac.attention(xyz)))
    seen = F.conv2d(unfolded * attention, sac.conv.weight.view(channels, -1, 1, 1), sac.conv.bias)
    y = F.relu(part.norm(seen))
    y = F.relu(part.second.norm(part.second.conv(y)))
    return y + x


def normed(part: Any, x: Tensor) -> Tensor:
    """A convolution, batch norm and leaky ReLU."""
    return F.leaky_relu(part.norm(part.conv(x)), 0.1)


def squeezesegv3(network: Any, image: Tensor) -> list[Tensor]:
    """The scores of every level, finest first, with the weights of one of our networks in evaluation mode."""
    x, xyz, skips = normed(network.stem, image), image[:, 1:4], []
    for stage in network.stages:
        entering = x
        for part in stage.blocks:
            x = block(part, x, xyz)
        if stage.halves:
            x = normed(stage.end[0], x)
            skips.append(entering.detach())
            size = (xyz.shape[2], xyz.shape[3] // 2)
            xyz = F.interpolate(xyz, size, mode="bilinear", align_corners=True)
    levels = []
    for number, rise in enumerate(network.rises):
        x = normed(rise.up, x)
        x = x + normed(rise.residual.second, normed(rise.residual.first, x))
        if number >= 2:
            x = x + skips.pop()
        levels.append(x)
    return [head(x) for head, x in zip(network.heads, reversed(levels), strict=True)]
