"""What can be seen of a table without a network: its skew, its ruling lines, the size of its letters, and text that no
cell covers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from torch import Tensor

from vergence.documents.ink import Grey, Mask, dark_on_light, darker
from vergence.documents.lines import grey
from vergence.documents.page import find_skew
from vergence.rendering.documents.paper import turned_size

TALL = 0.62
"""Height of a typical letter or digit, in sizes of the font."""
RULE = 2.5
"""Ink that runs straight for this many sizes of the font is a line, not a letter."""
THICK = 0.15
WORD = 8.0
"""In sizes of the font: ink that runs straight, is thicker than the first, shorter than the second and has rough edges
is a blurred word without ascenders."""
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
DOT = 0.3
"""Distance of a dot from its letter, in sizes of the font, at most."""
INNER = 0.4
"""Distance of a line from the borders of a cell, in sizes of the font, from which it parts the cell."""
CROSSED = 0.8
"""Share of a cell's side that such a line has."""
DENSE = 0.15
"""Share of its box that the ink of a letter covers, at least."""
FEWEST = 3
"""Letters that tell their size."""
ROWS = 256
"""Letters that are compared with all cells at a time."""


class Sheet(NamedTuple):
    """A picture of a table, upright."""

    picture: Tensor
    """Bytes (3, H, W)."""
    skew: float
    """Degrees by which it was turned, anticlockwise."""
    values: Grey
    """(H, W): its brightness, with dark ink on light paper."""
    letters: Mask
    """(H, W): ink but for ruling lines."""
    rules: Mask
    """(H, W): ruling lines."""
    em: float
    """Size of the font in pixels; 0 if there are no letters."""


def upright(picture: Tensor, deskew: float) -> Sheet:
    """A picture (3, H, W) turned by at most ``deskew`` degrees so that its rows are level, and what is in it."""
    values = dark_on_light(grey(picture)[0].numpy())
    ink = darker(values)
    skew = find_skew(ink, deskew) if deskew else 0.0
    if skew:
        picture = _turned(picture, skew)
        values = dark_on_light(grey(picture)[0].numpy())
        ink = darker(values)
    em = letter_size(ink)
    em = letter_size(ink & ~_rules(ink, em)) or em
    if em:
        ink = darker(ndimage.gaussian_filter(values, SMOOTH * em))  # without noise that is finer than letters
    rules = _rules(ink, em)
    rules |= _strokes(ink & ~rules, em)
    return Sheet(picture, skew, values, ink & ~rules, rules, em)


def paper_below(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
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
    large = np.pad(paper_below(pixels), ((more[0],) * 2, (more[1],) * 2, (0, 0)), "edge")
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
    sizes = np.bincount(labels.ravel())[1:]
    letters &= (tall < 0.5 * max(ink.shape)) & (sizes > DENSE * tall * wide)
    if letters.sum() < FEWEST:
        return 0.0
    order = np.argsort(tall[letters])
    share = np.cumsum(sizes[letters][order])  # specks may be more than letters, but they have less ink
    typical = tall[letters][order][np.searchsorted(share, share[-1] / 2)]
    near = letters & (tall > 0.5 * typical) & (tall < 2 * typical)
    return float(np.median(tall[near])) / TALL


def _rules(ink: Mask, em: float) -> Mask:
    """Ink that runs straight for some sizes of the font, across or down, with paper on both sides: what runs through a
    blurred word has ink there. Ink beside a line is its rough edge, unless it goes on: then it is of a letter."""
    found = np.zeros_like(ink)
    bits, wide = ink.astype(np.uint8), 2 * max(round(EDGE * em), 1) + 1
    sides = 2 * round(0.1 * em) + 1, wide + 2 * round(DOT * em)  # along a line, and across
    for axis in (0, 1):
        size = int(min(max(RULE * em, 12.0), ink.shape[axis])) | 1
        runs = ndimage.maximum_filter1d(ndimage.minimum_filter1d(bits, size, axis, mode="constant"), size, axis)
        rough = ndimage.maximum_filter1d(runs, wide, 1 - axis, mode="constant")
        others = (ink & (rough == 0)).astype(np.uint8)
        beside = ndimage.maximum_filter1d(others, 2 * max(round(BESIDE * em), 3) + 1, 1 - axis, mode="constant") > 0
        # A small blurred word has two runs, along its top and its base: they are one piece.
        closed = ndimage.minimum_filter1d(rough, wide, 1 - axis, mode="constant")
        labels, count = ndimage.label(closed, np.ones((3, 3), int))
        if count:
            fringe = ndimage.maximum_filter1d((ink & (runs == 0)).astype(np.uint8), wide, 1 - axis, mode="constant") > 0
            word = _short_and_thick(labels, axis, em) & (_means(fringe, labels, count) > 0.3)
            kept = np.concatenate([[False], ~word & (_means(beside, labels, count) < 0.4)])
            lines = (kept[labels] & (runs > 0)).astype(np.uint8)
            longer = ndimage.maximum_filter1d(lines, 2 * round(1.5 * em) + 1, axis, mode="constant")  # across gaps
            near = ndimage.maximum_filter1d(longer, wide, 1 - axis, mode="constant") > 0
            goes_on = (
                ndimage.maximum_filter((ink & ~near).astype(np.uint8), sides[:: 1 - 2 * axis], mode="constant") > 0
            )
            found |= (longer > 0) | (near & ~goes_on)
    return found & ink


def _short_and_thick(labels: NDArray[Any], axis: int, em: float) -> Mask:
    """Which pieces that run along an axis could be blurred words without ascenders, by their size."""
    lengths = np.array([own[axis].stop - own[axis].start for own in ndimage.find_objects(labels)], np.float64)
    thickness = np.bincount(labels.ravel(), minlength=len(lengths) + 1)[1:] / np.maximum(lengths, 1)
    return (lengths < WORD * em) & (thickness > max(THICK * em, 3.0))


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


def parted(sheet: Sheet, boxes: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cells (N, 4) cut where a ruling line crosses them from side to side, and of which cell each part is."""
    across, down = (_straight(sheet.rules, axis, sheet.em) for axis in (1, 0))
    parts, numbers = list[tuple[float, ...]](), list[int]()
    for number, box in enumerate(np.asarray(boxes, np.float64).reshape(-1, 4)):
        left, top, right, bottom = box.tolist()
        rows = max(round(top), 0) + _crossed(inside(across, box), 0, INNER * sheet.em)
        columns = max(round(left), 0) + _crossed(inside(down, box), 1, INNER * sheet.em)
        for y, below in pairwise([top, *rows.tolist(), bottom]):
            for x, beside in pairwise([left, *columns.tolist(), right]):
                parts.append((x, y, beside, below))
                numbers.append(number)
    return np.array(parts, np.float64).reshape(-1, 4), np.array(numbers, np.int64)


def enclosed(sheet: Sheet, boxes: NDArray[Any]) -> NDArray[np.float64]:
    """Cells (N, 4) with ruling lines all around them made as large as these say, if no letters are in between."""
    across, down = (_straight(sheet.rules, axis, sheet.em) for axis in (1, 0))
    result = np.array(boxes, np.float64).reshape(-1, 4)
    margin = INNER * sheet.em
    for box in result:
        left, top, right, bottom = box.tolist()
        rows = slice(max(int(top + margin), 0), max(int(bottom - margin), int(top + margin) + 1))
        sides = _walls(down[rows].mean(0), np.asarray(sheet.letters[rows].any(0)), left, right, margin)
        if sides is None:
            continue
        columns = slice(max(int(sides[0] + margin), 0), max(int(sides[1] - margin), 0))
        ends = _walls(across[:, columns].mean(1), np.asarray(sheet.letters[:, columns].any(1)), top, bottom, margin)
        if ends is not None:
            box[:] = sides[0], ends[0], sides[1], ends[1]
    return result


def _walls(
    shares: NDArray[np.float64], letters: Mask, low: float, high: float, margin: float
) -> tuple[float, float] | None:
    """The lines next to an extent on both sides, with no letters between it and them; None without such lines."""
    lines = _middles(shares)
    before, after = lines[lines < low + margin], lines[lines > high - margin]
    if not (len(before) and len(after)):
        return None
    first, last = float(before[-1]), float(after[0])
    between = letters[int(first) : max(int(low), 0)].any() or letters[int(high) + 1 : int(last)].any()
    return None if between or last <= first else (first, last)


def _middles(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The middles of the lines that the shares of ink in rows, or columns, tell."""
    labels, count = ndimage.label(shares > CROSSED)
    return np.array(ndimage.center_of_mass(labels > 0, labels, np.arange(1, count + 1))).reshape(-1) + 0.5


def _straight(rules: Mask, axis: int, em: float) -> Mask:
    """Lines along an axis, made as thick as they sway."""
    thick = ndimage.maximum_filter1d(rules.astype(np.uint8), 2 * max(round(EDGE * em), 1) + 1, 1 - axis)
    size = int(min(max(RULE * em, 12.0), rules.shape[axis])) | 1
    return ndimage.maximum_filter1d(ndimage.minimum_filter1d(thick, size, axis, mode="constant"), size, axis) > 0


def _crossed(rules: Mask, axis: int, margin: float) -> NDArray[np.float64]:
    """Where ruling lines cross a box along an axis, apart from its borders."""
    shares = rules.mean(1 - axis) if rules.size else np.zeros(0)
    middles = _middles(shares)
    return middles[(middles > margin) & (middles < len(shares) - margin)]


def grown(sheet: Sheet, boxes: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cells (N, 4) enlarged to hold the letters that their borders cut, and the number of letters (N,) of each: a
    letter belongs to the cell that has most of it."""
    result, counts = np.array(boxes, np.float64).reshape(-1, 4), np.zeros(len(boxes), np.int64)
    labels, count = ndimage.label(sheet.letters, np.ones((3, 3), int))
    if not count or not len(result):
        return result, counts
    letters = np.array([(s[1].start, s[0].start, s[1].stop, s[0].stop) for s in ndimage.find_objects(labels)], float)
    size = letters[:, 2:] - letters[:, :2]
    sensible = (size[:, 1] < 3 * sheet.em) & (size.max(1) > SPECK * sheet.em)  # blurred words are wide
    letters = letters[sensible]
    owner, share = owners(letters, result)
    for letter, number in zip(letters[share > 0.3], owner[share > 0.3], strict=True):
        result[number, :2] = np.minimum(result[number, :2], letter[:2])
        result[number, 2:] = np.maximum(result[number, 2:], letter[2:])
        counts[number] += 1
    return result, counts


def owners(letters: NDArray[np.float64], boxes: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Which of the boxes (N, 4) has most of each letter's box (P, 4), and the share that it has."""
    owner, most = np.zeros(len(letters), np.int64), np.zeros(len(letters))
    for start in range(0, len(letters), ROWS):
        some = letters[start : start + ROWS, None]
        low, high = np.maximum(some[..., :2], boxes[:, :2]), np.minimum(some[..., 2:], boxes[:, 2:])
        both = np.clip(high - low, 0, None).prod(-1)
        owner[start : start + ROWS], most[start : start + ROWS] = both.argmax(1), both.max(1)
    return owner, most / np.maximum((letters[:, 2:] - letters[:, :2]).prod(1), 1)


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
