"""Algorithms 1 and 2 of alignment-guided temporal attention as printed: frame by frame, with one-hot matrices.

Three things are not as printed: the assignment is maximised (SciPy minimises unless told), the list of matrices begins
with the identity of the first frame, which Algorithm 2 counts, and frames are not overwritten, so that gradients can
go back.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def align(x: Tensor) -> tuple[Tensor, Tensor]:
    """Features (T, N, C) aligned, and matrices (T, N, N) that undo it."""
    count = x.shape[1]
    aligned, dealignment = [x[0]], [torch.eye(count)]
    for t in range(1, len(x)):
        before = F.normalize(aligned[-1], dim=-1).detach()
        current = F.normalize(x[t], dim=-1).detach()
        similarity = before @ current.t()
        alignment = torch.zeros(count, count)
        alignment[linear_sum_assignment(similarity.numpy(), maximize=True)] = 1
        dealignment.append(alignment.t())
        aligned.append(x[t][alignment.argmax(-1)])
    return torch.stack(aligned), torch.stack(dealignment)


def dealign(x: Tensor, dealignment: Tensor) -> Tensor:
    """Aligned features (T, N, C) put back."""
    return torch.stack([frame[undo.argmax(-1)] for frame, undo in zip(x, dealignment, strict=True)])


def aligned(x: Tensor) -> Tensor:
    """A batch (B, T, N, C) through both, one clip after another."""
    return torch.stack([dealign(*align(clip)) for clip in x])


def greedy(similarity: Tensor) -> Tensor:
    """Columns (N,) for similarities (N, M): all pairs in order, the most similar first, taken if both are free."""
    found, taken = [-1] * len(similarity), set()
    for pair in similarity.flatten().argsort(descending=True, stable=True).tolist():
        row, column = divmod(pair, similarity.shape[1])
        if found[row] < 0 and column not in taken:
            found[row] = column
            taken.add(column)
    return torch.tensor(found)
