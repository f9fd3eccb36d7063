"""Rendered tables with their exact structure: cells with spans, boxes of cells and of what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from vergence.core.errors import VergenceError
from vergence.rendering.documents import text as texts
from vergence.rendering.documents.fonts import HELD_OUT, TRAINING, Face, covers
from vergence.rendering.documents.typeset import Box, Style, extent, write
from vergence.rendering.things import choice, uniform

Rules = Literal["all", "rows", "book", "none"]
"""Lines: around every cell, between rows, above and below the header and at the end (as in books), or none."""
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
class Table:
    """A table as a picture, with its structure."""

    image: NDArray[np.uint8]
    """(H, W, 3)."""
    rows: int
    columns: int
    cells: tuple[Cell, ...]


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
    ink: tuple[int, int, int] = (0, 0, 0)
    paper: tuple[int, int, int] = (255, 255, 255)


# Structure ------------------------------------------------------------------------------------------------------------

Maker = Callable[[torch.Generator], str]
COLUMNS: tuple[tuple[Maker, Align], ...] = (
    (texts.integer, "right"), (texts.decimal, "right"), (texts.amount, "right"), (texts.date, "centre"),
    (texts.measure, "right"), (texts.code, "left"), (lambda s: texts.phrase(s, 1, 3), "left"),
)  # fmt: skip


def random_cells(source: torch.Generator, rows: int, columns: int) -> tuple[Cell, ...]:
    """A random structure: a header of one row, or of two with titles over several columns; a first column of labels,
    of which some cover several rows; columns of one kind each; some empty cells and some of several lines."""
    if rows < 2 or columns < 2:
        raise VergenceError(f"a table has 2 rows and 2 columns or more, got {rows} and {columns}")
    cells: list[Cell] = []
    kinds = [COLUMNS[choice(source, len(COLUMNS))] for _ in range(columns)]
    deep = 2 if rows > 3 and columns > 2 and choice(source, 2) else 1
    if deep == 2:
        cells += _grouped_header(source, columns)
    else:
        cells += [Cell(_heading(source), 0, 0, n, n, True, "centre") for n in range(columns)]
    row = deep
    while row < rows:
        tall = min(2 + choice(source, 2), rows - row) if rows - row > 1 and choice(source, 6) == 0 else 1
        cells.append(Cell(_wrapped(texts.phrase(source, 1, 4), source), row, row + tall - 1, 0, 0))
        for own in range(row, row + tall):
            column = 1
            while column < columns:
                wide = 2 if column < columns - 1 and choice(source, 25) == 0 else 1
                make, align = kinds[column]
                lines = () if choice(source, 14) == 0 else _wrapped(make(source), source)
                cells.append(Cell(lines, own, own, column, column + wide - 1, False, "centre" if wide > 1 else align))
                column += wide
        row += tall
    return tuple(cells)


def _heading(source: torch.Generator) -> tuple[str, ...]:
    return _wrapped(" ".join(texts.word(source).capitalize() for _ in range(1 + choice(source, 2))), source)


def _grouped_header(source: torch.Generator, columns: int) -> list[Cell]:
    """Two rows: the label column and some others cover both; titles over 2 to 3 columns, each with its own below."""
    cells, column = [Cell(_heading(source), 0, 1, 0, 0, True, "left")], 1
    while column < columns:
        wide = min(2 + choice(source, 2), columns - column) if choice(source, 3) else 1
        if wide == 1:
            cells.append(Cell(_heading(source), 0, 1, column, column, True, "centre"))
        else:
            cells.append(Cell(_heading(source), 0, 0, column, column + wide - 1, True, "centre"))
            cells += [Cell(_heading(source), 1, 1, column + n, column + n, True, "centre") for n in range(wide)]
        column += wide
    return cells


def _wrapped(phrase: str, source: torch.Generator) -> tuple[str, ...]:
    """A text in one line, or in two if it has several words; a number stays with its unit."""
    parts = phrase.split()
    if len(parts) < 2 or any(part[0].isdigit() for part in parts[:2]) or choice(source, 3):
        return (phrase,)
    middle = (len(parts) + 1) // 2
    return (" ".join(parts[:middle]), " ".join(parts[middle:]))


# Layout and drawing ---------------------------------------------------------------------------------------------------


def random_look(source: torch.Generator, text: str, held_out: bool = False) -> Look:
    """A family of faces that has all characters of a text, lines, distances and colours."""
    faces = [face for face in (HELD_OUT if held_out else TRAINING) if covers(face, text) and not face.italic]
    plain = [face for face in faces if not face.bold]
    face = plain[choice(source, len(plain))]
    heavy = [other for other in faces if other.bold and other.kind == face.kind] or [face]
    rules: tuple[Rules, ...] = ("all", "rows", "book", "none")
    dark = int(uniform(source, 0, 70))
    return Look(
        face, heavy[choice(source, len(heavy))], 13 + choice(source, 12), rules[choice(source, 4)],
        (5 + choice(source, 14), 2 + choice(source, 8)), 6 + choice(source, 30), choice(source, 5) == 0,
        (dark, dark, dark), (255, 255, 255 - choice(source, 25)),
    )  # fmt: skip


def typeset(cells: Sequence[Cell], look: Look) -> Table:
    """Lay cells out on a grid that is as small as their texts allow, and draw them."""
    rows, columns = 1 + max(c.end_row for c in cells), 1 + max(c.end_column for c in cells)
    _refuse_overlaps(cells, rows, columns)
    (side, above), step = look.padding, _step(look)
    widths = _spread([(c.start_column, c.end_column, _width(c, look) + 2 * side) for c in cells], columns)
    heights = _spread([(c.start_row, c.end_row, len(c.lines) * step + 2 * above) for c in cells], rows)
    x = look.margin + np.concatenate([[0], np.cumsum(widths)])
    y = look.margin + np.concatenate([[0], np.cumsum(heights)])
    picture = Image.new("RGB", (int(x[-1]) + look.margin, int(y[-1]) + look.margin), look.paper)
    draw = ImageDraw.Draw(picture)
    if look.zebra:
        ground = tuple(max(level - 22, 0) for level in look.paper)
        for row in range(1, rows, 2):
            draw.rectangle((x[0], y[row], x[-1] - 1, y[row + 1] - 1), fill=ground)
    placed = []
    for cell in cells:
        box = (float(x[cell.start_column]), float(y[cell.start_row]), float(x[cell.end_column + 1]),
               float(y[cell.end_row + 1]))  # fmt: skip
        placed.append(replace(cell, box=box, ink=_print(draw, cell, box, look)))
    _rule(draw, placed, x, y, look)
    return Table(np.asarray(picture), rows, columns, tuple(placed))


def random_table(source: torch.Generator, most: tuple[int, int] = (12, 7), held_out: bool = False) -> Table:
    """A random table of 3 rows and 2 columns to ``most``."""
    cells = random_cells(source, 3 + choice(source, most[0] - 2), 2 + choice(source, most[1] - 1))
    return typeset(cells, random_look(source, "".join(cell.text for cell in cells), held_out))


def _refuse_overlaps(cells: Sequence[Cell], rows: int, columns: int) -> None:
    taken = np.zeros((rows, columns), int)
    for cell in cells:
        taken[cell.start_row : cell.end_row + 1, cell.start_column : cell.end_column + 1] += 1
    if (taken != 1).any():
        row, column = np.argwhere(taken != 1)[0]
        raise VergenceError(
            f"row {row}, column {column} of a table belongs to {taken[row, column]} cells, expected one"
        )


def _style(cell: Cell, look: Look) -> Style:
    return Style(look.bold if cell.header else look.face, look.size, look.ink, look.paper)


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
    """Write the lines of a cell, centred vertically; returns the box of their ink."""
    style, step = _style(cell, look), _step(look)
    top = box[1] + (box[3] - box[1] - len(cell.lines) * step) / 2
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
    if look.rules == "all":
        for cell in cells:
            draw.rectangle(cell.box, outline=look.ink, width=thick)
        return
    head = 1 + max((cell.end_row for cell in cells if cell.header), default=0)
    if look.rules == "rows":
        for cell in cells:
            draw.line((cell.box[0], cell.box[3], cell.box[2], cell.box[3]), look.ink, thick)
    if look.rules in ("rows", "book"):
        for at, width in ((y[0], 2 * thick), (y[head], thick), (y[-1], 2 * thick)):
            draw.line((x[0], at, x[-1], at), look.ink, width)
