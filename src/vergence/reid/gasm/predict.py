"""Finding people in a user's pictures: the nearest matches of each query, and the parts that were compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.core.errors import VergenceError
from vergence.core.files import unused
from vergence.data.images import find_images, read_image
from vergence.reid import searching
from vergence.reid.data import whole
from vergence.reid.gasm.model import FARTHEST, Described, SaliencyNetwork, described, pair_distances
from vergence.reid.gasm.pictures import Pair, draw_pairs
from vergence.reid.gasm.settings import Config, Facts, Inputs
from vergence.reid.results import Match
from vergence.reid.searching import AT_ONCE, LONGEST, find_matches, render_matches

Ctx = Context[Config, Facts]
SHOWN = 3
"""Matches of each query whose compared parts are kept and drawn."""


@dataclass(frozen=True)
class Parts:
    """What the locations of a query were compared with in one match."""

    name: str
    """The name of the match."""
    places: Tensor
    """(rows, columns): for each location of the query the nearest of the match, counted by rows."""
    distances: Tensor
    """(rows, columns): how far they are apart, from 0 to 2."""


@dataclass(frozen=True, eq=False)
class Compared(searching.Matches):
    """The nearest gallery pictures of each query, and which parts were compared."""

    saliency: tuple[Tensor, ...]
    """For each query, how much its locations count, (rows, columns) with sum one."""
    parts: tuple[tuple[Parts, ...], ...]
    """For each query, the parts that were compared in its first matches; none if they were compared as wholes."""


def find(ctx: Ctx, network: SaliencyNetwork, inputs: Inputs) -> Compared:
    """Finds the nearest gallery pictures of a user's queries: by pooled features first, then by their locations too."""
    matching = ctx.config.matching
    pictures = [read_image(path) for path in inputs.query]
    more = replace(inputs, top=max(inputs.top, matching.top, matching.full))
    first = find_matches(ctx, more, pictures, ctx.config.data, network, lambda batch: network(batch)[0])
    batches = [pictures[at : at + AT_ONCE] for at in range(0, len(pictures), AT_ONCE)]
    queries = Described(*map(torch.cat, zip(*(_described(ctx, network, some) for some in batches), strict=True)))
    limit = max(inputs.top, matching.top) if first.searched > matching.full else first.searched
    candidates: list[Sequence[Match]] = [matches[:limit] for matches in first.matches]
    if matching.local != "none" and matching.share:
        candidates = _compared(ctx, network, inputs, queries, candidates)
    matches = tuple(tuple(found[: inputs.top]) for found in candidates)
    view = ctx.config.data
    grid = ctx.config.model.cells(view.height, view.width)
    parts: list[tuple[Parts, ...]] = [()] * len(matches)
    if matching.local in ("matching", "unweighted") and matching.share:
        parts = [_parts(ctx, network, inputs, x, found, grid) for x, found in zip(queries.local, matches, strict=True)]
    maps = tuple(saliency.unflatten(0, grid).cpu() for saliency in queries.saliency)
    return Compared(tuple(map(str, inputs.query)), matches, first.searched, FARTHEST, maps, tuple(parts))


def _described(ctx: Ctx, network: SaliencyNetwork, pictures: Sequence[Tensor]) -> Described:
    return described(network, ctx.to_device(torch.stack([whole(ctx.config.data, picture) for picture in pictures])))


def _reader(inputs: Inputs) -> Any:
    """A function that reads a gallery picture by its name."""
    known = {str(path): path for path in (find_images(inputs.gallery) if inputs.gallery is not None else [])}

    def read(name: str) -> Tensor:
        try:
            return read_image(known.get(name, Path(name)), LONGEST)
        except VergenceError as why:
            if inputs.gallery is not None:
                raise
            raise VergenceError(f"the index names a picture whose parts cannot be compared: {why}") from None

    return read


def _compared(
    ctx: Ctx, network: SaliencyNetwork, inputs: Inputs, queries: Described, candidates: Sequence[Sequence[Match]]
) -> list[Sequence[Match]]:
    """The candidates of each query, ordered by the whole distance."""
    names = list(dict.fromkeys(match.name for found in candidates for match in found))
    place = {name: number for number, name in enumerate(names)}
    close = torch.zeros(len(candidates), len(names), dtype=torch.bool, device=ctx.device)
    for row, found in enumerate(candidates):
        close[row, [place[match.name] for match in found]] = True
    read, columns = _reader(inputs), []
    for start in ctx.progress.track(range(0, len(names), AT_ONCE), "comparing"):
        gallery = _described(ctx, network, [read(name) for name in names[start : start + AT_ONCE]])
        columns.append(pair_distances(ctx.config.matching, queries, gallery, close[:, start : start + AT_ONCE]))
    far = torch.cat(columns, 1).masked_fill(~close, torch.inf).cpu() if names else torch.empty(len(candidates), 0)
    order = far.argsort(dim=1, stable=True)
    return [
        [Match(names[i], float(far[row, i])) for i in order[row, : len(found)].tolist()]
        for row, found in enumerate(candidates)
    ]


def _parts(
    ctx: Ctx, network: SaliencyNetwork, inputs: Inputs, query: Tensor, found: Sequence[Match], grid: tuple[int, int]
) -> tuple[Parts, ...]:
    """Where the locations (L, D) of a query are nearest to those of its first matches."""
    read, shown = _reader(inputs), found[:SHOWN]
    if not shown:
        return ()
    gallery = _described(ctx, network, [read(match.name) for match in shown])
    likeness, places = (query @ gallery.local.mT).max(2)  # (matches, L)
    far = (2 - 2 * likeness).clamp(min=0).sqrt()
    return tuple(
        Parts(match.name, places[i].unflatten(0, grid).cpu(), far[i].unflatten(0, grid).cpu())
        for i, match in enumerate(shown)
    )


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Compared) -> list[Artifact]:
    """Writes the nearest pictures of each query as a page and a table, and draws which parts were compared."""
    read = _reader(inputs)
    explained = []
    for path, saliency, parts, found in zip(inputs.query, result.saliency, result.parts, result.matches, strict=True):
        pairs = [
            Pair(read_image(path), read(p.name), saliency, p.places, p.distances, f"{m.distance:.3f}")
            for p, m in zip(parts, found, strict=False)
        ]
        drawn = []
        if pairs:
            target = draw_pairs(unused(ctx.folder / f"{path.stem}-parts.png"), pairs, inputs.lines)
            caption = (
                f"{path.name} (left) and its nearest matches: lines join the parts that were compared, green where "
                "they are alike and red where they are not; what was ignored is dark."
            )
            drawn.append((caption, target))
        explained.append(drawn)
    return render_matches(ctx, inputs, result, explained, ", and the parts that were compared")
