"""Lines of text in a page: ink by a local threshold, the page turned upright, and its pieces chained into lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
from vergence.documents.ink import Mask, inked
from vergence.reading.pictures import read_picture

FEWEST = 8
"""Letters that tell how a line bends."""
SAMPLED = 40_000
"""Pixels of ink that the skew is measured on."""
SURE = 1.03
"""How much sharper the profile of rows must be for a page to be turned."""
APART = 2.2
"""Letters farther apart than this many heights are in different lines, such as columns of a table."""
FEW = 3
"""Pieces of a chain that may be a part of another line."""
NEAR = 8
"""Letters that tell how high a line is at a place."""
BELOW = 0.45
"""Share of the letters' height by which tails and commas reach below a line, and accents above it."""
USUAL = 3.2
"""Letters are at most this many times as tall as the typical one, but for those of titles."""
FELLOWS = 2
"""Pieces of like height beside a large one that make it a letter of a title."""
LARGEST = 4000
"""Pieces of ink that are looked at, the largest first."""


class LineBox(NamedTuple):
    """A line, as it is after its letters were moved up and down onto a level base."""

    left: int
    top: int
    right: int
    bottom: int
    """In pixels; right and bottom are outside."""
    tilt: float = 0.0
    bend: float = 0.0
    """The base of the letters is lower by ``tilt * u + bend * (u * u - 1)`` pixels, where u is from -1 to 1."""

    def lower(self, x: NDArray[Any] | float) -> NDArray[np.float64]:
        """By how many pixels the line's base is lower at a column than at its ends."""
        u = (np.asarray(x, np.float64) - (self.left + self.right) / 2) / max((self.right - self.left) / 2, 1)
        return self.tilt * u + self.bend * (u * u - 1)

    def outer(self, height: int) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of the whole line in a page of this height, with its curve."""
        lower = self.lower(np.linspace(self.left, self.right, 9))
        top, bottom = self.top + math.floor(lower.min()), self.bottom + math.ceil(lower.max())
        return self.left, max(top, 0), self.right, min(bottom, height)

    def cut(self, page: NDArray[Any]) -> NDArray[Any]:
        """This line of a page (..., H, W), its base made level."""
        columns = np.arange(self.left, self.right)
        rows = np.arange(self.top, self.bottom)[:, None] + self.lower(columns + 0.5)
        if not (self.tilt or self.bend):
            return page[..., self.top : self.bottom, self.left : self.right]
        low = np.floor(rows).astype(np.int64)
        share, most = rows - low, page.shape[-2] - 1
        above, below = (page[..., np.clip(low + k, 0, most), columns] for k in (0, 1))
        return (above * (1 - share) + below * share).astype(page.dtype) if page.dtype != bool else above


@dataclass(frozen=True, eq=False)
class Page:
    """A page turned upright, and its lines."""

    picture: Tensor
    """Bytes (3, H, W)."""
    skew: float
    """Degrees by which it was turned, anticlockwise."""
    ink: Mask
    """(H, W)."""
    lines: tuple[LineBox, ...]
    """In reading order."""


def read_upright(path: Path) -> Tensor:
    """A picture, turned as its file's EXIF data says, bytes (3, H, W)."""
    if isinstance(path, InMemory):
        return read_image(path)
    return as_picture(ImageOps.exif_transpose(read_picture(path)), str(path))


def find_lines(picture: Tensor, deskew: float = 5.0) -> Page:
    """The lines of a page (3, H, W) that is turned by at most ``deskew`` degrees."""
    ink = inked(picture)
    skew = find_skew(ink, deskew) if deskew else 0.0
    if skew:
        whole = Image.fromarray(picture.permute(1, 2, 0).numpy())
        paper = tuple(int(v) for v in picture.flatten(1).float().median(1).values)
        turned = np.array(whole.rotate(skew, Image.Resampling.BICUBIC, expand=True, fillcolor=paper))
        picture = torch.from_numpy(turned).permute(2, 0, 1).contiguous()
        ink = inked(picture)
    return Page(picture, skew, ink, tuple(reading_order(_lines(ink))))


def find_skew(ink: Mask, most: float) -> float:
    """The angle in degrees, anticlockwise, that makes a page's rows of letters level; 0 if that is not clear."""
    rows, columns = np.nonzero(ink)
    if len(rows) < 50:
        return 0.0
    some = slice(None, None, max(len(rows) // SAMPLED, 1))
    y, x = rows[some].astype(np.float64), columns[some] - columns.mean()
    found, step = 0.0, 0.5
    best = level = _sharpness(y, x, 0.0)
    for reach in (most, 0.5):
        for angle in np.arange(found - reach, found + reach + step / 2, step):
            sharp = _sharpness(y, x, float(angle))
            if sharp > best:
                best, found = sharp, float(angle)
        step = 0.1
    return found if best > SURE * level and abs(found) >= 0.15 else 0.0


def _sharpness(y: NDArray[np.float64], x: NDArray[np.float64], angle: float) -> float:
    """How uneven the profile of rows is after a turn."""
    slope = math.tan(math.radians(angle))
    rows = np.rint(y - slope * x).astype(np.int64)
    profile = np.bincount(rows - rows.min()).astype(np.float64)
    return float((np.diff(profile) ** 2).sum() + (profile**2).sum() * 0.05)


# Lines ----------------------------------------------------------------------------------------------------------------


def _lines(ink: Mask) -> list[LineBox]:
    labels, count = ndimage.label(ink, np.ones((3, 3), int))
    if not count:
        return []
    pieces = [(s[1].start, s[0].start, s[1].stop, s[0].stop) for s in ndimage.find_objects(labels)]
    sizes = np.bincount(labels.ravel())[1:]
    every = np.array(pieces)
    tall, wide = every[:, 3] - every[:, 1], every[:, 2] - every[:, 0]
    letters = (tall >= 4) & (sizes >= 6) & (wide < 20 * tall) & (tall < 12 * wide)
    if not letters.any():
        return []
    typical = float(np.median(tall[letters]))
    letters &= (tall >= 0.45 * typical) & ((tall <= USUAL * typical) | _titles(every, letters, USUAL * typical))
    order = np.argsort(-sizes)[:LARGEST]
    kept = [i for i in order if letters[i]]
    lines = _gathered(_chained(every[sorted(kept, key=lambda i: every[i, 0])], typical))
    marks = [i for i in order if not letters[i] and tall[i] < typical and wide[i] < 1.3 * typical and sizes[i] >= 2]
    boxes = _boxed(lines, every[marks])
    usual = float(np.median([box.bottom - box.top for box in boxes]))
    boxes = [_grown(box, usual, ink.shape) for box in boxes if box.bottom - box.top > 0.4 * usual]
    boxes = [box for box in boxes if not any(_holds(other, box) for other in boxes)]
    return [box for box in boxes if box.right - box.left >= 0.3 * typical]


def _titles(pieces: NDArray[Any], letters: NDArray[np.bool_], usual: float) -> NDArray[np.bool_]:
    """Which of the pieces (N, 4) taller than usual stand in a row with others that are about as tall."""
    found = np.zeros(len(pieces), bool)
    left, top, right, bottom = pieces[letters].T
    tall = bottom - top
    for number in (letters & (pieces[:, 3] - pieces[:, 1] > usual)).nonzero()[0]:
        own = pieces[number]
        high = own[3] - own[1]
        shared = np.minimum(bottom, own[3]) - np.maximum(top, own[1])
        apart = np.maximum(left - own[2], own[0] - right)
        fellows = (shared > 0.6 * tall) & (tall > 0.4 * high) & (tall < 2.5 * high) & (apart < high)
        found[number] = fellows.sum() > FELLOWS  # it is one of them itself
    return found


def _chained(letters: NDArray[Any], typical: float) -> list[NDArray[Any]]:
    """Letters, from left to right, in lines: each goes to the line whose last letters are at its height and near."""
    lines: list[list[NDArray[Any]]] = []
    ends = np.empty((len(letters), 4))  # of each line's last letters: right, top, bottom and height
    for letter in letters:
        left, top, _, bottom = letter
        right, high, low, tall = ends[: len(lines)].T
        shared = (np.minimum(bottom, low) - np.maximum(top, high)) / np.minimum(bottom - top, low - high).clip(1)
        shared[left - right > APART * np.maximum(typical, tall)] = 0
        best = int(shared.argmax()) if lines else 0
        if not lines or shared[best] <= 0.4:
            best = len(lines)
            lines.append([])
        lines[best].append(letter)
        recent = np.array(lines[best][-6:])
        heights = recent[:, 3] - recent[:, 1]
        ends[best] = recent[:, 2].max(), np.median(recent[:, 1]), np.median(recent[:, 3]), np.median(heights)
    return [np.array(line) for line in lines]


def _gathered(lines: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Lines without chains of a few pieces that are a part of another: a large comma, and the letter that followed it
    rather than its own line."""
    order = sorted(range(len(lines)), key=lambda k: len(lines[k]))
    result: dict[int, NDArray[Any]] = dict(enumerate(lines))
    for number in order:
        own = result[number]
        if len(own) > FEW:
            break
        left, top, right, bottom = _around(own)
        for other, line in result.items():
            if other == number or len(line) <= len(own):
                continue
            near = line[np.argsort(np.abs((line[:, 0] + line[:, 2] - left - right) / 2))[:NEAR]]
            high, low = float(np.median(near[:, 1])), float(np.median(near[:, 3]))
            tall = low - high
            shared = min(bottom, low + BELOW * tall) - max(top, high - BELOW * tall)
            ends = _around(line)
            within = left < ends[2] + tall and right > ends[0] - tall
            if within and shared > 0.7 * (bottom - top) and bottom > high + tall / 3:
                both = np.concatenate([line, own])
                result[other] = both[both[:, 0].argsort(kind="stable")]
                del result[number]
                break
    return list(result.values())


def _boxed(lines: Sequence[NDArray[Any]], marks: NDArray[Any]) -> list[LineBox]:
    """The boxes of lines with their dots, commas and accents: each belongs to the nearest line."""
    frames = [LineBox(*_around(line), *_bent(line)) for line in lines]
    levels = [_levelled(frame, line) for frame, line in zip(frames, lines, strict=True)]
    away = np.full((len(lines), len(marks)), np.inf)
    for number, (frame, level) in enumerate(zip(frames, levels, strict=True)):
        left, top, right, bottom = _around(level)
        tall = float(np.median(level[:, 3] - level[:, 1]))
        own = _levelled(frame, marks)
        middle = (own[:, 1] + own[:, 3]) / 2
        across = (own[:, 2] > left - 0.6 * tall) & (own[:, 0] < right + 0.9 * tall)
        gap = np.maximum(np.maximum(top - middle, 2 * (middle - bottom)), 0) / max(tall, 1)
        away[number] = np.where(across & (gap < 0.3), gap, np.inf)
    owner = away.argmin(0) if len(marks) else np.zeros(0, int)
    boxes = []
    for number, (frame, level) in enumerate(zip(frames, levels, strict=True)):
        own = marks[(owner == number) & np.isfinite(away[number])]
        boxes.append(_moved(frame, *_around(np.concatenate([level, _levelled(frame, own)]))))
    return boxes


def _holds(line: LineBox, part: LineBox) -> bool:
    """Whether a box is a part of a larger line: the dot of an i in a title."""
    within = line.left <= part.left and part.right <= line.right and part.top >= line.top and part.bottom <= line.bottom
    return within and 1.5 * (part.bottom - part.top) < line.bottom - line.top


def _around(pieces: NDArray[Any]) -> tuple[int, int, int, int]:
    low, high = pieces[:, :2].min(0), pieces[:, 2:].max(0)
    return math.floor(low[0]), math.floor(low[1]), math.ceil(high[0]), math.ceil(high[1])


def _levelled(frame: LineBox, pieces: NDArray[Any]) -> NDArray[np.float64]:
    """Pieces (N, 4) after a line's base was made level."""
    shift = frame.lower((pieces[:, 0] + pieces[:, 2]) / 2)
    return pieces - np.stack([np.zeros_like(shift), shift, np.zeros_like(shift), shift], 1)


def _moved(frame: LineBox, left: int, top: int, right: int, bottom: int) -> LineBox:
    """Another box with the same curve."""
    ends = [float(frame.lower(float(x))) for x in (left, (left + right) / 2, right)]
    bend = (ends[0] + ends[2]) / 2 - ends[1]
    rest = (ends[0] + ends[2]) / 2  # the curve of the new box is 0 at the mean of its ends
    return LineBox(left, round(top + rest), right, round(bottom + rest), (ends[2] - ends[0]) / 2, bend)


def _bent(line: NDArray[Any]) -> tuple[float, float]:
    """Tilt and bend of a line's letters, from where they stand; those with descenders do not count."""
    if len(line) < FEWEST:
        return 0.0, 0.0
    left, _, right, _ = _around(line)
    u = ((line[:, 0] + line[:, 2]) / 2 - (left + right) / 2) / max((right - left) / 2, 1)
    base, tall = line[:, 3].astype(np.float64), float(np.median(line[:, 3] - line[:, 1]))
    kept = np.ones(len(u), bool)
    fit = np.zeros(3)
    for reach in (0.35, 0.2, 0.2):
        fit = np.polyfit(u[kept], base[kept], 2)
        near = np.abs(base - np.polyval(fit, u)) < reach * tall + 1
        if near.sum() < FEWEST:
            return 0.0, 0.0
        kept = near
    bend, tilt = float(fit[0]), float(fit[1])
    return (
        (tilt, bend) if max(abs(tilt), abs(bend)) > 0.06 * tall and max(abs(tilt), abs(bend)) < 2 * tall else (0.0, 0.0)
    )


def _grown(box: LineBox, usual: float, shape: tuple[int, ...]) -> LineBox:
    """A line with a little paper around it, and not much lower than others of the page."""
    tall = box.bottom - box.top
    more = max(0.75 * usual - tall, 0.0) / 2 + 0.08 * max(tall, 8)
    side = 0.15 * max(tall, 8)
    return _moved(
        box, max(int(box.left - side), 0), max(int(box.top - more), 0),
        min(math.ceil(box.right + side), shape[1]), min(math.ceil(box.bottom + more), shape[0]),
    )  # fmt: skip


def reading_order(boxes: Sequence[LineBox]) -> list[LineBox]:
    """Lines as they are read: columns from left to right, each from top to bottom."""
    boxes = sorted(boxes)
    if len(boxes) < 2:
        return list(boxes)
    tall = float(np.median([b[3] - b[1] for b in boxes]))
    right = boxes[0][2]
    for number, box in enumerate(boxes[1:], 1):  # a gap that runs through all of them
        if box[0] - right > tall and min(number, len(boxes) - number) >= 3:
            return reading_order(boxes[:number]) + reading_order(boxes[number:])
        right = max(right, box[2])
    rows = sorted(boxes, key=lambda b: b[1] + b[3])
    gaps = [(rows[k][1] - max(b[3] for b in rows[:k]), k) for k in range(1, len(rows))]
    widest, place = max(gaps)
    if widest > -0.3 * tall:
        return reading_order(rows[:place]) + reading_order(rows[place:])
    return sorted(boxes)
