"""Feature pyramids (Lin et al., 2017): every level sees what the deeper ones know. Names are torchvision's."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.frozen import FrozenResNet


class FeaturePyramid(nn.Module):
    """Maps of several strides to as many with the same number of channels, and one more at twice the last stride."""

    def __init__(self, inputs: Sequence[int], channels: int = 256) -> None:
        super().__init__()
        self.inner_blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, channels, 1)) for width in inputs)
        self.layer_blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1)) for _ in inputs)
        for module in (m for m in self.modules() if isinstance(m, nn.Conv2d)):
            nn.init.kaiming_uniform_(module.weight, a=1)
            assert module.bias is not None
            nn.init.zeros_(module.bias)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """Maps (B, C_i, H_i, W_i), finest first, to maps (B, channels, H_i, W_i) and a pooled one."""
        above = self.inner_blocks[-1](maps[-1])
        levels = [self.layer_blocks[-1](above)]
        for number in range(len(maps) - 2, -1, -1):
            lateral = self.inner_blocks[number](maps[number])
            above = lateral + F.interpolate(above, size=lateral.shape[-2:])
            levels.insert(0, self.layer_blocks[number](above))
        return [*levels, F.max_pool2d(levels[-1], 1, 2)]


class PyramidTrunk(nn.Module):
    """A ResNet with frozen norms and a pyramid on the maps of its four stages: ``body`` and ``fpn``."""

    def __init__(self, body: FrozenResNet, channels: int = 256) -> None:
        super().__init__()
        self.body = body
        self.fpn = FeaturePyramid(body.channels, channels)
        self.channels = channels
        self.strides = tuple(4 * 2**number for number in range(len(body.channels) + 1))

    def forward(self, x: Tensor) -> list[Tensor]:
        """Pictures (B, 3, H, W) to the levels of the pyramid."""
        return self.fpn(self.body.maps(x))
