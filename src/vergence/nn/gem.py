"""Pooling a map to a descriptor (GeM, Radenović et al., 2019), and whitening descriptors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError


class GeM(nn.Module):
    """Generalised mean over positions, ``(mean x^p)^(1/p)``: the average for p = 1, the maximum as p grows."""

    def __init__(self, p: float = 3.0, eps: float = 1e-6) -> None:
        """``p`` is learned; values below ``eps`` count as ``eps``."""
        super().__init__()
        if not p > 0:
            raise VergenceError(f"a generalised mean needs p above 0, got {p}")
        self.p = nn.Parameter(torch.full((1,), float(p)))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C)."""
        kind = torch.promote_types(x.dtype, self.p.dtype)  # a half float would overflow in the power
        p = self.p.to(kind)
        return x.to(kind).clamp(min=self.eps).pow(p).mean((-2, -1)).pow(1 / p)


def pca_whitening(descriptors: Tensor, keep: int | None = None) -> tuple[Tensor, Tensor]:
    """The projection (keep, D) and offset (keep,) that give descriptors (N, D) zero mean and unit covariance."""
    count, dimension = descriptors.shape
    return _whitening(descriptors - descriptors.mean(0), descriptors.mean(0), None, keep or dimension, count)


def learned_whitening(descriptors: Tensor, pairs: Tensor, keep: int | None = None) -> tuple[Tensor, Tensor]:
    """Whitening learned from matching pairs of rows (P, 2) (Mikolajczyk and Matas, 2007): differences within pairs
    become white, then directions are ordered by how much all descriptors vary along them."""
    mean = descriptors[pairs[:, 0]].mean(0)
    centred = descriptors - mean
    apart = descriptors[pairs[:, 0]] - descriptors[pairs[:, 1]]
    return _whitening(centred, mean, apart, keep or descriptors.shape[1], len(pairs))


def _whitening(centred: Tensor, mean: Tensor, apart: Tensor | None, keep: int, count: int) -> tuple[Tensor, Tensor]:
    if not 1 <= keep <= len(mean):
        raise VergenceError(f"whitening keeps 1 to {len(mean)} directions, got {keep}")
    if apart is None:
        values, vectors = torch.linalg.eigh(centred.mT @ centred / len(centred))
        values, vectors = values.flip(0)[:keep], vectors.flip(1)[:, :keep]
        least = values[0] * torch.finfo(values.dtype).eps * len(mean)
        if not values[-1] > least:
            known = int((values > least).sum())
            raise VergenceError(
                f"{count} descriptors vary in {known} directions only: they cannot be whitened to {keep}; give more of "
                f"them, or keep {known}"
            )
        projection = vectors.mT / values.sqrt()[:, None]
        return projection, -projection @ mean
    covariance = apart.mT @ apart / len(apart)
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if failed:
        raise VergenceError(f"{count} pairs of descriptors do not differ in all of {len(mean)} directions; give more")
    white = torch.linalg.solve_triangular(factor, centred.mT, upper=False)
    vectors = torch.linalg.eigh(white @ white.mT).eigenvectors.flip(1)[:, :keep]
    projection = torch.linalg.solve_triangular(factor.mT, vectors, upper=True).mT
    return projection, -projection @ mean
