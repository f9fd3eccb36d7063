"""The guided filter (He, Sun and Tang, TPAMI 2013): a map follows the edges of a picture.

Within every window the map is a linear function of the guide's channels; a pixel takes the mean of the functions of all
windows it lies in. The functions can be computed on small copies and applied at full size (He and Sun, 2015).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def window_means(x: Tensor, radius: int) -> Tensor:
    """Means (B, C, H, W) over windows of 2 ``radius`` + 1 pixels, cut off at the borders."""
    side = 2 * radius + 1
    rows = F.avg_pool2d(x, (1, side), 1, (0, radius), count_include_pad=False)
    return F.avg_pool2d(rows, (side, 1), 1, (radius, 0), count_include_pad=False)


def guided(maps: Tensor, guide: Tensor, radius: int, eps: float, full: Tensor | None = None) -> Tensor:
    """Maps (B, 1, H, W) that follow the edges of a ``guide`` (B, C, H, W); with a guide of ``full`` size, (B, C, H',
    W'), maps of that size. Slopes are small where the guide varies by less than the root of ``eps`` in a window."""
    channels = guide.shape[1]
    mean, own = window_means(guide, radius), window_means(maps, radius)
    products = (guide.unsqueeze(1) * guide.unsqueeze(2)).flatten(1, 2)
    spread = window_means(products, radius) - (mean.unsqueeze(1) * mean.unsqueeze(2)).flatten(1, 2)
    spread = spread.unflatten(1, (channels, channels)).permute(0, 3, 4, 1, 2)
    both = (window_means(guide * maps, radius) - mean * own).permute(0, 2, 3, 1).unsqueeze(-1)
    slope = torch.linalg.solve(spread + eps * torch.eye(channels).to(guide), both).squeeze(-1).permute(0, 3, 1, 2)
    offset = own - (slope * mean).sum(1, keepdim=True)
    slope, offset = window_means(slope, radius), window_means(offset, radius)
    if full is None:
        full = guide
    elif full.shape[-2:] != guide.shape[-2:]:
        slope, offset = (
            F.interpolate(t, full.shape[-2:], mode="bilinear", align_corners=False) for t in (slope, offset)
        )
    return (slope * full).sum(1, keepdim=True) + offset
