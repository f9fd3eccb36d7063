"""Optimal transport between two sets by Sinkhorn iterations: balanced or not, unrolled or to convergence.

The problem is, with ``KL(a, b) = Σ a log(a / b) - a + b`` and marginals ``rows`` and ``columns``,

    min over T ≥ 0 of  Σ C T + eps Σ T (log T - 1) + mass KL(T 1, rows) + mass KL(Tᵀ 1, columns).

``mass`` is the cost of creating or losing mass: infinite (the default) is balanced transport, 0 leaves
``exp(-C / eps)`` as it is. The solution is ``T = diag(a) U diag(b)`` with the kernel ``U = exp(-C / eps)``, and the
scalings only need products of the kernel with vectors: any object with ``@`` and ``.mT`` will do (see
:class:`vergence.ops.support.Blocks`).

Pairs outside a ``support`` have no mass: their kernel is 0 for any cost. A row or column without any pair is an empty
row or column of the plan. ``eps`` and ``mass`` are numbers, or tensors that broadcast against (..., 1, 1).
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Kernel(Protocol):
    """A non-negative linear map: a tensor (..., N, M), or something that multiplies like one."""

    @property
    def shape(self) -> torch.Size | tuple[int, ...]: ...

    @property
    def mT(self) -> Any: ...

    def __matmul__(self, z: Tensor, /) -> Tensor: ...

    def new_full(self, size: tuple[int, ...], fill_value: float, /) -> Tensor: ...


# Costs and kernels ---------------------------------------------------------------------------------------------------


def unit(x: Tensor, guard: float = 1e-8) -> Tensor:
    """L2-normalised features (..., C); ``guard`` is added to the squared norm. Differentiable."""
    return x * (x.square().sum(-1, keepdim=True) + guard).rsqrt()


def cosine_cost(x: Tensor, y: Tensor, guard: float = 1e-8) -> Tensor:
    """``1 - cos(x_i, y_j)``, between 0 and 2, for features (..., N, C) and (..., M, C): (..., N, M). Differentiable."""
    return 1 - unit(x, guard) @ unit(y, guard).mT


def cosine_kernel(x: Tensor, y: Tensor, eps: Tensor) -> Tensor:
    """``exp(-C / eps)`` of the :func:`cosine_cost` between features that are L2-normalised already, in one product and
    one exponential; ``eps`` broadcasts against (..., N, C). Differentiable."""
    return torch.exp_(x / eps @ y.mT - 1 / eps)


def distances(p: Tensor, q: Tensor) -> Tensor:
    """Euclidean distances between points (..., N, D) and (..., M, D): (..., N, M). Differentiable."""
    # By differences: dot products lose precision far from the origin.
    return torch.cdist(p, q, compute_mode="donot_use_mm_for_euclid_dist")


def within(p: Tensor, q: Tensor, radius: float) -> Tensor:
    """Which pairs of points (..., N, D) and (..., M, D) are nearer than ``radius``: booleans (..., N, M)."""
    return distances(p.detach(), q.detach()) < radius


def gibbs(cost: Tensor, eps: Tensor | float, support: Tensor | None = None) -> Tensor:
    """The kernel ``exp(-C / eps)``, 0 outside the support (never ``inf * 0``). Differentiable."""
    kernel = (cost / -eps).exp()
    return kernel if support is None else kernel.masked_fill(~support, 0)


def relaxation(eps: Tensor | float, mass: Tensor | float) -> Tensor | float:
    """The exponent of the scalings, ``mass / (mass + eps)``: 1 for infinite mass (balanced), 0 for none."""
    if isinstance(mass, Tensor):
        return 1 / (1 + eps / mass)
    return 1.0 if math.isinf(mass) else mass / (mass + eps)


# Scalings ------------------------------------------------------------------------------------------------------------


def scalings(
    kernel: Kernel | Tensor,
    power: Tensor | float,
    iterations: int,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
    guard: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """``a`` (..., N, 1) and ``b`` (..., M, 1) after the given number of iterations, unrolled: differentiable.

    ``power`` is :func:`relaxation`; marginals (..., N) and (..., M) are uniform unless given. ``guard`` is added to
    denominators. With 0 iterations the scalings are 1 and the plan is the kernel.
    """
    *batch, n, m = kernel.shape
    a, b = kernel.new_full((*batch, n, 1), 1.0), kernel.new_full((*batch, m, 1), 1.0)
    if not iterations:
        return a, b
    a, even = a / n, b / m
    mu, nu = a if rows is None else rows.unsqueeze(-1), even if columns is None else columns.unsqueeze(-1)
    for _ in range(iterations):
        b = _share(nu, kernel.mT @ a + guard) ** power
        a = _share(mu, kernel @ b + guard) ** power
    return a, b


def _share(marginal: Tensor, reached: Tensor) -> Tensor:
    """The scaling ``marginal / reached``; 1 where ``reached`` is 0, where any finite value gives an empty row."""
    seen = reached > 0
    return (marginal / reached.where(seen, 1)).where(seen, 1)


def sinkhorn(
    cost: Tensor,
    eps: Tensor | float,
    mass: Tensor | float = math.inf,
    iterations: int = 100,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
    support: Tensor | None = None,
) -> Tensor:
    """The plan (..., N, M) for a cost of that shape after the given number of iterations. Differentiable.

    Valid as long as ``exp(-cost / eps)`` does not underflow to all zeros; :func:`log_sinkhorn` is valid for any cost.
    """
    kernel = gibbs(cost, eps, support)
    a, b = scalings(kernel, relaxation(eps, mass), iterations, rows, columns)
    return a * kernel * b.mT


def log_sinkhorn(
    cost: Tensor,
    eps: Tensor | float,
    mass: Tensor | float = math.inf,
    iterations: int = 100,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
    support: Tensor | None = None,
) -> Tensor:
    """:func:`sinkhorn` on logarithms: the same plan, for costs of any size and small float types. Differentiable."""
    kernel, power = _log_gibbs(cost, eps, support), relaxation(eps, mass)
    mu, nu = _log_marginals(kernel, rows, columns)
    u = torch.full_like(mu, -math.log(mu.shape[-2])) if iterations else torch.zeros_like(mu)
    v = torch.zeros_like(nu)
    for _ in range(iterations):
        v = power * _log_share(nu, kernel + u, -2)
        u = power * _log_share(mu, kernel + v, -1)
    return (kernel + u + v).exp()


def optimal_plan(
    cost: Tensor,
    eps: Tensor | float,
    mass: Tensor | float = math.inf,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
    support: Tensor | None = None,
    tolerance: float = 1e-9,
    limit: int = 100_000,
) -> Tensor:
    """The plan (..., N, M) that iterations converge to: its logarithm moves by less than ``tolerance``.

    Differentiable once, by implicit differentiation: memory does not grow with the number of iterations. Raises a
    RuntimeError after ``limit`` iterations, as when balanced marginals cannot be met on the support.
    """
    kernel, power = _log_gibbs(cost, eps, support), relaxation(eps, mass)
    mu, nu = _log_marginals(kernel, rows, columns)
    exponent = power if isinstance(power, Tensor) else kernel.new_full((), power)
    u, v = _FixedPoint.apply(kernel, mu, nu, exponent, tolerance, limit)  # type: ignore[no-untyped-call]
    return (kernel + u + v).exp()


def _log_gibbs(cost: Tensor, eps: Tensor | float, support: Tensor | None) -> Tensor:
    kernel = cost / -eps
    return kernel if support is None else kernel.masked_fill(~support, -math.inf)


def _log_marginals(kernel: Tensor, rows: Tensor | None, columns: Tensor | None) -> tuple[Tensor, Tensor]:
    """As (..., N, 1) and (..., 1, M)."""
    *batch, n, m = kernel.shape
    mu = kernel.new_full((*batch, n, 1), -math.log(n)) if rows is None else rows.log().unsqueeze(-1)
    nu = kernel.new_full((*batch, 1, m), -math.log(m)) if columns is None else columns.log().unsqueeze(-2)
    return mu, nu


def _log_share(marginal: Tensor, terms: Tensor, dim: int) -> Tensor:
    """``marginal - logsumexp(terms)``, and 0 where there is no term: PyTorch's own gives NaN gradients there."""
    top = terms.detach().amax(dim, keepdim=True)
    top = top.where(top > -math.inf, 0)
    total = (terms - top).exp().sum(dim, keepdim=True)
    seen = total > 0
    return (marginal - top - total.where(seen, 1).log()).where(seen, 0)


class _FixedPoint(torch.autograd.Function):
    """``u = power (mu - lse_j(L + v))``, ``v = power (nu - lse_i(L + u))``, solved; backward solves the adjoint."""

    @staticmethod
    def forward(
        ctx: Any, kernel: Tensor, mu: Tensor, nu: Tensor, power: Tensor, tolerance: float, limit: int
    ) -> tuple[Tensor, Tensor]:
        u, v = torch.zeros_like(mu + power), torch.zeros_like(nu + power)
        for _ in range(limit):
            before, v = (u, v), power * _log_share(nu, kernel + u, -2)
            u = power * _log_share(mu, kernel + v, -1)
            if _moved(u - before[0], v - before[1]) < tolerance:
                break
        else:
            raise RuntimeError(f"transport did not converge to {tolerance:g} in {limit} iterations")
        ctx.save_for_backward(kernel, mu, nu, power, u, v)
        ctx.tolerance, ctx.limit = tolerance, limit
        return u, v

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_u: Tensor, grad_v: Tensor) -> Any:
        kernel, mu, nu, power, u, v = ctx.saved_tensors
        inner_u, inner_v = _log_share(mu, kernel + v, -1), _log_share(nu, kernel + u, -2)
        by_row = (kernel + v + inner_u - mu).exp()  # how u moves with each term of its sum
        by_column = (kernel + u + inner_v - nu).exp()
        lambda_u, grad_kernel = grad_u, torch.zeros_like(by_row)
        for _ in range(ctx.limit):
            lambda_v = grad_v - power * (by_row * lambda_u).sum(-2, keepdim=True)
            lambda_u = grad_u - power * (by_column * lambda_v).sum(-1, keepdim=True)
            before, grad_kernel = grad_kernel, -power * (by_row * lambda_u + by_column * lambda_v)
            if (grad_kernel - before).abs().max() <= ctx.tolerance * grad_kernel.abs().max():
                break
        grad_power = (lambda_u * inner_u).sum_to_size(power.shape) + (lambda_v * inner_v).sum_to_size(power.shape)
        grad_mu, grad_nu = (power * lambda_u).sum_to_size(mu.shape), (power * lambda_v).sum_to_size(nu.shape)
        return grad_kernel, grad_mu, grad_nu, grad_power, None, None


def _moved(u: Tensor, v: Tensor) -> Tensor:
    """The largest change of any logarithm of the plan under these changes of u and v. A constant that moves from u to v
    does not count: it leaves the plan as it is, and with nearly fixed mass it never stops."""
    top, bottom = u.amax((-2, -1)) + v.amax((-2, -1)), u.amin((-2, -1)) + v.amin((-2, -1))
    return torch.maximum(top.abs(), bottom.abs()).max()


# Use of a plan -------------------------------------------------------------------------------------------------------


def barycentres(kernel: Kernel | Tensor, b: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The mean target of each row's mass, ``Σ_j T_ij y_j / Σ_j T_ij``, with ``values`` (..., M, D): (..., N, D).

    The row scalings cancel, so the plan is not needed: ``b`` (..., M, 1) is enough (ones, if the kernel is a plan). The
    second result (..., N, 1) is true for rows that have mass; the mean of the others is 0. Differentiable.
    """
    sums = kernel @ torch.cat([b * values, b.expand(*values.shape[:-1], 1)], -1)
    total = sums[..., -1:]
    seen = total > 0
    return (sums[..., :-1] / total.where(seen, 1)).where(seen, 0), seen
