"""A recognised table, and the files it becomes: HTML, CSV, XML, JSON, and a spreadsheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from vergence.core.files import replacing, write_json, write_table, write_text

STYLE = "table { border-collapse: collapse; font-family: sans-serif } td { border: 1px solid #999; padding: 3px 8px }"


@dataclass(frozen=True)
class TableCell:
    """A cell of a table. Rows and columns are counted from 0, and the last ones are included."""

    text: str
    """What it says."""
    box: tuple[int, int, int, int]
    """Left, top, right and bottom in pixels of the upright picture."""
    start_row: int
    """Its first row."""
    end_row: int
    """Its last row."""
    start_column: int
    """Its first column."""
    end_column: int
    """Its last column."""
    score: float = 1.0
    """From 0 to 1: how sure it is that this is a cell."""
    confidence: float = 1.0
    """From 0 to 1: how sure the reading of its text is."""

    @property
    def rowspan(self) -> int:
        return self.end_row - self.start_row + 1

    @property
    def colspan(self) -> int:
        return self.end_column - self.start_column + 1


@dataclass(frozen=True)
class RecognisedTable:
    """The structure of a table. Places without a cell are empty."""

    rows: int
    """The number of rows."""
    columns: int
    """The number of columns."""
    cells: tuple[TableCell, ...]
    """Its cells, row by row."""

    def grid(self) -> list[list[int]]:
        """The cell at each place, -1 where there is none."""
        grid = [[-1] * self.columns for _ in range(self.rows)]
        for number, cell in enumerate(self.cells):
            for row in range(cell.start_row, cell.end_row + 1):
                for column in range(cell.start_column, cell.end_column + 1):
                    grid[row][column] = number
        return grid

    def texts(self) -> list[list[str]]:
        """Rows of texts; a merged cell's text is at its first place."""
        result = [[""] * self.columns for _ in range(self.rows)]
        for cell in self.cells:
            result[cell.start_row][cell.start_column] = cell.text
        return result

    def html(self) -> str:
        """A table with rowspan and colspan."""
        lines = ["<table>"]
        for row, places in enumerate(self.grid()):
            parts = []
            for column, number in enumerate(places):
                if number < 0:
                    parts.append("<td></td>")
                    continue
                cell = self.cells[number]
                if (cell.start_row, cell.start_column) == (row, column):
                    spans = "".join(
                        f' {name}="{n}"' for name, n in (("rowspan", cell.rowspan), ("colspan", cell.colspan)) if n > 1
                    )
                    parts.append(f"<td{spans}>{escape(cell.text)}</td>")
            lines.append(f"<tr>{''.join(parts)}</tr>")
        return "\n".join([*lines, "</table>"])

    def xml(self, name: str) -> str:
        """The form of ICDAR 2013's ground truth, in pixels from the upper left corner."""
        root = ElementTree.Element("document", filename=_plain(name))
        region = ElementTree.SubElement(ElementTree.SubElement(root, "table", id="1"), "region", id="1", page="1")
        for number, cell in enumerate(self.cells):
            own = ElementTree.SubElement(region, "cell", {
                "id": str(number), "start-row": str(cell.start_row), "end-row": str(cell.end_row),
                "start-col": str(cell.start_column), "end-col": str(cell.end_column),
            })  # fmt: skip
            names = ("x1", "y1", "x2", "y2")
            ElementTree.SubElement(own, "bounding-box", dict(zip(names, map(str, cell.box), strict=True)))
            ElementTree.SubElement(own, "content").text = _plain(cell.text)
        ElementTree.indent(root)
        return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"

    def json(self, name: str) -> dict[str, Any]:
        """Cells with boxes and spans, which the layout `folder` reads again."""
        cells = [
            {"text": c.text, "box": list(c.box), "start_row": c.start_row, "end_row": c.end_row,
             "start_col": c.start_column, "end_col": c.end_column, "score": round(c.score, 4),
             "confidence": round(c.confidence, 4)}
            for c in self.cells
        ]  # fmt: skip
        return {"picture": name, "rows": self.rows, "columns": self.columns, "cells": cells}


def _plain(text: str) -> str:
    """A text without characters that XML cannot hold."""
    return "".join(c if c in "\t\n\r" or (c >= " " and not 0xD800 <= ord(c) < 0xE000) else "?" for c in text)


def write_html(path: Path, title: str, table: RecognisedTable) -> Path:
    """A page with the table."""
    head = f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>'
    write_text(path, f"{head}\n<style>{STYLE}</style></head>\n<body>\n{table.html()}\n</body>\n</html>\n")
    return path


def write_csv(path: Path, table: RecognisedTable) -> Path:
    """The texts, one line for each row."""
    texts: list[list[str]] = table.texts()
    return write_table(path, texts[0] if texts else [], texts[1:])


def write_table_json(path: Path, name: str, table: RecognisedTable, notes: Sequence[str]) -> Path:
    """The cells, and what was repaired."""
    write_json(path, table.json(name) | {"notes": list(notes)})
    return path


def write_xlsx(path: Path, table: RecognisedTable) -> Path | None:
    """A spreadsheet with merged cells; None if `openpyxl` is not installed. Texts stay texts, also those that look like
    formulas."""
    try:
        from openpyxl import Workbook
        from openpyxl.utils.exceptions import IllegalCharacterError
    except ImportError:
        return None
    book = Workbook()
    sheet = book.active
    assert sheet is not None
    for cell in table.cells:
        place = sheet.cell(cell.start_row + 1, cell.start_column + 1)
        try:
            place.value = cell.text
        except IllegalCharacterError:
            place.value = _plain(cell.text)
        place.data_type = "s"
        if cell.rowspan > 1 or cell.colspan > 1:
            sheet.merge_cells(
                start_row=cell.start_row + 1, end_row=cell.end_row + 1, start_column=cell.start_column + 1,
                end_column=cell.end_column + 1,
            )  # fmt: skip
    with replacing(path) as partial:
        book.save(partial)
    return path
