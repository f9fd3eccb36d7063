"""Pseudo-labels from dense matrices: neighbourhoods, Jaccard distances and claims of centres as their papers print
them, and the re-ranking code's own vectorisation of the first two."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]


def mutual(points: Floats, k: int) -> Bools:
    """(N, N): whether two points are among each other's ``k`` nearest, themselves included (Eq. 4)."""
    far = np.square(points[:, None] - points).sum(-1)
    order = np.argsort(far, axis=1, kind="stable")[:, :k]
    among = np.zeros(far.shape, bool)
    np.put_along_axis(among, order, True, axis=1)
    return among & among.T


def jaccard_distances(sets: Bools) -> Floats:
    """(N, N): one minus overlap over union of each pair of rows (Eq. 5), a pair at a time."""
    far = np.empty((len(sets), len(sets)))
    for i, own in enumerate(sets):
        for j, other in enumerate(sets):
            far[i, j] = 1 - (own & other).sum() / (own | other).sum()
    return far


def claims(points: Floats, centres: Floats, top: int, k: int) -> list[list[int]]:
    """Which centres claim each point (Algorithm 1); ties by distance, and never where sets are disjoint."""
    far = jaccard_distances(mutual(np.concatenate([points, centres]), k + 1))[len(points) :, : len(points)]
    by: list[list[int]] = [[] for _ in points]
    for number, centre in enumerate(centres):
        near = np.linalg.norm(points - centre, axis=1)
        for index in np.lexsort((near, far[number]))[:top]:
            if far[number, index] < 1:
                by[index].append(number)
    return by


def public_claims(points: Floats, centres: Floats, top: int, k: int) -> list[list[int]]:
    """The same by the steps of public re-ranking code: all distances and a full sort, then sets and overlaps a row at a
    time through lists of who has whom."""
    together = np.concatenate([points, centres])
    lengths = np.square(together).sum(1)
    far = lengths[:, None] + lengths - 2 * together @ together.T
    np.fill_diagonal(far, -1)
    ranked = np.argsort(far, axis=1)
    count, sets = len(together), np.zeros((len(together), len(together)), np.float32)
    for i in range(count):
        forward = ranked[i, : k + 1]
        backward = ranked[forward, : k + 1]
        sets[i, forward[np.where(backward == i)[0]]] = 1
    holders = [np.where(sets[:, i] != 0)[0] for i in range(count)]
    sizes = sets.sum(1)
    by: list[list[int]] = [[] for _ in points]
    for number in range(len(points), count):
        common = np.zeros(count, np.float32)
        for member in np.where(sets[number] != 0)[0]:
            common[holders[member]] += np.minimum(sets[number, member], sets[holders[member], member])
        distance = 1 - common / (sizes[number] + sizes - common)
        own = distance[: len(points)]
        for index in np.lexsort((far[number, : len(points)], own))[:top]:
            if own[index] < 1:
                by[index].append(number - len(points))
    return by


def camera_errors(
    distances: Floats,
    query_ids: list[int],
    gallery_ids: list[int],
    query_cameras: list[int],
    gallery_cameras: list[int],
) -> tuple[int, int]:
    """Numbers of queries whose first match is wrong, from their own camera and from another; queries without a match
    do not count."""
    inside = across = 0
    for q, row in enumerate(distances):
        listed = [
            g
            for g in np.argsort(row, kind="stable")
            if gallery_ids[g] != -1 and not (gallery_ids[g] == query_ids[q] and gallery_cameras[g] == query_cameras[q])
        ]
        if not any(gallery_ids[g] == query_ids[q] for g in listed) or gallery_ids[listed[0]] == query_ids[q]:
            continue
        if gallery_cameras[listed[0]] == query_cameras[q]:
            inside += 1
        else:
            across += 1
    return inside, across


def mutual_information(first: list[int], second: list[int]) -> float:
    """Mutual information of two labellings over the geometric mean of their entropies (Eq. 7)."""
    count = len(first)

    def shares(labels: list[int]) -> dict[int, float]:
        return {label: labels.count(label) / count for label in set(labels)}

    one, other = shares(first), shares(second)
    pairs = list(zip(first, second, strict=True))
    both = {pair: pairs.count(pair) / count for pair in set(pairs)}
    shared = sum(share * np.log(share / (one[a] * other[b])) for (a, b), share in both.items())
    entropies = [-sum(share * np.log(share) for share in each.values()) for each in (one, other)]
    return float(shared / np.sqrt(entropies[0] * entropies[1]))
