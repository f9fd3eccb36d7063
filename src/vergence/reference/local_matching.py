"""Matching of local features as its definition reads: every pair of locations at once, or one picture after another."""

from __future__ import annotations

import torch
from torch import Tensor


def matching(query: Tensor, gallery: Tensor, weights: Tensor) -> Tensor:
    """Distances (Q, G) of unit vectors (Q, L, D) and (G, M, D) by all products (Q, G, L, M)."""
    products = torch.einsum("qld,gmd->qglm", query, gallery)
    far = (2 - 2 * products.amax(-1)).clamp(min=0).sqrt()
    return (far * weights[:, None]).sum(-1)


def matching_by_picture(query: Tensor, gallery: Tensor, weights: Tensor) -> Tensor:
    """The same, one gallery picture after another, by Euclidean distances between all locations."""
    columns = []
    for picture in gallery:
        far = torch.cdist(query.flatten(0, 1), picture, compute_mode="use_mm_for_euclid_dist").amin(1)
        columns.append((far.view_as(weights) * weights).sum(1))
    return torch.stack(columns, 1)


def reconstruction(query: Tensor, gallery: Tensor, weights: Tensor, ridge: float = 1e-3) -> Tensor:
    """DSR's distances (Q, G), one pair after another as in the public code: ``W = (g gᵀ + ridge)⁻¹ g q``, then the
    lengths of ``gᵀ W - q``."""
    eye = torch.eye(gallery.shape[1], dtype=gallery.dtype, device=gallery.device)
    rows = []
    for own, weight in zip(query, weights, strict=True):
        row = []
        for picture in gallery:
            best = torch.linalg.inv(picture @ picture.mT + ridge * eye) @ (picture @ own.mT)
            row.append(((picture.mT @ best - own.mT).norm(dim=0) * weight).sum())
        rows.append(torch.stack(row))
    return torch.stack(rows)
