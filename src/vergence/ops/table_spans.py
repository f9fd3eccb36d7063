"""Rows and columns of cells from their relations, and spans that contradict each other made into a grid."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SURE, UNSURE = 0.25, 0.8
"""Share of the smaller extent that two cells must have in common to be in a row if the network is sure that they are,
and if it is sure that they are not; in between, the share follows the probability."""
TEXTS = -0.3
"""The first of those for boxes of texts: a title over two columns may stand between them, so that the word of a network
that is sure enough must do. (The share falls to 0 at a probability of 0.73.)"""
TOGETHER = 0.9
"""Share of the pairs of a line's cells that belong together, at least, where there is a choice."""
THIN = 0.75
"""Share of the usual extent of a line below which one goes that no cell has for itself."""
SMALLER = 0.34
"""Quantile of the sizes of cells that tells how large a line is: some cells are merged, others are cut off."""


class Grid(NamedTuple):
    """Cells on a grid, each place of which has one cell at most."""

    spans: Tensor
    """(M, 4): first row, last row, first column, last column."""
    kept: Tensor
    """(M,): which of the given cells these are."""
    joined: Tensor
    """(N,): for each given cell, the one of the M that it is a part of."""
    repairs: tuple[str, ...]
    """What was changed, one sentence each."""


def common(start: Tensor, end: Tensor) -> Tensor:
    """What two extents have in common, as a share of the smaller one: (N, N)."""
    both = (torch.minimum(end.unsqueeze(1), end) - torch.maximum(start.unsqueeze(1), start)).clamp(min=0)
    size = (end - start).clamp(min=1e-6)
    return both / torch.minimum(size.unsqueeze(1), size)


def supported(start: Tensor, end: Tensor, chance: Tensor, sure: float = SURE) -> Tensor:
    """Which cells are in a line together, (N, N): the more probable the network thinks it (N, N), the smaller the share
    of their extents that must agree. With a chance of 0 everywhere, extents decide alone."""
    return common(start, end) >= UNSURE + (sure - UNSURE) * chance


def assigned_lines(start: Tensor, end: Tensor, mates: Tensor) -> Tensor:
    """First and last line (row or column) of each cell, (N, 2), from extents (N,) along the axis and relations (N, N).

    Lines are the maximal sets of cells that share one, in the order of extents. A sweep finds them: of the cells that
    are still open, the one that ends first has in its line exactly its open mates. Those of them go on that belong to
    at least half of the cells with which the next line begins; the others end here. On exact relations of a regular
    grid, the result is the grid.
    """
    count = len(start)
    mates = (mates | mates.mT | torch.eye(count, dtype=torch.bool, device=mates.device)).cpu()
    start, end = start.cpu().double(), end.cpu().double()
    first, last = torch.full((count,), -1), torch.full((count,), -1)
    open_ = torch.ones(count, dtype=torch.bool)
    line = 0
    while bool(open_.any()):
        index = _leader(end, mates, open_)
        here = open_ & mates[index]
        first = torch.where(here & (first < 0), line, first)
        last = torch.where(here, line, last)
        rest = open_ & ~here
        if not bool(rest.any()):
            break
        near = rest & (start < end[rest].min())
        size = (end - start)[near].quantile(SMALLER, interpolation="lower")
        begin = near & (start < start[near].min() + 0.5 * size)
        goes_on = here & (mates[:, begin].double().mean(1) >= 0.5)
        goes_on[index] = False
        open_ = rest | goes_on
        line += 1
    return torch.stack([first, last], 1).to(mates.device)


def _leader(end: Tensor, mates: Tensor, open_: Tensor) -> int:
    """The open cell that ends first, unless its mates do not belong together: then it covers several lines, and what
    stands in it is short; the first of its mates whose own do belong together leads."""
    index = int(torch.where(open_, end, torch.inf).argmin())
    here = open_ & mates[index]
    if bool(mates[here][:, here].all()):
        return index
    candidates = here.nonzero().squeeze(1)
    own = (mates[candidates] & open_).float()
    dense = ((own @ mates.float()) * own).sum(1) / own.sum(1).square()
    wanted = min(TOGETHER, float(dense.max()))
    return int(candidates[torch.where(dense >= wanted, end[candidates], torch.inf).argmin()])


def without_thin(lines: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Lines (N, 2) of cells without those that no cell has for itself and whose cells have next to no extent in common:
    they come from a relation that was taken for one by mistake."""
    lines, start, end = lines.clone(), start.cpu().double(), end.cpu().double()
    line = int(lines.max()) if len(lines) else -1
    usual = float(((end - start) / (lines[:, 1] - lines[:, 0] + 1).cpu()).median()) if len(lines) else 0.0
    while line >= 0:
        here = ((lines[:, 0] <= line) & (lines[:, 1] >= line)).cpu()
        alone = bool((lines[:, 0] == lines[:, 1])[here].any())
        if not alone and float(end[here].min() - start[here].max()) < THIN * usual:
            lines[:, 0] -= (lines[:, 0] > line).long()
            lines[:, 1] -= (lines[:, 1] >= line).long()
        line -= 1
    return lines


def assigned_spans(boxes: Tensor, rows: Tensor, columns: Tensor, texts: bool = False) -> Tensor:
    """Spans (N, 4) of cells (N, 4) from the probabilities (N, N) that they share a row, and a column; ``texts`` if the
    boxes are of what stands in the cells."""
    sure = TEXTS if texts else SURE
    parts = []
    for chance, (low, high) in ((rows, (1, 3)), (columns, (0, 2))):
        start, end = boxes[:, low], boxes[:, high]
        lines = assigned_lines(start, end, supported(start, end, torch.maximum(chance, chance.mT), sure))
        parts.append(lines if texts else without_thin(lines, start, end))
    return torch.cat(parts, 1)


def repaired(spans: Tensor, scores: Tensor) -> Grid:
    """A grid from spans that may contradict each other: better cells are placed first, small ones before large ones; a
    cell whose places are taken in part shrinks to the largest rectangle that is free, and one without a free place
    becomes a part of the cell that has it. Lines without cells go."""
    count = len(spans)
    lines = [int(spans[:, k].max()) + 1 if count else 0 for k in (1, 3)]
    owner = torch.full((lines[0], lines[1]), -1)
    given = spans.cpu().tolist()
    size = [(b - a + 1) * (d - c + 1) for a, b, c, d in given]
    order = sorted(range(count), key=lambda k: (-round(float(scores[k]), 1), size[k]))
    joined, repairs = torch.full((count,), -1), list[str]()
    kept, placed = list[int](), list[list[int]]()
    for cell in order:
        span = _free(owner, given[cell])
        if span is None:
            top, bottom, left, right = given[cell]
            taken = owner[top : bottom + 1, left : right + 1].flatten()
            joined[cell] = int(taken.mode().values)
            repairs.append(f"cell {cell} became a part of cell {kept[int(joined[cell])]}, which has its place")
            continue
        if span != given[cell]:
            repairs.append(f"cell {cell} shrank from {_named(given[cell])} to {_named(span)}")
        joined[cell] = len(kept)
        owner[span[0] : span[1] + 1, span[2] : span[3] + 1] = len(kept)
        kept.append(cell)
        placed.append(span)
    result = torch.tensor(placed, dtype=torch.long).reshape(-1, 4)
    for low, high in ((0, 1), (2, 3)):
        used = result[:, [low, high]].unique()
        for side in (low, high):
            result[:, side] = torch.searchsorted(used, result[:, side].contiguous())
    return Grid(result, torch.tensor(kept, dtype=torch.long), joined, tuple(repairs))


def _named(span: list[int]) -> str:
    return f"rows {span[0]} to {span[1]}, columns {span[2]} to {span[3]}"


def _free(owner: Tensor, span: list[int]) -> list[int] | None:
    """The largest free rectangle of a span; None if there is none."""
    top, bottom, left, right = span
    free = (owner[top : bottom + 1, left : right + 1] < 0).tolist()
    if all(all(row) for row in free):
        return span
    best, area = None, 0
    for a in range(len(free)):
        run = [True] * len(free[0])
        for b in range(a, len(free)):
            run = [x and y for x, y in zip(run, free[b], strict=True)]
            length = 0
            for k, ok in enumerate([*run, False]):
                if ok:
                    length += 1
                    continue
                if length * (b - a + 1) > area:
                    area, best = length * (b - a + 1), [top + a, top + b, left + k - length, left + k - 1]
                length = 0
    return best
