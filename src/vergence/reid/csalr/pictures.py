"""Pictures of reports: ranked lists of each variant, and compressed attention maps compared with the full ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.data.images import fitted
from vergence.drawing.figure import colours, figure, saved
from vergence.drawing.grid import Panel, grid, heated
from vergence.metrics.ranking import distances
from vergence.nn import SelfAttention2d
from vergence.nn.probe import cells
from vergence.ops import LowRank, Patches
from vergence.ops.affinity import SoftmaxAffinity
from vergence.reid import page
from vergence.reid.csalr.model import COMPRESSED, PartNetwork, attended
from vergence.reid.csalr.settings import Config, Facts
from vergence.reid.data import Viewed, judged

Ctx = Context[Config, Facts]
DOWN = [(0.5, 0.15), (0.5, 0.4), (0.5, 0.75)]
"""Three points down the middle of a picture, as fractions of its sides: usually head, top and legs."""
NAMES = {"csa": "CSA", "csalr": "CSALR", "csalr-plain": "CSALR without the indicator", "nearest": "nearest landmark"}


# Errors of compressed maps --------------------------------------------------------------------------------------------


def compressed(kind: str, query: Tensor, key: Tensor, patches: Patches) -> LowRank:
    """The compressed attention map (kind: csa, csalr, csalr-plain, nearest) of queries and keys (..., N, r)."""
    return COMPRESSED[kind].compressed(query, key, patches.mean(query), patches.mean(key), patches)


def error(kind: str, query: Tensor, key: Tensor, patches: Patches) -> float:
    """Relative error ``‖A - WB‖ / ‖A‖`` (Frobenius), averaged over the leading dimensions."""
    whole = SoftmaxAffinity(query, key).dense()
    difference = whole - compressed(kind, query, key, patches).dense()
    return float((difference.flatten(-2).norm(dim=-1) / whole.flatten(-2).norm(dim=-1)).mean())


def halvings(height: int, width: int) -> list[tuple[int, int]]:
    """Grids for a map, each with about half the landmarks of the one before: the longer side is halved in turn."""
    grids = []
    while height * width > 1:
        height, width = (-(-height // 2), width) if height >= width else (height, -(-width // 2))
        grids.append((height, width))
    return grids


def errors(
    attention: SelfAttention2d, x: Tensor, grids: Sequence[tuple[int, int]]
) -> dict[str, list[tuple[int, float]]]:
    """By kind, (number of landmarks, error) pairs of a trained module on its input maps (B, C, H, W)."""
    query, key = attention.queries_and_keys(x)
    height, width = x.shape[-2:]
    fitting = [Patches(height, width, *grid) for grid in grids if grid[0] <= height and grid[1] <= width]
    return {kind: [(p.count, error(kind, query, key, p)) for p in fitting] for kind in COMPRESSED}


def draw_errors(path: Path, by_kind: Mapping[str, Sequence[tuple[int, float]]]) -> Path:
    """Plots the error against the number of landmarks."""
    drawn = figure(5.2, 3.4)
    axis = drawn.subplots()
    for colour, (kind, points) in zip(colours(len(by_kind)), by_kind.items(), strict=True):
        style = "--" if kind == "nearest" else "-"
        axis.plot(*zip(*sorted(points), strict=True), style, marker="o", color=colour, label=NAMES[kind])
    axis.set_xscale("log", base=2)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("landmarks")
    axis.set_ylabel("‖A − WB‖ / ‖A‖")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return saved(drawn, path)


# Pictures of a report -------------------------------------------------------------------------------------------------


def draw(ctx: Ctx, networks: Mapping[str, PartNetwork], data: Viewed) -> list[Artifact]:
    """Draws ranked lists of every variant, full and compressed attention maps, and errors against landmarks."""
    artifacts = [_lists(ctx, networks, data)]
    shown = next((networks[n] for n in ("csalr", *networks) if n in networks and _compresses(networks[n])), None)
    return artifacts + (_reconstructions(ctx, shown, data) if shown is not None else [])


def _compresses(network: PartNetwork) -> bool:
    return any(hasattr(module, "grid") for module in network.attention.values())


def _lists(ctx: Ctx, networks: Mapping[str, PartNetwork], data: Viewed, count: int = 3, top: int = 8) -> Artifact:
    """The nearest gallery pictures of a few queries, one row per variant."""
    raw = data.data
    queries, gallery = judged(raw)
    chosen = [i * raw.queries // count for i in range(min(count, raw.queries))]
    lists = {}
    for name, network in networks.items():
        descriptors = torch.cat([network(pictures).float().cpu() for pictures, _, _ in ctx.batches(data, 64)])
        far = distances(descriptors[chosen], descriptors[raw.queries :])
        own = (queries.identities[chosen][:, None] == gallery.identities) & (
            queries.cameras[chosen][:, None] == gallery.cameras
        )
        lists[name] = far.masked_fill(own, torch.inf).sort(dim=1)
    rows = []
    for place, index in enumerate(chosen):
        for name, (far, order) in lists.items():
            matches = []
            for distance, other in zip(far[place, :top].tolist(), order[place, :top].tolist(), strict=True):
                picture, identity, _ = raw[raw.queries + other]
                matches.append((_shown(picture), distance, identity == raw.identities[index]))
            rows.append(page.row(_shown(raw[index][0]), name, matches))
    caption = (
        "Held-out queries (left) and what each variant finds nearest in other cameras, with distances: "
        "green frames are the same person."
    )
    return Artifact("image", grid(ctx.folder / "matches.png", rows, side=1.0), caption)


def _shown(picture: Tensor) -> Tensor:
    return fitted(picture, 192)


def _reconstructions(ctx: Ctx, network: PartNetwork, data: Viewed) -> list[Artifact]:
    """Figure 4, full and compressed attention maps side by side, and the error behind it."""
    raw, rows = data.data, []
    stage = next(iter(network.attention))
    module = network.attention_after(stage)
    chosen = [i * raw.queries // 3 + 1 for i in range(min(3, raw.queries))]
    batch = torch.stack([data[i][0] for i in chosen]).to(ctx.device)
    _, looks, seen = attended(network, batch, DOWN)
    x = seen[stage]
    whole = SoftmaxAffinity(*module.queries_and_keys(x)).rows(cells(x, DOWN)).mean(0)
    for place, index in enumerate(chosen):
        picture = _shown(raw[index][0])
        marks = [(a * picture.shape[-1], b * picture.shape[-2]) for a, b in DOWN]
        row = [Panel(picture, "", marks)]
        for number, mark in enumerate(marks):
            exact = whole[place, number].unflatten(0, x.shape[-2:])
            row += [
                heated(picture, exact, "whole", [mark]),
                heated(picture, looks[stage][place, number], "compressed", [mark]),
            ]
        rows.append(row)
    attention = grid(ctx.folder / "attention.png", rows, side=1.5)
    landmarks = draw_errors(ctx.folder / "landmarks.png", errors(module, x, halvings(*x.shape[-2:])))
    return [
        Artifact(
            "image",
            attention,
            f"{stage}: attention of the circled points by the full attention map and by the compressed one (Figure 4), "
            "each with its own scale; negative entries of the compressed one are not shown.",
        ),
        Artifact(
            "image",
            landmarks,
            f"{stage}: relative error of compressed attention maps against the number of landmarks.",
        ),
    ]
