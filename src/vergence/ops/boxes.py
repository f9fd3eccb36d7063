"""Boxes (..., 4) as left, top, right, bottom: overlaps, codes relative to anchors, and suppression of duplicates."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Literal, cast

import torch
from torch import Tensor

Overlap = Literal["iou", "giou", "diou", "ciou"]
BLOCK = 256
"""Boxes that are decided on together."""
LARGEST_GROWTH = math.log(1000 / 16)
"""Codes of a size beyond this are cut off, so that exponentials stay finite."""


def area(boxes: Tensor) -> Tensor:
    """Areas (...,); zero for boxes without width or height."""
    return (boxes[..., 2] - boxes[..., 0]).clamp(min=0) * (boxes[..., 3] - boxes[..., 1]).clamp(min=0)


def pairwise_iou(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union (N, M) of every pair of boxes (N, 4) and (M, 4)."""
    return overlap(first.unsqueeze(-2), second.unsqueeze(-3))


def intersection(first: Tensor, second: Tensor) -> Tensor:
    """Areas (...,) of the intersections of boxes that broadcast against each other."""
    (left, top, right, bottom), (x, y, r, b) = (
        [side.contiguous() for side in boxes.unbind(-1)]
        for boxes in (first, second)  # many pairs of few numbers
    )
    width = (torch.minimum(right, r) - torch.maximum(left, x)).clamp(min=0)
    return width * (torch.minimum(bottom, b) - torch.maximum(top, y)).clamp(min=0)


def overlap(first: Tensor, second: Tensor, kind: Overlap = "iou") -> Tensor:
    """Overlap (...,) of boxes that broadcast against each other: intersection over union, or one of its forms that also
    tell boxes apart that do not meet: ``giou`` (Rezatofighi et al. 2019), ``diou`` and ``ciou`` (Zheng et al. 2020)."""
    common = intersection(first, second)
    union = area(first) + area(second) - common
    tiny = torch.finfo(union.dtype).tiny
    iou = common / union.clamp(min=tiny)
    if kind == "iou":
        return iou
    low = torch.minimum(first[..., :2], second[..., :2])
    high = torch.maximum(first[..., 2:], second[..., 2:])
    hull = (high - low).clamp(min=0)
    if kind == "giou":
        around = (hull[..., 0] * hull[..., 1]).clamp(min=tiny)
        return iou - (around - union) / around
    centres = (first[..., :2] + first[..., 2:] - second[..., :2] - second[..., 2:]) / 2
    distance = centres.square().sum(-1) / hull.square().sum(-1).clamp(min=tiny)
    if kind == "diou":
        return iou - distance
    angles = [torch.atan2(b[..., 2] - b[..., 0], (b[..., 3] - b[..., 1]).clamp(min=tiny)) for b in (first, second)]
    shape = 4 / math.pi**2 * (angles[1] - angles[0]).square()
    weight = (shape / (1 - iou + shape).clamp(min=1e-7)).detach()
    return iou - distance - weight * shape


def clipped(boxes: Tensor, height: float, width: float) -> Tensor:
    """Boxes cut to a picture."""
    x = boxes[..., 0::2].clamp(0, width)
    y = boxes[..., 1::2].clamp(0, height)
    return torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1]], -1)


def encoded(
    boxes: Tensor, anchors: Tensor, weights: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
) -> Tensor:
    """Boxes relative to anchors (Faster R-CNN): shifts of the centre in sizes of the anchor, and log growth."""
    (cx, cy, w, h), (ax, ay, aw, ah) = _centred(boxes), _centred(anchors)
    code = torch.stack([(cx - ax) / aw, (cy - ay) / ah, (w / aw).log(), (h / ah).log()], -1)
    return code * code.new_tensor(weights)


def decoded(
    codes: Tensor, anchors: Tensor, weights: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
) -> Tensor:
    """Boxes from codes relative to anchors: the inverse of :func:`encoded`, with growth cut off at 62.5 times."""
    dx, dy, dw, dh = (codes / codes.new_tensor(weights)).unbind(-1)
    ax, ay, aw, ah = _centred(anchors)
    cx, cy = ax + dx * aw, ay + dy * ah
    w, h = aw * dw.clamp(max=LARGEST_GROWTH).exp(), ah * dh.clamp(max=LARGEST_GROWTH).exp()
    return torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], -1)


def _centred(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    left, top, right, bottom = boxes.unbind(-1)
    return (left + right) / 2, (top + bottom) / 2, right - left, bottom - top


def anchors(
    height: int,
    width: int,
    stride: float,
    sizes: tuple[float, ...],
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0),
    device: torch.device | None = None,
) -> Tensor:
    """Anchors (height * width * sizes * ratios, 4) around the corners of a grid of cells of ``stride`` pixels; a ratio
    is height by width. The order is rows, columns, ratios, sizes, as in torchvision."""
    sides = torch.tensor([(size / math.sqrt(r), size * math.sqrt(r)) for r in ratios for size in sizes], device=device)
    half = torch.cat([-sides, sides], 1) / 2
    y, x = torch.meshgrid(
        torch.arange(height, device=device) * stride, torch.arange(width, device=device) * stride, indexing="ij"
    )
    centres = torch.stack([x, y, x, y], -1).reshape(-1, 1, 4)
    return (centres + half).reshape(-1, 4)


# Suppression ---------------------------------------------------------------------------------------------------------


def nms(boxes: Tensor, scores: Tensor, threshold: float, groups: Tensor | None = None, most: int = 0) -> Tensor:
    """Indices of the boxes that greedy non-maximum suppression keeps, best first.

    A box goes if one with a better score overlaps it by more than ``threshold``; with ``groups`` (N,), only within its
    group (class, image). ``most`` stops after so many boxes (0: all). On a CPU a compiled kernel decides on them if the
    extra ``fast`` (numba) is installed, and PyTorch otherwise.
    """
    if boxes.device.type == "meta" or not len(boxes):
        return torch.arange(min(len(boxes), most or len(boxes)), device=boxes.device)
    order = scores.argsort(descending=True, stable=True)
    kernel = _kernel() if boxes.device.type == "cpu" else None
    if kernel is None:
        return _by_blocks(boxes, order, threshold, groups, most)
    ranked = boxes.detach()[order].to(torch.float64 if boxes.dtype == torch.float64 else torch.float32).contiguous()
    own = torch.zeros_like(order) if groups is None else groups[order].long()
    kept = torch.empty_like(order)
    count = kernel(ranked.numpy(), own.numpy(), threshold, most or len(order), kept.numpy())
    return order[kept[:count]]


@cache
def _kernel() -> Callable[..., int] | None:
    """The kernel of the extra ``fast``, if installed; imported on first use, because numba takes a second to import."""
    try:
        from vergence.ops.suppression import greedy_nms
    except ImportError:
        return None
    return cast(Callable[..., int], greedy_nms)


def _by_blocks(boxes: Tensor, order: Tensor, threshold: float, groups: Tensor | None, most: int) -> Tensor:
    """NMS in PyTorch: boxes are decided on in blocks, each by repeating the rule until nothing changes, and a block
    removes later boxes all at once."""
    ranked = _apart(boxes, groups)[order]
    kept: list[Tensor] = []
    total = 0
    while len(order):
        block = ranked[:BLOCK]
        meets = (pairwise_iou(block, block) > threshold).triu(1)
        keep = torch.ones(len(block), dtype=torch.bool, device=boxes.device)
        while True:
            again = ~(meets & keep.unsqueeze(1)).any(0)
            if torch.equal(again, keep):
                break
            keep = again
        kept.append(order[:BLOCK][keep])
        total += len(kept[-1])
        if most and total >= most:
            break
        order, ranked = order[BLOCK:], ranked[BLOCK:]
        if len(order):
            free = ~(pairwise_iou(block[keep], ranked) > threshold).any(0)
            order, ranked = order[free], ranked[free]
    result = torch.cat(kept)
    return result[:most] if most else result


def soft_nms(
    boxes: Tensor,
    scores: Tensor,
    groups: Tensor | None = None,
    sigma: float = 0.5,
    threshold: float = 0.3,
    kind: Literal["gaussian", "linear"] = "gaussian",
    least: float = 1e-3,
    most: int = 0,
) -> tuple[Tensor, Tensor]:
    """Indices and lowered scores of Soft-NMS (Bodla et al. 2017), best first.

    Instead of removing a box, better ones lower its score: by ``exp(-iou^2 / sigma)``, or by ``1 - iou`` where the
    overlap is above ``threshold``. Boxes below ``least`` go. All groups advance together, one box of each at a time.
    """
    if not len(boxes):
        return torch.zeros(0, dtype=torch.long, device=boxes.device), scores
    own = torch.zeros(len(boxes), dtype=torch.long, device=boxes.device) if groups is None else groups
    _, member = torch.unique(own, return_inverse=True)
    counts = member.bincount()
    by_group = member.argsort(stable=True)
    column = torch.arange(len(boxes), device=boxes.device) - (counts.cumsum(0) - counts)[member[by_group]]
    size = (len(counts), int(counts.max()))
    place = torch.full(size, -1, device=boxes.device).index_put((member[by_group], column), by_group)
    table = boxes[place.clamp(min=0)]  # (groups, boxes, 4)
    left = torch.where(place >= 0, scores[place.clamp(min=0)], -math.inf)
    rows = torch.arange(len(counts), device=boxes.device)
    picked, lowered = [], []
    for _ in range(min(size[1], most or size[1])):
        best, at = left.max(1)
        alive = best >= least
        if not bool(alive.any()):
            break
        picked.append(place[rows, at][alive])
        lowered.append(best[alive])
        iou = overlap(table[rows, at].unsqueeze(1), table)
        factor = torch.exp(-(iou**2) / sigma) if kind == "gaussian" else torch.where(iou > threshold, 1 - iou, 1.0)
        left = torch.where(left > 0, left * factor, left)
        left[rows, at] = -math.inf
    if not picked:
        return torch.zeros(0, dtype=torch.long, device=boxes.device), scores[:0]
    index, value = torch.cat(picked), torch.cat(lowered)
    order = value.argsort(descending=True, stable=True)[: most or len(value)]
    return index[order], value[order]


def _apart(boxes: Tensor, groups: Tensor | None) -> Tensor:
    """Boxes of different groups moved so far apart that they cannot overlap."""
    if groups is None:
        return boxes
    wide = boxes.double() if boxes.dtype == torch.float64 else boxes.float()
    span = wide.max() - wide.min() + 1
    return wide + (groups.to(wide) * span).unsqueeze(1)
