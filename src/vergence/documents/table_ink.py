"""What can be seen of a table without a network: its skew, its ruling lines, the size of its letters, and text that no
cell covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from scipy import ndimage
from torch import Tensor

from vergence.contract.inputs import InMemory
from vergence.data.images import as_picture, read_image
from vergence.documents.page import Mask, find_skew, inked
from vergence.reading.pictures import read_picture
from vergence.rendering.documents.paper import turned_size

TALL = 0.62
"""Height of a typical letter or digit, in sizes of the font."""
RULE = 2.5
"""Ink that runs straight for this many sizes of the font is a line, not a letter."""
THICK = 0.22
"""Ink that runs straight and is thicker than this many sizes of the font is a blurred word without ascenders."""
EDGE = 0.1
"""How rough the edges of ruling lines are, in sizes of the font."""
BESIDE = 0.25
"""Distance from a ruling line, in sizes of the font, at which there is paper."""
GAP = 0.7
"""Letters nearer than this many sizes of the font belong to one text."""
SMOOTH = 0.06
"""Deviation of the blur against noise, in sizes of the font."""
SPECK = 0.25
"""Ink smaller than this many sizes of the font is no letter."""
FEWEST = 3
"""Letters that tell their size."""


class Sheet(NamedTuple):
    """A picture of a table, upright."""

    picture: Tensor
    """Bytes (3, H, W)."""
    skew: float
    """Degrees by which it was turned, anticlockwise."""
    letters: Mask
    """(H, W): ink but for ruling lines."""
    rules: Mask
    """(H, W): ruling lines."""
    em: float
    """Size of the font in pixels; 0 if there are no letters."""

    def plain(self) -> Tensor:
        """The picture with its ruling lines painted over with paper."""
        near = ndimage.binary_dilation(self.rules, iterations=max(round(0.06 * self.em), 1)) & ~self.letters
        pixels = self.picture.permute(1, 2, 0).numpy()
        painted = np.where(near[..., None], _paper(pixels), pixels)
        return torch.from_numpy(painted).permute(2, 0, 1).contiguous()


def read_upright(path: Path) -> Tensor:
    """A picture, turned as its file's EXIF data says, bytes (3, H, W)."""
    if isinstance(path, InMemory):
        return read_image(path)
    return as_picture(ImageOps.exif_transpose(read_picture(path)), str(path))


def upright(picture: Tensor, deskew: float) -> Sheet:
    """A picture (3, H, W) turned by at most ``deskew`` degrees so that its rows are level, and what is in it."""
    ink = inked(picture)
    skew = find_skew(ink, deskew) if deskew else 0.0
    if skew:
        picture = _turned(picture, skew)
        ink = inked(picture)
    em = letter_size(ink)
    em = letter_size(ink & ~_rules(ink, em)) or em
    if em:
        ink = inked(_smoothed(picture, SMOOTH * em))
    rules = _rules(ink, em)
    rules |= _strokes(ink & ~rules, em)
    return Sheet(picture, skew, ink & ~rules, rules, em)


def _smoothed(picture: Tensor, deviation: float) -> Tensor:
    """A picture (3, H, W) without noise that is finer than its letters."""
    return torch.from_numpy(ndimage.gaussian_filter(picture.numpy(), (0, deviation, deviation)))


def _paper(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What the paper under a picture (H, W, 3) looks like: most of what is near, without ink or noise."""
    dark = float(np.median(pixels)) < float(pixels.mean())  # light ink on dark paper
    coarse = ndimage.percentile_filter(pixels[::4, ::4], 30 if dark else 70, (7, 7, 1))
    smooth = ndimage.uniform_filter(coarse, (9, 9, 1))
    return np.asarray(Image.fromarray(smooth).resize(pixels.shape[1::-1], Image.Resampling.BILINEAR))


def _turned(picture: Tensor, degrees: float) -> Tensor:
    """A picture (3, H, W) turned anticlockwise, enlarged as far as needed. Its border is continued outwards without its
    noise, so that the corners look like paper in the same light."""
    height, width = picture.shape[-2:]
    tall, wide = turned_size(degrees, height, width)
    more = [(a - b) // 2 + 2 for a, b in zip(turned_size(degrees, tall, wide), (height, width), strict=True)]
    pixels = picture.permute(1, 2, 0).numpy()
    large = np.pad(_paper(pixels), ((more[0],) * 2, (more[1],) * 2, (0, 0)), "edge")
    large[more[0] : more[0] + height, more[1] : more[1] + width] = pixels
    turned = np.array(Image.fromarray(large).rotate(degrees, Image.Resampling.BICUBIC))
    top, left = (turned.shape[0] - tall) // 2, (turned.shape[1] - wide) // 2
    return torch.from_numpy(turned[top : top + tall, left : left + wide]).permute(2, 0, 1).contiguous()


def letter_size(ink: Mask) -> float:
    """The size of a font in pixels, from the heights of its letters; 0 if there are too few."""
    labels, count = ndimage.label(ink, np.ones((3, 3), int))
    places = ndimage.find_objects(labels)
    if not count:
        return 0.0
    tall, wide = (np.array([s[k].stop - s[k].start for s in places]) for k in (0, 1))
    letters = (tall >= 4) & (tall < 6 * wide) & (wide < 4 * tall)
    letters &= tall < 0.5 * max(ink.shape)
    if letters.sum() < FEWEST:
        return 0.0
    typical = np.median(tall[letters])
    near = letters & (tall > 0.5 * typical) & (tall < 2 * typical)
    return float(np.median(tall[near])) / TALL


def _rules(ink: Mask, em: float) -> Mask:
    """Ink that runs straight for some sizes of the font, across or down, with paper on both sides: what runs through a
    blurred word has ink there."""
    found = np.zeros_like(ink)
    bits = ink.astype(np.uint8)
    for axis in (0, 1):
        size = int(min(max(RULE * em, 12.0), ink.shape[axis])) | 1
        runs = ndimage.maximum_filter1d(ndimage.minimum_filter1d(bits, size, axis, mode="constant"), size, axis)
        rough = ndimage.maximum_filter1d(runs, 2 * max(round(EDGE * em), 1) + 1, 1 - axis, mode="constant")
        others = (ink & (rough == 0)).astype(np.uint8)
        beside = ndimage.maximum_filter1d(others, 2 * max(round(BESIDE * em), 3) + 1, 1 - axis, mode="constant") > 0
        labels, count = ndimage.label(runs & bits, np.ones((3, 3), int))
        if count:
            long = np.array([place[axis].stop - place[axis].start for place in ndimage.find_objects(labels)])
            thick = np.bincount(labels.ravel(), minlength=count + 1)[1:] / long
            thin = thick < max(THICK * em, 4.0)
            lines = np.concatenate([[False], thin & (_means(beside, labels, count) < 0.4)])[labels].astype(np.uint8)
            longer = ndimage.maximum_filter1d(lines, 2 * round(1.5 * em) + 1, axis, mode="constant")  # across gaps
            found |= ndimage.maximum_filter1d(longer, 2 * max(round(EDGE * em), 1) + 1, 1 - axis, mode="constant") > 0
    return found & ink


def _means(values: Mask, labels: NDArray[Any], count: int) -> NDArray[np.float64]:
    """The share of true values in each of the pieces 1 to ``count``."""
    sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    return np.bincount(labels.ravel(), values.ravel(), count + 1)[1:] / np.maximum(sizes, 1)


def _strokes(ink: Mask, em: float) -> Mask:
    """Pieces of ink that are longer than a letter and thin: what is left of broken lines."""
    labels, count = ndimage.label(ink, np.ones((3, 3), int))
    sides = np.array([[s[k].stop - s[k].start for k in (0, 1)] for s in ndimage.find_objects(labels)]).reshape(-1, 2)
    thin = (sides.max(1, initial=0) > 1.2 * em) & (sides.min(1, initial=np.iinfo(int).max) < 0.25 * em)
    return np.concatenate([[False], thin])[labels] if count else np.zeros_like(ink)


def inside(mask: Mask, box: NDArray[Any]) -> Mask:
    """A box's part of a mask."""
    left, top, right, bottom = (int(v) for v in np.round(box))
    return mask[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]


def content_box(mask: Mask, box: NDArray[Any]) -> tuple[int, int, int, int] | None:
    """Left, top, right and bottom of the ink in a box; None if there is none."""
    part = inside(mask, box)
    if not part.any():
        return None
    rows, columns = np.nonzero(part.any(1))[0], np.nonzero(part.any(0))[0]
    left, top = max(int(np.round(box[0])), 0), max(int(np.round(box[1])), 0)
    return left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1


def grown(sheet: Sheet, boxes: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cells (N, 4) enlarged to hold the letters that their borders cut, and the number of letters (N,) of each: a
    letter belongs to the cell that has most of it."""
    result, counts = np.array(boxes, np.float64).reshape(-1, 4), np.zeros(len(boxes), np.int64)
    labels, count = ndimage.label(sheet.letters, np.ones((3, 3), int))
    if not count or not len(result):
        return result, counts
    letters = np.array([(s[1].start, s[0].start, s[1].stop, s[0].stop) for s in ndimage.find_objects(labels)], float)
    size = letters[:, 2:] - letters[:, :2]
    sensible = (size[:, 1] < 3 * sheet.em) & (size.max(1) > SPECK * sheet.em)  # blurred words are wide pieces
    letters, size = letters[sensible], size[sensible]
    low = np.maximum(letters[:, None, :2], result[None, :, :2])
    both = np.clip(np.minimum(letters[:, None, 2:], result[None, :, 2:]) - low, 0, None).prod(-1)
    owner = both.argmax(1)
    share = both[np.arange(len(letters)), owner] / np.maximum(size.prod(1), 1)
    for letter, number in zip(letters[share > 0.3], owner[share > 0.3], strict=True):
        result[number, :2] = np.minimum(result[number, :2], letter[:2])
        result[number, 2:] = np.maximum(result[number, 2:], letter[2:])
        counts[number] += 1
    return result, counts


def uncovered(sheet: Sheet, boxes: NDArray[Any]) -> NDArray[np.float64]:
    """Boxes (M, 4) around texts that lie within the hull of the cells (N, 4) and in none of them."""
    none = np.zeros((0, 4))
    if not len(boxes) or not sheet.em:
        return none
    free = np.zeros_like(sheet.letters)
    hull = [*boxes[:, :2].min(0), *boxes[:, 2:].max(0)]
    left, top, right, bottom = (max(int(v), 0) for v in np.round(hull))
    free[top:bottom, left:right] = sheet.letters[top:bottom, left:right]
    for box in boxes:
        inside(free, box)[...] = False
    reach = max(round(GAP * sheet.em), 1)
    joined = ndimage.maximum_filter1d(free.astype(np.uint8), 2 * reach + 1, 1, mode="constant")
    labels, count = ndimage.label(joined, np.ones((3, 3), int))
    if not count:
        return none
    sizes = ndimage.sum_labels(free, labels, np.arange(1, count + 1))
    found = []
    for place, size in zip(ndimage.find_objects(labels), sizes, strict=True):
        rows, columns = place
        tall, wide = rows.stop - rows.start, columns.stop - columns.start - 2 * reach
        line = tall > max(1.8 * wide, sheet.em)  # what is left of a ruling line
        if tall >= 0.4 * sheet.em and wide >= 0.25 * sheet.em and size >= 0.04 * sheet.em**2 and not line:
            side = 0.3 * sheet.em
            found.append(
                (columns.start + reach - side, rows.start - side, columns.stop - reach + side, rows.stop + side)
            )
    return np.array(found, np.float64).reshape(-1, 4)
