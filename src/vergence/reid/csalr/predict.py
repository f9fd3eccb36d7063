"""Finding pictures again: the index of a gallery, the nearest matches of each query, and what its points look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from vergence.contract.inputs import Artifact, Point
from vergence.core.errors import VergenceError
from vergence.core.files import unused, write_table
from vergence.data.images import find_images, fitted, read_image
from vergence.drawing.grid import Panel, grid, overlay
from vergence.reid import page
from vergence.reid.csalr.model import PartNetwork, attended
from vergence.reid.csalr.pictures import DOWN, Ctx
from vergence.reid.csalr.settings import Inputs
from vergence.reid.data import whole
from vergence.search import Index
from vergence.search.index import descriptors_by


def predict(ctx: Ctx, network: PartNetwork, inputs: Inputs) -> list[Artifact]:
    """The nearest pictures of each query as a page and as a table, and pictures of attention."""
    if not inputs.query:
        raise VergenceError("no picture to find: give --query FILE...")
    pictures = [read_image(path) for path in inputs.query]
    index = _gallery(ctx, network, inputs)
    lists, rows, explained = [], [], []
    for path, picture in zip(inputs.query, pictures, strict=True):
        matches = _matches(ctx, network, index, path, picture, inputs.top)
        attention = _explain(ctx, network, path, picture, inputs.points)
        explained += [Artifact("image", file, caption) for caption, file in attention]
        lists.append(page.Matches(picture, str(path), matches, attention))
        rows += [[str(path), rank, m.name, f"{m.distance:.6f}"] for rank, m in enumerate(matches, 1)]
    table = write_table(ctx.folder / "matches.csv", ["query", "rank", "match", "distance"], rows)
    note = f"The nearest of {len(index)} pictures, by the distance between descriptors (0 to {_farthest(ctx):.2f})."
    ranked = page.write_page(ctx.folder / "matches.html", "Matches", note, lists)
    if inputs.index and inputs.gallery is not None:
        index.save(Path(inputs.index))
        ctx.progress.say(f"the gallery is kept in {inputs.index}")
    return [
        Artifact("html", ranked, "The nearest pictures of each query, and what attention looks at."),
        Artifact("table", table, "The same as a table: query, rank, match, distance."),
        *explained,
    ]


def _farthest(ctx: Ctx) -> float:
    """The greatest distance of two descriptors: each part has length one, and no negative entries unless attention
    comes last."""
    model = ctx.config.model
    last = model.attention != "none" and 4 in model.stages
    return float(((4 if last else 2) * model.parts) ** 0.5)


def _gallery(ctx: Ctx, network: PartNetwork, inputs: Inputs) -> Index:
    view = ctx.config.data
    made_by = f"{descriptors_by(list(network.state_dict().values()))} {view.height}x{view.width}"
    if inputs.gallery is None:
        if not inputs.index:
            raise VergenceError("nowhere to look: give --gallery DIR, or --index FILE of an earlier call")
        return Index.load(Path(inputs.index), made_by)
    if not inputs.gallery.is_dir():
        raise VergenceError(f"{inputs.gallery} is not a folder of pictures")
    paths = find_images(inputs.gallery)
    if not paths:
        raise VergenceError(f"{inputs.gallery} holds no pictures")
    return Index(_descriptors(ctx, network, paths), tuple(map(str, paths)), made_by)


def _descriptors(ctx: Ctx, network: PartNetwork, paths: Sequence[Path]) -> Tensor:
    view = ctx.config.data
    descriptors = []
    for start in ctx.progress.track(range(0, len(paths), 32), "gallery"):
        batch = torch.stack([whole(view, read_image(path)) for path in paths[start : start + 32]])
        descriptors.append(network(ctx.to_device(batch)).float().cpu())
    return torch.cat(descriptors)


def _matches(ctx: Ctx, network: PartNetwork, index: Index, path: Path, picture: Tensor, top: int) -> list[page.Match]:
    descriptor = network(ctx.to_device(whole(ctx.config.data, picture)[None])).float()
    far, places = index.search(descriptor, top + 1)
    matches = []
    for distance, place in zip(far[0].tolist(), places[0].tolist(), strict=True):
        name = Path(index.names[place])
        if name.resolve() == path.resolve():  # a query in the gallery does not find itself
            continue
        matches.append(page.Match(read_image(name) if name.exists() else None, str(name), distance))
    return matches[:top]


def _explain(
    ctx: Ctx, network: PartNetwork, path: Path, picture: Tensor, points: Sequence[Point]
) -> list[tuple[str, Path]]:
    """What chosen points of a query look at, in every stage with attention."""
    if not network.attention:
        return []
    height, width = picture.shape[-2:]
    for point in points:
        if not (0 <= point.x < width and 0 <= point.y < height):
            raise VergenceError(f"the point {point.x:g},{point.y:g} is outside {path}, which is {width} x {height}")
    shares = [(p.x / width, p.y / height) for p in points] or DOWN
    looks = attended(network, ctx.to_device(whole(ctx.config.data, picture)[None]), shares)[1]
    shown = fitted(picture, 256)
    marks = [(x * shown.shape[-1], y * shown.shape[-2]) for x, y in shares]
    row = [Panel(shown, "query", marks)]
    for stage, maps in looks.items():
        for number, (heat, mark) in enumerate(zip(maps[0], marks, strict=True), 1):
            row.append(Panel(overlay(shown, heat.float()), f"{stage}, point {number}", [mark]))
    target = unused(ctx.folder / f"{path.stem}-attention.png")
    return [(f"{path.name}: what the circled points look at.", grid(target, [row], side=1.7))]
