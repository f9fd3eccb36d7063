"""Soft-NMS of spans, compiled by numba: needs the extra ``fast``.

A turn is one pass over the candidates: it lowers those that overlap the last span taken and finds the next best, so
that nothing but scores is stored. Exponentials are taken of the few that overlap.
"""

from __future__ import annotations

import math
from typing import Any

from vergence.ops.compiling import compiled


@compiled
def soft_nms(start: Any, end: Any, limit: Any, left: Any, sigma: float, index: Any, lowered: Any) -> None:
    """Fill ``index`` and ``lowered`` (B, most); spans are (B, N), and ``left`` (B, N) are scores, which are changed."""
    for row in range(left.shape[0]):
        begins, ends, scores = start[row], end[row], left[row]
        best = -1
        for j in range(len(scores)):
            if scores[j] > -math.inf and (best < 0 or scores[j] > scores[best]):
                best = j
        for turn in range(index.shape[1]):
            if best < 0:
                break
            index[row, turn], lowered[row, turn] = best, scores[best]
            scores[best] = -math.inf
            first, last, bar = begins[best], ends[best], limit[row, best]
            width = last - first
            best = -1
            for j in range(len(scores)):
                if scores[j] == -math.inf:
                    continue
                common = min(ends[j], last) - max(begins[j], first)
                if common > 0:
                    iou = common / (ends[j] - begins[j] + width - common)
                    if iou > bar:
                        scores[j] *= math.exp(-(iou * iou) / sigma)
                if best < 0 or scores[j] > scores[best]:
                    best = j
