"""The vote of a point's neighbours in a range image, compiled by numba: needs the extra ``fast``.

The k nearest so far are kept in a sorted list of a few entries, so that a point needs one pass over its window and no
memory besides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vergence.ops.compiling import compiled


def _elect(
    ranges: Any, labels: Any, own: Any, row: Any, column: Any, weights: Any, k: int, cutoff: float, classes: int,
    elected: Any,
) -> None:  # fmt: skip
    """Fills ``elected`` (P,). The image of ranges and labels is framed by zeros, half a window wide."""
    search = weights.shape[0]
    centre = search // 2
    nearest, voters, counts = np.empty(k, ranges.dtype), np.empty(k, np.int32), np.empty(classes, np.int32)
    for point in range(own.size):
        kept, distance, top, left = 0, own[point], row[point], column[point]
        for i in range(search):
            for j in range(search):
                seen = ranges[top + i, left + j]
                if i == centre and j == centre:
                    apart = 0 * distance
                elif seen < 0:
                    continue
                else:
                    apart = abs(seen - distance) * weights[i, j]
                if apart > cutoff or (kept == k and apart >= nearest[k - 1]):
                    continue  # it has no vote, or k others are nearer
                place = kept if kept < k else k - 1
                kept = min(kept + 1, k)
                while place > 0 and nearest[place - 1] > apart:
                    nearest[place], voters[place] = nearest[place - 1], voters[place - 1]
                    place -= 1
                nearest[place], voters[place] = apart, labels[top + i, left + j]
        counts[:] = 0
        for voter in range(kept):
            counts[voters[voter]] += 1
        best = 1
        for label in range(2, classes):
            if counts[label] > counts[best]:
                best = label
        elected[point] = best


elect = compiled(_elect)
