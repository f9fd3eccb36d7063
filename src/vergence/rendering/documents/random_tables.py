"""Random tables: structures with headers, merged cells, sections, empty cells and cells of several lines, and their
looks, from books to spreadsheets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from vergence.core.errors import VergenceError
from vergence.rendering.documents import text as texts
from vergence.rendering.documents.fonts import HELD_OUT, TRAINING, Face, covers
from vergence.rendering.documents.tables import Align, Cell, Look, Rules, Table, typeset
from vergence.rendering.things import choice, uniform

Maker = Callable[[torch.Generator], str]
RULES: tuple[Rules, ...] = ("all", "all", "rows", "book", "book", "none", "none", "columns", "frame")
GROUNDS = ((225, 225, 225), (210, 224, 240), (60, 90, 140), (45, 45, 50), (220, 235, 215), (68, 114, 196))
"""Of headers; on dark ones the ink is white."""


def _small(source: torch.Generator) -> str:
    return str(choice(source, 100))


def _mark(source: torch.Generator) -> str:
    return ("yes", "no", "-", "n/a", "x", "+", "A", "B")[choice(source, 8)]


def _share(source: torch.Generator) -> str:
    return f"{uniform(source, 0, 100):.1f}%"


def _pair(source: torch.Generator) -> str:
    return f"{uniform(source, 0, 10):.2f} ({uniform(source, 0, 1):.2f})"


def _words(source: torch.Generator) -> str:
    return " ".join(texts.word(source) for _ in range(2 + choice(source, 8)))


KINDS: tuple[tuple[Maker, Align], ...] = (
    (texts.integer, "right"), (texts.decimal, "right"), (texts.amount, "right"), (texts.date, "centre"),
    (texts.measure, "right"), (texts.code, "left"), (lambda s: texts.phrase(s, 1, 3), "left"), (_small, "centre"),
    (_mark, "centre"), (_share, "right"), (_pair, "centre"), (_words, "left"), (texts.word, "left"),
)  # fmt: skip


class Habits(NamedTuple):
    """What is alike in all cells of a table."""

    wrap: int = 60
    """Characters of a line, about."""
    empty: float = 0.07
    """Share of empty cells."""
    tall: float = 0.16
    """Share of labels that cover several rows."""
    wide: float = 0.04
    """Share of cells that cover two columns."""
    sections: float = 0.0
    """Share of rows that are one title over all columns."""


def random_habits(source: torch.Generator, look: Look | None = None) -> Habits:
    """Habits that can be seen in a look: sections over all columns need lines, or else they look like a label."""
    ruled = look is None or look.rules in ("all", "rows")
    return Habits(
        (60, 24, 16, 12)[choice(source, 4)], (0.0, 0.05, 0.1, 0.3)[choice(source, 4)],
        (0.0, 0.15, 0.3)[choice(source, 3)] if look is None or not look.top else 0.0,
        (0.0, 0.04, 0.08)[choice(source, 3)], 0.12 if ruled and choice(source, 4) == 0 else 0.0,
    )  # fmt: skip


def random_cells(source: torch.Generator, rows: int, columns: int, habits: Habits = Habits()) -> tuple[Cell, ...]:
    """A random structure: a header of one row, or of two with titles over several columns; a first column of labels,
    of which some cover several rows; columns of one kind each; some empty cells and some of several lines."""
    if rows < 2 or columns < 2:
        raise VergenceError(f"a table has 2 rows and 2 columns or more, got {rows} and {columns}")
    kinds = [KINDS[choice(source, len(KINDS))] for _ in range(columns)]
    centred = choice(source, 4) == 0
    kinds = [(make, "centre" if centred else align) for make, align in kinds]
    deep = 2 if rows > 3 and columns > 2 and choice(source, 2) else 1
    heading: Align = ("centre", "centre", "left")[choice(source, 3)]
    cells = _grouped_header(source, columns, heading) if deep == 2 else [
        Cell(_heading(source), 0, 0, n, n, True, heading) for n in range(columns)
    ]  # fmt: skip
    row = deep
    while row < rows:
        if row < rows - 1 and uniform(source, 0, 1) < habits.sections:
            title = " ".join(texts.word(source).capitalize() for _ in range(1 + choice(source, 3)))
            cells.append(Cell((title,), row, row, 0, columns - 1, False, ("left", "centre")[choice(source, 2)]))
            row += 1
            continue
        tall = min(2 + choice(source, 3), rows - row) if uniform(source, 0, 1) < habits.tall else 1
        cells.append(Cell(_wrapped(texts.phrase(source, 1, 4), habits.wrap), row, row + tall - 1, 0, 0))
        for own in range(row, row + tall):
            cells += _body(source, own, columns, kinds, habits)
        row += tall
    return tuple(cells)


def _body(
    source: torch.Generator, row: int, columns: int, kinds: Sequence[tuple[Maker, Align]], habits: Habits
) -> list[Cell]:
    """The cells of a row but for its label. A wide cell is not empty, for nothing would tell it from two."""
    cells, column = [], 1
    while column < columns:
        wide = 2 if column < columns - 1 and uniform(source, 0, 1) < habits.wide else 1
        make, align = kinds[column]
        empty = wide == 1 and uniform(source, 0, 1) < habits.empty
        lines = () if empty else _wrapped(make(source), habits.wrap)
        cells.append(Cell(lines, row, row, column, column + wide - 1, False, "centre" if wide > 1 else align))
        column += wide
    return cells


def _heading(source: torch.Generator) -> tuple[str, ...]:
    words = [texts.word(source).capitalize() for _ in range(1 + choice(source, 2))]
    return tuple(words) if len(words) == 2 and choice(source, 3) == 0 else (" ".join(words),)


def _grouped_header(source: torch.Generator, columns: int, align: Align) -> list[Cell]:
    """Two rows: the label column and some others cover both; titles over 2 to 3 columns, each with its own below."""
    cells, column = [Cell(_heading(source), 0, 1, 0, 0, True, "left")], 1
    while column < columns:
        wide = min(2 + choice(source, 3), columns - column) if choice(source, 3) else 1
        if wide == 1:
            cells.append(Cell(_heading(source), 0, 1, column, column, True, align))
        else:
            cells.append(Cell(_heading(source), 0, 0, column, column + wide - 1, True, "centre"))
            cells += [Cell(_heading(source), 1, 1, column + n, column + n, True, align) for n in range(wide)]
        column += wide
    return cells


def _wrapped(phrase: str, most: int) -> tuple[str, ...]:
    """A text in lines of about ``most`` characters; a number stays with what follows it."""
    lines: list[str] = []
    for part in phrase.split():
        room = lines and len(lines[-1]) + 1 + len(part) <= most
        if lines and (room or lines[-1].rsplit(" ", 1)[-1][:1].isdigit()):
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return tuple(lines)


# Looks ----------------------------------------------------------------------------------------------------------------


def random_look(source: torch.Generator, faces: Sequence[Face], sizes: tuple[int, int] = (13, 24)) -> Look:
    """Faces of ``sizes`` pixels per em, lines, distances and colours."""
    face, heavy = _faces(source, faces)
    dark, size = int(uniform(source, 0, 70)), sizes[0] + choice(source, sizes[1] - sizes[0] + 1)
    rules = RULES[choice(source, len(RULES))]
    ground = GROUNDS[choice(source, len(GROUNDS))] if choice(source, 4) == 0 else None
    light = 60 + choice(source, 140)
    tight = (max(round(uniform(source, 0.3, 1.2) * size), 4), max(round(uniform(source, 0.1, 0.55) * size), 1))
    caption = " ".join(texts.word(source) for _ in range(3 + choice(source, 6))) if choice(source, 9) == 0 else ""
    return Look(
        face, heavy if choice(source, 4) else face, size, rules, tight,
        4 + choice(source, 32), choice(source, 6) == 0, (dark, dark, dark), (255, 255, 255 - choice(source, 25)),
        (light, light, light) if choice(source, 3) == 0 else None,
        None if ground is None else (ground, (255, 255, 255) if sum(ground) < 400 else (dark, dark, dark)),
        uniform(source, 1.0, 1.6) if choice(source, 3) == 0 else 1.0, choice(source, 5) == 0, bool(choice(source, 2)),
        caption,
    )  # fmt: skip


def _faces(source: torch.Generator, faces: Sequence[Face]) -> tuple[Face, Face]:
    """A face, and a bold one of its kind if there is any."""
    plain = [face for face in faces if not face.bold and not face.italic]
    face = plain[choice(source, len(plain))]
    heavy = [other for other in faces if other.bold and other.kind == face.kind and not other.italic] or [face]
    return face, heavy[choice(source, len(heavy))]


def random_table(
    source: torch.Generator,
    most: tuple[int, int] = (12, 7),
    held_out: bool = False,
    least: tuple[int, int] = (3, 2),
    faces: Sequence[Face] = (),
    sizes: tuple[int, int] = (13, 24),
) -> Table:
    """A random table of ``least`` to ``most`` rows and columns, in faces of training, in held-out ones, or in these."""
    every = tuple(faces) or (HELD_OUT if held_out else TRAINING)
    look = random_look(source, every, sizes)
    rows, columns = (low + choice(source, high - low + 1) for low, high in zip(least, most, strict=True))
    cells = random_cells(source, rows, columns, random_habits(source, look))
    text = "".join(cell.text for cell in cells) + look.caption
    if not (covers(look.face, text) and covers(look.bold, text)):
        fitting = [face for face in every if covers(face, text)] or list(TRAINING)
        face, heavy = _faces(source, fitting)
        look = replace(look, face=face, bold=heavy)
    return typeset(cells, look)
