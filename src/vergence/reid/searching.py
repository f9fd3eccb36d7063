"""Searching a gallery for the people in a user's pictures: descriptors, an index that is kept, ranked matches drawn.

The systems of this room share it: each gives the descriptors of a batch of pictures, and what it has to explain them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import write_table
from vergence.data.images import find_images, fitted, pictures_by_name, read_image
from vergence.drawing.grid import grid
from vergence.reid import page
from vergence.reid.data import whole
from vergence.reid.results import Match
from vergence.reid.settings import PersonView, Search
from vergence.search import Index
from vergence.search.index import descriptors_by

LONGEST = 1024
"""Larger gallery pictures are reduced while they are read; networks take 384 x 128 pixels or fewer."""
AT_ONCE = 32
"""Batch size."""
Ctx = Context[Any, Any]
Describe = Callable[[Tensor], Tensor]
"""Descriptors (B, D) of network inputs (B, 3, H, W)."""


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

    def summary(self) -> Mapping[str, Any]:
        nearest = {
            Path(query).name: f"{Path(matches[0].name).name} at {matches[0].distance:.3f}" if matches else "no match"
            for query, matches in zip(self.queries, self.matches, strict=True)
        }
        return {"searched": self.searched, **nearest}


@dataclass(frozen=True)
class Ranked:
    """Matches of each query, and the number of pictures that were searched."""

    matches: tuple[tuple[Match, ...], ...]
    searched: int


def find_matches(
    ctx: Ctx, inputs: Search, pictures: Sequence[Tensor], view: PersonView, network: nn.Module, describe: Describe
) -> Ranked:
    """The nearest gallery pictures of the queries ``pictures``; the gallery's index is kept where inputs ask for it."""
    index = _gallery(ctx, inputs, view, network, describe)
    if inputs.index and inputs.gallery is not None:
        index.save(Path(inputs.index))
        ctx.progress.say(f"the gallery is kept in {inputs.index}")
    far, places = index.search(described(ctx, pictures, view, describe), inputs.top + 1)
    matches = []
    for path, distances, nearest in zip(inputs.query, far.tolist(), places.tolist(), strict=True):
        named = [Match(index.names[place], distance) for place, distance in zip(nearest, distances, strict=True)]
        matches.append(without_itself(path, named)[: inputs.top])
    return Ranked(tuple(matches), len(index))


def without_itself(path: Path, matches: Sequence[Match]) -> tuple[Match, ...]:
    """A query that is in the gallery does not match itself."""
    return tuple(m for m in matches if Path(m.name).resolve() != path.resolve())


def gallery_files(inputs: Search) -> list[Path]:
    """The pictures of the gallery's folder."""
    if inputs.gallery is None:
        raise VergenceError("there is no gallery: give --gallery DIR")
    if not inputs.gallery.is_dir():
        raise VergenceError(f"{inputs.gallery} is not a folder of pictures")
    paths = find_images(inputs.gallery)
    if not paths:
        raise VergenceError(f"{inputs.gallery} holds no pictures")
    return paths


def _gallery(ctx: Ctx, inputs: Search, view: PersonView, network: nn.Module, describe: Describe) -> Index:
    made_by = f"{descriptors_by(list(network.state_dict().values()))} {view.height}x{view.width}"
    if inputs.gallery is None:
        return Index.load(Path(inputs.index), made_by)
    paths = gallery_files(inputs)
    return Index(described(ctx, paths, view, describe), tuple(map(str, paths)), made_by)


def described(ctx: Ctx, pictures: Sequence[Path | Tensor], view: PersonView, describe: Describe) -> Tensor:
    """Descriptors (N, D) of pictures or of picture files."""
    descriptors = []
    for start in ctx.progress.track(range(0, len(pictures), AT_ONCE), "gallery"):
        loaded = [p if isinstance(p, Tensor) else read_image(p, LONGEST) for p in pictures[start : start + AT_ONCE]]
        batch = torch.stack([whole(view, picture) for picture in loaded])
        descriptors.append(describe(ctx.to_device(batch)).float().cpu())
    return torch.cat(descriptors)


# Files ----------------------------------------------------------------------------------------------------------------

Explained = Sequence[tuple[str, Path]]
"""Pictures with captions that explain the matches of one query."""


def render_matches(
    ctx: Ctx, inputs: Search, result: Matches, explained: Sequence[Explained], what: str
) -> list[Artifact]:
    """Writes the nearest pictures of each query as a page and a table, with what explains them (``what``)."""
    picture_of = pictures_by_name(find_images(inputs.gallery) if inputs.gallery is not None else [])
    lists, rows = [], []
    for path, found, drawn in zip(inputs.query, result.matches, explained, strict=True):
        shown = [page.Match(picture_of(m.name), m.name, m.distance) for m in found]
        lists.append(page.Matches(read_image(path), str(path), shown, drawn))
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
        Artifact("html", ranked, f"The nearest pictures of each query{what}."),
        Artifact("image", strip, "Each query (left) and the nearest pictures of the gallery, with distances."),
        Artifact("table", table, "The same as a table: query, rank, match, distance."),
        *[Artifact("image", file, caption) for drawn in explained for caption, file in drawn],
    ]
