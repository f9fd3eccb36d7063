"""Targets of detectors: which ground-truth box an anchor or proposal belongs to, and which of them are trained on."""

from __future__ import annotations

import torch
from torch import Tensor

BACKGROUND, IGNORED = -1, -2
"""What an anchor is matched to if it overlaps no box enough, or too little for one and too much for the other."""


def matched(iou: Tensor, low: float, high: float, keep_best: bool = False) -> Tensor:
    """For each of A anchors the index of its box, ``BACKGROUND`` or ``IGNORED``, (A,), from overlaps (G, A).

    An anchor belongs to the box it overlaps most if that is at least ``high``, to the background if it is below
    ``low``, and is ignored in between. With ``keep_best`` every box also keeps the anchors that overlap it most,
    however little (but not at all is not enough).
    """
    if not 0 <= low <= high <= 1:
        raise ValueError(f"overlaps have 0 <= low <= high <= 1, got {low} and {high}")
    if not len(iou):
        return torch.full(iou.shape[1:], BACKGROUND, device=iou.device)
    most, box = iou.max(0)
    result = torch.where(most >= high, box, IGNORED)
    result = torch.where(most < low, BACKGROUND, result)
    if keep_best:
        best = iou.max(1, keepdim=True).values
        kept = ((iou == best) & (best > 0)).any(0)
        result = torch.where(kept, box, result)
    return result


def balanced(
    match: Tensor, count: int, share: float, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Indices of randomly chosen anchors that belong to boxes and to the background, from matches (A,).

    At most ``count`` in all and ``share`` of them with boxes; the background fills up what is missing.
    """
    inside, outside = (match >= 0).nonzero().squeeze(1), (match == BACKGROUND).nonzero().squeeze(1)
    positives = min(int(count * share), len(inside))
    negatives = min(count - positives, len(outside))
    return _drawn(inside, positives, generator), _drawn(outside, negatives, generator)


def _drawn(index: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    device = generator.device if generator is not None else index.device
    order = torch.randperm(len(index), generator=generator, device=device)[:count].to(index.device)
    return index[order]
