"""Optimal assignment: which column each row takes, no column twice, so that the similarities add up to the most.

All functions take similarities (..., N, M), solve every problem of the batch at once and give integers (..., N), never
one-hot matrices. A row that goes without (N > M) has -1. Integers carry no gradient; :func:`soft_assign` does.

=============  ======================================================================================
``exact``      the optimum, by shortest augmenting paths; problems are solved in parallel on the CPU
``greedy``     the most similar pair first, then the most similar of what is left; on any device
``sinkhorn``   greedy on the entropic plan of :func:`soft_assign`, which has seen all rows and columns
=============  ======================================================================================
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, get_args

import torch
from torch import Tensor

from saccade.ops.transport import log_sinkhorn

Method = Literal["exact", "greedy", "sinkhorn"]


def assign(similarity: Tensor, method: Method = "exact", eps: float = 0.05, iterations: int = 50) -> Tensor:
    """The column of each row, (..., N) as int64, for similarities (..., N, M). Not differentiable.

    The same similarities give the same columns, ties included. ``eps`` and ``iterations`` are those of
    :func:`soft_assign`. Raises a ValueError if a similarity is not a finite number.
    """
    if similarity.dim() < 2 or not similarity.is_floating_point():
        raise ValueError(f"similarities are floats (..., N, M), got {tuple(similarity.shape)} of {similarity.dtype}")
    if method not in get_args(Method):
        raise ValueError(f"there is no assignment {method!r}: expected one of {', '.join(get_args(Method))}")
    similarity = similarity.detach()
    if similarity.dtype in (torch.float16, torch.bfloat16):
        similarity = similarity.float()
    *batch, rows, columns = similarity.shape
    problems = similarity.reshape(math.prod(batch), rows, columns)
    if method == "sinkhorn":
        problems = soft_assign(problems, eps, iterations)
    found: Tensor = _exact(problems) if method == "exact" else _greedy(problems)
    return found.reshape(*batch, rows)


def soft_assign(similarity: Tensor, eps: float = 0.05, iterations: int = 50) -> Tensor:
    """The entropic relaxation: how much of each row goes to each column, (..., N, M). Differentiable.

    Rows sum to one and columns to N / M, as nearly as so many of Sinkhorn's iterations get; with ``eps`` towards 0 it
    is the optimal assignment.
    """
    return log_sinkhorn(-similarity, eps, iterations=iterations) * similarity.shape[-2]


@torch.library.custom_op("saccade::assign", mutates_args=())
def _exact(similarity: Tensor) -> Tensor:
    """Problems (P, N, M) to columns (P, N)."""
    _refuse_unless_finite(similarity)
    from scipy.optimize import linear_sum_assignment

    found = torch.full(similarity.shape[:2], -1, dtype=torch.int64)
    out, problems = found.numpy(), similarity.cpu().numpy()

    def solve(index: int) -> None:
        rows, columns = linear_sum_assignment(problems[index], maximize=True)
        out[index, rows] = columns

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(solve, range(len(problems))))
    return found.to(similarity.device)


@_exact.register_fake
def _(similarity: Tensor) -> Tensor:
    return similarity.new_empty(similarity.shape[:2], dtype=torch.int64)


@torch.library.custom_op("saccade::greedy_assign", mutates_args=())
def _greedy(similarity: Tensor) -> Tensor:
    """Rows and columns that are each other's most similar are matched and leave, until none is left: with the first of
    equals, that is taking the most similar pair of all, again and again."""
    _refuse_unless_finite(similarity)
    problems, rows, columns = similarity.shape
    left = similarity.clone()
    found = torch.full((problems, rows), -1, dtype=torch.int64, device=similarity.device)
    for _ in range(min(rows, columns)):
        value, column = left.max(2)
        back = left.argmax(1)
        mutual = back.gather(1, column) == torch.arange(rows, device=left.device)
        problem, row = (mutual & value.isfinite()).nonzero(as_tuple=True)
        if not len(problem):
            break
        taken = column[problem, row]
        found[problem, row] = taken
        left[problem, row] = -torch.inf
        left[problem, :, taken] = -torch.inf
    return found


@_greedy.register_fake
def _(similarity: Tensor) -> Tensor:
    return similarity.new_empty(similarity.shape[:2], dtype=torch.int64)


def _refuse_unless_finite(similarity: Tensor) -> None:
    # Here, where values are at hand: outside an operator the question would break a traced graph.
    if not bool(similarity.isfinite().all()):
        raise ValueError("similarities to assign by must be finite numbers, got NaN or infinity")
