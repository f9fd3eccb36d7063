"""How well the structure of a table is recognised: adjacency relations (ICDAR 2013), cells, spans, TEDS and BLEU.

Spans (N, 4) are first row, last row, first column, last column, from 0 and included. Cells of two tables correspond by
the overlap of their boxes, not by text, which may repeat.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vergence.metrics.reading import edit_distance
from vergence.metrics.trees import Node, tree_distance

Array = NDArray[np.float64]
Spans = NDArray[np.int64]
RIGHT, DOWN = 0, 1
OVERLAP = 0.6
"""Intersection over union from which a cell counts as found."""


class Counts(NamedTuple):
    """What is right, what was predicted, and what is there."""

    right: int
    predicted: int
    true: int

    def precision(self) -> float:
        return self.right / self.predicted if self.predicted else float(not self.true)

    def recall(self) -> float:
        return self.right / self.true if self.true else float(not self.predicted)

    def f1(self) -> float:
        whole = self.predicted + self.true
        return 2 * self.right / whole if whole else 1.0


class Structure(NamedTuple):
    """The cells of a table that are not empty."""

    boxes: Array
    """(N, 4): left, top, right, bottom."""
    spans: Spans
    """(N, 4)."""


def grid_of(spans: Spans) -> Spans:
    """The cell at each place of the grid, -1 where there is none; of cells that overlap, the last."""
    if not len(spans):
        return np.zeros((0, 0), np.int64)
    grid = np.full((spans[:, 1].max() + 1, spans[:, 3].max() + 1), -1)
    for number, (top, bottom, left, right) in enumerate(spans):
        grid[top : bottom + 1, left : right + 1] = number
    return grid


def relations(spans: Spans) -> set[tuple[int, int, int]]:
    """Neighbours (cell, cell, direction) to the right and below, across places without a cell."""
    grid, found = grid_of(spans), set[tuple[int, int, int]]()
    for direction, lines in ((RIGHT, grid), (DOWN, grid.T)):
        for line in lines:
            cells = line[line >= 0]
            found.update((int(a), int(b), direction) for a, b in pairwise(cells) if a != b)
    return found


def corresponding(found: Array, truth: Array, overlap: float = OVERLAP) -> Spans:
    """For each found box the true one that it stands for, -1 for none: pairs by falling overlap, each box once."""
    match = np.full(len(found), -1)
    if not len(found) or not len(truth):
        return match
    low = np.maximum(found[:, None, :2], truth[None, :, :2])
    high = np.minimum(found[:, None, 2:], truth[None, :, 2:])
    both = np.prod(np.clip(high - low, 0, None), -1)
    sizes = [np.prod(np.clip(b[:, 2:] - b[:, :2], 0, None), -1) for b in (found, truth)]
    iou = both / np.maximum(sizes[0][:, None] + sizes[1] - both, 1e-12)
    rows, columns = np.nonzero(iou >= overlap)
    taken = np.zeros(len(truth), bool)
    for k in np.argsort(-iou[rows, columns], kind="stable"):
        if match[rows[k]] < 0 and not taken[columns[k]]:
            match[rows[k]], taken[columns[k]] = columns[k], True
    return match


def cell_counts(found: Structure, truth: Structure, overlap: float = OVERLAP) -> Counts:
    """Cells that are found."""
    return Counts(int((corresponding(found.boxes, truth.boxes, overlap) >= 0).sum()), len(found.boxes),
                  len(truth.boxes))  # fmt: skip


def relation_counts(found: Structure, truth: Structure, overlap: float = OVERLAP) -> Counts:
    """Adjacency relations whose two cells are found and are neighbours in that direction in truth, too."""
    match = corresponding(found.boxes, truth.boxes, overlap)
    mine, theirs = relations(found.spans), relations(truth.spans)
    right = sum((int(match[a]), int(match[b]), way) in theirs for a, b, way in mine if match[a] >= 0 <= match[b])
    return Counts(right, len(mine), len(theirs))


def span_hits(found: Structure, truth: Structure, overlap: float = OVERLAP) -> NDArray[np.bool_]:
    """(N,) true cells that are found with exactly their rows and columns."""
    match = corresponding(found.boxes, truth.boxes, overlap)
    hits = np.zeros(len(truth.boxes), bool)
    for own, other in enumerate(match):
        if other >= 0:
            hits[other] = bool((found.spans[own] == truth.spans[other]).all())
    return hits


# Whole tables ---------------------------------------------------------------------------------------------------------


def table_tree(spans: Spans, texts: Sequence[str] = ()) -> Node:
    """A table as HTML has it: rows of cells with spans and texts; places without a cell are empty cells."""
    grid, rows = grid_of(spans), []
    for row, line in enumerate(grid):
        cells = []
        for column, number in enumerate(line):
            if number < 0:
                cells.append(Node(("td", 1, 1, "")))
                continue
            top, bottom, left, right = (int(v) for v in spans[number])
            if (top, left) == (row, column):
                text = texts[number] if len(texts) else ""
                cells.append(Node(("td", right - left + 1, bottom - top + 1, text)))
        rows.append(Node(("tr", 0, 0, ""), tuple(cells)))
    return Node(("table", 0, 0, ""), (Node(("tbody", 0, 0, ""), tuple(rows)),))


def _rename(first: tuple[str, int, int, str], second: tuple[str, int, int, str]) -> float:
    if first[:3] != second[:3]:
        return 1.0
    if first[3] == second[3]:
        return 0.0
    return edit_distance(first[3], second[3]) / max(len(first[3]), len(second[3]))


def teds(found: Node, truth: Node) -> float:
    """Similarity of two tables by the edit distance of their trees (Zhong et al., 2020): 1 for equal ones. A cell costs
    1 if its spans differ, else the normalised edit distance of its text. As in the public code, the root is not counted
    in the size of a tree."""
    size = max(found.size(), truth.size()) - 1
    return 1.0 - tree_distance(found, truth, _rename) / max(size, 1)


def markup(tree: Node) -> list[str]:
    """The tags of a table, one token each, as TableBank compares them."""
    tag, wide, tall, _ = tree.label
    if tag == "td":
        spans = "".join(f' {name}="{n}"' for name, n in (("rowspan", tall), ("colspan", wide)) if n > 1)
        return [f"<td{spans}>", "</td>"]
    return [f"<{tag}>", *(token for child in tree.children for token in markup(child)), f"</{tag}>"]


def bleu(found: Sequence[Sequence[str]], truth: Sequence[Sequence[str]], order: int = 4) -> float:
    """BLEU of token sequences with one reference each: the geometric mean of the precisions of 1- to 4-grams over all,
    times the penalty of brevity."""
    right, total = [0] * order, [0] * order
    for mine, theirs in zip(found, truth, strict=True):
        for n in range(1, order + 1):
            ours, known = _grams(mine, n), _grams(theirs, n)
            right[n - 1] += sum(min(count, known[gram]) for gram, count in ours.items())
            total[n - 1] += sum(ours.values())
    if min(right) == 0:
        return 0.0
    length, wanted = sum(map(len, found)), sum(map(len, truth))
    penalty = min(1.0, math.exp(1 - wanted / length))
    return penalty * math.exp(sum(math.log(r / t) for r, t in zip(right, total, strict=True)) / order)


def _grams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[k : k + n]) for k in range(len(tokens) - n + 1))
