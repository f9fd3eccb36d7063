"""Angles between estimated and true axes, and the share of them within limits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LIMITS = (1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 12.0)
"""Degrees, as tables of panorama levelling have them."""


def axis_errors(estimated: Tensor, truth: Tensor) -> Tensor:
    """Angles (N,) in degrees from 0 to 90 between axes (N, 3) of any length, whose sign does not count; exact for small
    angles too."""
    cross = torch.linalg.cross(estimated.double(), truth.double()).norm(dim=-1)
    return torch.rad2deg(torch.atan2(cross, (estimated.double() * truth.double()).sum(-1).abs()))


def shares_within(errors: Tensor, limits: Sequence[float] = LIMITS) -> list[float]:
    """The percentages of errors (N,) that are at most each limit; not a number if there are none."""
    if not len(errors):
        return [float("nan")] * len(limits)
    return [100 * float((errors <= limit).double().mean()) for limit in limits]
