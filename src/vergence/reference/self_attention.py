"""Self-attention and its compressed forms straight from the definitions, with every matrix written out.

Queries and keys are (..., N, r), values (..., N, C); ``patches`` lists the positions of each landmark's patch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def softmax_matrix(query: Tensor, key: Tensor) -> Tensor:
    """Eq. 1: ``exp(q_i·k_j)`` over its row sum."""
    scores = query @ key.mT
    kernel = (scores - scores.amax(-1, keepdim=True)).exp()  # the factor cancels; without it float32 overflows
    return kernel / kernel.sum(-1, keepdim=True)


def sa(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Eq. 2 without gate and residual: the n x n matrix times the values."""
    return softmax_matrix(query, key) @ value


def rectangles(height: int, width: int, rows: int, columns: int) -> list[list[int]]:
    """The positions of every patch of a grid, by looking at each position in turn."""
    patches: list[list[int]] = [[] for _ in range(rows * columns)]
    for y in range(height):
        for x in range(width):
            patches[(y * rows // height) * columns + x * columns // width].append(y * width + x)
    return patches


def csalr_matrix(query: Tensor, key: Tensor, patches: Sequence[Sequence[int]]) -> Tensor:
    """Eqs. 13-16: the n x n matrix ``A_nm A_mm⁻¹ A_mn`` with the indicator, by an explicit inverse."""
    query_, key_ = (torch.stack([t[..., list(p), :].mean(-2) for p in patches], -2) for t in (query, key))
    a_nm, a_mm, a_mn = softmax_matrix(query, key_), softmax_matrix(query_, key_), softmax_matrix(query_, key)
    indicator = torch.zeros_like(a_nm)
    for number, positions in enumerate(patches):
        indicator[..., list(positions), number] = 1
    eye = torch.eye(len(patches), dtype=a_mm.dtype, device=a_mm.device)
    return (a_nm + indicator) @ torch.linalg.inv(a_mm + eye) @ a_mn


def csalr(query: Tensor, key: Tensor, value: Tensor, patches: Sequence[Sequence[int]]) -> Tensor:
    """Eq. 17 without gate and residual."""
    return csalr_matrix(query, key, patches) @ value
