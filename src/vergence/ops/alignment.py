"""Alignment of the frames of a clip: patches are re-ordered so that each slot follows one object part through time.

The published loop (Algorithms 1 and 2) matches each frame to the one before it *after* that one was re-ordered.
Permuting the rows of a similarity matrix permutes the optimal columns in the same way, so the match of two raw
neighbours, composed with the order of the first, is the loop's: all B x (T - 1) matches are independent and solved at
once. Only ties may differ.

An order (B, T, N) says which patch of its frame each slot takes; the first frame's is 0, 1, 2, ... Orders are integers:
gradients go through the gather to the features, and none to the match.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from vergence.ops.assignment import Method, assign
from vergence.ops.room import room

Reference = Literal["previous", "first"]
GUARD = 1e-12
"""The least length of a feature, as in PyTorch's ``normalize``."""


def similarities(x: Tensor, reference: Reference = "previous") -> Tensor:
    """Cosine similarities between the patches of each frame from the second on and those of the one before (or the
    first), detached: (B, T - 1, N, N) for features (B, T, N, C), in float32 at least."""
    _check(x)
    with torch.autocast("cpu" if x.is_meta else x.device.type, enabled=False):
        x = x.detach()
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = torch.linalg.vector_norm(x, dim=-1).clamp_min(GUARD).reciprocal()
        # Scaling N x N products moves less memory than scaling features; clip by clip, the products copy nothing and
        # are scaled while they are in the cache.
        before = slice(None, -1) if reference == "previous" else slice(0, 1)
        products = room((len(x), x.shape[1] - 1, x.shape[2], x.shape[2]), x)
        for clip, lengths, product in zip(x, scale, products, strict=True):
            torch.matmul(clip[before], clip[1:].mT, out=product)
            product.mul_(lengths[before].unsqueeze(-1)).mul_(lengths[1:].unsqueeze(-2))
        return products


def matches(x: Tensor, method: Method = "exact", reference: Reference = "previous") -> Tensor:
    """For each patch of the frame before (or of the first), the index of its match in each frame from the second on:
    (B, T - 1, N) for features (B, T, N, C)."""
    return assign(similarities(x, reference), method)


def composed(matches: Tensor, reference: Reference = "previous") -> Tensor:
    """The order (B, T, N) obtained by following matches (B, T - 1, N) from the first frame."""
    first = torch.arange(matches.shape[-1], device=matches.device).expand(matches.shape[0], -1)
    orders = [first]
    for t in range(matches.shape[1]):
        step = matches[:, t]
        orders.append(step.gather(1, orders[-1]) if reference == "previous" else step)
    return torch.stack(orders, 1)


def order(x: Tensor, method: Method = "exact", reference: Reference = "previous") -> Tensor:
    """The order (B, T, N) that aligns features (B, T, N, C)."""
    return composed(matches(x, method, reference), reference)


def align(x: Tensor, order: Tensor) -> Tensor:
    """Features (B, T, N, C) with slot i of each frame taking patch ``order[i]`` (Algorithm 1). Differentiable in x."""
    return _Reordered.apply(x, _rows(order), x.shape)  # type: ignore[no-untyped-call]


def dealign(x: Tensor, order: Tensor) -> Tensor:
    """Aligned features (B, T, N, C) put back where they came from (Algorithm 2). Differentiable in x."""
    return _Reordered.apply(x, _rows(inverse(order)), x.shape)  # type: ignore[no-untyped-call]


def tracks(x: Tensor, order: Tensor) -> Tensor:
    """:func:`align` as tracks (B, N, T, C), the layout that operators over time need, in the single copy that unaligned
    features need as well. Differentiable in x."""
    batch, frames, patches, width = x.shape
    rows = _rows(order).view(batch, frames, patches).mT.flatten()
    return _Reordered.apply(x, rows, (batch, patches, frames, width))  # type: ignore[no-untyped-call]


def from_tracks(x: Tensor, order: Tensor) -> Tensor:
    """The inverse of :func:`tracks`: (B, N, T, C) to frames (B, T, N, C). Differentiable in x."""
    batch, patches, frames, width = x.shape
    rows = _rows(order).view(batch, frames, patches).mT.flatten()
    return _Reordered.apply(x, inverse(rows), (batch, frames, patches, width))  # type: ignore[no-untyped-call]


def inverse(order: Tensor) -> Tensor:
    """The inverse permutations (..., N)."""
    slots = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, slots)


def _rows(order: Tensor) -> Tensor:
    """An order (B, T, N) within frames as an index over all B T N rows."""
    frames, patches = order.shape[0] * order.shape[1], order.shape[2]
    offset = torch.arange(frames, device=order.device).unsqueeze(1) * patches
    return (order.reshape(frames, patches) + offset).flatten()


class _Reordered(torch.autograd.Function):
    """A gather of all rows. The gradient of a permutation is the gather by its inverse, without any summation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, shape: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = x.shape
        flat = x.reshape(-1, x.shape[-1])
        if torch.compiler.is_compiling():  # a traced graph differentiates by its own rules, which know no ``out``
            return flat.index_select(0, rows).view(shape)
        return torch.index_select(flat, 0, rows, out=room(flat.shape, flat)).view(shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (rows,) = ctx.saved_tensors
        return _Reordered.apply(grad, inverse(rows), ctx.shape), None, None  # type: ignore[no-untyped-call]


def _check(x: Tensor) -> None:
    if x.dim() != 4 or not x.is_floating_point() or 0 in x.shape:
        raise ValueError(
            f"features to align are floats (B, T, N, C) with no empty dimension, got {tuple(x.shape)} of {x.dtype}"
        )
