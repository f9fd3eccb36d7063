"""Metrics of scene flow: end-point error, strict and relaxed accuracy, and outliers; and of part segmentation."""

from __future__ import annotations

import torch
from torch import Tensor


def flow_scores(flow: Tensor, truth: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Scores of each scene, (B,), over its points with ``mask``; flows are (B, N, 3), the mask (B, N) booleans.

    ``epe`` is the mean error in metres. The rest are percentages of points: ``strict`` below 5 cm or 5 % of the true
    length, ``relaxed`` below 10 cm or 10 %, ``outliers`` above 30 cm or 10 %. A scene without valid points has NaN.
    """
    error = (flow - truth).norm(dim=-1)
    relative = error / (truth.norm(dim=-1) + 1e-4)
    count = mask.sum(-1)

    def share(chosen: Tensor) -> Tensor:
        return 100 * (chosen & mask).sum(-1) / count

    return {
        "epe": (error * mask).sum(-1) / count,
        "strict": share((error < 0.05) | (relative < 0.05)),
        "relaxed": share((error < 0.1) | (relative < 0.1)),
        "outliers": share((error > 0.3) | (relative > 0.1)),
    }


def part_iou(predicted: Tensor, truth: Tensor, first: int, count: int) -> float:
    """Part IoU of one shape in percent: the mean over the parts ``first`` to ``first + count - 1`` of its category,
    where a part that is neither predicted nor there counts as right."""
    every = torch.arange(first, first + count, device=truth.device).unsqueeze(1)
    ours, theirs = predicted == every, truth == every
    either = (ours | theirs).sum(1)
    iou = (ours & theirs).sum(1).double() / either.clamp(min=1)
    return 100 * float(iou.where(either > 0, torch.ones_like(iou)).mean())


def part_scores(ious: Tensor, labels: Tensor) -> tuple[float, float]:
    """Part IoU (S,) of all shapes as the mean over shapes, and as the mean over the categories (S,) that occur."""
    by_category = [float(ious[labels == label].mean()) for label in labels.unique().tolist()]
    return float(ious.mean()), sum(by_category) / len(by_category)
