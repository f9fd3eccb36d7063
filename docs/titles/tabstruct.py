"""A skewed, noisy scan of a table that Matplotlib drew: its rows, its columns, and the table that it becomes."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageFilter

import vergence
from titles.canvas import INK, TEXT, Canvas, badge, quarters
from vergence.documents.table_files import RecognisedTable
from vergence.documents.tabstruct.pictures import painted

CAPTION = (
    "A skewed, blurred and noisy scan of a table (drawn by Matplotlib, in a font that training does not have) becomes "
    "a table again: its rows and columns in colours, merged cells with a thick frame, and what is in the spreadsheet "
    "that is written. The network of 0.47 million weights comes with the system and was trained on rendered tables."
)
ROWS = (
    ("Route", "Winter", None, "Summer", None),
    ("^", "trains", "riders", "trains", "riders"),
    ("Harbour", "112", "48,200", "140", "71,950"),
    ("Old town", "96", "35,410", "120", "52,300"),
    ("Airport", "64", "28,775", "88", "61,040"),
    ("Hill line", "18", "4,120", "36", "9,860"),
)
X, STEP = (0.04, 0.27, 0.45, 0.62, 0.80, 0.96), 0.14


def spans() -> list[tuple[str, int, int, int, int]]:
    """Texts with first and last rows and columns: None continues to the left, ^ continues above."""
    found = []
    for row, line in enumerate(ROWS):
        for column, text in enumerate(line):
            if text is None or text == "^":
                continue
            right = column + 1 < len(line) and line[column + 1] is None
            down = row + 1 < len(ROWS) and ROWS[row + 1][column] == "^"
            found.append((text, row, row + down, column, column + right))
    return found


def page(width: int = 900, height: int = 560) -> Image.Image:
    """The table as it might stand in a report."""
    figure = Figure(figsize=(width / 150, height / 150), dpi=150)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(1, 0))
    axes.set_axis_off()
    top = (1 - STEP * len(ROWS)) / 2
    for text, first, last, left, right in spans():
        y = top + STEP * (first + last + 1) / 2
        x, side = (X[0] + 0.015, "left") if left == 0 else ((X[left] + X[right + 1]) / 2, "center")
        axes.text(x, y, text, ha=side, va="center", fontsize=13, family="cmss10", math_fontfamily="cm")
    for row, thick in ((0, 1.8), (2, 0.9), (len(ROWS), 1.8)):
        axes.plot([X[0], X[-1]], [top + STEP * row] * 2, "k", lw=thick)
    for left, right in ((1, 3), (3, 5)):
        axes.plot([X[left] + 0.015, X[right] - 0.015], [top + STEP] * 2, "k", lw=0.7)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return Image.open(buffer).convert("L")


def scan(degrees: float = 2.2) -> Image.Image:
    """A bad scan of the page."""
    source = np.random.default_rng(0)
    turned = page().rotate(degrees, Image.Resampling.BICUBIC, fillcolor=255).filter(ImageFilter.GaussianBlur(0.9))
    values = np.asarray(turned).astype(float) * 0.84 + 20
    values *= 1 - 0.22 * np.linspace(0, 1, values.shape[1])
    return Image.fromarray((values + source.normal(0, 6, values.shape)).clip(0, 255).astype(np.uint8))


def spreadsheet(axes: Axes, table: RecognisedTable) -> None:
    """The recognised table as a spreadsheet shows it."""
    axes.set(xlim=(-0.35, table.columns), ylim=(table.rows, -0.55))
    axes.set_axis_off()
    for column in range(table.columns):
        axes.text(column + 0.5, -0.28, "ABCDEFGHIJ"[column % 10], ha="center", va="center", fontsize=15, color="#667")
    for row in range(table.rows):
        axes.text(-0.18, row + 0.5, str(row + 1), ha="center", va="center", fontsize=15, color="#667")
    for row, line in enumerate(table.grid()):
        for column, number in enumerate(line):
            if number < 0:
                axes.add_patch(_box(column, row, 1, 1, "white"))
    for cell in table.cells:
        merged = cell.rowspan > 1 or cell.colspan > 1
        axes.add_patch(
            _box(cell.start_column, cell.start_row, cell.colspan, cell.rowspan, "#dfeaf6" if merged else "white")
        )
        axes.text(cell.start_column + cell.colspan / 2, cell.start_row + cell.rowspan / 2, cell.text, ha="center",
                  va="center", fontsize=14, color=INK, clip_on=True)  # fmt: skip


def _box(x: float, y: float, width: float, height: float, colour: str):
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), width, height, facecolor=colour, edgecolor="#99a", lw=1.2)


def draw(path: Path) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scan.png"
        picture = scan()
        picture.save(file)
        result = vergence.load("tabstruct").predict(images=file)
    (table,) = result.tables
    canvas, places = Canvas(), quarters()
    badge(canvas.picture(np.asarray(picture.convert("RGB")), *places[0]), "a scan", size=TEXT * 0.8)
    for place, axis, count in ((places[1], "rows", table.rows), (places[2], "columns", table.columns)):
        shown = np.asarray(painted(result.upright[0], table.cells, axis))
        badge(canvas.picture(shown, *place), f"{count} {axis}", size=TEXT * 0.8)
    spreadsheet(canvas.axes(*places[3]), table)
    return canvas.save(path)
