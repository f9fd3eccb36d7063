"""Average precision of ranked detections, interpolated at eleven recalls (PASCAL VOC 2007)."""

from __future__ import annotations

import torch
from torch import Tensor


def eleven_point(hits: Tensor, scores: Tensor, positives: int) -> float:
    """Average precision of detections (N,) that are right (``hits``) or wrong: the mean, over recalls 0, 0.1, ..., 1,
    of the best precision at that recall or a higher one. Equal scores keep their order. NaN without positives."""
    if not positives:
        return float("nan")
    right = hits[scores.argsort(descending=True, stable=True)].double()
    found = right.cumsum(0)
    precision = found / torch.arange(1, len(right) + 1, device=right.device)
    # The best precision from each place on, so that a recall needs one look-up.
    best = precision.flip(0).cummax(0).values.flip(0) if len(right) else precision
    wanted = torch.arange(11, device=right.device, dtype=right.dtype) / 10 * positives
    place = torch.searchsorted(found, wanted - 1e-9)
    padded = torch.cat([best, best.new_zeros(1)])
    return float(padded[place.clamp(max=len(best))].mean())
