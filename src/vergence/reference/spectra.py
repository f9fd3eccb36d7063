"""Plain forms of statistical fault localisation: counts by a loop over tests, measures by a loop over elements."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def counts(masks: Tensor, failed: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """How often each pixel is masked in failing and passing tests, and not masked in failing and passing ones, from
    masks (m, H, W): a loop over the tests, as in the public code."""
    ef, ep, nf, np = (torch.zeros(masks.shape[1:], dtype=torch.int64) for _ in range(4))
    for mask, changed in zip(masks, failed.tolist(), strict=True):
        if changed:
            ef += mask
            nf += ~mask
        else:
            ep += mask
            np += ~mask
    return ef, ep, nf, np


def measure(name: str, ef: int, ep: int, nf: int, np: int) -> float:
    """Eq. 2a to 2d for one element, as they are written; 0 where they divide by zero."""
    try:
        if name == "ochiai":
            return ef / math.sqrt((ef + nf) * (ef + ep))
        if name == "tarantula":
            return (ef / (ef + nf)) / (ef / (ef + nf) + (ep / (ep + np) if ep + np else 0))
        if name == "zoltar":
            return ef / (ef + nf + ep + 10_000 * nf * ep / ef)
        return float(ef - ep)
    except ZeroDivisionError:
        return 0.0
