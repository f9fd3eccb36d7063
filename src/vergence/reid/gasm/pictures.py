"""Pictures of comparisons: lines between the parts of two pictures, and what was ignored shaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.data.images import fitted, resized, scaled
from vergence.drawing.figure import figure, saved
from vergence.drawing.grid import Panel, grid, heated
from vergence.reid import page
from vergence.reid.data import Viewed, judged, whole
from vergence.reid.gasm.model import Described, SaliencyNetwork, described, pair_distances
from vergence.reid.gasm.settings import VARIANTS, Config, Facts, compared_by

Ctx = Context[Config, Facts]
TALL = 288
"""Height of a drawn picture in pixels."""
NEAR, FAR = 0.3, 1.0
"""Distances of locations that are drawn green, and red."""


@dataclass(frozen=True)
class Pair:
    """A query and a gallery picture, (3, H, W) each, and how they were compared."""

    query: Tensor
    match: Tensor
    saliency: Tensor
    """(rows, columns) of the query."""
    places: Tensor
    """(rows, columns): the nearest location of the match, counted by rows."""
    distances: Tensor
    """(rows, columns)."""
    title: str = ""


def shaded(picture: Tensor, saliency: Tensor) -> Tensor:
    """A picture (3, H, W) that is dark and grey where the saliency (rows, columns) is low."""
    kept = (1.4 * saliency / saliency.max().clamp(min=1e-9)).clamp(0, 1)[None, None]
    kept = F.interpolate(kept, picture.shape[-2:], mode="bilinear", align_corners=False)[0]
    grey = picture.mean(0, keepdim=True)
    return kept * picture + (1 - kept) * 0.3 * grey


def chosen(saliency: Tensor, count: int) -> list[tuple[int, int]]:
    """The most salient cells, (row, column), first those that do not touch each other."""
    order = [divmod(i, saliency.shape[1]) for i in saliency.flatten().argsort(descending=True).tolist()]
    apart: list[tuple[int, int]] = []
    for row, column in order:
        if all(max(abs(row - r), abs(column - c)) > 1 for r, c in apart):
            apart.append((row, column))
    # Cells that matter less than a fifth of the first say little about the comparison.
    peak = float(saliency.max())
    ranked = [cell for cell in apart if float(saliency[cell]) > peak / 5]
    ranked += [cell for cell in order if cell not in apart and float(saliency[cell]) > peak / 5]
    return ranked[:count]


def draw_pair(axis: Any, pair: Pair, lines: int) -> None:
    """Draws both pictures beside each other, and lines between the parts that were compared."""
    query, match = (_tall(picture) for picture in (pair.query, pair.match))
    gap = TALL // 3
    canvas = torch.ones(3, TALL, query.shape[2] + gap + match.shape[2])
    canvas[:, :, : query.shape[2]] = shaded(query, pair.saliency)
    canvas[:, :, query.shape[2] + gap :] = match
    axis.imshow(canvas.clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="nearest", aspect="equal")
    axis.set_axis_off()
    rows, columns = pair.saliency.shape

    def at(row: int, column: int, width: int) -> tuple[float, float]:
        return (column + 0.5) / columns * width, (row + 0.5) / rows * TALL

    for row, column in chosen(pair.saliency, lines):
        x0, y0 = at(row, column, query.shape[2])
        x1, y1 = at(*divmod(int(pair.places[row, column]), columns), match.shape[2])
        x1 += query.shape[2] + gap
        colour = _colour(float(pair.distances[row, column]))
        axis.plot([x0, x1], [y0, y1], color="white", linewidth=3.6, alpha=0.75, solid_capstyle="round")
        axis.plot([x0, x1], [y0, y1], "o-", color=colour, linewidth=2.0, markersize=4.5)
    axis.set_title(pair.title, fontsize=9)


def _tall(picture: Tensor) -> Tensor:
    width = max(round(picture.shape[-1] * TALL / picture.shape[-2]), 1)
    return resized(scaled(picture), TALL, min(width, 3 * TALL)).cpu()


def _colour(distance: float) -> tuple[float, float, float]:
    share = min(max((distance - NEAR) / (FAR - NEAR), 0.0), 1.0)
    return 0.1 + 0.8 * share, 0.7 - 0.5 * share, 0.25


def draw_pairs(path: Path, pairs: Sequence[Pair], lines: int) -> Path:
    """Draws comparisons beside each other into one PNG."""
    drawn = figure(2.9 * len(pairs), 3.1)
    for axis, pair in zip(drawn.subplots(1, len(pairs), squeeze=False)[0], pairs, strict=True):
        draw_pair(axis, pair, lines)
    return saved(drawn, path)


# Pictures of a report -------------------------------------------------------------------------------------------------


def draw(ctx: Ctx, networks: Mapping[str, SaliencyNetwork], data: Viewed) -> list[Artifact]:
    """Draws compared parts, saliency maps, and ranked lists of every variant for a few held-out queries."""
    raw = data.data
    asked = _spread(raw, 4)
    near = {name: _ranked(ctx, network, data, asked, name) for name, network in networks.items()}
    artifacts = [_lists(ctx, near, raw, asked[:3])]
    salient = {name: network for name, network in networks.items() if network.saliency is not None}
    if not salient:
        return artifacts
    name = "gasm" if "gasm" in salient else next(iter(salient))
    return [_comparisons(ctx, salient[name], data, asked, near[name]), _maps(ctx, salient, data, asked), *artifacts]


def _spread(raw: Any, count: int) -> list[int]:
    """A few queries; of rendered people those of which about half is hidden."""
    places = list(range(raw.queries))
    if hasattr(raw, "joints"):
        hidden = (raw.joints[: raw.queries, :, 2] == 0).float().mean(1)
        places = (hidden - 0.45).abs().argsort(stable=True).tolist()[: 3 * count]
    step = max(len(places) // count, 1)
    return places[::step][:count]


def _ranked(ctx: Ctx, network: SaliencyNetwork, data: Viewed, asked: Sequence[int], name: str) -> tuple[Tensor, Tensor]:
    """Distances and places of the gallery for some queries, the nearest first; their own cameras come last."""
    matching = compared_by(name, ctx.config.matching) if name in VARIANTS else ctx.config.matching
    queries, gallery = judged(data.data)
    asking = described(network, ctx.to_device(torch.stack([data[i].picture for i in asked])))
    columns = []
    for start in range(data.data.queries, len(data), 64):
        places = range(start, min(start + 64, len(data)))
        seen = described(network, ctx.to_device(torch.stack([data[i].picture for i in places])))
        columns.append(pair_distances(matching, asking, seen).cpu())
    own = (queries.identities[asked][:, None] == gallery.identities) & (
        queries.cameras[asked][:, None] == gallery.cameras
    )
    far = torch.cat(columns, 1).masked_fill(own, torch.inf).sort(dim=1)
    return far.values, far.indices


def compared(ctx: Ctx, network: SaliencyNetwork, query: Tensor, match: Tensor, title: str = "") -> Pair:
    """How a network compares two pictures (3, H, W)."""
    view = ctx.config.data
    pictures = ctx.to_device(torch.stack([whole(view, query), whole(view, match)]))
    seen: Described = described(network, pictures)
    likeness, places = (seen.local[0] @ seen.local[1].mT).max(1)
    cells = ctx.config.model.cells(view.height, view.width)
    far = (2 - 2 * likeness).clamp(min=0).sqrt()
    saliency, places, far = (x.unflatten(0, cells).cpu() for x in (seen.saliency[0], places, far))
    return Pair(query, match, saliency, places, far, title)


def _comparisons(
    ctx: Ctx, network: SaliencyNetwork, data: Viewed, asked: Sequence[int], near: tuple[Tensor, Tensor]
) -> Artifact:
    """Four queries with their nearest picture, 3:2."""
    raw = data.data
    drawn = figure(9.6, 6.4, dpi=100)
    axes = list(drawn.subplots(2, 2, squeeze=False).flat)
    for axis in axes:
        axis.set_axis_off()
    for axis, index, place in zip(axes, asked, near[1][:, 0].tolist(), strict=False):
        other = raw[raw.queries + place]
        pair = compared(ctx, network, raw[index].picture, other.picture)
        draw_pair(axis, pair, 10)
        right = other.identity == raw.identities[index]
        colour = page.RIGHT if right else page.WRONG
        axis.set_title("the same person" if right else "another person", fontsize=17, color=colour)
    caption = (
        "Hidden people (left) and the nearest picture of another camera (right). What the network ignores is dark; "
        "lines join the parts that were compared, green where they are alike."
    )
    return Artifact("image", saved(drawn, ctx.folder / "parts.png"), caption)


def _maps(ctx: Ctx, networks: Mapping[str, SaliencyNetwork], data: Viewed, asked: Sequence[int]) -> Artifact:
    """The saliency of each variant on the same queries."""
    raw, rows = data.data, []
    batch = ctx.to_device(torch.stack([data[i].picture for i in asked]))
    found = {name: network.maps(batch)[2].float().cpu() for name, network in networks.items()}
    for number, index in enumerate(asked):
        picture = fitted(raw[index].picture, 192)
        row = [Panel(picture, "query" if not number else "")]
        row += [heated(picture, maps[number], name if not number else "") for name, maps in found.items()]
        rows.append(row)
    return Artifact(
        "image", grid(ctx.folder / "saliency.png", rows, side=1.4), "Saliency of hidden people, by each variant."
    )


def _lists(
    ctx: Ctx, near: Mapping[str, tuple[Tensor, Tensor]], raw: Any, asked: Sequence[int], top: int = 8
) -> Artifact:
    """The nearest gallery pictures of a few queries, one row per variant."""
    rows = []
    for number, index in enumerate(asked):
        for name, (far, order) in near.items():
            matches = []
            for distance, place in zip(far[number, :top].tolist(), order[number, :top].tolist(), strict=True):
                picture, identity, _ = raw[raw.queries + place]
                matches.append((fitted(picture, 192), distance, identity == raw.identities[index]))
            rows.append(page.row(fitted(raw[index].picture, 192), name, matches))
    caption = (
        "Held-out queries (left) and what each variant finds nearest in other cameras, with distances: "
        "green frames are the same person."
    )
    return Artifact("image", grid(ctx.folder / "matches.png", rows, side=1.0), caption)
