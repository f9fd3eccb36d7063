"""Re-identification of a user's pictures: nearest matches of each query, and attention maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.core.errors import VergenceError
from vergence.core.files import unused
from vergence.data.images import fitted, read_image
from vergence.drawing.grid import Panel, grid, heated
from vergence.reid import searching
from vergence.reid.csalr.model import PartNetwork, attended
from vergence.reid.csalr.pictures import DOWN, Ctx
from vergence.reid.csalr.settings import Inputs
from vergence.reid.data import whole
from vergence.reid.searching import find_matches, render_matches


@dataclass(frozen=True, eq=False)
class Matches(searching.Matches):
    """The nearest gallery pictures of each query, and where the network looked."""

    points: tuple[tuple[float, float], ...]
    """Points whose attention is shown, as fractions of the width and height."""
    attention: tuple[Mapping[str, Tensor], ...]
    """For each query, the attention maps of the points by stage, (P, h, w)."""


def find(ctx: Ctx, network: PartNetwork, inputs: Inputs) -> Matches:
    """Finds the nearest gallery pictures of a user's queries."""
    pictures = [read_image(path) for path in inputs.query]
    shares = _shares(inputs, pictures)
    ranked = find_matches(ctx, inputs, pictures, ctx.config.data, network, network)
    attention = tuple(_attention(ctx, network, picture, shares) for picture in pictures)
    queries = tuple(map(str, inputs.query))
    return Matches(queries, ranked.matches, ranked.searched, _farthest(ctx), tuple(shares), attention)


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
    explained = [
        _explained(ctx, path, read_image(path), result.points, maps)
        for path, maps in zip(inputs.query, result.attention, strict=True)
    ]
    return render_matches(ctx, inputs, result, explained, ", and attention maps")


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
