"""Nonlocal operators straight from their own papers' formulas, with every N x N matrix written out.

Tokens ``x`` are (B, N, C); the weights of embeddings are (m, C), those of outputs (C, m), as ``nn.Linear`` keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

# Affinities, (B, N, N) ----------------------------------------------------------------------------------------------


def softmax_affinity(x: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
    """Eq. 3: ``exp(θ_i·φ_j)`` over its row sum."""
    return _rows_of_exp((x @ theta.mT) @ (x @ phi.mT).mT)


def fused_softmax_affinity(x: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
    """The same by PyTorch's softmax."""
    return ((x @ theta.mT) @ (x @ phi.mT).mT).softmax(-1)


def gaussian_affinity(x: Tensor) -> Tensor:
    """``exp(x_i·x_j)`` over its row sum."""
    return _rows_of_exp(x @ x.mT)


def _rows_of_exp(scores: Tensor) -> Tensor:
    kernel = (scores - scores.amax(-1, keepdim=True)).exp()  # the factor cancels; without it float32 overflows
    return kernel / kernel.sum(-1, keepdim=True)


def dot_affinity(x: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
    """``θ_i·φ_j / N`` (Wang et al., Eq. 4)."""
    return (x @ theta.mT) @ (x @ phi.mT).mT / x.shape[-2]


def concatenation_affinity(x: Tensor, theta: Tensor, phi: Tensor, compare: Tensor) -> Tensor:
    """``relu(w·[θ_i; φ_j]) / N`` (Wang et al., Eq. 5), the pairs written out; ``compare`` is w as (2, m)."""
    left, right = (x @ theta.mT).unsqueeze(-2), (x @ phi.mT).unsqueeze(-3)
    left, right = torch.broadcast_tensors(left, right)
    return (torch.cat([left, right], -1) @ compare.flatten()).relu() / x.shape[-2]


def summed_affinity(x: Tensor, theta: Tensor, phi: Tensor, compare: Tensor) -> Tensor:
    """The same as a sum of two numbers a pair, ``relu(w_θ·θ_i + w_φ·φ_j) / N``."""
    left, right = x @ theta.mT @ compare[0], x @ phi.mT @ compare[1]
    return (left[..., :, None] + right[..., None, :]).relu() / x.shape[-2]


def double_affinity(x: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
    """Eqs. 12 and 13: softmax over channels times softmax over positions."""
    return (x @ theta.mT).softmax(-1) @ (x @ phi.mT).softmax(-2).mT


def spectral_affinity(x: Tensor, theta: Tensor, phi: Tensor, kernel: Literal["relu", "sigmoid"] = "relu") -> Tensor:
    """Eq. 23's constraint: ``relu(θ_i)·relu(φ_j)`` (or a sigmoid), symmetrised, then divided by ``√(d_i d_j)``."""
    query, key = x @ theta.mT, x @ phi.mT
    m = query.relu() @ key.relu().mT if kernel == "relu" else (query @ key.mT).sigmoid()
    m = (m + m.mT) / 2
    degree = m.sum(-1)
    product = (degree[..., :, None] * degree[..., None, :]).sqrt()
    return torch.where(product > 0, m / product.where(product > 0, 1), 0)


def scaled_spectral_affinity(
    x: Tensor, theta: Tensor, phi: Tensor, kernel: Literal["relu", "sigmoid"] = "relu"
) -> Tensor:
    """The same as one would run it: rows and columns scaled by inverse roots; all degrees must be positive."""
    left, right = x @ theta.mT, x @ phi.mT
    m = left.relu() @ right.relu().mT if kernel == "relu" else (left @ right.mT).sigmoid()
    m = m + m.mT  # the half of it cancels in the division
    root = m.sum(-1, keepdim=True).rsqrt()
    return m * root * root.mT


def criss_cross_affinity(x: Tensor, theta: Tensor, phi: Tensor, height: int, width: int) -> Tensor:
    """Eqs. 18 and 19: softmax over a full matrix with minus infinity off one's row and column."""
    place = torch.arange(height * width, device=x.device)
    row, column = place // width, place % width
    crossed = (row[:, None] == row) | (column[:, None] == column)
    return ((x @ theta.mT) @ (x @ phi.mT).mT).masked_fill(~crossed, -math.inf).softmax(-1)


def compact_affinity(
    x: Tensor, theta: Tensor, phi: Tensor, kernel: Literal["dot", "rbf"] = "dot", order: int = 2, gamma: float = 1e-4
) -> Tensor:
    """Eq. 16 for one group: (B, N·m, N·m). The RBF kernel is a Taylor series of ``exp(-2γ) exp(2γ t p)``."""
    t, p = (x @ theta.mT).flatten(1), (x @ phi.mT).flatten(1)
    product = t[:, :, None] * p[:, None, :]
    if kernel == "dot":
        return product
    series = sum((2 * gamma * product) ** k / math.factorial(k) for k in range(order + 1))
    return math.exp(-2 * gamma) * torch.as_tensor(series)


# Operators, (B, N, C) -----------------------------------------------------------------------------------------------


def nl(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """Eq. 1, a row at a time: the mean of ``g(x_j)`` weighted by ``f(x_i, x_j)``, times W."""
    z = x @ g.mT
    rows = []
    for i in range(x.shape[-2]):
        scores = ((x @ theta.mT)[..., i : i + 1, :] * (x @ phi.mT)).sum(-1, keepdim=True)
        f = (scores - scores.amax(-2, keepdim=True)).exp()
        rows.append((f * z).sum(-2) / f.sum(-2))
    return torch.stack(rows, -2) @ w.mT


def ns(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """Eq. 6: the mean of the differences ``z_j - z_i`` weighted by ``f(x_i, x_j)``, times W."""
    z = x @ g.mT
    differences = z[..., None, :, :] - z[..., :, None, :]  # (B, N, N, m)
    return (softmax_affinity(x, theta, phi)[..., None] * differences).sum(-2) @ w.mT


def dense_ns(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """Eq. 9, ``A Z W - Z W``, with the dense matrix."""
    z = x @ g.mT
    return fused_softmax_affinity(x, theta, phi) @ z @ w.mT - z @ w.mT


def neighbours(affinity: Tensor, x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """``A Z W`` with a dense matrix."""
    return affinity @ (x @ g.mT) @ w.mT


def a2(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """Chen et al., a descriptor at a time: gathered by a softmax over positions, handed out by one over channels."""
    z, give, take = x @ g.mT, (x @ theta.mT).softmax(-1), (x @ phi.mT).softmax(-2)
    out = torch.zeros_like(z)
    for r in range(theta.shape[0]):
        descriptor = (take[..., r : r + 1] * z).sum(-2, keepdim=True)
        out = out + give[..., r : r + 1] * descriptor
    return out @ w.mT


def cgnl(
    x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w: Tensor, kernel: Literal["dot", "rbf"] = "dot", order: int = 2
) -> Tensor:
    """Eqs. 14 to 17 for one group: ``f(x, x) vec(Z)`` with the (N·m) x (N·m) matrix, then W."""
    z = x @ g.mT
    return (compact_affinity(x, theta, phi, kernel, order) @ z.flatten(1).unsqueeze(-1)).reshape(z.shape) @ w.mT


def stacked_cgnl(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w: Tensor, order: int = 2) -> Tensor:
    """The RBF form as the authors' code has it: scaled powers of θ and φ in stacks, and a product with each."""
    t, p, z = (x @ theta.mT).flatten(1), (x @ phi.mT).flatten(1), x @ g.mT
    gamma = 1e-4
    scales = [math.sqrt((2 * gamma) ** k / math.factorial(k) * math.exp(-2 * gamma)) for k in range(order + 1)]
    give, take = (torch.stack([v**k * s for k, s in enumerate(scales)], 1) for v in (t, p))  # (B, K + 1, N·m)
    gathered = take @ z.flatten(1).unsqueeze(-1)
    return (gathered.mT @ give).reshape(z.shape) @ w.mT


def cc(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, height: int, width: int) -> Tensor:
    """Huang et al., a position at a time: softmax over the H + W - 1 positions of its row and column."""
    query, key, value = x @ theta.mT, x @ phi.mT, x @ g.mT
    out = []
    for i in range(height):
        for j in range(width):
            seen = [a * width + j for a in range(height)] + [i * width + b for b in range(width) if b != j]
            weight = (key[:, seen] @ query[:, i * width + j].unsqueeze(-1)).softmax(-2)
            out.append((weight * value[:, seen]).sum(-2))
    return torch.stack(out, -2)


def two_product_cc(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, height: int, width: int) -> Tensor:
    """Huang et al. as their code has it: scores by column and by row, batches of small products, one softmax."""
    batch = x.shape[0]
    grids = [(x @ w.mT).reshape(batch, height, width, -1) for w in (theta, phi, g)]
    columns = [t.transpose(1, 2).reshape(batch * width, height, -1) for t in grids]
    rows = [t.reshape(batch * height, width, -1) for t in grids]
    own = torch.full((height,), -math.inf, dtype=x.dtype, device=x.device).diag()  # zero times infinity stays out of it
    own = torch.where(torch.eye(height, dtype=torch.bool, device=x.device), own, 0)
    by_column = (columns[0] @ columns[1].mT + own).reshape(batch, width, height, height).transpose(1, 2)
    by_row = (rows[0] @ rows[1].mT).reshape(batch, height, width, width)
    weights = torch.cat([by_column, by_row], -1).softmax(-1)
    along_column = weights[..., :height].transpose(1, 2).reshape(batch * width, height, height) @ columns[2]
    along_row = weights[..., height:].reshape(batch * height, width, width) @ rows[2]
    out = along_column.reshape(batch, width, height, -1).transpose(1, 2) + along_row.reshape(batch, height, width, -1)
    return out.flatten(1, 2)


def snl(
    x: Tensor,
    theta: Tensor,
    phi: Tensor,
    g: Tensor,
    w1: Tensor,
    w2: Tensor,
    *,
    affinity: Callable[[Tensor, Tensor, Tensor], Tensor] = spectral_affinity,
) -> Tensor:
    """``Z W₁ + A Z W₂`` with the dense matrix; the authors' earlier code has NL's softmax for it."""
    z = x @ g.mT
    return z @ w1.mT + affinity(x, theta, phi) @ z @ w2.mT


def gsnl(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w1: Tensor, w2: Tensor, w3: Tensor) -> Tensor:
    """``Z W₁ + A Z W₂ + (2A - I) Z W₃`` with the dense matrix."""
    z, a = x @ g.mT, spectral_affinity(x, theta, phi)
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return z @ w1.mT + a @ z @ w2.mT + (2 * a - eye) @ z @ w3.mT


def dense_gsnl(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, w1: Tensor, w2: Tensor, w3: Tensor) -> Tensor:
    """The same with one product of the matrix, as one would write it."""
    z = x @ g.mT
    near = scaled_spectral_affinity(x, theta, phi) @ z
    return z @ w1.mT + near @ w2.mT + (2 * near - z) @ w3.mT


def chebysnl(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, *weights: Tensor) -> Tensor:
    """``Σ_k T_k(-A) Z W_k`` with every ``T_k`` as a matrix."""
    z, a = x @ g.mT, -spectral_affinity(x, theta, phi)
    terms = [torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand_as(a), a]
    while len(terms) < len(weights):
        terms.append(2 * a @ terms[-1] - terms[-2])
    return torch.stack([t @ z @ w.mT for t, w in zip(terms, weights, strict=False)]).sum(0)


def dense_chebysnl(x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, *weights: Tensor) -> Tensor:
    """The same by the recursion on features, ``T_k Z = 2 (-A) T_{k-1} Z - T_{k-2} Z``: no products of matrices."""
    z, a = x @ g.mT, -scaled_spectral_affinity(x, theta, phi)
    terms = [z, a @ z]
    while len(terms) < len(weights):
        terms.append(2 * (a @ terms[-1]) - terms[-2])
    return torch.stack([t @ w.mT for t, w in zip(terms, weights, strict=False)]).sum(0)


def dense_cayleysnl(
    x: Tensor,
    theta: Tensor,
    phi: Tensor,
    g: Tensor,
    w1: Tensor,
    w2: Tensor,
    wh: Tensor,
    kernel: Literal["relu", "sigmoid"] = "sigmoid",
) -> Tensor:
    """Eq. 22 from right to left: two products of A with features. (The public code squares L, in N³ operations.)"""
    z, a = x @ g.mT, scaled_spectral_affinity(x, theta, phi, kernel)
    once = z - a @ z
    return z @ w1.mT + 2 * ((once - a @ once) @ wh.mT + z) @ w2.mT


def cayleysnl(
    x: Tensor,
    theta: Tensor,
    phi: Tensor,
    g: Tensor,
    w1: Tensor,
    w2: Tensor,
    wh: Tensor,
    kernel: Literal["relu", "sigmoid"] = "sigmoid",
) -> Tensor:
    """Eq. 22 from left to right: ``Z W₁ + 2 (L² Z W_h + Z) W₂``, the square of L written out."""
    z, a = x @ g.mT, spectral_affinity(x, theta, phi, kernel)
    laplacian = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device) - a
    return z @ w1.mT + 2 * (laplacian @ laplacian @ z @ wh.mT + z) @ w2.mT


def cayley(affinity: Tensor, z: Tensor, weights: Sequence[Tensor], zoom: Tensor) -> Tensor:
    """Eq. 20 in complex numbers, with the inverse written out; weights are (C, D)."""
    eye = torch.eye(affinity.shape[-1], dtype=affinity.dtype, device=affinity.device)
    scaled = zoom * (eye - affinity)
    step = torch.complex(scaled, -eye.expand_as(scaled)) @ torch.linalg.inv(
        torch.complex(scaled, eye.expand_as(scaled))
    )
    out, power = z @ weights[0], step
    for weight in weights[1:]:
        out = out + 2 * (power @ z.to(power.dtype)).real @ weight
        power = power @ step
    return out


def cayleyexact(
    x: Tensor, theta: Tensor, phi: Tensor, g: Tensor, zoom: Tensor, *weights: Tensor,
    kernel: Literal["relu", "sigmoid"] = "relu",
) -> Tensor:  # fmt: skip
    """Eq. 20 on the graph of Eq. 23."""
    return cayley(spectral_affinity(x, theta, phi, kernel), x @ g.mT, [w.mT for w in weights], zoom)
