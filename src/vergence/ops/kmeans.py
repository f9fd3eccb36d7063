"""k-means with seeds drawn in proportion to squared distances (k-means++, Arthur and Vassilvitskii, 2007)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ROUNDS = 100
"""Lloyd's iterations at most; labels usually stop changing long before."""
BLOCK = 1 << 24
"""Distances held at a time."""


@dataclass(frozen=True)
class Clusters:
    """Centres (M, D), and the nearest of each point, (N,)."""

    centres: Tensor
    labels: Tensor


def kmeans(points: Tensor, count: int, generator: torch.Generator, rounds: int = ROUNDS) -> Clusters:
    """``count`` clusters of points (N, D). A cluster that loses all of its points goes to the point farthest from its
    own centre."""
    if points.ndim != 2 or not 1 <= count <= len(points):
        raise ValueError(f"{count} clusters need a matrix of at least {count} points, got {tuple(points.shape)}")
    return lloyd(points, seeds(points, count, generator), rounds)


def seeds(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Centres (count, D): points drawn one after another, each with a probability in proportion to its squared distance
    from those drawn before."""
    lengths = points.square().sum(1)
    chosen = [int(torch.randint(len(points), (1,), generator=generator, device=generator.device))]
    far = torch.full_like(lengths, torch.inf)
    for _ in range(count - 1):
        last = chosen[-1]
        far = torch.minimum(far, (lengths + lengths[last] - 2 * (points @ points[last])).clamp(min=0))
        far[last] = 0
        total = far.double().cumsum(0)
        if float(total[-1]) > 0:
            drawn = torch.rand(1, generator=generator, device=generator.device, dtype=torch.float64).to(total.device)
            place = int(torch.searchsorted(total, drawn * total[-1], right=True).clamp(max=len(points) - 1))
        else:  # as many different points as there are were drawn
            place = int(torch.randint(len(points), (1,), generator=generator, device=generator.device))
        chosen.append(place)
    return points[chosen]


def lloyd(points: Tensor, centres: Tensor, rounds: int = ROUNDS) -> Clusters:
    """Move centres (M, D) to the means of their nearest points until these no longer change."""
    labels = points.new_full((len(points),), -1, dtype=torch.long)
    for _ in range(rounds):
        nearest, far = _nearest(points, centres)
        if torch.equal(nearest, labels):
            break
        labels = nearest
        sizes = labels.bincount(minlength=len(centres))
        empty = (sizes == 0).nonzero().squeeze(1)
        if len(empty):
            moved = far.topk(len(empty)).indices
            labels = labels.index_copy(0, moved, empty)
            sizes = labels.bincount(minlength=len(centres))
        total = torch.zeros_like(centres).index_add_(0, labels, points)
        held = sizes > 0  # a moved point may have been the last of its cluster
        centres = torch.where(held.unsqueeze(1), total / sizes.clamp(min=1).unsqueeze(1), centres)
    return Clusters(centres, _nearest(points, centres)[0])


def _nearest(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of each point, (N,), and its squared distance."""
    lengths = centres.square().sum(1)
    parts = []
    for some in points.split(max(BLOCK // len(centres), 1)):
        far, place = torch.addmm(lengths, some, centres.mT, alpha=-2).min(1)
        parts.append((place, (far + some.square().sum(1)).clamp(min=0)))
    return torch.cat([place for place, _ in parts]), torch.cat([far for _, far in parts])
