"""How far compressed attention maps are from the whole map that the same queries and keys give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from vergence.core.files import replacing
from vergence.nn import SelfAttention2d
from vergence.ops import LowRank, Patches
from vergence.ops.affinity import SoftmaxAffinity
from vergence.reid.csalr.model import COMPRESSED


def compressed(kind: str, query: Tensor, key: Tensor, patches: Patches) -> LowRank:
    """The compressed map of a kind (csa, csalr, csalr-plain, nearest) for queries and keys (..., N, r)."""
    return COMPRESSED[kind].compressed(query, key, patches.mean(query), patches.mean(key), patches)


def error(kind: str, query: Tensor, key: Tensor, patches: Patches) -> float:
    """``‖A - WB‖ / ‖A‖`` (Frobenius), the mean over the leading dimensions."""
    whole = SoftmaxAffinity(query, key).dense()
    difference = whole - compressed(kind, query, key, patches).dense()
    return float((difference.flatten(-2).norm(dim=-1) / whole.flatten(-2).norm(dim=-1)).mean())


def grids(height: int, width: int) -> list[tuple[int, int]]:
    """Grids for a map, each with about half the landmarks of the one before: the longer side is halved in turn."""
    found = []
    while height * width > 1:
        height, width = (-(-height // 2), width) if height >= width else (height, -(-width // 2))
        found.append((height, width))
    return found


def errors(
    attention: SelfAttention2d, x: Tensor, grids: Sequence[tuple[int, int]]
) -> Mapping[str, list[tuple[int, float]]]:
    """For a trained module and the maps (B, C, H, W) it sees: error against the number of landmarks, by kind."""
    with torch.no_grad():
        query, key = attention.queries_and_keys(x)
        height, width = x.shape[-2:]
        fitting = [Patches(height, width, *grid) for grid in grids if grid[0] <= height and grid[1] <= width]
        return {kind: [(p.count, error(kind, query, key, p)) for p in fitting] for kind in COMPRESSED}


NAMES = {"csa": "CSA", "csalr": "CSALR", "csalr-plain": "CSALR without the indicator", "nearest": "nearest landmark"}


def draw(path: Path, found: Mapping[str, list[tuple[int, float]]]) -> Path:
    """Errors against landmarks as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.4), dpi=110, layout="constrained")
    axis = figure.subplots()
    for kind, points in found.items():
        style = "--" if kind == "nearest" else "-"
        axis.plot(*zip(*sorted(points), strict=True), style, marker="o", label=NAMES[kind])
    axis.set_xscale("log", base=2)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("landmarks")
    axis.set_ylabel("‖A − WB‖ / ‖A‖")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    with replacing(path) as partial:
        figure.savefig(partial, format="png")
    return path
