"""Tables set with real fonts and drawn, with the exact places of their cells and of what stands in them; random ones
come from :mod:`vergence.rendering.documents.random_tables`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from vergence.core.errors import VergenceError
from vergence.rendering.documents.fonts import Face
from vergence.rendering.documents.typeset import Box, Colour, Style, extent, write

Rules = Literal["all", "rows", "columns", "frame", "book", "none"]
"""Lines: around every cell, between rows, between columns, around the table, above and below the header and at the end
(as in books), or none."""
Align = Literal["left", "centre", "right"]
LEADING = 1.25
"""Distance of base lines in a cell of several lines, in heights of the font."""


@dataclass(frozen=True)
class Cell:
    """A cell. Rows and columns are counted from 0, and the last ones are included."""

    lines: tuple[str, ...]
    start_row: int
    end_row: int
    start_column: int
    end_column: int
    header: bool = False
    align: Align = "left"
    box: Box = (0.0, 0.0, 0.0, 0.0)
    """The cell's part of the grid."""
    ink: Box | None = None
    """What is printed in it; None for an empty cell."""

    @property
    def text(self) -> str:
        return " ".join(self.lines)


@dataclass(frozen=True)
class Look:
    """How a table is set."""

    face: Face
    bold: Face
    size: int = 18
    rules: Rules = "all"
    padding: tuple[int, int] = (8, 5)
    """To the sides, above and below, in pixels."""
    margin: int = 16
    zebra: bool = False
    """Every second row on a darker ground."""
    ink: Colour = (0, 0, 0)
    paper: Colour = (255, 255, 255)
    rule: Colour | None = None
    """Colour of lines, if it is not the ink's."""
    head: tuple[Colour, Colour] | None = None
    """Ground and ink of the header, if they are not those of the rest."""
    stretch: float = 1.0
    """Columns are wider than their texts need by this factor."""
    top: bool = False
    """Texts stand at the top of their cells, not in the middle."""
    middles: bool = False
    """book: a line under every title over several columns."""
    caption: str = ""
    """A line of text above the table, which does not belong to it."""


@dataclass(frozen=True)
class Table:
    """A table as a picture, with its structure."""

    image: NDArray[np.uint8]
    """(H, W, 3)."""
    rows: int
    columns: int
    cells: tuple[Cell, ...]
    look: Look


def typeset(cells: Sequence[Cell], look: Look) -> Table:
    """Lay cells out on a grid that is as small as their texts allow, and draw them."""
    rows, columns = 1 + max(c.end_row for c in cells), 1 + max(c.end_column for c in cells)
    _refuse_overlaps(cells, rows, columns)
    (side, above), step = look.padding, _step(look)
    widths = _spread([(c.start_column, c.end_column, _width(c, look) + 2 * side) for c in cells], columns)
    heights = _spread([(c.start_row, c.end_row, len(c.lines) * step + 2 * above) for c in cells], rows)
    widths = (look.stretch * widths).astype(int)
    lower = look.margin + (2 * step if look.caption else 0)
    x = look.margin + np.concatenate([[0], np.cumsum(widths)])
    y = lower + np.concatenate([[0], np.cumsum(heights)])
    picture = Image.new("RGB", (int(x[-1]) + look.margin, int(y[-1]) + look.margin), look.paper)
    draw = ImageDraw.Draw(picture)
    if look.caption:
        write(draw, (look.margin, look.margin + step), look.caption, Style(look.face, look.size, look.ink, look.paper))
    _ground(draw, x, y, _heads(cells), look)
    placed = []
    for cell in cells:
        box = (float(x[cell.start_column]), float(y[cell.start_row]), float(x[cell.end_column + 1]),
               float(y[cell.end_row + 1]))  # fmt: skip
        placed.append(replace(cell, box=box, ink=_print(draw, cell, box, look)))
    _rule(draw, placed, x, y, look)
    return Table(np.asarray(picture), rows, columns, tuple(placed), look)


def _refuse_overlaps(cells: Sequence[Cell], rows: int, columns: int) -> None:
    taken = np.zeros((rows, columns), int)
    for cell in cells:
        taken[cell.start_row : cell.end_row + 1, cell.start_column : cell.end_column + 1] += 1
    if (taken != 1).any():
        row, column = np.argwhere(taken != 1)[0]
        raise VergenceError(
            f"row {row}, column {column} of a table belongs to {taken[row, column]} cells, expected one"
        )


def _heads(cells: Sequence[Cell]) -> int:
    """Rows of the header."""
    return 1 + max((cell.end_row for cell in cells if cell.header), default=-1)


def _ground(draw: ImageDraw.ImageDraw, x: NDArray, y: NDArray, heads: int, look: Look) -> None:
    """Fill the ground of the header and of every second row."""
    if look.zebra:
        ground = tuple(max(level - 22, 0) for level in look.paper)
        for row in range(1, len(y) - 1, 2):
            draw.rectangle((x[0], y[row], x[-1] - 1, y[row + 1] - 1), fill=ground)
    if look.head is not None and heads:
        draw.rectangle((x[0], y[0], x[-1] - 1, y[heads] - 1), fill=look.head[0])


def _style(cell: Cell, look: Look) -> Style:
    ink = look.head[1] if cell.header and look.head is not None else look.ink
    return Style(look.bold if cell.header else look.face, look.size, ink, look.paper)


def _step(look: Look) -> int:
    return round(LEADING * look.size)


def _width(cell: Cell, look: Look) -> int:
    return max((int(np.ceil(extent(line, _style(cell, look))[0])) for line in cell.lines), default=look.size)


def _spread(wanted: Sequence[tuple[int, int, int]], count: int) -> NDArray[np.int64]:
    """Sizes of rows or columns that hold all cells (first, last, size): single ones first, then those that cover
    several, whose missing size is shared."""
    sizes = np.zeros(count, int)
    for first, last, size in sorted(wanted, key=lambda each: each[1] - each[0]):
        own = slice(first, last + 1)
        missing = size - int(sizes[own].sum())
        if missing > 0:
            share, rest = divmod(missing, last - first + 1)
            sizes[own] += share
            sizes[last] += rest
    return np.maximum(sizes, 1)


def _print(draw: ImageDraw.ImageDraw, cell: Cell, box: Box, look: Look) -> Box | None:
    """Write the lines of a cell; returns the box of their ink."""
    style, step = _style(cell, look), _step(look)
    top = box[1] + (look.padding[1] if look.top else (box[3] - box[1] - len(cell.lines) * step) / 2)
    boxes = []
    for number, line in enumerate(cell.lines):
        width, above, below = extent(line, style)
        free = box[2] - box[0] - 2 * look.padding[0] - width
        x = box[0] + look.padding[0] + {"left": 0.0, "centre": free / 2, "right": free}[cell.align]
        base = top + number * step + (step - above - below) / 2 + above
        ink = write(draw, (round(x), round(base)), line, style)
        boxes += [ink] if ink is not None else []
    if not boxes:
        return None
    left, up, right, down = zip(*boxes, strict=True)
    return (min(left), min(up), max(right), max(down))


def _rule(draw: ImageDraw.ImageDraw, cells: Sequence[Cell], x: NDArray, y: NDArray, look: Look) -> None:
    thick = max(look.size // 12, 1)
    ink = look.rule or look.ink
    if look.rules == "all":
        for cell in cells:
            draw.rectangle(cell.box, outline=ink, width=thick)
        return
    head = max(_heads(cells), 1)
    for cell in cells:
        left, top, right, bottom = cell.box
        if look.rules == "rows":
            draw.line((left, bottom, right, bottom), ink, thick)
        elif look.rules == "columns" and right < x[-1]:
            draw.line((right, top, right, bottom), ink, thick)
        elif look.rules == "book" and look.middles and cell.header and cell.end_column > cell.start_column:
            draw.line((left + look.padding[0] / 2, bottom, right - look.padding[0] / 2, bottom), ink, thick)
    if look.rules in ("rows", "book"):
        for at, width in ((y[0], 2 * thick), (y[head], thick), (y[-1], 2 * thick)):
            draw.line((x[0], at, x[-1], at), ink, width)
    elif look.rules in ("columns", "frame"):
        draw.rectangle((x[0], y[0], x[-1], y[-1]), outline=ink, width=thick)
        draw.line((x[0], y[head], x[-1], y[head]), ink, thick)
