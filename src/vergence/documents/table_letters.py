"""The texts of a table's cells as pictures of their letters alone: ruling lines, noise and neighbours are painted over
with paper."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from vergence.documents.ink import Mask
from vergence.documents.table_ink import Sheet, owners, paper_below

PALE = 0.55
"""Ink whose darkest part is less than this share as dark as the letters of a cell usually are is no letter."""
THIN = 0.2
"""Ink that is thinner than this many sizes of the font and touches a ruling line is its edge."""
TALL = 0.4
"""Letters, not dashes, are at least this many sizes of the font tall."""
CORNER = 0.6
"""Ink at the border of a cell, outside the rows of its letters and not taller than this many sizes of the font, is what
is left of lines that cross."""
BORDER = 0.5
"""Distance of its middle from the border, in sizes of the font, at most."""
SMALL = 0.3
"""Ink smaller than this many sizes of the font is a dot, a comma or an accent, if a letter is near."""
NEAR = 0.6
"""Distance of these from a letter, in sizes of the font, at most."""
STROKE = 0.12
"""What is kept around letters but for a pixel, and MARGIN around a text, in sizes of the font."""
MARGIN = 0.25
ALL_AROUND = np.ones((3, 3), int)


class Pieces(NamedTuple):
    """Connected ink."""

    boxes: NDArray[np.float64]
    """(P, 4)."""
    dark: NDArray[np.float64]
    """(P,): how far the darkest part of each is from the paper."""
    touching: Mask
    """(P,): whether a ruling line is beside it."""


def cell_letters(sheet: Sheet, boxes: NDArray[np.float64]) -> list[Tensor]:
    """A grey picture (3, H, W) of the letters of each cell (N, 4), dark on light; empty for a cell without any. A
    letter belongs as a whole to the cell that has most of it."""
    labels, count = ndimage.label(sheet.letters, ALL_AROUND)
    empty = sheet.picture[:, :0, :0]
    if not (count and len(boxes)):
        return [empty] * len(boxes)
    pixels = sheet.values.astype(np.uint8)[..., None].repeat(3, 2)
    paper = paper_below(pixels)
    pieces = _pieces(sheet, labels, count, np.abs(sheet.values.astype(float) - paper[..., 0]))
    owner, share = owners(pieces.boxes, boxes)
    owner[share <= 0.3] = -1
    tall = np.ptp(pieces.boxes[:, 1::2], axis=1) >= TALL * sheet.em
    usual = float(np.quantile(pieces.dark[tall], 0.9)) if tall.any() else 0.0
    reach = max(round(STROKE * sheet.em), 1) + 1
    more = max(round(MARGIN * sheet.em), reach)
    result = []
    for number in range(len(boxes)):
        own = (owner == number).nonzero()[0]
        own = own[letters_among(Pieces(*(values[own] for values in pieces)), boxes[number], sheet.em, usual)]
        if not len(own):
            result.append(empty)
            continue
        left, top = np.maximum(pieces.boxes[own, :2].min(0).astype(int) - more, 0)
        right, bottom = pieces.boxes[own, 2:].max(0).astype(int) + more
        part = np.s_[top:bottom, left:right]
        near = ndimage.binary_dilation(np.isin(labels[part], own + 1), ALL_AROUND, reach) & ~sheet.rules[part]
        result.append(torch.from_numpy(np.where(near[..., None], pixels[part], paper[part])).permute(2, 0, 1))
    return result


def _pieces(sheet: Sheet, labels: NDArray[np.int32], count: int, apart: NDArray[np.float64]) -> Pieces:
    boxes = [(s[1].start, s[0].start, s[1].stop, s[0].stop) for s in ndimage.find_objects(labels)]
    beside = ndimage.binary_dilation(sheet.rules, ALL_AROUND)
    numbers = np.arange(1, count + 1)
    dark, touching = (np.asarray(ndimage.maximum(values, labels, numbers)) for values in (apart, beside))
    return Pieces(np.array(boxes, np.float64), dark.astype(np.float64), touching.astype(bool))


def letters_among(pieces: Pieces, box: NDArray[np.float64], em: float, dark: float) -> Mask:
    """Which pieces (P,) of the ink of a cell (4,) are letters, or dots and commas beside one: not what is left of pale
    lines, of the edges of dark ones, and where these cross. ``dark`` is how dark the letters of the table are."""
    low, high = pieces.boxes[:, :2], pieces.boxes[:, 2:]
    size, middle = high - low, (low + high) / 2
    small, thin = size.max(1, initial=0) < SMALL * em, size.min(1, initial=em) < THIN * em
    large = ~small & ~(pieces.touching & thin)
    if not large.any():
        return small & ~pieces.touching & (pieces.dark >= PALE * dark)
    usual = np.quantile(pieces.dark[large], 0.9)
    letters = large & (pieces.dark >= PALE * usual)
    near_border = np.minimum(middle - box[:2], box[2:] - middle) < BORDER * em
    near_border &= np.abs(middle - (box[:2] + box[2:]) / 2) > (box[2:] - box[:2]) / 4
    border = pieces.touching | near_border.any(1)
    sure = letters & ~border & (size[:, 1] >= TALL * em)
    if sure.any():
        inside = np.minimum(high[:, 1], high[sure, 1].max()) - np.maximum(low[:, 1], low[sure, 1].min())
        left = border & (size[:, 1] <= CORNER * em) & (inside <= 0.5 * size[:, 1])
    else:
        left = (border & thin) | (near_border.all(1) & (size.max(1) <= CORNER * em)) | (pieces.dark < PALE * dark)
    letters, small = letters & ~left, small & ~left
    if not letters.any():
        return letters
    near = np.maximum(low[:, None] - high[letters], low[letters] - high[:, None]).max(-1).min(1) < NEAR * em
    return letters | (small & near & (pieces.dark >= PALE / 2 * usual))
