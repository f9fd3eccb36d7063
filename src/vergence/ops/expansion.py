"""Query expansion by weights: a query and its neighbours become one vector, ``q̂ = Σ w_i d_i / ‖·‖`` with ``d_0 = q``.

All functions are batched and differentiable; ``padding`` (B, k) is true where a list is shorter than k. Weights are
(B, k + 1), the query's first, and zero at padding.

========  ==============================  ===================================
AQE       ``w_i = 1``                     Chum et al., 2007
AQEwD     ``w_i = (k - i) / k``           Gordo et al., 2017
αQE       ``w_i = sim(q, d_i)^α``         Radenović et al., 2019
DQE       the dual of a linear SVM        Arandjelović and Zisserman, 2012
========  ==============================  ===================================
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def aggregate(query: Tensor, neighbours: Tensor, weights: Tensor) -> Tensor:
    """The expanded queries (B, D) of queries (B, D), their neighbours (B, k, D) and weights (B, k + 1).

    If the weighted sum vanishes, the query stays as it is.
    """
    summed = weights[:, :1] * query + torch.bmm(weights[:, None, 1:], neighbours)[:, 0]
    return unit(summed, query)


def unit(summed: Tensor, otherwise: Tensor) -> Tensor:
    """L2-normalised vectors (B, D); those that vanish are replaced by ``otherwise``."""
    length = torch.linalg.vector_norm(summed, dim=-1, keepdim=True)
    vanished = length <= torch.finfo(summed.dtype).tiny ** 0.5
    return torch.where(vanished, otherwise, summed / torch.where(vanished, torch.ones_like(length), length))


def aqe_weights(similarities: Tensor, padding: Tensor | None = None) -> Tensor:
    """Weight 1 for the query and every neighbour. Similarities (B, k) only give the shape."""
    return _with_query(torch.ones_like(similarities), padding)


def aqewd_weights(similarities: Tensor, padding: Tensor | None = None) -> Tensor:
    """Weights that decrease linearly with the rank, from 1 at the query to 0 at the last neighbour."""
    ones = torch.ones_like(similarities)
    if padding is not None:
        ones = ones.masked_fill(padding, 0)
    ranks, count = ones.cumsum(1), ones.sum(1, keepdim=True)
    return _with_query((count - ranks) / count.clamp(min=1), padding)


def alpha_weights(similarities: Tensor, alpha: float = 3.0, padding: Tensor | None = None) -> Tensor:
    """Powers of the cosine similarity (B, k) with the query. Negative ones get weight 0: most have no real power."""
    return _with_query(similarities.clamp(min=0) ** alpha, padding)


def _with_query(weights: Tensor, padding: Tensor | None) -> Tensor:
    if padding is not None:
        weights = weights.masked_fill(padding, 0)
    return F.pad(weights, (1, 0), value=1.0)


def svm_duals(vectors: Tensor, labels: Tensor, c: float, tolerance: float = 1e-6, sweeps: int = 2000) -> Tensor:
    """Signed duals ``α_i y_i`` (B, n) of linear SVMs, one per row: ``min ½‖w‖² + C Σ max(0, 1 - y_i (w·x_i + b))``.

    ``vectors`` are (B, n, D); ``labels`` (B, n) are 1, -1, or 0 for padding. As in liblinear, the bias is the weight of
    a constant feature and regularised like the others. Dual coordinate descent: exact, all rows at once, with n x n
    products only. Not differentiable.
    """
    if vectors.is_meta:  # the number of sweeps depends on values, which meta tensors lack
        return torch.empty_like(labels)
    with torch.no_grad():
        gram = (torch.bmm(vectors, vectors.mT) + 1) * labels[:, :, None] * labels[:, None, :]
        there, curvature = labels != 0, gram.diagonal(dim1=1, dim2=2).clamp(min=1e-12)
        dual = torch.zeros_like(labels)
        slope = torch.where(there, -torch.ones_like(labels), torch.zeros_like(labels))  # of the dual objective
        for _ in range(sweeps):
            worst = torch.zeros_like(dual[:, 0])
            for i in range(labels.shape[1]):
                moved = (dual[:, i] - slope[:, i] / curvature[:, i]).clamp(0, c)
                step = torch.where(there[:, i], moved - dual[:, i], torch.zeros_like(moved))
                dual[:, i] += step
                slope += step[:, None] * gram[:, i]
                worst = torch.maximum(worst, step.abs())
            if float(worst.max()) <= tolerance * c:
                break
        return dual * labels
