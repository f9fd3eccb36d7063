"""Pictures of tracks: success and precision plots, overlaps over time, attributes, and animated strips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from vergence.core.files import replacing
from vergence.drawing.figure import BLUE, ORANGE, colours, figure, saved
from vergence.tracking.boxes import Array
from vergence.tracking.crops import Frame
from vergence.tracking.metrics import DISTANCES, OVERLAPS, Pass

TRUTH = "#ffffff"


def plots(path: Path, passes: Mapping[str, Mapping[str, Sequence[Pass]]]) -> Path:
    """OTB's success and precision plots: one row per data set, one line per tracker."""
    drawn = figure(8.4, 3.1 * len(passes))
    rows = drawn.subplots(len(passes), 2, squeeze=False)
    for (title, lines), (left, right) in zip(passes.items(), rows, strict=True):
        for colour, (name, tracked) in zip(colours(len(lines)), lines.items(), strict=True):
            judged = [p for p in tracked if p.judged]
            success, precision = (np.mean([getattr(p, kind) for p in judged], 0) for kind in ("success", "precision"))
            left.plot(OVERLAPS, 100 * success, color=colour, label=f"{name} [{100 * success.mean():.1f}]")
            right.plot(DISTANCES, 100 * precision, color=colour, label=f"{name} [{100 * precision[20]:.1f}]")
        left.set(
            xlabel="overlap above", ylabel="frames, %", title=f"{title}: success [AUC]", xlim=(0, 1), ylim=(0, 102)
        )
        right.set(xlabel="centre within, pixels", title=f"{title}: precision [at 20]", xlim=(0, 50), ylim=(0, 102))
        for axis in (left, right):
            axis.grid(alpha=0.3)
            axis.legend(fontsize=7)
    return saved(drawn, path)


def attributes(path: Path, scores: Mapping[str, Mapping[str, tuple[int, float, float]]]) -> Path:
    """A table of success AUC by attribute (rows) and tracker (columns); the best of each row in bold."""
    names = list(dict.fromkeys(name for rows in scores.values() for name in rows))
    cells, best = [], []
    for name in names:
        values = [rows[name][1] if name in rows else float("nan") for rows in scores.values()]
        count = next(rows[name][0] for rows in scores.values() if name in rows)
        cells.append([str(count), *(f"{v:.1f}" for v in values)])
        best.append(int(np.nanargmax(values)))
    columns = ["sequences", *scores]
    drawn = figure(2.2 + 1.7 * len(columns), 0.5 + 0.3 * (len(names) + 1))
    axis = drawn.subplots()
    axis.set_axis_off()
    axis.set_title("success AUC by attribute, %", fontsize=10)
    cell = axis.table(cells, rowLabels=names, colLabels=columns, loc="center", cellLoc="center", edges="horizontal")
    cell.auto_set_font_size(False)
    cell.set_fontsize(8)
    for row, column in enumerate(best):
        cell[row + 1, column + 1].get_text().set_fontweight("bold")
    return saved(drawn, path, tight=True)


def over_time(path: Path, overlaps: Mapping[str, Array], title: str = "") -> Path:
    """The overlap of every frame, one line per tracker, with its mean after the first frame."""
    drawn = figure(8, 3, 120)
    axis = drawn.subplots()
    for colour, (name, values) in zip(colours(len(overlaps)), overlaps.items(), strict=True):
        axis.plot(values, color=colour, linewidth=1.2, label=f"{name} [{np.nanmean(values[1:]):.2f}]")
    axis.set(xlabel="frame", ylabel="overlap", ylim=(-0.02, 1.02), title=title)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return saved(drawn, path)


def shifts(path: Path, given: Array, moved: Mapping[str, tuple[Array, Array]]) -> Path:
    """Figure 1: shift of the target against shift of the response, along both axes; one panel per tracker."""
    drawn = figure(3.1 * len(moved), 3.2)
    for axis, (name, (x, y)) in zip(drawn.subplots(1, len(moved), squeeze=False)[0], moved.items(), strict=True):
        ends = [given.min(), given.max()]
        axis.plot(ends, ends, color="#999999", linewidth=0.8)
        axis.plot(given, x, ".", color=BLUE, markersize=4, label="along x")
        axis.plot(given, y, ".", color=ORANGE, markersize=4, label="along y")
        axis.set(xlabel="shift in, pixels", ylabel="shift out, pixels", title=name, aspect="equal")
        axis.title.set_fontsize(9)
        axis.legend(fontsize=7)
        axis.grid(alpha=0.3)
    return saved(drawn, path)


def boxed(frame: Frame, boxes: Mapping[str, Array], title: str = "", height: int = 200) -> Image.Image:
    """A frame ``height`` pixels high with boxes by name, the first in white, and a title."""
    share = height / frame.shape[0]
    picture = Image.fromarray(frame).resize((max(round(frame.shape[1] * share), 1), height), Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(picture)
    for colour, (x, y, w, h) in zip((TRUTH, *colours(len(boxes))), boxes.values(), strict=False):
        if np.isfinite([x, y, w, h]).all():
            draw.rectangle([v * share for v in (x, y, x + max(w, 0), y + max(h, 0))], outline=colour, width=2)
    if title:
        draw.rectangle((0, 0, draw.textlength(title) + 6, 13), fill="#222222")
        draw.text((3, 1), title, fill="#ffffff")
    return picture


def strip(path: Path, rows: Sequence[Sequence[Image.Image]], rate: float = 8.0) -> Path:
    """Writes an animated GIF of pictures side by side, one row per moment."""
    moments = []
    for row in rows:
        whole = Image.new(
            "RGB", (sum(p.width for p in row) + 4 * (len(row) - 1), max(p.height for p in row)), "#222222"
        )
        left = 0
        for picture in row:
            whole.paste(picture, (left, 0))
            left += picture.width + 4
        moments.append(whole)
    with replacing(path) as partial:
        first, *later = moments
        first.save(partial, format="GIF", save_all=True, append_images=later, duration=round(1000 / rate), loop=0)
    return path
