"""Spans of time (..., 2), start and end: overlaps, and suppression of duplicates in whole batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import cast

import torch
from torch import Tensor

KERNEL_TYPES = (torch.float32, torch.float64)
"""Types of the compiled kernel; others, and other devices, run in PyTorch."""


def span_iou(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union (...,) of spans that broadcast against each other; zero where both are empty."""
    common = torch.minimum(first[..., 1], second[..., 1]) - torch.maximum(first[..., 0], second[..., 0])
    common = common.clamp(min=0)
    union = (first[..., 1] - first[..., 0]) + (second[..., 1] - second[..., 0]) - common
    return torch.where(union > 0, common / union.clamp(min=torch.finfo(union.dtype).tiny), 0)


def pairwise_span_iou(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union (N, M) of every pair of spans (N, 2) and (M, 2)."""
    return span_iou(first.unsqueeze(-2), second.unsqueeze(-3))


def soft_nms_spans(
    spans: Tensor,
    scores: Tensor,
    sigma: float = 0.4,
    thresholds: tuple[float, float] = (0.5, 0.9),
    duration: float | Tensor = 1.0,
    most: int = 100,
) -> tuple[Tensor, Tensor]:
    """Indices (B, most) and lowered scores (B, most) of Soft-NMS over spans (B, N, 2) with scores (B, N), best first.

    The best span is taken, and the scores of those that overlap it by more than a threshold fall by
    ``exp(-iou^2 / sigma)``. The threshold grows with the width of the taken span: from the first of ``thresholds`` for
    an empty one to the second for one as long as the video's ``duration`` (a number, or one for each of B). Spans with
    a score of minus infinity do not take part; where they run out, the index is -1 and the score minus infinity.
    """
    if spans.shape[:-1] != scores.shape or spans.shape[-1] != 2 or scores.dim() != 2:
        raise ValueError(f"spans are (B, N, 2) with scores (B, N), got {tuple(spans.shape)} and {tuple(scores.shape)}")
    if not sigma > 0 or most < 1:
        raise ValueError(f"Soft-NMS has sigma > 0 and takes one span or more, got {sigma} and {most}")
    low, high = thresholds
    length = spans[..., 1] - spans[..., 0]
    limit = low + (high - low) * length / torch.as_tensor(duration, dtype=spans.dtype, device=spans.device).view(-1, 1)
    index = torch.full((len(scores), most), -1, device=scores.device)
    lowered = scores.new_full((len(scores), most), -math.inf)
    kernel = _kernel() if scores.device.type == "cpu" and scores.dtype == spans.dtype in KERNEL_TYPES else None
    if kernel is None:
        _turns(spans, limit, scores.clone(), sigma, index, lowered)
    else:
        start, end = (column.contiguous().numpy() for column in spans.detach().unbind(-1))
        kernel(start, end, limit.detach().numpy(), scores.detach().clone(memory_format=torch.contiguous_format).numpy(),
               sigma, index.numpy(), lowered.numpy())  # fmt: skip
    return index, lowered


def _turns(spans: Tensor, limit: Tensor, left: Tensor, sigma: float, index: Tensor, lowered: Tensor) -> None:
    """Soft-NMS in PyTorch: one span of every row in a turn."""
    start, end = spans.unbind(-1)
    length = end - start
    tiny = torch.finfo(spans.dtype).tiny
    for turn in range(min(index.shape[1], left.shape[1])):
        best, at = left.max(1, keepdim=True)
        index[:, turn] = torch.where(best > -math.inf, at, -1).squeeze(1)
        lowered[:, turn] = best.squeeze(1)
        common = torch.minimum(end, end.gather(1, at)).sub_(torch.maximum(start, start.gather(1, at))).clamp_(min=0)
        iou = common / (length + length.gather(1, at)).sub_(common).clamp_(min=tiny)
        meets = (iou > limit.gather(1, at)).nonzero(as_tuple=True)
        left[meets] *= torch.exp(-iou[meets].square() / sigma)
        left.scatter_(1, at, -math.inf)


@cache
def _kernel() -> Callable[..., None] | None:
    """The kernel of the extra ``fast``, if installed; imported on first use, because numba takes a second to import."""
    try:
        from vergence.ops.suppression import soft_nms
    except ImportError:
        return None
    return cast(Callable[..., None], soft_nms)
