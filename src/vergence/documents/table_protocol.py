"""How recognised tables are judged: relations, cells, spans and whole tables, averaged over tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vergence.metrics.tables import (
    Counts,
    Structure,
    bleu,
    cell_counts,
    markup,
    relation_counts,
    span_hits,
    table_tree,
    teds,
)
from vergence.ops.table_relations import related
from vergence.ops.table_spans import assigned_spans, repaired

LEVELS = (0.5, 0.7, 0.8, 0.9)
"""Overlaps of Table 5 beside the usual 0.6."""


def structured(boxes: Tensor, scores: Tensor, rows: Tensor, columns: Tensor, texts: bool = False) -> Structure:
    """A table from its cells, or their ``texts``, and their relations, with contradictions repaired."""
    if not len(boxes):
        return Structure(np.zeros((0, 4)), np.zeros((0, 4), np.int64))
    boxes = boxes.detach().float().cpu()
    grid = repaired(assigned_spans(boxes, rows.float().cpu(), columns.float().cpu(), texts), scores.float().cpu())
    return Structure(boxes[grid.kept].double().numpy(), grid.spans.numpy())


def judged(found: Structure, truth: Structure, whole: bool) -> dict[str, Any]:
    """What is counted in one table; ``whole`` tables too, which takes longer."""
    hits = span_hits(found, truth)
    row: dict[str, Any] = {
        "relations": relation_counts(found, truth),
        "cells": {level: cell_counts(found, truth, level) for level in (0.6, *LEVELS)},
        "spans": (int(hits.sum()), len(hits)),
        "merged": (int(hits[merged(truth.spans)].sum()), int(merged(truth.spans).sum())),
    }
    if whole:
        trees = [table_tree(each.spans) for each in (found, truth)]
        row |= {"teds": teds(*trees), "markup": [markup(tree) for tree in trees]}
    return row


def merged(spans: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which cells cover several rows or columns."""
    return (spans[:, 1] > spans[:, 0]) | (spans[:, 3] > spans[:, 2])


def pair_counts(chances: Sequence[Tensor], spans: Tensor, relation: Any) -> dict[str, Counts]:
    """Pairs of different cells that are said to share a row or a column: all of them, and those of a merged cell."""
    apart = ~torch.eye(len(spans), dtype=torch.bool)
    wide = torch.from_numpy(merged(spans.numpy()))
    of_merged = apart & (wide.unsqueeze(1) | wide)
    result = {}
    for name, chosen in (("pairs", apart), ("pairs_merged", of_merged)):
        right = said = true = 0
        for chance, axis in zip(chances, ("rows", "columns"), strict=True):
            mates = related(spans, axis, relation)  # type: ignore[arg-type]
            guess = chance.cpu() > 0.5
            right += int((guess & mates & chosen).sum())
            said += int((guess & chosen).sum())
            true += int((mates & chosen).sum())
        result[name] = Counts(right, said, true)
    return result


def summed(counts: Iterable[Counts]) -> Counts:
    """Counts over all tables."""
    every = list(counts)
    return Counts(*(sum(column) for column in zip(*every, strict=True))) if every else Counts(0, 0, 0)


def averaged(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Metrics in per cent: precision, recall and F1 of relations averaged over tables, the others over cells."""
    relations = [row["relations"] for row in rows]
    mean = {
        "f1": np.mean([c.f1() for c in relations]), "precision": np.mean([c.precision() for c in relations]),
        "recall": np.mean([c.recall() for c in relations]), "f1_micro": summed(relations).f1(),
    }  # fmt: skip
    cells = {level: summed(row["cells"][level] for row in rows).f1() for level in (0.6, *LEVELS)}
    mean |= {"cells": cells[0.6]} | {f"cells{round(100 * level)}": cells[level] for level in LEVELS}
    for name in ("spans", "merged"):
        hits, total = (sum(row[name][k] for row in rows) for k in (0, 1))
        mean[name] = hits / total if total else np.nan
    for name in ("pairs", "pairs_merged"):
        if all(name in row for row in rows):
            mean[name] = summed(row[name] for row in rows).f1()
    if all("teds" in row for row in rows):
        mean["teds"] = np.mean([row["teds"] for row in rows])
        mean["bleu"] = bleu([row["markup"][0] for row in rows], [row["markup"][1] for row in rows])
    return {name: 100 * float(value) for name, value in mean.items()}
