"""The two-way feature pyramid of TabStruct-Net: deep levels also see what the finest one knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

Smoothing = Literal["dilated", "plain"]
"""The convolution after a level is summed: 2x2 with a dilation of 2, or 3x3."""


class TwoWayPyramid(nn.Module):
    """Maps of four strides to as many with the same number of channels, and one more at twice the last stride.

    The deepest map is enlarged step by step, the finest one is projected and pooled step by step, and each level is the
    sum of both and of its own map. ``far`` adds a 7x7 convolution with a dilation of 2 to the smoothed maps.
    """

    def __init__(
        self, inputs: Sequence[int], channels: int = 256, smoothing: Smoothing = "dilated", far: bool = False
    ) -> None:
        super().__init__()
        self.down = nn.Conv2d(inputs[-1], channels, 1)
        self.up = nn.ModuleList(nn.Conv2d(inputs[0] if n == 0 else channels, channels, 1) for n in range(len(inputs)))
        self.lateral = nn.ModuleList(nn.Conv2d(width, channels, 1) for width in inputs[1:-1])
        size, dilation = (2, 2) if smoothing == "dilated" else (3, 1)
        self.smooth = nn.ModuleList(nn.Conv2d(channels, channels, size, padding=1, dilation=dilation) for _ in inputs)
        self.far = nn.ModuleList(
            nn.Conv2d(channels, channels, 7, padding=6, dilation=2) for _ in (inputs if far else ())
        )
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_uniform_(module.weight, a=1)
            assert module.bias is not None
            nn.init.zeros_(module.bias)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Maps (B, C_i, H_i, W_i), finest first, to maps (B, channels, H_i, W_i) and a pooled one."""
        rising = [self.up[0](maps[0])]
        for project in list(self.up)[1:]:
            rising.append(F.max_pool2d(project(rising[-1]), 2))
        falling = [self.down(maps[-1])]
        for finer in reversed(maps[:-1]):
            falling.insert(0, F.interpolate(falling[0], size=finer.shape[-2:]))
        levels = [a + b for a, b in zip(rising, falling, strict=True)]
        for number, project in enumerate(self.lateral, 1):
            levels[number] = levels[number] + project(maps[number])
        levels = [smooth(level) for smooth, level in zip(self.smooth, levels, strict=True)]
        levels = [level + far(level) for far, level in zip(self.far, levels, strict=True)] if len(self.far) else levels
        return [*levels, F.max_pool2d(levels[-1], 1, 2)]
