"""Pooling of rows by the segment that each belongs to: graphs of a batch, clusters, voxels."""

from __future__ import annotations

import torch
from torch import Tensor


def segment_max(values: Tensor, segment: Tensor, count: int) -> Tensor:
    """The largest value of every column, (count, C), of rows (N, C) whose segments are (N,); zero for one without rows.
    Equal values share the gradient."""
    index = segment.unsqueeze(1).expand_as(values)
    return values.new_zeros(count, values.shape[1]).scatter_reduce(0, index, values, "amax", include_self=False)


def segment_sum(values: Tensor, segment: Tensor, count: int) -> Tensor:
    """Sums (count, ...) of rows (N, ...) whose segments are (N,)."""
    return values.new_zeros(count, *values.shape[1:]).index_add(0, segment, values)


def segment_rank(values: Tensor, segment: Tensor) -> tuple[Tensor, Tensor]:
    """The order (N,) that sorts rows by segment and, within one, by value from high to low; and the rank (N,) of every
    sorted row in its segment, from 0."""
    by_value = values.argsort(descending=True, stable=True)
    order = by_value[segment[by_value].argsort(stable=True)]
    own = segment[order]
    place = torch.arange(len(own), device=own.device)
    first = torch.ones_like(own, dtype=torch.bool)
    first[1:] = own[1:] != own[:-1]
    start = torch.where(first, place, 0).cummax(0).values if len(own) else place
    return order, place - start
