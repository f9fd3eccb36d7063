"""Errors of disparity and optical flow maps: end-point error and the share of outliers."""

from __future__ import annotations

import torch
from torch import Tensor


def endpoint_error(predicted: Tensor, truth: Tensor, valid: Tensor | None = None) -> float:
    """The mean distance (pixels) between predicted and true displacements, over valid pixels.

    Maps are (..., 2, H, W) for flow or (..., H, W) for disparity (then ``valid`` has the same shape as they do)."""
    error = distances(predicted, truth, valid)
    return float(error.double().mean()) if len(error) else float("nan")


def outliers(
    predicted: Tensor, truth: Tensor, valid: Tensor | None = None, pixels: float = 3.0, share: float = 0.05
) -> float:
    """KITTI's outliers (D1, Fl) in percent: pixels with an error of more than ``pixels`` and more than ``share`` of the
    true displacement."""
    error = distances(predicted, truth, valid)
    if not len(error):
        return float("nan")
    size = distances(truth, torch.zeros_like(truth), valid)
    return 100 * float(((error > pixels) & (error > share * size)).double().mean())


def distances(predicted: Tensor, truth: Tensor, valid: Tensor | None = None) -> Tensor:
    """Distances between displacements, of valid pixels one after another. Maps whose third last dimension is 2 are
    flow, unless ``valid`` has as many dimensions as they have."""
    gap = predicted - truth
    flow = gap.dim() > 2 and gap.shape[-3] == 2 and (valid is None or valid.dim() == gap.dim() - 1)
    error = gap.norm(dim=-3) if flow else gap.abs()
    return error.flatten() if valid is None else error[valid]
