"""Annotated pictures of tables: one entry for each table, read on access, with boxes where the annotation has them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data.images import read_image
from vergence.documents.ink import inked
from vergence.documents.table_ink import content_box
from vergence.documents.tables import TableSample
from vergence.ops.boxes import area
from vergence.ops.table_relations import aligned_boxes
from vergence.reading.pictures import read_picture

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Unit = Literal["pixels", "drifting", "points"]
"""Of boxes: pixels of the picture; units of a page of which the picture shows an unknown part; or points of a page,
counted from its lower end and negative, so that a top is smaller than a bottom."""
NOTHING: Box = (0.0, 0.0, 0.0, 0.0)
"""Of an empty cell."""
MOST = 1000
"""Rows or columns of a table."""
FARTHEST = 1e6
"""Pixels or points."""
REACH = 40
"""Pixels by which a picture may be shifted against its annotation."""
POINTS = 72.0


class Entry(NamedTuple):
    """A table."""

    where: Path
    """The annotation."""
    picture: Path
    spans: Tensor
    """(N, 4)."""
    cells: Tensor | None
    """(N, 4): boxes of cells."""
    content: Tensor | None
    """(N, 4): boxes of what stands in cells; without area for empty ones."""
    texts: tuple[str, ...] = ()
    unit: Unit = "pixels"
    scale: float = 1.0
    """drifting: pixels of a unit."""
    page: tuple[float, float] | None = None
    """points: width and height of the page; None: its picture's resolution tells."""
    margin: float = 0.0
    """The table is a part of the picture, with so many points or pixels around it; 0: all of it."""


@dataclass(frozen=True)
class TableFiles:
    """Tables in files."""

    entries: tuple[Entry, ...]
    note: str = ""
    """How they were split."""
    split: str = ""
    """The split that they came from, if another stands in for the one asked for."""

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> TableSample:
        own = self.entries[index]
        picture = read_image(own.picture)
        cells, content = own.cells, own.content
        if own.unit == "drifting":
            assert content is not None
            content = _registered(inked(picture), content * own.scale)
        elif own.unit == "points":
            assert content is not None
            content = _on_page(own, content, picture)
        if own.margin:
            picture, cells, content = _cut(own, picture, cells, content)
        if content is None:
            assert cells is not None
            content = _inked_content(picture, cells)
        if cells is None:
            cells = aligned_boxes(content, own.spans)
        return TableSample(f"{own.where.stem}-{index}", picture, cells, content, own.spans, own.texts)


def entry(
    where: Path,
    picture: Path,
    spans: Sequence[Sequence[int]],
    *,
    cells: Sequence[Box | None] | None = None,
    content: Sequence[Box | None] | None = None,
    texts: Sequence[str] = (),
    unit: Unit = "pixels",
    scale: float = 1.0,
    page: tuple[float, float] | None = None,
    margin: float = 0.0,
) -> Entry:
    """A table whose annotation makes sense; boxes without area are those of empty cells."""
    where_is = torch.tensor([list(span) for span in spans], dtype=torch.long).reshape(-1, 4)
    wrong = (where_is[:, 1] < where_is[:, 0]) | (where_is[:, 3] < where_is[:, 2])
    if not len(where_is) or bool(wrong.any()):
        raise VergenceError(f"{where} has {'a cell that ends before it begins' if len(where_is) else 'no cells'}")
    boxes = {name: _tensor(given) for name, given in (("cells", cells), ("content", content)) if given is not None}
    if "cells" in boxes and bool((area(boxes["cells"]) == 0).any()):
        raise VergenceError(f"{where} has a cell without area")
    if not any(bool((area(own) > 0).any()) for own in boxes.values()):
        raise VergenceError(f"{where} has no cell with a box")
    return Entry(where, picture, where_is, boxes.get("cells"), boxes.get("content"), tuple(texts), unit, scale, page,
                 margin)  # fmt: skip


def _tensor(boxes: Sequence[Box | None]) -> Tensor:
    rows = [b if b is not None and b[2] > b[0] and b[3] > b[1] else NOTHING for b in boxes]
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 4)


def number(value: Any, where: Path) -> float:
    """A coordinate."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not abs(found) <= FARTHEST:
        raise VergenceError(f"{where} has a coordinate that is not a number of pixels: {str(value)[:40]!r}")
    return found


def whole(values: Any, key: str, where: Path, missing: int | None = None, least: int = 0) -> int:
    """A row or column by its key."""
    given = values.get(key) if isinstance(values, Mapping) else None
    if given is None and missing is not None:
        return missing
    try:
        found = int(str(given))
    except (TypeError, ValueError):
        found = MOST
    if not least <= found < MOST:
        raise VergenceError(f"{where} has a cell whose {key} is not from {least} to {MOST - 1}: {str(given)[:40]!r}")
    return found


def html_spans(tokens: Sequence[str], where: Path) -> list[tuple[int, int, int, int]]:
    """Spans of the cells of a table from the tokens of its HTML, in their order."""
    spans, taken = list[tuple[int, int, int, int]](), set[tuple[int, int]]()
    row, text = -1, "".join(tokens)
    for tag, attributes in re.findall(r"<(tr|td|th)\b([^>]*)>", text):
        if tag == "tr":
            row += 1
            column = 0
            continue
        if row < 0:
            raise VergenceError(f"{where} has a cell before the first row")
        tall, wide = (int((re.search(rf'{n}="(\d+)"', attributes) or ["", "1"])[1]) for n in ("rowspan", "colspan"))
        if not (1 <= tall < MOST and 1 <= wide < MOST):
            raise VergenceError(f"{where} has a cell over {tall} rows and {wide} columns")
        while (row, column) in taken:
            column += 1
        spans.append((row, row + tall - 1, column, column + wide - 1))
        taken.update((row + a, column + b) for a in range(tall) for b in range(wide))
        column += wide
    return spans


# Boxes in pictures ----------------------------------------------------------------------------------------------------


def _registered(ink: NDArray[np.bool_], boxes: Tensor) -> Tensor:
    """Boxes in pixels at an unknown place, moved to where they hold most ink."""
    known = boxes[area(boxes) > 0].double().numpy()
    rows, columns = np.nonzero(ink)
    if not len(rows):
        return boxes
    start = np.round([columns.min() - known[:, 0].min(), rows.min() - known[:, 1].min()]).astype(int)
    height, width = ink.shape
    sums = np.zeros((height + 1, width + 1))
    sums[1:, 1:] = ink.cumsum(0).cumsum(1)
    steps = np.arange(-REACH, REACH + 1)
    x = [np.clip(np.round(known[:, k, None] + start[0]).astype(int) + steps, 0, width) for k in (0, 2)]
    y = [np.clip(np.round(known[:, k, None] + start[1]).astype(int) + steps, 0, height) for k in (1, 3)]

    def at(rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[Any]:
        return sums[rows[:, :, None], columns[:, None, :]].sum(0)  # over boxes, for every shift down and across

    held = at(y[1], x[1]) - at(y[0], x[1]) - at(y[1], x[0]) + at(y[0], x[0])
    down, across = np.unravel_index(held.argmax(), held.shape)
    shift = torch.tensor([start[0] + steps[across], start[1] + steps[down]], dtype=boxes.dtype)
    return boxes + shift.repeat(2)


def _on_page(own: Entry, boxes: Tensor, picture: Tensor) -> Tensor:
    """Boxes in points as pixels of the picture of a page."""
    height, width = picture.shape[-2:]
    if own.page is not None:
        x, y, tall = width / own.page[0], height / own.page[1], own.page[1]
    else:
        dpi = read_picture(own.picture).info.get("dpi")
        if not dpi or not min(dpi) > 1:
            name = own.where.name.removesuffix("-str.xml")
            raise VergenceError(
                f"{own.picture} does not say its resolution: expected {name}.pdf beside it, or a picture with its dpi"
            )
        x, y = (float(v) / POINTS for v in dpi)
        tall = height / y
    return (boxes + boxes.new_tensor([0, tall, 0, tall])) * boxes.new_tensor([x, y, x, y])


def _cut(
    own: Entry, picture: Tensor, cells: Tensor | None, content: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The part of a page that is the table."""
    every = torch.cat([b[area(b) > 0] for b in (cells, content) if b is not None])
    height, width = picture.shape[-2:]
    left, top = ((every[:, k].min() - own.margin).floor().clamp(min=0) for k in (0, 1))
    right, bottom = (min(int(every[:, k].max() + own.margin), side) for k, side in ((2, width), (3, height)))
    if right - int(left) < 2 or bottom - int(top) < 2:
        raise VergenceError(f"{own.where} has a table outside {own.picture}, which is {width} x {height} pixels")
    shift = torch.stack([left, top, left, top])
    moved = [None if b is None else b - shift for b in (cells, content)]
    return picture[:, int(top) : bottom, int(left) : right], moved[0], moved[1]


def _inked_content(picture: Tensor, cells: Tensor) -> Tensor:
    """Boxes of the ink in cells, a little inside of their borders."""
    ink, rows = inked(picture), []
    for box in cells.double().numpy():
        inset = min(0.08 * min(box[2] - box[0], box[3] - box[1]), 4.0)
        found = content_box(ink, box + np.array([inset, inset, -inset, -inset]))
        large = found is not None and min(found[2] - found[0], found[3] - found[1]) >= 2
        rows.append(found if large and found is not None else NOTHING)
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 4)
