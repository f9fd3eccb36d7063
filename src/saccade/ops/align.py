"""Alignment of the frames of a clip: patches are put in an order in which each slot follows one thing through time.

The published loop (Algorithms 1 and 2) matches each frame to the one before it *after* that one was re-ordered. Putting
the rows of a similarity in another order only puts the optimal columns in that order, so the match of two raw
neighbours, composed with the order of the first, is the loop's: all B x (T - 1) matches are independent and solved at
once. Only what is tied may differ.

An order (B, T, N) says which patch of its frame each slot takes; the first frame's is 0, 1, 2, ... Orders are integers:
gradients go through the gather to the features, and none to the match.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from saccade.ops.assign import Method, assign

Reference = Literal["previous", "first"]


def similarities(x: Tensor, reference: Reference = "previous") -> Tensor:
    """Cosines between patches of each frame from the second on and those of the one before (or the first), detached:
    (B, T - 1, N, N) for features (B, T, N, C), in float32 at least."""
    _check(x)
    with torch.autocast("cpu" if x.is_meta else x.device.type, enabled=False):
        x = x.detach()
        x = F.normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1)
        before = x[:, :-1] if reference == "previous" else x[:, :1]
        return before @ x[:, 1:].mT


def matches(x: Tensor, method: Method = "exact", reference: Reference = "previous") -> Tensor:
    """Which patch of each frame from the second on each patch of the one before (or of the first) went to:
    (B, T - 1, N) for features (B, T, N, C)."""
    return assign(similarities(x, reference), method)


def composed(matches: Tensor, reference: Reference = "previous") -> Tensor:
    """The order (B, T, N) that matches (B, T - 1, N) lead to from the first frame's own."""
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
    return _Reordered.apply(x, order, inverse(order))  # type: ignore[no-untyped-call]


def dealign(x: Tensor, order: Tensor) -> Tensor:
    """Aligned features (B, T, N, C) put back where they came from (Algorithm 2). Differentiable in x."""
    return _Reordered.apply(x, inverse(order), order)  # type: ignore[no-untyped-call]


def inverse(order: Tensor) -> Tensor:
    """The permutations (..., N) that undo these."""
    slots = torch.arange(order.shape[-1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, slots)


class _Reordered(torch.autograd.Function):
    """A gather of rows. A permutation's gradient is the gather by its inverse: nothing needs to be added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(index, back)
        return _rows(x, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        index, back = ctx.saved_tensors
        return _Reordered.apply(grad, back, index), None, None  # type: ignore[no-untyped-call]


def _rows(x: Tensor, index: Tensor) -> Tensor:
    frames, patches = index.shape[0] * index.shape[1], index.shape[2]
    offset = torch.arange(0, frames * patches, patches, device=index.device).unsqueeze(1)
    return (
        x.reshape(frames * patches, -1).index_select(0, (index.reshape(frames, patches) + offset).flatten()).view_as(x)
    )


def _check(x: Tensor) -> None:
    if x.dim() != 4 or not x.is_floating_point() or not x.shape[1] or not x.shape[2]:
        raise ValueError(f"features to align are floats (B, T, N, C), got {tuple(x.shape)} of {x.dtype}")
