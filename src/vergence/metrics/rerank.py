"""k-reciprocal re-ranking (Zhong et al., 2017): images with the same neighbours are ranked closer.

The neighbourhoods are sparse, so sets are rows of sparse matrices: reciprocity is an elementwise product with the
transpose, overlaps are matrix products, and nothing but the given distances is N x N.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor

from vergence.core.errors import VergenceError


def rerank(distances: Tensor, queries: int, k1: int = 20, k2: int = 6, share: float = 0.3) -> Tensor:
    """New distances (Q, G) from squared Euclidean ones (N, N) among all images, the ``queries`` first.

    ``k1`` is the size of neighbourhoods, ``k2`` the number of neighbours that smooth them, and ``share`` the weight of
    the original distance.
    """
    count = len(distances)
    if distances.shape != (count, count) or not 0 < queries < count:
        raise VergenceError(
            f"re-ranking needs distances among all pictures, of {queries} queries and a gallery; "
            f"got {tuple(distances.shape)}"
        )
    if not 1 <= k2 <= k1 + 1 <= count or not 0 <= share <= 1:
        raise VergenceError(f"re-ranking {count} pictures has 1 <= k2 <= k1 < {count} and a share of 0 to 1, got "
                           f"k1={k1}, k2={k2} and {share}")  # fmt: skip
    original = distances.detach().cpu()
    original = original / original.amax(1, keepdim=True)
    nearest = original.topk(k1 + 1, largest=False)[1].numpy()
    code = _smoothed(_encoded(original.numpy(), nearest, k1), nearest, k2)
    final = (1 - share) * _jaccard(code, queries) + share * original[:queries].numpy()
    return torch.from_numpy(final[:, queries:]).to(distances.device, distances.dtype)


def _neighbours(nearest: np.ndarray, k: int) -> sparse.csr_array:
    """One where column j is among the ``k`` nearest of row i."""
    count = len(nearest)
    places = (np.repeat(np.arange(count), k), nearest[:, :k].ravel())
    return sparse.csr_array((np.ones(count * k, np.float32), places), shape=(count, count))


def _reciprocal(nearest: np.ndarray, k: int) -> sparse.csr_array:
    near = _neighbours(nearest, k + 1)  # an image is its own nearest neighbour
    return near.multiply(near.T).tocsr()


def _encoded(original: np.ndarray, nearest: np.ndarray, k1: int) -> sparse.csr_array:
    """Each image's expanded neighbourhood with weights ``exp(-d)`` that sum to one."""
    full, half = _reciprocal(nearest, k1), _reciprocal(nearest, round(k1 / 2))
    sizes = np.asarray(half.sum(1)).ravel()
    common = full.multiply(full @ half.T).tocoo()  # overlap with each neighbour's half neighbourhood
    near = common.data > 2 / 3 * sizes[common.col]
    joined = sparse.csr_array((np.ones(near.sum(), np.float32), (common.row[near], common.col[near])), full.shape)
    wide = (full + joined @ half).tocoo()
    weights = np.exp(-original[wide.row, wide.col])
    code = sparse.csr_array((weights, (wide.row, wide.col)), wide.shape)
    return sparse.diags_array(1 / np.asarray(code.sum(1)).ravel()) @ code


def _smoothed(code: sparse.csr_array, nearest: np.ndarray, k2: int) -> sparse.csr_array:
    return code if k2 == 1 else (_neighbours(nearest, k2) / k2) @ code


def _jaccard(code: sparse.csr_array, queries: int) -> np.ndarray:
    """One minus the overlap over the union of fuzzy neighbourhoods, (Q, N)."""
    columns, count = code.tocsc(), code.shape[0]
    common = np.empty((queries, count))
    for query in range(queries):
        row = slice(code.indptr[query], code.indptr[query + 1])
        starts, ends = columns.indptr[code.indices[row]], columns.indptr[code.indices[row] + 1]
        # The places of all entries in the columns where the query's row is not zero.
        lengths = ends - starts
        places = np.repeat(starts - np.r_[0, lengths.cumsum()[:-1]], lengths) + np.arange(lengths.sum())
        least = np.minimum(np.repeat(code.data[row], lengths), columns.data[places])
        common[query] = np.bincount(columns.indices[places], least, count)
    return 1 - common / (2 - common)
