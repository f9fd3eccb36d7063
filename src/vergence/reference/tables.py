"""Tables in plain form: random grids with merged cells, and the alignment loss as a sum over pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.ops.table_relations import gridded

ENDS = ((1, 0), (3, 1), (0, 2), (2, 3))
"""Side of a box and end of a span: top and first row, bottom and last row, left and first column, right and last."""


def merged_grid(source: torch.Generator, rows: int, columns: int, share: float = 0.4) -> Tensor:
    """Spans (N, 4) of a random grid with merged cells, without lines in which no cell ends."""
    owner, spans = torch.full((rows, columns), -1), list[list[int]]()
    for row in range(rows):
        for column in range(columns):
            if owner[row, column] >= 0:
                continue
            large = torch.rand(2, generator=source) < share
            tall, wide = (1 + torch.randint(3, (2,), generator=source) * large).tolist()
            tall, wide = min(tall, rows - row), min(wide, columns - column)
            while wide > 1 and bool((owner[row, column : column + wide] >= 0).any()):
                wide -= 1
            while tall > 1 and bool((owner[row : row + tall, column : column + wide] >= 0).any()):
                tall -= 1
            owner[row : row + tall, column : column + wide] = len(spans)
            spans.append([row, row + tall - 1, column, column + wide - 1])
    result = torch.tensor(spans)
    for first, last in ((0, 1), (2, 3)):
        used = result[:, last].unique()
        for end in (first, last):
            result[:, end] = torch.searchsorted(used, result[:, end].contiguous())
    return result


def grid_boxes(spans: Tensor, height: float = 20.0, width: float = 50.0) -> Tensor:
    """Boxes of cells on a regular grid."""
    x, y = (torch.arange(int(spans[:, k].max()) + 2).double() * size for k, size in ((3, width), (1, height)))
    return gridded(x, y, spans)


def alignment_loss(boxes: Tensor, spans: Tensor, mean: bool) -> Tensor:
    """Eq. 1 of TabStruct-Net, pair by pair."""
    total = boxes.new_zeros(())
    for side, end in ENDS:
        value, pairs = boxes.new_zeros(()), 0
        for i in range(len(boxes)):
            for j in range(len(boxes)):
                if i != j and spans[i, end] == spans[j, end]:
                    value = value + (boxes[i, side] - boxes[j, side]) ** 2
                    pairs += 1
        total = total + (value / max(pairs, 1) if mean else value)
    return total
