"""Localisation by heat maps: the box of the largest hot region, and how often class or box is wrong."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.ops.boxes import overlap


def heat_box(heat: Tensor, share: float = 0.2) -> Tensor:
    """The box (4,) as left, top, right, bottom, the last two outside, around the largest connected region of a heat map
    (H, W) with at least ``share`` of its largest value; the whole map if nothing in it is above zero."""
    from scipy import ndimage

    height, width = heat.shape
    largest = float(heat.max())
    if not largest > 0:
        return torch.tensor([0.0, 0.0, width, height])
    regions, count = ndimage.label((heat >= share * largest).cpu().numpy(), np.ones((3, 3)))
    sizes = np.bincount(regions.ravel(), minlength=count + 1)
    sizes[0] = 0
    rows, columns = np.nonzero(regions == sizes.argmax())
    return torch.tensor([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1], dtype=torch.float32)


def localisation_errors(logits: Tensor, labels: Tensor, found: Tensor, truth: Tensor) -> dict[str, float]:
    """Percentage of pictures, with logits (N, classes), whose label (N,) is not the first (``loc1``) or among the first
    five (``loc5``), or whose box ``found`` (N, 4) for that label has no IoU above 0.5 with ``truth`` (N, 4)."""
    if not len(labels):
        raise VergenceError("there is no picture to localise anything in")
    good = overlap(found, truth) > 0.5
    ranked = logits.argsort(dim=1, descending=True, stable=True)[:, :5] == labels[:, None]
    return {
        f"loc{k}": float(100 * (1 - (ranked[:, :k].any(1) & good).double().mean()))
        for k in (1, 5)
        if logits.shape[1] > k
    }
