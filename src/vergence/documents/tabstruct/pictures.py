"""Pictures: rows and columns in colours, and what several networks make of the same table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.core.files import replacing
from vergence.documents.table_files import RecognisedTable, TableCell
from vergence.documents.table_protocol import structured
from vergence.documents.tables import Fitted, collated
from vergence.documents.tabstruct.model import TabStructNet
from vergence.documents.tabstruct.settings import SETTINGS
from vergence.metrics.tables import Structure, relation_counts
from vergence.rendering.documents.fonts import Face, opened

COLOURS = ((228, 26, 28), (55, 126, 184), (77, 175, 74), (152, 78, 163), (255, 127, 0), (166, 86, 40), (0, 150, 150))
FACE = Face("DejaVuSans-Bold", "sans", bold=True)
LEAST = 640
"""Smaller pictures are enlarged to this longer side before they are drawn on."""
GAP = 12


def painted(picture: Tensor, cells: Sequence[TableCell], axis: str) -> Image.Image:
    """A picture with its cells filled by the colour of their row or column; a merged cell has the colours of all."""
    page = Image.fromarray(picture.expand(3, -1, -1).permute(1, 2, 0).numpy()).convert("RGBA")
    times = max(-(-LEAST // max(page.size)), 1)
    page = page.resize((page.width * times, page.height * times), Image.Resampling.BICUBIC)
    over = Image.new("RGBA", page.size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(over)
    for cell in cells:
        left, top, right, bottom = (times * v for v in cell.box)
        first, last = (cell.start_row, cell.end_row) if axis == "rows" else (cell.start_column, cell.end_column)
        lines = range(first, last + 1)
        for place, line in enumerate(lines):
            colour = COLOURS[line % len(COLOURS)]
            low, high = place / len(lines), (place + 1) / len(lines)
            part: tuple[float, float, float, float] = (
                (left, top + (bottom - top) * low, right, top + (bottom - top) * high)
                if axis == "rows"
                else (left + (right - left) * low, top, left + (right - left) * high, bottom)
            )
            draw.rectangle(_ordered(part), fill=(*colour, 70))
        draw.rectangle(_ordered((left, top, right - 1, bottom - 1)), outline=(40, 40, 40, 255),
                       width=3 if len(lines) > 1 else 1)  # fmt: skip
    return Image.alpha_composite(page, over).convert("RGB")


def _ordered(box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    return box[0], box[1], max(box[2], box[0]), max(box[3], box[1])


def several(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def overlay(path: Path, picture: Tensor, table: RecognisedTable) -> Path:
    """Rows and columns of a table, one above the other, or side by side if it is tall."""
    parts = [painted(picture, table.cells, axis) for axis in ("rows", "columns")]
    titles = (several(table.rows, "row"), several(table.columns, "column"))
    return save(path, _sheet([[part] for part in parts] if parts[0].width >= parts[0].height else [parts], titles))


def _sheet(rows: Sequence[Sequence[Image.Image]], titles: Sequence[str] = ()) -> Image.Image:
    """Pictures in rows, with titles above them."""
    size = max(max(max(p.size) for row in rows for p in row) // 44, 13)
    head = round(1.7 * size) if titles else 0
    widths = [max(row[k].width for row in rows if k < len(row)) for k in range(max(map(len, rows)))]
    heights = [max(p.height for p in row) + head for row in rows]
    sheet = Image.new("RGB", (sum(widths) + GAP * (len(widths) + 1), sum(heights) + GAP * (len(rows) + 1)), "white")
    draw, named = ImageDraw.Draw(sheet), iter(titles)
    y = GAP
    for row, height in zip(rows, heights, strict=True):
        x = GAP
        for part, width in zip(row, widths, strict=False):
            title = next(named, "")
            if title:
                draw.text((x, y), title, (30, 30, 30), opened(FACE, size))
            sheet.paste(part, (x, y + head))
            x += width + GAP
        y += height + GAP
    return sheet


def save(path: Path, picture: Image.Image) -> Path:
    """Write a picture as PNG, atomically."""
    with replacing(path) as partial:
        picture.save(partial, "PNG", optimize=True)
    return path


# Held-out data --------------------------------------------------------------------------------------------------------


def as_cells(structure: Structure) -> list[TableCell]:
    """Cells without texts."""
    rows = zip(np.round(structure.boxes).astype(int).tolist(), structure.spans.tolist(), strict=True)
    return [TableCell("", (b[0], b[1], b[2], b[3]), *span) for b, span in rows]


def compared(
    ctx: Context[Any, Any], models: Mapping[str, TabStructNet], data: Fitted, shown: int = 3
) -> Sequence[Artifact]:
    """Held-out tables with the rows that each network finds, and the true ones."""
    rows, titles = [], list[str]()
    for index in range(min(shown, len(data))):
        batch = ctx.to_device(collated([data[index]]))
        table = batch.tables[0]
        picture = (255 * (1 - batch.pictures[0, :1].float().cpu()).clamp(0, 1)).to(torch.uint8)
        height, width = batch.sizes[0].tolist()
        picture = picture[:, :height, :width]
        given = ctx.config.data.given
        own = table.content if given == "content" else table.cells
        truth = Structure(own.double().cpu().numpy(), table.spans.cpu().numpy())
        row = [painted(picture, as_cells(truth), "rows")]
        titles.append("truth")
        for name, model in models.items():
            needs = None if given == "nothing" else [own]
            found = structured(*model.recognise(batch.pictures, batch.sizes, needs)[0], given == "content")
            row.append(painted(picture, as_cells(found), "rows"))
            titles.append(f"{SETTINGS.label(name)}: F1 {100 * relation_counts(found, truth).f1():.0f}")
        rows.append([part.resize((part.width // 2, part.height // 2)) for part in row])
    path = save(ctx.folder / "rows.png", _sheet(rows, titles))
    return [Artifact("image", path, "Held-out tables: rows in colours, as they are and as each network finds them.")]
