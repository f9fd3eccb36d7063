"""A user's pictures of tables: cells found, put into rows and columns, read, and written as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.core.files import write_text
from vergence.documents.page import read_upright
from vergence.documents.table_files import (
    RecognisedTable,
    TableCell,
    write_csv,
    write_html,
    write_table_json,
    write_xlsx,
)
from vergence.documents.table_ink import Sheet, enclosed, grown, parted, uncovered, upright
from vergence.documents.table_letters import cell_letters
from vergence.documents.table_text import read_cells
from vergence.documents.tables import MULTIPLE, as_ink, as_rgb, resized_by
from vergence.documents.tabstruct.model import TabStructNet
from vergence.documents.tabstruct.pictures import overlay, several
from vergence.documents.tabstruct.settings import Config, Inputs
from vergence.nn.rcnn import batched
from vergence.ops.table_spans import Grid, assigned_spans, repaired

Ctx = Context[Config, NoFacts]
LARGEST = 2.0
"""Pictures are resized to at most this many times the longer side of training."""
GROWTH = 3.0
"""Pictures are enlarged by at most this factor."""
BYTES_PER_PIXEL = 2_000
"""Memory of the network per pixel of its input, about, for the published size."""
TOO_MANY = 2_400
"""Cells of a table, as in the paper."""


@dataclass(frozen=True, eq=False)
class Tables(Result):
    """Tables recognised in pictures."""

    names: tuple[str, ...]
    """The pictures' names."""
    tables: tuple[RecognisedTable, ...]
    """The table of each picture."""
    skew: tuple[float, ...]
    """Degrees by which each picture was turned upright, anticlockwise."""
    repairs: tuple[tuple[str, ...], ...]
    """What was changed in each table because cells contradicted each other."""
    upright: tuple[Tensor, ...]
    """The pictures as they were read, bytes (3, H, W) each."""
    note: str
    """What is missing; empty if nothing is."""

    def summary(self) -> Mapping[str, Any]:
        shown = {}
        for name, table, repairs in zip(self.names, self.tables, self.repairs, strict=True):
            merged = sum(c.rowspan > 1 or c.colspan > 1 for c in table.cells)
            text = (
                f"{several(table.rows, 'row')}, {several(table.columns, 'column')}, {several(len(table.cells), 'cell')}"
            )
            text += f", {merged} of them merged" if len(table.cells) > 1 else ""
            shown[name] = text + (f", {several(len(repairs), 'repair')}" if repairs else "")
        return {**shown, **({"note": self.note} if self.note else {})}


# Recognition ----------------------------------------------------------------------------------------------------------


def tables_of(ctx: Ctx, model: TabStructNet, inputs: Inputs) -> Tables:
    """The tables of all pictures."""
    sheets = [upright(read_upright(path), inputs.deskew if not inputs.cells else 0.0) for path in inputs.images]
    structures = [_structure(ctx, model, sheet, inputs) for sheet in ctx.progress.track(sheets, "tables")]
    crops = [cell_letters(sheet, boxes) for sheet, (boxes, _, _) in zip(sheets, structures, strict=True)]
    texts, note = read_cells(ctx, crops, [sheet.em for sheet in sheets], inputs.text)
    tables = []
    for (boxes, scores, grid), read in zip(structures, texts, strict=True):
        cells = [
            TableCell(text.text, (box[0], box[1], box[2], box[3]), span[0], span[1], span[2], span[3], score,
                      text.confidence)
            for text, box, span, score in zip(read, np.round(boxes).astype(int).tolist(), grid.spans.tolist(),
                                              scores.tolist(), strict=True)
        ]  # fmt: skip
        cells.sort(key=lambda cell: (cell.start_row, cell.start_column))
        lines = (grid.spans.amax(0) + 1).tolist() if len(grid.spans) else [0, 0, 0, 0]
        tables.append(RecognisedTable(lines[1], lines[3], tuple(cells)))
    empty = [path.name for path, table in zip(inputs.images, tables, strict=True) if not table.cells]
    notes = [f"no cells found in {', '.join(empty)}"] if empty else []
    return Tables(
        tuple(path.name for path in inputs.images), tuple(tables), tuple(sheet.skew for sheet in sheets),
        tuple(grid.repairs for _, _, grid in structures), tuple(sheet.picture for sheet in sheets),
        "; ".join([*notes, *([note] if note else [])]),
    )  # fmt: skip


def _structure(ctx: Ctx, model: TabStructNet, sheet: Sheet, inputs: Inputs) -> tuple[NDArray[np.float64], Tensor, Grid]:
    """Boxes (M, 4) in pixels of the sheet, scores (M,) and the grid of a table's cells."""
    share = _share(ctx.config, sheet, inputs)
    pixels = sheet.picture.shape[-1] * sheet.picture.shape[-2] * share**2
    ctx.need(BYTES_PER_PIXEL * pixels * model.config.channels / 256, f"a picture of {pixels / 1e6:.1f} million pixels")
    values = as_ink(sheet.picture) if model.config.pixels == "ink" else as_rgb(sheet.picture)
    pictures, sizes = batched([resized_by(values, share)], MULTIPLE)
    pictures, sizes = ctx.to_device(pictures), ctx.to_device(sizes)
    factor = np.array([sizes[0, 1].item() / sheet.picture.shape[-1], sizes[0, 0].item() / sheet.picture.shape[-2]] * 2)
    with ctx.autocast():
        if inputs.cells:
            boxes = _given(inputs, sheet)
            scores = torch.ones(len(boxes))
        elif model.detector is None:
            raise VergenceError("these weights have no detector: boxes of cells must be given (--cells)")
        else:
            found = model.detections(model.maps(pictures), sizes)[0]
            kept = found.scores >= inputs.score
            boxes = found.boxes[kept].float().cpu().double().numpy() / factor
            scores = found.scores[kept].float().cpu()
            if inputs.assist == "ink":
                boxes, scores = _assisted(sheet, boxes, scores)
        if len(boxes) > TOO_MANY:
            raise VergenceError(f"a table has at most {TOO_MANY} cells, got {len(boxes)}")
        given = torch.from_numpy(boxes * factor).to(pictures)
        result = model.recognise(pictures, sizes, [given])[0]
    chances = result.rows.double().cpu(), result.columns.double().cpu()
    texts = bool(inputs.cells) and ctx.config.data.given == "content"
    grid = repaired(assigned_spans(torch.from_numpy(boxes), *chances, texts), scores)
    merged = _joined(boxes, grid)
    return (merged if inputs.cells else _snapped(merged, grid.spans)), scores[grid.kept], grid


def _share(config: Config, sheet: Sheet, inputs: Inputs) -> float:
    """The factor by which a picture is resized for the network: fonts get the size of training, if it has one."""
    longest = max(sheet.picture.shape[-2:])
    if not config.data.em or not sheet.em:
        return min(config.data.longest / longest, GROWTH)
    return min(config.data.em / sheet.em, LARGEST * config.data.longest / longest, GROWTH)


def _given(inputs: Inputs, sheet: Sheet) -> NDArray[np.float64]:
    height, width = sheet.picture.shape[-2:]
    boxes = np.array([(b.x, b.y, b.x + b.width, b.y + b.height) for b in inputs.cells], np.float64)
    if not np.isfinite(boxes).all() or (boxes[:, 2:] <= boxes[:, :2]).any():
        raise VergenceError("boxes of cells are left,top,width,height in pixels, with widths and heights above 0")
    outside = (boxes[:, 0] >= width) | (boxes[:, 1] >= height) | (boxes[:, 2] <= 0) | (boxes[:, 3] <= 0)
    if outside.any():
        number = int(outside.argmax())
        raise VergenceError(
            f"box {number + 1} of the cells lies outside {inputs.images[0].name}, which is {width} x {height} pixels"
        )
    return boxes


def _assisted(sheet: Sheet, boxes: NDArray[np.float64], scores: Tensor) -> tuple[NDArray[np.float64], Tensor]:
    """Detections, parted by the lines that cross them, that have letters of their own, with all of those that they cut,
    and texts that none covers. What has lines on all sides reaches as far as they do."""
    boxes, numbers = parted(sheet, boxes)
    scores = scores[torch.from_numpy(numbers)]
    large, letters = grown(sheet, boxes)
    boxes, scores = large[letters > 0], scores[torch.from_numpy(letters > 0)]
    more = uncovered(sheet, boxes)
    boxes, more = enclosed(sheet, boxes), enclosed(sheet, more)
    return np.concatenate([boxes, more]), torch.cat([scores, torch.zeros(len(more))])


def _joined(boxes: NDArray[np.float64], grid: Grid) -> NDArray[np.float64]:
    """Boxes of the cells of a grid, which contain those that became a part of them."""
    owner = grid.joined.numpy()
    result = boxes[grid.kept.numpy()].copy()
    for number, box in zip(owner, boxes, strict=True):
        result[number, :2] = np.minimum(result[number, :2], box[:2])
        result[number, 2:] = np.maximum(result[number, 2:], box[2:])
    return result


def _snapped(boxes: NDArray[np.float64], spans: Tensor) -> NDArray[np.float64]:
    """Boxes whose borders are those of their rows and columns: medians over the cells that begin or end there."""
    result, where = boxes.copy(), spans.numpy()
    for first, last, low, high in ((0, 1, 1, 3), (2, 3, 0, 2)):
        for line in range(int(where[:, last].max()) + 2 if len(where) else 0):
            begins, ends = where[:, first] == line, where[:, last] == line - 1
            if begins.any() or ends.any():
                border = np.median(np.concatenate([boxes[begins, low], boxes[ends, high]]))
                result[begins, low] = border
                result[ends, high] = border
    result[:, 2:] = np.maximum(result[:, 2:], result[:, :2] + 1)
    return result


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Tables) -> Sequence[Artifact]:
    """Writes every table as HTML, CSV, JSON, XML and a spreadsheet, and draws its rows and columns."""
    drawn, files = list[Artifact](), list[Artifact]()
    for number, (name, table) in enumerate(zip(result.names, result.tables, strict=True)):
        stem = Path(name).stem if len(result.names) == 1 else f"{number + 1:03d}-{Path(name).stem}"
        own = ctx.folder / f"{stem}-structure.png"
        drawn.append(Artifact("image", overlay(own, result.upright[number], table), f"Rows and columns of {name}."))
        page = write_html(ctx.folder / f"{stem}.html", name, table)
        files.append(Artifact("html", page, f"The table of {name} with rowspan and colspan."))
        files.append(Artifact("table", write_csv(ctx.folder / f"{stem}.csv", table), "Its texts, row by row."))
        spans = write_table_json(ctx.folder / f"{stem}.json", name, table, result.repairs[number])
        files.append(Artifact("json", spans, "Its cells with boxes and spans, and what was repaired."))
        write_text(ctx.folder / f"{stem}.xml", table.xml(name))
        files.append(Artifact("text", ctx.folder / f"{stem}.xml", "The same in the form of ICDAR 2013."))
        sheet = write_xlsx(ctx.folder / f"{stem}.xlsx", table)
        if sheet is not None:
            files.append(Artifact("table", sheet, "A spreadsheet with merged cells."))
    return [*drawn, *files]
