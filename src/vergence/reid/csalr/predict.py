"""Re-identification of a user's pictures: gallery index, nearest matches of each query, and attention maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import unused, write_table
from vergence.data.images import find_images, fitted, pictures_by_name, read_image
from vergence.drawing.grid import Panel, grid, heated
from vergence.reid import page
from vergence.reid.csalr.model import PartNetwork, attended
from vergence.reid.csalr.pictures import DOWN, Ctx
from vergence.reid.csalr.settings import Inputs
from vergence.reid.data import whole
from vergence.reid.results import Match
from vergence.search import Index
from vergence.search.index import descriptors_by

LONGEST = 1024
"""Larger gallery pictures are reduced while they are read; the network takes 384 x 128 pixels."""
AT_ONCE = 32
"""Batch size."""


@dataclass(frozen=True, eq=False)
class Matches(Result):
    """The nearest gallery pictures of each query."""

    queries: tuple[str, ...]
    """Names of the queries."""
    matches: tuple[tuple[Match, ...], ...]
    """For each query its matches, the nearest first."""
    searched: int
    """The number of pictures in the gallery."""
    farthest: float
    """The greatest distance that two pictures can have."""
    points: tuple[tuple[float, float], ...]
    """Points whose attention is shown, as fractions of the width and height."""
    attention: tuple[Mapping[str, Tensor], ...]
    """For each query, the attention maps of the points by stage, (P, h, w)."""

    def summary(self) -> Mapping[str, Any]:
        nearest = {
            Path(query).name: f"{Path(matches[0].name).name} at {matches[0].distance:.3f}" if matches else "no match"
            for query, matches in zip(self.queries, self.matches, strict=True)
        }
        return {"searched": self.searched, **nearest}


def find(ctx: Ctx, network: PartNetwork, inputs: Inputs) -> Matches:
    """Finds the nearest gallery pictures of a user's queries."""
    pictures = [read_image(path) for path in inputs.query]
    shares = _shares(inputs, pictures)
    index = _gallery(ctx, network, inputs)
    if inputs.index and inputs.gallery is not None:
        index.save(Path(inputs.index))
        ctx.progress.say(f"the gallery is kept in {inputs.index}")
    descriptors = _descriptors(ctx, network, pictures)
    far, places = index.search(descriptors, inputs.top + 1)
    matches = []
    for path, distances, nearest in zip(inputs.query, far.tolist(), places.tolist(), strict=True):
        named = [Match(index.names[place], distance) for place, distance in zip(nearest, distances, strict=True)]
        # A query that is in the gallery does not match itself.
        matches.append(tuple(m for m in named if Path(m.name).resolve() != path.resolve())[: inputs.top])
    attention = tuple(_attention(ctx, network, picture, shares) for picture in pictures)
    queries = tuple(map(str, inputs.query))
    return Matches(queries, tuple(matches), len(index), _farthest(ctx), tuple(shares), attention)


def _shares(inputs: Inputs, pictures: Sequence[Tensor]) -> list[tuple[float, float]]:
    """Points from pixels of the first query to fractions of its sides; they must be inside every query."""
    for path, picture in zip(inputs.query, pictures, strict=True):
        height, width = picture.shape[-2:]
        for point in inputs.points:
            if not (0 <= point.x < width and 0 <= point.y < height):
                raise VergenceError(f"the point {point.x:g},{point.y:g} is outside {path}, which is {width} x {height}")
    height, width = pictures[0].shape[-2:]
    return [(p.x / width, p.y / height) for p in inputs.points] or DOWN


def _farthest(ctx: Ctx) -> float:
    """The greatest possible distance of two descriptors: each part has length one, and no negative entries unless the
    last stage has attention."""
    model = ctx.config.model
    last = model.attention != "none" and 4 in model.stages
    return float(((4 if last else 2) * model.parts) ** 0.5)


def _gallery(ctx: Ctx, network: PartNetwork, inputs: Inputs) -> Index:
    view = ctx.config.data
    made_by = f"{descriptors_by(list(network.state_dict().values()))} {view.height}x{view.width}"
    if inputs.gallery is None:
        return Index.load(Path(inputs.index), made_by)
    if not inputs.gallery.is_dir():
        raise VergenceError(f"{inputs.gallery} is not a folder of pictures")
    paths = find_images(inputs.gallery)
    if not paths:
        raise VergenceError(f"{inputs.gallery} holds no pictures")
    return Index(_descriptors(ctx, network, paths), tuple(map(str, paths)), made_by)


def _descriptors(ctx: Ctx, network: PartNetwork, pictures: Sequence[Path | Tensor]) -> Tensor:
    """Descriptors (N, D) of pictures or of picture files."""
    descriptors = []
    for start in ctx.progress.track(range(0, len(pictures), AT_ONCE), "gallery"):
        loaded = [p if isinstance(p, Tensor) else read_image(p, LONGEST) for p in pictures[start : start + AT_ONCE]]
        batch = torch.stack([whole(ctx.config.data, picture) for picture in loaded])
        descriptors.append(network(ctx.to_device(batch)).float().cpu())
    return torch.cat(descriptors)


def _attention(
    ctx: Ctx, network: PartNetwork, picture: Tensor, shares: Sequence[tuple[float, float]]
) -> Mapping[str, Tensor]:
    if not network.attention:
        return {}
    looks = attended(network, ctx.to_device(whole(ctx.config.data, picture)[None]), shares)[1]
    return {stage: maps[0].float().cpu() for stage, maps in looks.items()}


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Matches) -> list[Artifact]:
    """Writes the nearest pictures of each query as a page and a table, and pictures of attention."""
    picture_of = pictures_by_name(find_images(inputs.gallery) if inputs.gallery is not None else [])
    lists, rows, explained = [], [], list[Artifact]()
    for path, found, maps in zip(inputs.query, result.matches, result.attention, strict=True):
        picture = read_image(path)
        drawn = _explained(ctx, path, picture, result.points, maps)
        explained += [Artifact("image", file, caption) for caption, file in drawn]
        shown = [page.Match(picture_of(m.name), m.name, m.distance) for m in found]
        lists.append(page.Matches(picture, str(path), shown, drawn))
        rows += [[str(path), rank, m.name, f"{m.distance:.6f}"] for rank, m in enumerate(found, 1)]
    table = write_table(ctx.folder / "matches.csv", ["query", "rank", "match", "distance"], rows)
    note = (
        f"The nearest of {result.searched} pictures, by the distance between descriptors (0 to {result.farthest:.2f})."
    )
    ranked = page.write_page(ctx.folder / "matches.html", "Matches", note, lists)
    nearest = [
        page.row(
            fitted(query.picture, 192),
            Path(query.name).name,
            [(fitted(m.picture, 192), m.distance, None) for m in query.found if m.picture is not None][:8],
        )
        for query in lists
    ]
    strip = grid(ctx.folder / "matches.png", nearest, side=1.2)
    return [
        Artifact("html", ranked, "The nearest pictures of each query, and attention maps."),
        Artifact("image", strip, "Each query (left) and the nearest pictures of the gallery, with distances."),
        Artifact("table", table, "The same as a table: query, rank, match, distance."),
        *explained,
    ]


def _explained(
    ctx: Ctx, path: Path, picture: Tensor, shares: Sequence[tuple[float, float]], looks: Mapping[str, Tensor]
) -> list[tuple[str, Path]]:
    """Draws the attention maps of a query's points, for every stage with attention."""
    if not looks:
        return []
    shown = fitted(picture, 256)
    marks = [(x * shown.shape[-1], y * shown.shape[-2]) for x, y in shares]
    row = [Panel(shown, "query", marks)]
    for stage, maps in looks.items():
        for number, (heat, mark) in enumerate(zip(maps, marks, strict=True), 1):
            row.append(heated(shown, heat, f"{stage}, point {number}", [mark]))
    target = unused(ctx.folder / f"{path.stem}-attention.png")
    return [(f"{path.name}: attention of the circled points.", grid(target, [row], side=1.7))]
