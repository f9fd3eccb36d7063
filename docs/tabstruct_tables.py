"""Tables drawn in other ways than those that tabstruct's starter weights were trained on, and what becomes of them.

    python docs/tabstruct_tables.py [FOLDER]    draws the tables, recognises them, and prints a row for each

Matplotlib's own tables, tables as on web pages, in spreadsheets, invoices, bank statements and papers, on a dark
ground, and scans of some of them. Fonts are Liberation, Roboto and Open Sans where they are installed, else
Matplotlib's. With a folder, the pictures of rows and columns are kept there.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageDraw, ImageFilter, ImageFont

import vergence
from vergence.metrics.reading import character_error
from vergence.metrics.tables import table_tree, teds

FONTS = (Path("/usr/share/fonts/truetype"), Path(matplotlib.get_data_path()) / "fonts" / "ttf")
SANS = ("liberation/LiberationSans-Regular.ttf", "liberation/LiberationSans-Bold.ttf")
SERIF = ("liberation/LiberationSerif-Regular.ttf", "liberation/LiberationSerif-Bold.ttf")
ROBOTO = tuple(f"roboto/unhinted/RobotoTTF/Roboto-{weight}.ttf" for weight in ("Regular", "Bold"))
OPEN = tuple(f"open-sans/OpenSans-{weight}.ttf" for weight in ("Regular", "Bold"))
Rows = Sequence[Sequence[str | None]]
"""Texts; None continues the cell to the left, ^ the one above, and an empty text is an empty cell."""


class Drawn(NamedTuple):
    """A picture, and spans and texts of the cells that are not empty."""

    picture: Image.Image
    spans: list[tuple[int, int, int, int]]
    texts: list[str]

    @classmethod
    def of(cls, picture: Image.Image, rows: Rows) -> Drawn:
        filled = [cell for cell in cells(rows) if cell[0]]
        return cls(picture, [cell[1:] for cell in filled], [cell[0].replace("\n", " ") for cell in filled])


def cells(rows: Rows) -> list[tuple[str, int, int, int, int]]:
    """Texts with first and last rows and columns."""
    found = []
    for row, line in enumerate(rows):
        for column, text in enumerate(line):
            if text is None or text == "^":
                continue
            last, below = column, row
            while last + 1 < len(line) and line[last + 1] is None:
                last += 1
            while below + 1 < len(rows) and rows[below + 1][column] == "^":
                below += 1
            found.append((text, row, below, column, last))
    return found


def font(name: str, size: int) -> ImageFont.FreeTypeFont:
    own = FONTS[0] / name
    return ImageFont.truetype(str(own if own.exists() else FONTS[1] / "cmss10.ttf"), size)


def drawn(
    rows: Rows, faces: Sequence[str], size: int, widths: Sequence[int], heights: Sequence[int], align: str,
    heads: int = 1, grid: tuple[int, ...] | None = None, between: tuple[int, ...] | None = None,
    ground: tuple[int, ...] | None = None, paper: tuple[int, int, int] = (255, 255, 255),
    ink: tuple[int, int, int] = (20, 20, 20), rules: Sequence[tuple[int, int]] = (),
) -> Drawn:  # fmt: skip
    """A table with Pillow: columns and rows of given sizes, aligned to the left, centre or right."""
    x, y = np.cumsum([20, *widths]), np.cumsum([16, *heights])
    picture = Image.new("RGB", (int(x[-1]) + 20, int(y[-1]) + 16), paper)
    pen = ImageDraw.Draw(picture)
    if ground is not None:
        pen.rectangle((x[0], y[0], x[-1], y[heads]), fill=ground)
    for text, top, bottom, left, right in cells(rows):
        box = (x[left], y[top], x[right + 1], y[bottom + 1])
        if grid is not None:
            pen.rectangle(box, outline=grid)
        face, lines = font(faces[top < heads], size), text.split("\n")
        for number, line in enumerate(lines):
            wide = face.getlength(line)
            place = {"l": box[0] + 8, "r": box[2] - 8 - wide, "c": (box[0] + box[2] - wide) / 2}
            at = (box[1] + box[3] - 1.3 * size * len(lines)) / 2 + 1.3 * size * number + 0.1 * size
            pen.text((place[align[left] if left == right else "c"], at), line, ink, face)
    for row in range(1, len(rows)) if between is not None else ():
        pen.line((x[0], y[row], x[-1], y[row]), fill=between)
    for row, thick in rules:
        pen.line((x[0], y[row], x[-1], y[row]), fill=ink, width=thick)
    return Drawn.of(picture, rows)


def plotted(draw: Callable[[Figure], None], width: float, height: float, dpi: int) -> Image.Image:
    """A picture by Matplotlib."""
    figure = Figure(figsize=(width, height), dpi=dpi)
    draw(figure)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return Image.open(buffer).convert("RGB")


def plot_table(**colours: list[str]) -> Drawn:
    """`Axes.table` with labels of rows and columns."""
    source = np.random.default_rng(3)
    columns, labels = ["2018", "2019", "2020", "2021"], ["Freeze", "Wind", "Flood", "Quake", "Hail"]
    values = [[f"{v:.1f}" for v in row] for row in source.uniform(5, 70, (5, 4))]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.table(cellText=values, rowLabels=labels, colLabels=columns, loc="center", **colours).scale(1, 1.4)

    rows = [["", *columns], *([label, *row] for label, row in zip(labels, values, strict=True))]
    return Drawn.of(plotted(draw, 6.4, 2.4, 110), rows)


def book() -> Drawn:
    """A table as LaTeX's booktabs sets it, in Computer Modern."""
    rows = [["Dataset", "Training", None, "Test", None], ["^", "images", "boxes", "images", "boxes"],
            ["Streets", "2,975", "52,100", "500", "10,200"], ["Rooms", "10,335", "64,595", "2,860", "17,900"],
            ["Aerial", "1,411", "98,990", "458", "28,853"],
            ["Maritime", "8,930", "30,411", "1,547", "5,200"]]  # fmt: skip
    x, step = (0.05, 0.3, 0.47, 0.64, 0.81, 0.97), 0.145

    def draw(figure: Figure) -> None:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, 1), ylim=(1, 0))
        axes.set_axis_off()
        for text, top, bottom, left, right in cells(rows):
            at, side = (x[0] + 0.01, "left") if left == 0 else ((x[left] + x[right + 1]) / 2, "center")
            axes.text(at, 0.08 + step * (top + bottom + 1) / 2, text, ha=side, va="center", fontsize=12, family="cmr10")
        for row, thick, left, right in ((0, 1.6, 0, 5), (2, 0.8, 0, 5), (6, 1.6, 0, 5), (1, 0.6, 1, 3), (1, 0.6, 3, 5)):
            axes.plot([x[left] + 0.01, x[right] - 0.01], [0.08 + step * row] * 2, "k", lw=thick)

    return Drawn.of(plotted(draw, 6.2, 2.6, 120), rows)


def scanned(table: Drawn, degrees: float, blur: float, scale: float, noise: float) -> Drawn:
    """A bad scan: enlarged, turned, blurred, lit from one side, noisy, and saved as JPEG."""
    source = np.random.default_rng(0)
    grey = table.picture.convert("L")
    grey = grey.resize((int(grey.width * scale), int(grey.height * scale)), Image.Resampling.BICUBIC)
    grey = grey.rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=250)
    values = np.asarray(grey.filter(ImageFilter.GaussianBlur(blur))).astype(float) * 0.85 + 18
    values = values * (1 - 0.25 * np.linspace(0, 1, values.shape[1])) + source.normal(0, noise, values.shape)
    buffer = io.BytesIO()
    Image.fromarray(values.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=55)
    return table._replace(picture=Image.open(buffer).convert("RGB"))


def tables() -> dict[str, Drawn]:
    """All of them by name."""
    source = np.random.default_rng(3)
    wiki = drawn(
        [["Country", "Capital", "Population\n(millions)", "Area (km²)", "Joined"],
         ["Austria", "Vienna", "9.1", "83,879", "1995"], ["Belgium", "Brussels", "11.7", "30,528", "1958"],
         ["Bulgaria", "Sofia", "6.4", "110,994", "2007"], ["Croatia", "Zagreb", "3.9", "56,594", "2013"],
         ["Cyprus", "Nicosia", "0.9", "9,251", "2004"], ["Czechia", "Prague", "10.9", "78,866", "2004"]],
        SANS, 14, [110, 100, 110, 110, 80], [42, *[27] * 6], "llrrc", grid=(162, 169, 177), ground=(234, 236, 240),
    )  # fmt: skip
    sheet = drawn(
        [["Item", "Q1", "Q2", "Q3", "Q4", "Total"], ["Revenue", "1,204", "1,388", "1,410", "1,602", "5,604"],
         ["Cost of goods", "640", "702", "715", "790", "2,847"], ["Gross profit", "564", "686", "695", "812", "2,757"],
         ["Marketing", "120", "", "135", "150", "405"], ["Research", "88", "92", "95", "101", "376"],
         ["Net", "356", "594", "465", "561", "1,976"]],
        ROBOTO, 13, [130, 70, 70, 70, 70, 80], [22] * 7, "lrrrrr", grid=(212, 212, 212),
    )  # fmt: skip
    invoice = drawn(
        [["Pos", "Description", "Qty", "Unit price", "Amount"],
         ["1", "Site inspection and report,\nincluding travel", "2", "140.00", "280.00"],
         ["2", "Replacement pump, model K-220", "1", "1,250.00", "1,250.00"],
         ["3", "Labour, two technicians", "6", "85.00", "510.00"],
         ["4", "Disposal of the old unit", "1", "60.00", "60.00"],
         ["Total", None, None, None, "2,100.00"]],
        OPEN, 14, [50, 300, 60, 110, 110], [30, 50, 30, 30, 30, 30], "llrrr", between=(200, 200, 200),
    )  # fmt: skip
    dark = drawn(
        [["Model", "Params", "Top-1", "Latency"], ["ResNet-50", "25.6 M", "76.1", "12 ms"],
         ["ViT-S/16", "22.1 M", "79.8", "15 ms"], ["ConvNeXt-T", "28.6 M", "82.1", "14 ms"],
         ["Swin-T", "28.3 M", "81.3", "18 ms"]],
        ROBOTO, 15, [130, 100, 80, 90], [30] * 5, "lrrr", between=(70, 70, 75), paper=(30, 30, 34), ink=(225, 225, 225),
    )  # fmt: skip
    numbers = drawn(
        [["Station", *(f"{hour:02d}:00" for hour in range(6, 16))],
         *([f"Site {k}", *(f"{v:.1f}" for v in source.normal(15, 6, 10))] for k in range(1, 25))],
        SERIF, 15, [90, *[62] * 10], [24] * 25, "l" + "r" * 10, rules=((0, 2), (1, 1), (25, 2)),
    )  # fmt: skip
    bank = drawn(
        [["Date", "Details", "Debit", "Credit", "Balance"], ["01 Mar", "Opening balance", "", "", "1,520.40"],
         ["03 Mar", "Rent", "900.00", "", "620.40"], ["05 Mar", "Salary", "", "2,850.00", "3,470.40"],
         ["09 Mar", "Groceries", "84.15", "", "3,386.25"], ["12 Mar", "Electricity", "61.20", "", "3,325.05"],
         ["20 Mar", "Transfer from savings", "", "300.00", "3,625.05"]],
        SANS, 15, [90, 220, 90, 90, 100], [28] * 7, "llrrr",
    )  # fmt: skip
    paper = drawn(
        [["Method", "Set A", None, "Set B", None, "Time"], ["^", "Acc.", "F1", "Acc.", "F1", "^"],
         ["Baseline", "71.2", "68.0", "64.5", "60.1", "1.0"], ["+ attention", "74.8", "71.9", "67.0", "63.3", "1.4"],
         ["+ pretraining", "79.1", "77.5", "72.4", "69.8", "1.4"], ["Ours", "82.3", "80.6", "75.9", "73.2", "1.6"]],
        SERIF, 17, [140, *[80] * 5], [30] * 6, "lccccc", 2, rules=((0, 2), (2, 1), (6, 2)),
    )  # fmt: skip
    groups = drawn(
        [["Region", "Office", "Staff", "Open since"], ["North", "Bergen", "14", "1998"], ["^", "Oslo", "52", "1985"],
         ["^", "Tromsø", "6", "2011"], ["South", "Rome", "23", "2001"], ["^", "Seville", "9", "2016"]],
        SANS, 15, [110, 120, 80, 110], [28] * 6, "clrc", grid=(0, 0, 0),
    )  # fmt: skip
    booktabs = book()
    return {
        "Matplotlib's table": plot_table(),
        "Matplotlib's table, coloured": plot_table(rowColours=["#cde"] * 5, colColours=["#ffd"] * 4),
        "booktabs, Computer Modern": booktabs, "booktabs, Times-like": paper, "web page": wiki, "spreadsheet": sheet,
        "invoice, rows ruled": invoice, "dark mode": dark, "25 x 11 numbers": numbers, "bank statement, no lines": bank,
        "labels over several rows": groups, "scan of booktabs": scanned(booktabs, 1.7, 0.9, 1.4, 7),
        "scan of the web page": scanned(wiki, -1.1, 1.0, 1.6, 7),
        "scan of the statement": scanned(bank, 0.8, 0.8, 1.3, 9),
        "scan of the labels": scanned(groups, -2.4, 1.2, 1.5, 7),
    }  # fmt: skip


def reading(table: Drawn, found: Any) -> float:
    """Character errors in percent, over the texts of all cells; a cell that does not begin where it should has none."""
    read = {(cell.start_row, cell.start_column): cell.text for cell in found.cells}
    return character_error([read.get((span[0], span[2]), "") for span in table.spans], table.texts)


def main() -> None:
    model, folder = vergence.load("tabstruct"), Path(sys.argv[1]) if len(sys.argv) > 1 else None
    columns = (
        "table",
        "rows x columns",
        "found",
        "TEDS, structure",
        "all spans right",
        "network alone",
        "letters wrong, %",
    )
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    means = [[], [], []]
    for name, table in tables().items():
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "table.png"
            table.picture.save(file)
            results = [model.predict(images=file), model.predict(images=file, text="none", assist="none")]
            if folder is not None:
                results[0].save(folder / name.replace(" ", "-").replace(",", "").replace("'", ""))
        truth = np.array(table.spans)
        shape = [truth[:, k].max() + 1 for k in (1, 3)]
        spans = [np.array([(c.start_row, c.end_row, c.start_column, c.end_column) for c in result.tables[0].cells])
                 for result in results]  # fmt: skip
        scores = [100 * teds(table_tree(own.reshape(-1, 4)), table_tree(truth)) for own in spans]
        right = sorted(map(tuple, spans[0].tolist())) == sorted(table.spans)
        found = results[0].tables[0]
        scores.append(reading(table, found))
        for mean, score in zip(means, scores, strict=True):
            mean.append(score)
        print(f"| {name} | {shape[0]} x {shape[1]} | {found.rows} x {found.columns} | {scores[0]:.1f} | "
              f"{'yes' if right else 'no'} | {scores[1]:.1f} | {scores[2]:.1f} |")  # fmt: skip
    print(f"| mean | | | {np.mean(means[0]):.1f} | | {np.mean(means[1]):.1f} | {np.mean(means[2]):.1f} |")


if __name__ == "__main__":
    main()
