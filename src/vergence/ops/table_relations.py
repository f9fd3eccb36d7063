"""Relations between the cells of a table: who shares a row or a column, how well borders align, and which pairs to
train on. Spans (N, 4) are first row, last row, first column, last column of each cell, counted from 0 and included.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from vergence.ops.boxes import area

Axis = Literal["rows", "columns"]
Relation = Literal["shares", "contains"]
"""Two cells belong together if they share a row, or if the rows of one are all among those of the other: the second
is the public code's, and leaves out cells that overlap in part."""
NEXT = 0.85
"""Share of the gap between two columns at which the border lies if the second is aligned to the left; if the first is
aligned to the right, the rest of it; in all other cases a half."""
EVEN = 5.0
"""Pixels within which the starts or ends of a column's texts are aligned."""


def related(spans: Tensor, axis: Axis, relation: Relation = "shares") -> Tensor:
    """Whether two cells belong to the same row, or column: (N, N) booleans. Reflexive and symmetric; not transitive,
    for a cell over two rows belongs to both."""
    first, last = spans[:, 0 if axis == "rows" else 2], spans[:, 1 if axis == "rows" else 3]
    a, b = (first.unsqueeze(1), last.unsqueeze(1)), (first.unsqueeze(0), last.unsqueeze(0))
    if relation == "shares":
        return (a[0] <= b[1]) & (b[0] <= a[1])
    return ((a[0] >= b[0]) & (a[1] <= b[1])) | ((b[0] >= a[0]) & (b[1] <= a[1]))


def alignment_loss(
    boxes: Tensor, spans: Tensor, table: Tensor | None = None, normalise: Literal["pairs"] | None = "pairs"
) -> Tensor:
    """Eq. 1 of TabStruct-Net: squared differences of the tops of cells that begin in the same row, of the bottoms of
    those that end in the same row, and so for the sides and columns.

    ``boxes`` (N, 4) are left, top, right, bottom; ``table`` (N,) keeps cells of different tables apart. Each of the
    four terms is the mean over its ordered pairs of different cells, or, with ``normalise`` = None, the plain sum of
    the paper. In closed form, the sum over pairs of a group of n is ``2 n`` times the squared deviations from its mean.
    """
    if not len(boxes):
        return boxes.sum()
    coordinates = boxes[:, [1, 3, 0, 2]]  # top, bottom, left, right, in the order of spans
    owner = torch.zeros_like(spans[:, 0]) if table is None else table
    width = int(spans.max()) + 1 if spans.device.type != "meta" else 1
    total = boxes.new_zeros(())
    for term in range(4):
        values = coordinates[:, term]
        _, group = (owner * width + spans[:, term]).unique(return_inverse=True)
        count = group.bincount().to(values.dtype)
        mean = values.new_zeros(len(count)).index_add(0, group, values) / count
        squares = values.new_zeros(len(count)).index_add(0, group, (values - mean[group]).square())
        pairs = (count * (count - 1)).sum().clamp(min=1) if normalise == "pairs" else 1
        total = total + (2 * count * squares).sum() / pairs
    return total


def sampled_pairs(mates: Tensor, count: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """Partners to train on: for each of N cells ``count`` random ones, with half of the probability on its mates
    (itself among them) and half on the others. ``mates`` is (N, N); returns cells and partners, (N count,) each.

    Where a cell has mates alone, they have the whole probability.
    """
    cells = len(mates)
    own = mates.to(torch.float32)
    with_mates, without = own.sum(1, keepdim=True), (1 - own).sum(1, keepdim=True)
    weight = own / with_mates.clamp(min=1) + (1 - own) / without.clamp(min=1)
    if generator is not None and generator.device != weight.device:
        weight = weight.to(generator.device)
    partner = weight.multinomial(count, replacement=True, generator=generator).to(mates.device)
    cell = torch.arange(cells, device=mates.device).repeat_interleave(count)
    return cell, partner.flatten()


# Aligned ground truth -------------------------------------------------------------------------------------------------


def aligned_borders(content: Tensor, spans: Tensor, padding: float = 10.0) -> tuple[Tensor, Tensor]:
    """The borders of columns (columns + 1,) and rows (rows + 1,) from the boxes of what stands in cells (N, 4); a cell
    that is empty has a box without area.

    A row reaches from the highest top of the cells that begin in it to the lowest bottom of those that end in it, and
    the gap between rows is split in the middle; a gap between columns nearer to the side that texts are aligned to.
    The outer borders are ``padding`` pixels away.
    """
    content = torch.where((area(content) > 0).unsqueeze(1), content, torch.nan)
    y = _borders(content[:, 1], content[:, 3], spans[:, 0], spans[:, 1], padding, lean=False)
    x = _borders(content[:, 0], content[:, 2], spans[:, 2], spans[:, 3], padding, lean=True)
    return x, y


def gridded(x: Tensor, y: Tensor, spans: Tensor) -> Tensor:
    """Boxes (N, 4) of cells between the borders of columns and rows."""
    return torch.stack([x[spans[:, 2]], y[spans[:, 0]], x[spans[:, 3] + 1], y[spans[:, 1] + 1]], 1)


def aligned_boxes(content: Tensor, spans: Tensor, padding: float = 10.0) -> Tensor:
    """Boxes of cells (N, 4) that touch, between the borders of :func:`aligned_borders`."""
    return gridded(*aligned_borders(content, spans, padding), spans)


def _borders(start: Tensor, end: Tensor, first: Tensor, last: Tensor, padding: float, lean: bool) -> Tensor:
    """The lines + 1 borders of rows or columns."""
    lines = int(last.max()) + 1
    low, high = start.new_full((lines,), torch.nan), start.new_full((lines,), torch.nan)
    aligned = ["centre"] * lines
    for line in range(lines):
        begins, ends = start[(first == line) & start.isfinite()], end[(last == line) & end.isfinite()]
        if len(begins):
            low[line] = begins.min()
        if len(ends):
            high[line] = ends.max()
        if lean and len(begins) and len(ends):
            even = [float(side.max() - side.min()) < EVEN for side in (begins, ends)]
            aligned[line] = {(True, False): "left", (False, True): "right"}.get((even[0], even[1]), "centre")
    borders = [low[0] - padding]
    for line in range(1, lines):
        share = NEXT if aligned[line] == "left" else 1 - NEXT if aligned[line - 1] == "right" else 0.5
        borders.append(high[line - 1] + share * (low[line] - high[line - 1]))
    borders.append(high[-1] + padding)
    return _filled(torch.stack(borders), low, high, padding)


def _filled(borders: Tensor, low: Tensor, high: Tensor, padding: float) -> Tensor:
    """Borders of lines in which no cell begins or ends: at what is known of one side, or evenly between others; and in
    rising order."""
    lines = len(low)
    for line in range(1, lines):
        if borders[line].isnan():
            known = [v for v in (high[line - 1], low[line]) if not v.isnan()]
            borders[line] = known[0] if known else borders[line]
    values = borders.tolist()
    places = [k for k, value in enumerate(values) if value == value]
    if not places:
        return torch.arange(lines + 1, device=borders.device, dtype=borders.dtype) * padding
    for k in range(lines + 1):
        if values[k] != values[k]:
            before, after = (
                max((p for p in places if p < k), default=None),
                min((p for p in places if p > k), default=None),
            )
            if before is None or after is None:
                near = before if before is not None else after
                assert near is not None
                values[k] = values[near] + padding * (k - near)
            else:
                values[k] = values[before] + (values[after] - values[before]) * (k - before) / (after - before)
    return torch.tensor(values, device=borders.device, dtype=borders.dtype).cummax(0).values
