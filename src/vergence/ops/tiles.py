"""Functions of pictures applied tile by tile, for pictures that are larger than memory.

Tiles overlap by a margin, and only what lies within a tile's margin is kept. Where the margin covers the receptive
field of a function, the result is that of the whole picture, and no seam can be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor


class Tile(NamedTuple):
    """A part of a picture: the rows and columns that are kept, and those that are looked at."""

    kept: tuple[slice, slice]
    seen: tuple[slice, slice]


def tiles(height: int, width: int, tile: int, margin: int, multiple: int = 1) -> Iterator[Tile]:
    """Tiles of at most ``tile`` rows and columns of a picture, of nearly equal size, with ``margin`` pixels around them
    where the picture has them. Tiles begin at multiples of ``multiple``, and so do their margins."""
    if tile < 1 or margin < 0 or multiple < 1:
        raise ValueError(f"tiles have 1 pixel or more and margins 0 or more, got {tile}, {margin} and {multiple}")
    rows, columns = (list(_cut(side, tile, margin, multiple)) for side in (height, width))
    for kept_rows, seen_rows in rows:
        for kept_columns, seen_columns in columns:
            yield Tile((kept_rows, kept_columns), (seen_rows, seen_columns))


def _cut(side: int, tile: int, margin: int, multiple: int) -> Iterator[tuple[slice, slice]]:
    step = math.ceil(side / math.ceil(side / tile) / multiple) * multiple
    around = math.ceil(margin / multiple) * multiple
    for start in range(0, side, step):
        stop = min(start + step, side)
        yield slice(start, stop), slice(max(start - around, 0), min(stop + around, side))


def tiled(
    function: Callable[[Tensor], Tensor], x: Tensor, tile: int, margin: int, scale: int = 1, multiple: int = 1
) -> Tensor:
    """``function`` of pictures (B, C, H, W), which returns (B, D, scale H, scale W), one tile at a time.

    The result is that of the whole picture if no output depends on inputs more than ``margin`` pixels away.
    ``multiple`` is for functions with strides: tiles then begin at multiples of it. Example::

        enlarged = tiled(network, picture, tile=256, margin=16, scale=2)  # (1, 3, H, W) to (1, 3, 2 H, 2 W)
    """
    height, width = x.shape[-2:]
    if not height or not width:
        raise ValueError(f"a picture has rows and columns, got {height} x {width}")
    result: Tensor | None = None
    for kept, seen in tiles(height, width, tile, margin, multiple):
        part = function(x[(..., *seen)])
        expected = tuple(scale * (s.stop - s.start) for s in seen)
        if tuple(part.shape[-2:]) != expected:
            raise ValueError(f"a tile gave {tuple(part.shape[-2:])} rows and columns, expected {expected}")
        if kept == seen:  # the whole picture
            return part
        if result is None:
            result = part.new_empty(*part.shape[:-2], scale * height, scale * width)
        top, left = (k.start - s.start for k, s in zip(kept, seen, strict=True))
        bottom, right = (k.stop - s.start for k, s in zip(kept, seen, strict=True))
        rows, columns = (slice(scale * k.start, scale * k.stop) for k in kept)
        result[..., rows, columns] = part[..., scale * top : scale * bottom, scale * left : scale * right]
    assert result is not None
    return result
