"""Optimal assignment: which column each row takes, no column twice, so that the similarities add up to the most.

All functions take similarities (..., N, M), solve every problem of the batch at once and give integers (..., N), never
one-hot matrices. A row that goes without (N > M) has -1. Integers carry no gradient; :func:`soft_assign` does.

=============  ======================================================================================================
``exact``      the optimum, by shortest augmenting paths: problems are solved in parallel on the CPU, by a compiled
               kernel if the extra ``fast`` (numba) is there and by SciPy if not; only ties may come out otherwise
``greedy``     the most similar pair first, then the most similar of what is left; on any device
``sinkhorn``   greedy on the entropic plan of :func:`soft_assign`, which has seen all rows and columns
=============  ======================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from vergence.ops.transport import log_sinkhorn, sinkhorn

Method = Literal["exact", "greedy", "sinkhorn"]
LIMIT = 1e30
"""Similarities beyond this could not be told apart once they are added up."""
REACH = 60
"""Up to so many ``eps`` between the least and the greatest similarity no logarithms are needed: products with vectors
will do."""


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
    relaxed = partial(_sinkhorn, eps=eps, iterations=iterations)
    solvers: dict[str, Callable[[Tensor], Tensor]] = {"exact": _exact, "greedy": _greedy, "sinkhorn": relaxed}
    return solvers[method](problems).reshape(*batch, rows)


def soft_assign(similarity: Tensor, eps: float = 0.05, iterations: int = 50) -> Tensor:
    """The entropic relaxation: how much of each row goes to each column, (..., N, M). Differentiable.

    Rows sum to one and columns to N / M, as nearly as so many of Sinkhorn's iterations get; with ``eps`` towards 0 it
    is the optimal assignment.
    """
    return log_sinkhorn(-similarity, eps, iterations=iterations) * similarity.shape[-2]


@torch.library.custom_op("vergence::assign", mutates_args=())
def _exact(similarity: Tensor) -> Tensor:
    """Problems (P, N, M) to columns (P, N)."""
    _refuse_unless_moderate(similarity)
    problems, rows, columns = similarity.shape
    found = torch.full((problems, rows), -1, dtype=torch.int64)
    if found.numel() and columns:
        solve = partial(_solve, compiled())
        values = similarity.cpu().contiguous()
        # As many threads as PyTorch computes with; several parcels each, for problems are not equally hard.
        threads = min(torch.get_num_threads(), problems)
        parcel = math.ceil(problems / (4 * threads)) if threads > 1 else problems
        parcels = list(zip(values.split(parcel), found.split(parcel), strict=True))
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(solve, *zip(*parcels, strict=True)))
        else:
            solve(*parcels[0])
    return found.to(similarity.device)


@cache
def compiled() -> Callable[[Any, Any], None] | None:
    """The kernel of the extra ``fast``, if it is there; numba takes a second to import, so not before it is wanted."""
    try:
        from vergence.ops.augmenting import solve
    except ImportError:
        return None
    found: Callable[[Any, Any], None] = solve
    return found


def _solve(kernel: Callable[[Any, Any], None] | None, similarity: Tensor, found: Tensor) -> None:
    """Fills ``found`` (P, N), which is -1, with the best columns for similarities (P, N, M) on the CPU."""
    if kernel is None:
        solve_with_scipy(similarity, found)
    elif similarity.shape[1] <= similarity.shape[2]:
        kernel(similarity.numpy(), found.numpy())
    else:  # every column takes a row
        taken = torch.empty(similarity.shape[0], similarity.shape[2], dtype=torch.int64)
        kernel(similarity.mT.contiguous().numpy(), taken.numpy())
        found.scatter_(1, taken, torch.arange(similarity.shape[2]).expand_as(taken))


def solve_with_scipy(similarity: Tensor, found: Tensor) -> None:
    """The same without the extra ``fast``: one problem after another."""
    from scipy.optimize import linear_sum_assignment

    for values, columns in zip(similarity.numpy(), found.numpy(), strict=True):
        rows, best = linear_sum_assignment(values, maximize=True)
        columns[rows] = best


@torch.library.custom_op("vergence::greedy_assign", mutates_args=())
def _greedy(similarity: Tensor) -> Tensor:
    """Problems (P, N, M) to columns (P, N)."""
    _refuse_unless_moderate(similarity)
    return _best_first(similarity)


@torch.library.custom_op("vergence::sinkhorn_assign", mutates_args=())
def _sinkhorn(similarity: Tensor, eps: float, iterations: int) -> Tensor:
    """Problems (P, N, M) to columns (P, N)."""
    low, high = _refuse_unless_moderate(similarity)
    if high - low > REACH * eps:
        return _best_first(soft_assign(similarity, eps, iterations))
    return _best_first(sinkhorn(high - similarity, eps, iterations=iterations) if similarity.numel() else similarity)


def _columns(similarity: Tensor, *_: Any, **__: Any) -> Tensor:
    return similarity.new_empty(similarity.shape[:2], dtype=torch.int64)


for operator in (_exact, _greedy, _sinkhorn):
    operator.register_fake(_columns)


def _best_first(values: Tensor) -> Tensor:
    """Rows and columns that have their highest value in common are matched and leave, until none is left: with the
    first of equals, that is taking the highest of all again and again, but in a few rounds."""
    problems, rows, columns = values.shape
    left = values.clone()
    found = torch.full((problems, rows), -1, dtype=torch.int64, device=values.device)
    for _ in range(min(rows, columns)):
        value, column = left.max(2)
        mutual = left.argmax(1).gather(1, column) == torch.arange(rows, device=left.device)
        problem, row = (mutual & (value > -torch.inf)).nonzero(as_tuple=True)
        if not len(problem):
            break
        taken = column[problem, row]
        found[problem, row] = taken
        left[problem, row] = -torch.inf
        left[problem, :, taken] = -torch.inf
    return found


def _refuse_unless_moderate(similarity: Tensor) -> tuple[float, float]:
    """The least and the greatest similarity."""
    # Here, where values are at hand: outside an operator the question would break a traced graph.
    if not similarity.numel():
        return 0.0, 0.0
    low, high = map(float, similarity.aminmax())
    if not (low > -LIMIT and high < LIMIT):  # NaN is not below anything
        raise ValueError(f"similarities to assign by are numbers within ±{LIMIT:g}, got NaN, infinity or beyond")
    return low, high
