"""How well a ranking of pixels finds a region: intersection over union of its first pixels with the region."""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.core.errors import VergenceError


def box_mask(boxes: Tensor, height: int, width: int) -> Tensor:
    """The union of boxes (m, 4) as a mask (height, width); a box is top, left, bottom, right, the last two outside."""
    mask = torch.zeros(height, width, dtype=torch.bool)
    for top, left, bottom, right in boxes.tolist():
        mask[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = True
    return mask


def top_iou(order: Tensor, region: Tensor, count: int | None = None) -> float:
    """IoU of the first ``count`` pixels of a ranking (n,) with a region (H, W); by default as many as it has."""
    area = _area(order, region)
    taken = area if count is None else count
    if not 0 < taken <= len(order):
        raise VergenceError(f"IoU is of 1 to {len(order)} pixels, got {taken}")
    common = int(region.flatten()[order[:taken]].sum())
    return common / (taken + area - common)


def best_iou(order: Tensor, region: Tensor, steps: int = 100) -> float:
    """The largest IoU of the first pi pixels of a ranking with a region, over pi of 1 %, 2 %, ... of the pixels."""
    area = _area(order, region)
    counts = torch.tensor([round(len(order) * step / steps) for step in range(1, steps + 1)]).clamp(min=1)
    common = region.flatten()[order].cumsum(0)[counts.to(order.device) - 1].cpu()
    return float((common / (counts + area - common)).max())


def _area(order: Tensor, region: Tensor) -> int:
    if region.dtype != torch.bool or region.numel() != order.numel():
        raise VergenceError(
            f"a ranking of {order.numel()} pixels is compared with a mask of as many, got {region.dtype} of shape "
            f"{tuple(region.shape)}"
        )
    area = int(region.sum())
    if not area:
        raise VergenceError("the region has no pixel to compare a ranking with")
    return area
