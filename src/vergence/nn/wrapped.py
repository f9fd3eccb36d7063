"""Convolutions and pooling of panoramas: columns continue from the last to the first, rows end at the poles."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def wrap_columns(x: Tensor, by: int) -> Tensor:
    """Maps (B, C, H, W) with ``by`` more columns on each side, as they continue around; ``by`` may exceed W."""
    width = x.shape[-1]
    if by <= width:
        return F.pad(x, (by, by, 0, 0), mode="circular") if by else x
    return x.index_select(-1, torch.arange(-by, width + by, device=x.device).remainder(width))


class WrapConv2d(nn.Conv2d):
    """`torch.nn.Conv2d` whose padding is circular across and zero above and below; plain zeros if not ``wraps``."""

    def __init__(
        self, inputs: int, outputs: int, size: int | tuple[int, int], stride: int = 1, dilation: int = 1,
        groups: int = 1, bias: bool = True, wraps: bool = True, padded: bool = True,
    ) -> None:  # fmt: skip
        high, wide = (size, size) if isinstance(size, int) else size
        reach = (dilation * (high // 2), dilation * (wide // 2)) if padded else (0, 0)
        self.around = reach[1] if wraps else 0
        padding = (reach[0], 0 if wraps else reach[1])
        super().__init__(inputs, outputs, (high, wide), stride, padding, dilation, groups, bias)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(wrap_columns(x, self.around))


def pooled(x: Tensor, kind: str, stride: int, wraps: bool, padded: bool) -> Tensor:
    """Pooling ``max`` or ``average`` over 3 x 3; without ``padded`` no border is added."""
    x = wrap_columns(x, 1) if wraps and padded else x
    padding = (1 if padded else 0, 1 if padded and not wraps else 0)
    return F.max_pool2d(x, 3, stride, padding) if kind == "max" else F.avg_pool2d(x, 3, stride, padding)
