"""Where a picture has ink: darker than its surroundings on paper that may be lit unevenly, or lighter on dark paper,
also in filled boxes such as the header of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from vergence.documents.lines import grey

Mask = NDArray[np.bool_]
Grey = NDArray[np.float32]
COARSE = 4
"""Filled boxes are looked for in every fourth row and column."""
WINDOW, AROUND = 5, 41
"""Of those: a fill is what is left by a median over the first, if it is darker than the paper within the second."""
DARKER = 0.8
FLAT = 0.6
"""Share of its bounding box that a fill has, at least, and SOLID of its rim."""
SOLID = 0.95
HIGH = 20
"""Pixels that a filled box with letters is high, at least; a picture that is not 4 times as high has none."""
LEAST, MOST = 0.01, 0.5
"""Share of its pixels that are letters, lighter than the fill by half of what the paper is; at most the first share is
darker than the fill by a quarter of that, as the letters themselves would be if they were taken for fills."""


def inked(picture: Tensor) -> Mask:
    """Where a picture (3, H, W) has ink (H, W): pixels that differ from their surroundings by a share of the local
    contrast (Sauvola's rule), on paper that may be lit unevenly."""
    return darker(dark_on_light(grey(picture)[0].numpy()))


def darker(values: Grey) -> Mask:
    """Where dark ink is on light paper."""
    side = _side(values)
    mean = ndimage.uniform_filter(values, side, mode="nearest")
    spread = np.sqrt(np.maximum(ndimage.uniform_filter(values**2, side, mode="nearest") - mean**2, 0))
    most = max(float(np.quantile(spread, 0.99)), 1e-6)
    if most < 4.0:  # grey levels: nothing but noise
        return np.zeros(values.shape, bool)
    found: Mask = (values < mean - 0.25 * most) & (values < mean - 0.4 * spread)
    return found


def _side(values: NDArray[Any]) -> int:
    """Pixels of the surroundings of a pixel."""
    return int(np.clip(min(values.shape) / 12, 15, 101)) | 1


def dark_on_light(values: Grey) -> Grey:
    """Grey values with dark ink on light paper: inverted if ink is lighter, in filled boxes too."""
    values = 255 - values if _lighter(values) else values
    for box, base, paper in _fills(values):
        values = values.copy()
        values[box] = np.clip(paper + base - values[box], 0, 255)
    return values


def _lighter(values: Grey) -> bool:
    """Whether ink is lighter than paper. Of the two, ink covers less: it differs more from the mean of its
    surroundings, however the light falls off."""
    detail = values - ndimage.uniform_filter(values, _side(values), mode="nearest")
    return bool((detail**3).sum() > 0)


def _fills(values: Grey) -> list[tuple[tuple[slice, slice], float, float]]:
    """Boxes with light letters on a fill that is darker than the paper around, with the brightness of both."""
    if min(values.shape) < 4 * HIGH:
        return []
    coarse = ndimage.median_filter(values[::COARSE, ::COARSE], WINDOW, mode="nearest")
    around = ndimage.maximum_filter(coarse, AROUND, mode="nearest")
    labels, _ = ndimage.label(coarse < DARKER * around)
    found = []
    for number, (rows, columns) in enumerate(ndimage.find_objects(labels), 1):
        part = labels[rows, columns] == number
        if part.shape[0] * COARSE < HIGH - COARSE or part.mean() < FLAT:
            continue
        base = float(np.median(coarse[rows, columns][part]))
        paper = float(np.median(around[rows, columns]))
        box = _exact(values < (base + paper) / 2, rows, columns)
        if box is not None and _light_letters((values[box] - base) / (paper - base)):
            found.append((box, base, paper))
    return found


def _exact(dark: Mask, rows: slice, columns: slice) -> tuple[slice, slice] | None:
    """The box of dark pixels near a box of coarse ones; None if its rim is not solid."""
    reach = COARSE * (WINDOW // 2)
    top, left = (max(own.start * COARSE - reach, 0) for own in (rows, columns))
    near = dark[top : rows.stop * COARSE + reach, left : columns.stop * COARSE + reach]
    down = (near[:, columns.start * COARSE - left : columns.stop * COARSE - left].mean(1) > 0.5).nonzero()[0]
    across = (near[down].mean(0) > 0.5).nonzero()[0] if len(down) else down
    if not len(across):
        return None
    box = near[down[0] : down[-1] + 1, across[0] : across[-1] + 1]
    rim = np.concatenate([box[:2].ravel(), box[-2:].ravel(), box[:, :2].ravel(), box[:, -2:].ravel()])
    if len(box) < HIGH or rim.mean() < SOLID:
        return None
    return np.s_[top + down[0] : top + down[-1] + 1, left + across[0] : left + across[-1] + 1]


def _light_letters(values: Grey) -> bool:
    """Whether a box has light letters and no dark ones; its fill is 0 and the paper around it 1."""
    return bool(LEAST < (values > 0.5).mean() < MOST and (values < -0.25).mean() < LEAST)


def even_light(picture: Tensor, side: int) -> Tensor:
    """A picture (3, H, W) as bytes (1, H, W) with dark ink on paper of one brightness: divided by its paper, which is
    what a closing leaves that is wider than strokes (where light falls off, the brightest pixel near by would be paper
    of another place)."""
    values = dark_on_light(grey(picture)[0].numpy())
    smooth = ndimage.gaussian_filter(values, 1.0)
    paper = ndimage.uniform_filter(ndimage.grey_closing(smooth, (side, side), mode="nearest"), side)
    even = np.clip(235 * (values + 1) / np.maximum(paper + 1, 24), 0, 255)
    return torch.from_numpy(even.astype(np.uint8)).unsqueeze(0)
