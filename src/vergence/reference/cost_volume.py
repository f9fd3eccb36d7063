"""Cost volumes of optical flow by their definitions: one bilinear lookup per displacement."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def looked_up(image: Tensor, flow: Tensor) -> Tensor:
    """``image(x + flow(x))`` for images (B, C, H, W) and flow (B, 2, H, W), bilinear, zero outside."""
    height, width = image.shape[-2:]
    rows = torch.arange(height, dtype=flow.dtype, device=flow.device).view(-1, 1)
    columns = torch.arange(width, dtype=flow.dtype, device=flow.device)
    x = (columns + flow[:, 0] + 0.5) * 2 / width - 1
    y = (rows + flow[:, 1] + 0.5) * 2 / height - 1
    return F.grid_sample(image, torch.stack([x, y], -1), "bilinear", "zeros", align_corners=False)


def cost(first: Tensor, other: Tensor, metric: str) -> Tensor:
    """Mean product, or mean absolute difference, over channels: (B, H, W)."""
    return (first * other).mean(1) if metric == "corr" else (first - other).abs().mean(1)


def sampled(first: Tensor, second: Tensor, flow: Tensor, reach: int, metric: str = "corr") -> Tensor:
    """Eqs. 2 and 3, by a loop over displacements: (B, (2 reach + 1)², H, W)."""
    costs = []
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            costs.append(cost(first, looked_up(second, flow + flow.new_tensor([dx, dy]).view(2, 1, 1)), metric))
    return torch.stack(costs, 1)


def warped(first: Tensor, second: Tensor, flow: Tensor, reach: int, metric: str = "corr") -> Tensor:
    """Eq. 1: the second features are warped once, and then shifted; as in the public code of PWC-Net and IRR."""
    height, width = first.shape[-2:]
    around = F.pad(looked_up(second, flow), (reach,) * 4)
    costs = []
    for dy in range(2 * reach + 1):
        for dx in range(2 * reach + 1):
            costs.append(cost(first, around[..., dy : dy + height, dx : dx + width], metric))
    return torch.stack(costs, 1)
