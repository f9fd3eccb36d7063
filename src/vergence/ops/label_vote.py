"""Labels of a range image carried back to its points by a vote of neighbours (RangeNet++, Milioto et al. 2019).

A point that hides behind the one its pixel shows would get that one's label. Instead, the pixels around it vote whose
range is nearest to its own. On the CPU a compiled kernel counts the votes if the extra ``fast`` (numba) is installed;
the PyTorch form settles points whose window has a single label first, and counts votes for the others only. Both give
the public definition's labels; only ties between equal distances may be resolved differently.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 4096
"""Points whose votes are counted at once: their windows stay in the cache."""


def label_vote(
    ranges: Tensor,
    labels: Tensor,
    own: Tensor,
    row: Tensor,
    column: Tensor,
    classes: int,
    *,
    k: int = 7,
    search: int = 7,
    sigma: float = 1.0,
    cutoff: float = 1.0,
) -> Tensor:
    """The label (P,) of each point, from the ranges (H, W) of an image, negative where it is empty, its labels (H, W),
    and the points' ``own`` ranges (P,), rows and columns.

    Of the ``search`` x ``search`` pixels around a point, the ``k`` with the nearest range vote; the difference is
    weighted by one minus a Gaussian of ``sigma`` pixels, and beyond ``cutoff`` there is no vote. Class 0 is never
    elected; without any vote for another class, class 1 is.
    """
    if search < 1 or search % 2 == 0 or not 1 <= k <= search**2:
        raise ValueError(f"a vote has an odd window and 1 to search² voters, got search={search} and k={k}")
    if classes < 2 or (labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < classes):
        raise ValueError(f"labels are from 0 to {classes - 1}, got {labels.aminmax() if labels.numel() else 'none'}")
    weights = (1 - _gaussian(search, sigma)).to(ranges)
    elected = _single(labels, ranges >= 0, search)[row, column]
    some = (elected == 0).nonzero().squeeze(1)
    unsettled, half = (own[some], row[some], column[some]), search // 2
    framed, names = F.pad(ranges, [half] * 4), F.pad(labels, [half] * 4)
    kernel = compiled() if ranges.device.type == "cpu" and ranges.dtype == torch.float32 else None
    if kernel is None:
        elected[some] = _counted(framed, names, *unsettled, classes, k, weights, cutoff)
    elif len(some):
        arrays = (t.contiguous().numpy() for t in (framed, names.to(torch.int32), *unsettled, weights))
        votes = torch.empty(len(some), dtype=torch.long)
        kernel(*arrays, k, cutoff, classes, votes.numpy())
        elected[some] = votes
    return elected


def _counted(
    ranges: Tensor, labels: Tensor, own: Tensor, row: Tensor, column: Tensor, classes: int, k: int, weights: Tensor,
    cutoff: float,
) -> Tensor:  # fmt: skip
    """The elected labels of points, from an image framed by zeros, half a window wide."""
    search, width = len(weights), ranges.shape[1]
    window = torch.arange(search, device=row.device)
    offsets, first = (window.unsqueeze(1) * width + window).flatten(), row * width + column
    far = torch.full((), torch.inf, dtype=ranges.dtype, device=ranges.device)
    ranges, labels = ranges.where(ranges >= 0, far).flatten(), labels.flatten()  # an empty pixel is infinitely far
    elected = torch.empty_like(first)
    for begin in range(0, len(own), CHUNK):
        some = slice(begin, begin + CHUNK)
        around = first[some].unsqueeze(1) + offsets
        apart = (ranges[around] - own[some].unsqueeze(1)).abs_().mul_(weights.flatten())
        apart[:, search**2 // 2] = 0
        nearest, which = apart.topk(k, 1, largest=False, sorted=False)
        votes = labels[around.gather(1, which)].masked_fill_(nearest > cutoff, 0)
        counts = own.new_zeros(len(votes), classes).scatter_add_(1, votes, torch.ones_like(nearest))
        elected[some] = counts[:, 1:].argmax(1) + 1
    return elected


def _single(labels: Tensor, valid: Tensor, search: int) -> Tensor:
    """The label (H, W) that all valid pixels of a window share; 0 where there are several, or the border is near."""
    half = search // 2
    high = labels.masked_fill(~valid, -1).float()
    low = labels.masked_fill(~valid, 1 << 20).float()
    most, least = (_highest(F.pad(values, [half] * 4), search) for values in (high, -low))
    return most.where(most == -least, torch.zeros_like(most)).clamp_(min=0).long()


def _highest(image: Tensor, search: int) -> Tensor:
    """The maximum of the window around each pixel, along rows and then along columns."""
    rows = image.unfold(1, search, 1).amax(-1)
    return rows.unfold(0, search, 1).amax(-1)


def _gaussian(side: int, sigma: float) -> Tensor:
    """(side, side), with a sum of one."""
    at = torch.arange(side, dtype=torch.float64) - side // 2
    bell = (-(at.unsqueeze(1) ** 2 + at**2) / (2 * sigma**2)).exp()
    return bell / bell.sum()


@cache
def compiled() -> Callable[..., Any] | None:
    """The kernel of the extra ``fast``, if installed; imported on first use, because numba takes a second to import."""
    try:
        from vergence.ops.voting import elect
    except ImportError:
        return None
    kernel: Callable[..., Any] = elect
    return kernel
