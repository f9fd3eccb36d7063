"""Computing in float32 at least, also under mixed precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """A tensor in float32 at least."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def full_precision(like: Tensor) -> AbstractContextManager[Any]:
    """A context without autocast: sums over large maps overflow in half precision, and bfloat16 has steps of 12 cm at
    20 m."""
    device = like.device.type
    if device != "meta" and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()
