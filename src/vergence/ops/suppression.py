"""Suppression of duplicates among spans and boxes, compiled by numba: needs the extra ``fast``.

Soft-NMS of spans: a turn is one pass over the candidates that lowers those that overlap the last span taken and finds
the next best, so that nothing but scores is stored. NMS of boxes: a kept box removes later ones in one pass, and a box
that is gone costs nothing more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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


@compiled
def greedy_nms(boxes: Any, groups: Any, threshold: float, most: int, kept: Any) -> int:
    """Fill ``kept`` (N,) with the indices of boxes (N, 4), sorted best first, that none before them in their group
    (N,) overlaps by more than ``threshold``; returns how many, at most ``most``."""
    count = len(boxes)
    gone = np.zeros(count, np.bool_)
    areas = np.empty(count, boxes.dtype)
    for i in range(count):
        areas[i] = max(boxes[i, 2] - boxes[i, 0], 0) * max(boxes[i, 3] - boxes[i, 1], 0)
    found = 0
    for i in range(count):
        if gone[i]:
            continue
        kept[found] = i
        found += 1
        if found == most:
            break
        left, top, right, bottom, own = boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3], areas[i]
        for j in range(i + 1, count):
            if gone[j] or groups[j] != groups[i]:
                continue
            wide = min(right, boxes[j, 2]) - max(left, boxes[j, 0])
            high = min(bottom, boxes[j, 3]) - max(top, boxes[j, 1])
            if wide > 0 and high > 0:
                common = wide * high
                if common / (own + areas[j] - common) > threshold:
                    gone[j] = True
    return found
