"""Ranking metrics and re-ranking a query at a time, as their papers and public code describe them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Ints = NDArray[np.integer]


def cmc_and_precision(
    distances: Floats, query_ids: Ints, gallery_ids: Ints, query_cameras: Ints, gallery_cameras: Ints, trapezoid: bool
) -> list[tuple[int, float]]:
    """For each query the rank of its first match and its average precision; (0, 0) without a match."""
    found = []
    for q, row in enumerate(distances):
        ranked = []
        for g in np.argsort(row, kind="stable"):
            if gallery_ids[g] == -1:
                continue
            if gallery_ids[g] == query_ids[q] and gallery_cameras[g] == query_cameras[q]:
                continue
            ranked.append(bool(gallery_ids[g] == query_ids[q]))
        if not any(ranked):
            found.append((0, 0.0))
            continue
        area, old_recall, old_precision, hits = 0.0, 0.0, 1.0, 0
        for place, match in enumerate(ranked, 1):
            hits += match
            recall, precision = hits / sum(ranked), hits / place
            height = (old_precision + precision) / 2 if trapezoid else precision
            area += (recall - old_recall) * height
            old_recall, old_precision = recall, precision
        found.append((ranked.index(True) + 1, area))
    return found


def rerank(whole: Floats, queries: int, k1: int, k2: int, share: float) -> Floats:
    """k-reciprocal re-ranking (Zhong et al., 2017) of distances (N, N) among all pictures, queries first.

    ``share`` is λ, what the original distance counts.
    """
    count = len(whole)
    original = np.array([row / row.max() for row in whole])
    nearest = np.argsort(original, axis=1, kind="stable")

    def reciprocal(i: int, k: int) -> list[int]:
        return [int(j) for j in nearest[i, : k + 1] if i in nearest[j, : k + 1]]

    code = np.zeros((count, count))
    for i in range(count):
        own = reciprocal(i, k1)
        wider = set(own)
        for j in own:
            theirs = reciprocal(j, round(k1 / 2))
            if len(set(theirs) & set(own)) > 2 / 3 * len(theirs):
                wider |= set(theirs)
        for j in wider:
            code[i, j] = np.exp(-original[i, j])
        code[i] /= code[i].sum()
    if k2 > 1:
        code = np.array([code[nearest[i, :k2]].mean(0) for i in range(count)])
    jaccard = np.zeros((queries, count))
    for i in range(queries):
        for j in range(count):
            common = np.minimum(code[i], code[j]).sum()
            jaccard[i, j] = 1 - common / (2 - common)
    final = jaccard * (1 - share) + original[:queries] * share
    return np.asarray(final[:, queries:])
