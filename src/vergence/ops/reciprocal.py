"""k-reciprocal neighbourhoods and Jaccard distances between them (Zhong et al., 2017), never N x N.

Images that are among each other's nearest are likely the same thing; images with the same such neighbours even more
so. Neighbourhoods are sparse, so sets are rows of sparse matrices: reciprocity is an elementwise product with the
transpose, overlaps of sets are matrix products, and a pair without a common neighbour has distance one and is not
stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor

BLOCK = 1 << 21
"""Numbers of a dense block: rows are worked on together while they fit."""


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of each row by squared Euclidean distance, itself included."""

    places: Tensor
    """(N, k), nearest first."""
    distances: Tensor
    """(N, k), squared."""
    farthest: Tensor
    """(N,): the largest squared distance of each row to any other; above zero, since others are divided by it."""


def neighbours(descriptors: Tensor, k: int) -> Neighbours:
    """The ``k`` nearest of (N, D), exactly, by blocks of matrix products."""
    count = len(descriptors)
    if descriptors.ndim != 2 or not 1 <= k <= count:
        raise ValueError(f"{k} neighbours need a matrix of at least {k} rows, got {tuple(descriptors.shape)}")
    lengths = descriptors.square().sum(1)
    parts = []
    for rows in _blocks(count, count):
        far = torch.addmm(lengths, descriptors[rows], descriptors.T, alpha=-2).add_(lengths[rows, None]).clamp_(min=0)
        far.diagonal(rows.start).fill_(-1)  # a row comes before its equals
        nearest, places = far.topk(k, largest=False)
        parts.append((places, nearest.clamp(min=0), far.amax(1).clamp_min(torch.finfo(far.dtype).tiny)))
    return Neighbours(*(torch.cat(part) for part in zip(*parts, strict=True)))


def reciprocal(near: Neighbours, k: int) -> sparse.csr_array:
    """One where two rows are among each other's ``k`` nearest, (N, N): each row's set (Eq. 1 of Zhong et al.)."""
    among = _among(near.places[:, :k].cpu().numpy())
    return among.multiply(among.T).tocsr()


def encoded(descriptors: Tensor, near: Neighbours, k1: int = 20, k2: int = 6) -> sparse.csr_array:
    """Fuzzy neighbourhoods, each row with sum one: sets of ``k1`` widened by those of half the size that overlap by two
    thirds, weighted by ``exp(-d)`` with distances relative to the row's largest, averaged over ``k2`` neighbours."""
    places = near.places.cpu().numpy()
    full, half = reciprocal(near, k1 + 1), reciprocal(near, round(k1 / 2) + 1)  # a row is its own nearest
    sizes = np.asarray(half.sum(1)).ravel()
    common = full.multiply(full @ half.T).tocoo()
    close = common.data > 2 / 3 * sizes[common.col]
    joined = sparse.csr_array((np.ones(close.sum(), np.float32), (common.row[close], common.col[close])), full.shape)
    wide = (full + joined @ half).tocoo()
    weights = np.exp(-_relative(descriptors, near, wide.row, wide.col))
    code = sparse.csr_array((weights, (wide.row, wide.col)), wide.shape)
    code = sparse.diags_array(1 / np.asarray(code.sum(1)).ravel()) @ code
    return code if k2 == 1 else (_among(places[:, :k2]) / k2) @ code


def jaccard(code: sparse.csr_array) -> sparse.csr_array:
    """Overlap over union of all pairs of rows (sets, or fuzzy ones): one minus the Jaccard distance; zeros are not
    stored."""
    masses = np.asarray(code.sum(1)).ravel()
    if len(code.data) and (code.data == 1).all():  # sets: their overlaps are inner products
        shared = (code @ code.T).tocoo()
        union = masses[shared.row] + masses[shared.col] - shared.data
        return sparse.csr_array((shared.data / union, (shared.row, shared.col)), shared.shape)
    return sparse.vstack([sparse.csr_array(part) for part in _overlaps(code, len(masses))], format="csr")


def rerank(descriptors: Tensor, queries: int, k1: int = 20, k2: int = 6, share: float = 0.3) -> Tensor:
    """New distances (Q, G) between rows of (N, D), the ``queries`` first: Jaccard distances between neighbourhoods,
    with the weight ``share`` on the squared Euclidean distance relative to the query's largest."""
    count = len(descriptors)
    if descriptors.ndim != 2 or not 0 < queries < count:
        raise ValueError(
            f"re-ranking needs descriptors (N, D) of {queries} queries and a gallery; got {tuple(descriptors.shape)}"
        )
    if not 1 <= k2 <= k1 + 1 <= count or not 0 <= share <= 1:
        raise ValueError(f"re-ranking {count} pictures has 1 <= k2 <= k1 < {count} and a share of 0 to 1, got "
                           f"k1={k1}, k2={k2} and {share}")  # fmt: skip
    descriptors = descriptors.detach()
    near = neighbours(descriptors, k1 + 1)
    code = encoded(descriptors, near, k1, k2)
    found = []
    for rows, part in zip(_blocks(queries, count), _overlaps(code, queries), strict=True):
        distance = torch.from_numpy(1 - part[:, queries:]).to(descriptors)
        far = torch.cdist(descriptors[rows], descriptors[queries:]).square_() / near.farthest[rows, None]
        found.append(distance.mul_(1 - share).add_(far, alpha=share))
    return torch.cat(found)


def _among(places: np.ndarray) -> sparse.csr_array:
    """One where a column is among a row's places."""
    count, k = places.shape
    rows = np.repeat(np.arange(count), k)
    return sparse.csr_array((np.ones(count * k, np.float32), (rows, places.ravel())), shape=(count, count))


def _relative(descriptors: Tensor, near: Neighbours, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Squared distances of single pairs, relative to the largest of their row."""
    first, second = (torch.from_numpy(side.astype(np.int64)).to(descriptors.device) for side in (rows, columns))
    parts = []
    for pairs in _blocks(len(first), descriptors.shape[1]):
        parts.append((descriptors[first[pairs]] - descriptors[second[pairs]]).square().sum(1))
    far = torch.cat(parts) / near.farthest[first]
    return far.double().cpu().numpy()


def _overlaps(code: sparse.csr_array, count: int) -> Iterator[np.ndarray]:
    """Sum of minima over sum of maxima of the first ``count`` rows with all rows, a dense block of rows at a time.

    Only columns in which a row has an entry matter: their entries are listed side by side and summed into their rows.
    """
    columns, width, masses = code.tocsc(), code.shape[0], np.asarray(code.sum(1)).ravel()
    for rows in _blocks(count, width):
        entries = slice(code.indptr[rows.start], code.indptr[rows.stop])
        owners = np.repeat(np.arange(rows.stop - rows.start), np.diff(code.indptr[rows.start : rows.stop + 1]))
        starts, ends = (columns.indptr[code.indices[entries] + side] for side in (0, 1))
        lengths = ends - starts
        places = np.repeat(starts - np.r_[0, lengths.cumsum()[:-1]], lengths) + np.arange(lengths.sum())
        least = np.minimum(np.repeat(code.data[entries], lengths), columns.data[places])
        target = np.repeat(owners * width, lengths) + columns.indices[places]
        common = np.bincount(target, least, (rows.stop - rows.start) * width).reshape(-1, width)
        yield common / (masses[rows, None] + masses - common)


def _blocks(count: int, width: int) -> Iterator[slice]:
    size = max(BLOCK // max(width, 1), 1)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
