"""Optimal assignment: one column for each row, no column twice, with the greatest total similarity.

All functions take similarities (..., N, M), solve every problem of the batch at once and return column indices
(..., N), never one-hot matrices. An unassigned row (N > M) has -1. Indices carry no gradient; :func:`soft_assign` does.

=============  ======================================================================================================
``exact``      the optimum, by shortest augmenting paths: problems are solved in parallel on the CPU, by a compiled
               kernel if the extra ``fast`` (numba) is installed and by SciPy otherwise; only ties may differ
``greedy``     the most similar pair first, then the most similar of the remaining ones; on any device
``sinkhorn``   greedy on the entropic plan of :func:`soft_assign`, which takes all rows and columns into account
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
"""Similarities beyond this lose too many digits when they are summed."""
REACH = 60
"""Range of similarities, in units of ``eps``, up to which Sinkhorn needs no logarithms, only products with vectors."""


def assign(similarity: Tensor, method: Method = "exact", eps: float = 0.05, iterations: int = 50) -> Tensor:
    """The column of each row, (..., N) as int64, for similarities (..., N, M). Not differentiable.

    Deterministic, ties included. ``eps`` and ``iterations`` are those of :func:`soft_assign`. Raises a ValueError if a
    similarity is not a finite number.
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

    Rows sum to one and columns to N / M, as closely as the given number of Sinkhorn iterations gets; as ``eps`` goes to
    0 it becomes the optimal assignment.
    """
    return log_sinkhorn(-similarity, eps, iterations=iterations) * similarity.shape[-2]


@torch.library.custom_op("vergence::assign", mutates_args=())
def _exact(similarity: Tensor) -> Tensor:
    """Problems (P, N, M) to columns (P, N)."""
    _refuse_unless_moderate(similarity)
    problems, rows, columns = similarity.shape
    column_of = torch.full((problems, rows), -1, dtype=torch.int64)
    if column_of.numel() and columns:
        solve = partial(_solve, compiled())
        values = similarity.cpu().contiguous()
        # As many threads as PyTorch uses; several parcels each, because problems are not equally hard.
        threads = min(torch.get_num_threads(), problems)
        parcel = math.ceil(problems / (4 * threads)) if threads > 1 else problems
        parcels = list(zip(values.split(parcel), column_of.split(parcel), strict=True))
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(solve, *zip(*parcels, strict=True)))
        else:
            solve(*parcels[0])
    return column_of.to(similarity.device)


@cache
def compiled() -> Callable[[Any, Any], None] | None:
    """The kernel of the extra ``fast``, if installed; imported on first use, because numba takes a second to import."""
    try:
        from vergence.ops.augmenting import solve
    except ImportError:
        return None
    kernel: Callable[[Any, Any], None] = solve
    return kernel


def _solve(kernel: Callable[[Any, Any], None] | None, similarity: Tensor, column_of: Tensor) -> None:
    """Fills ``column_of`` (P, N), initially -1, with the best columns for similarities (P, N, M) on the CPU."""
    if kernel is None:
        solve_with_scipy(similarity, column_of)
    elif similarity.shape[1] <= similarity.shape[2]:
        kernel(similarity.numpy(), column_of.numpy())
    else:  # more rows than columns: assign a row to every column
        row_of = torch.empty(similarity.shape[0], similarity.shape[2], dtype=torch.int64)
        kernel(similarity.mT.contiguous().numpy(), row_of.numpy())
        column_of.scatter_(1, row_of, torch.arange(similarity.shape[2]).expand_as(row_of))


def solve_with_scipy(similarity: Tensor, found: Tensor) -> None:
    """The fallback without the extra ``fast``: fills ``found`` one problem after another."""
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
    """Greedy assignment of values (P, N, M): columns (P, N).

    Matches and removes all mutual best pairs of rows and columns, until none is left. The result is that of taking the
    highest remaining value again and again (the first among equals), in a few rounds.
    """
    problems, rows, columns = values.shape
    left = values.clone()
    column_of = torch.full((problems, rows), -1, dtype=torch.int64, device=values.device)
    for _ in range(min(rows, columns)):
        value, column = left.max(2)
        mutual = left.argmax(1).gather(1, column) == torch.arange(rows, device=left.device)
        problem, row = (mutual & (value > -torch.inf)).nonzero(as_tuple=True)
        if not len(problem):
            break
        taken = column[problem, row]
        column_of[problem, row] = taken
        left[problem, row] = -torch.inf
        left[problem, :, taken] = -torch.inf
    return column_of


def _refuse_unless_moderate(similarity: Tensor) -> tuple[float, float]:
    """The least and the greatest similarity; a ValueError unless both are finite and within the limit."""
    # Checked inside the operators: outside of them, reading a value would break a traced graph.
    if not similarity.numel():
        return 0.0, 0.0
    low, high = map(float, similarity.aminmax())
    if not (low > -LIMIT and high < LIMIT):  # NaN is not below anything
        raise ValueError(f"similarities to assign by must lie within ±{LIMIT:g}, got NaN, infinity or larger values")
    return low, high
