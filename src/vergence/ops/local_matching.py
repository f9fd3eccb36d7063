"""Distances between sets of local features: each location of a query searches the other set for its nearest.

Pairs of locations are never held at once: a block of galleries is multiplied with a block of queries, the largest
product of each gallery is kept, and the rest is forgotten. The cost is that of the matrix products.
"""

from __future__ import annotations

import torch
from torch import Tensor

PAIRS = 1 << 22
"""Pairs of locations whose products are held at a time."""


def nearest_similarities(query: Tensor, gallery: Tensor) -> Tensor:
    """For each location of ``query`` (Q, L, D), the largest inner product with a location of each ``gallery``
    (G, M, D): (Q, G, L). Differentiable; where gradients are needed, memory grows with the pairs of locations."""
    if query.ndim != 3 or gallery.ndim != 3 or query.shape[2] != gallery.shape[2] or not gallery.shape[1]:
        raise ValueError(
            f"local features are (Q, L, D) and (G, M, D) with M >= 1, got {tuple(query.shape)}, {tuple(gallery.shape)}"
        )
    (asked, places, width), (count, others, _) = query.shape, gallery.shape
    if not asked or not count or not places:
        return query.new_empty(asked, count, places)
    together = max(PAIRS // (places * others), 1)
    few, many = min(asked, max(together // count, 1)), min(count, together)
    rows = []
    for start in range(0, asked, few):
        left = query[start : start + few].reshape(-1, width)
        parts = []
        for at in range(0, count, many):
            right = gallery[at : at + many]
            products = left @ right.reshape(-1, width).mT
            parts.append(products.unflatten(1, (len(right), others)).amax(2))  # (few * L, many)
        rows.append(torch.cat(parts, 1).unflatten(0, (-1, places)).mT)
    return torch.cat(rows)


def matching_distances(query: Tensor, gallery: Tensor, weights: Tensor | None = None) -> Tensor:
    """Distances (Q, G) between sets of unit vectors (Q, L, D) and (G, M, D): the mean over the locations of a query of
    the Euclidean distance to the nearest location of the gallery picture, weighted by ``weights`` (Q, L), whose sums
    are one. Not symmetric."""
    closest = nearest_similarities(query, gallery)
    # Twice the smallest step of 1 is lost in the product of a vector with itself.
    far = (2 - 2 * closest).clamp(min=torch.finfo(closest.dtype).tiny).sqrt()
    if weights is None:
        return far.mean(2)
    if weights.shape != query.shape[:2]:
        raise ValueError(f"weights are {tuple(query.shape[:2])}, one for each location; got {tuple(weights.shape)}")
    return torch.einsum("qgl,ql->qg", far, weights)


def reconstruction_distances(
    query: Tensor, gallery: Tensor, weights: Tensor | None = None, ridge: float = 1e-3
) -> Tensor:
    """Distances (Q, G) between sets of local features (Q, L, D) and (G, M, D): how far a query's locations are from
    their best combination of the gallery's, ``W = (g gᵀ + ridge)⁻¹ g q``, weighted by ``weights`` (Q, L) (DSR, He et
    al., 2018). Each gallery is factored once; residuals follow from inner products, without the combinations."""
    own = gallery @ gallery.mT
    eye = torch.eye(gallery.shape[1], dtype=gallery.dtype, device=gallery.device)
    factor = torch.linalg.cholesky(own + ridge * eye)
    lengths = query.square().sum(2)
    columns = []
    for picture, gram, root in zip(gallery, own, factor, strict=True):
        shared = picture @ query.flatten(0, 1).mT  # (M, Q * L)
        best = torch.cholesky_solve(shared, root)
        residual = lengths.flatten() - 2 * (best * shared).sum(0) + (best * (gram @ best)).sum(0)
        far = residual.clamp(min=torch.finfo(residual.dtype).tiny).sqrt().view_as(lengths)
        columns.append(far.mean(1) if weights is None else (far * weights).sum(1))
    return torch.stack(columns, 1)
