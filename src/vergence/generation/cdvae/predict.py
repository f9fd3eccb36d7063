"""All views of a user's object from one picture: its view is estimated if it is not given, and filters between those of
two views give the views between."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.files import make_folder, replacing, write_table
from vergence.data.images import read_image
from vergence.data.video import write_video
from vergence.drawing.grid import Panel, grid
from vergence.generation.cdvae.model import CDVAE
from vergence.generation.cdvae.settings import Config, Facts, Inputs
from vergence.generation.turntables import Turntable, squared
from vergence.generation.viewmetrics import as_bytes, difference

Ctx = Context[Config, Facts]
SMALLEST = 8
"""Pixels along each side that a picture must have."""
PLAIN = 20
"""Bytes by which a plain ground may differ from its own colour, and an object must differ from it."""
AT_ONCE = 64
LARGE = 256
"""Pixels along each side of the video, about."""
PER_ROW = 9
RATE = 3.0
"""Views per second in the video."""
POOR = 24.0
"""Reconstructions that differ by more are reported: the picture may show something else than the training data."""


@dataclass(frozen=True, eq=False)
class Views(Result):
    """An object from all views."""

    picture: Tensor
    """The picture as the network sees it, bytes (3, S, S)."""
    source: str
    """The view that the picture shows."""
    estimated: bool
    """Whether that view was estimated."""
    names: tuple[str, ...]
    """Names of the views."""
    errors: Tensor
    """(V,), mean absolute difference of the reconstruction for each view that the picture could show, of 255."""
    views: Tensor
    """The object from every view, bytes (V, 3, S, S)."""
    turntable: Tensor
    """The row of views of the source with those between, bytes (frames, 3, S, S)."""
    chosen: str
    """The view that was asked for; empty for all."""
    between: int
    """Frames between two views."""

    def summary(self) -> Mapping[str, Any]:
        at = self.names.index(self.source)
        told = {
            "source view": f"{self.source} ({'estimated' if self.estimated else 'given'})",
            "its reconstruction differs by": f"{float(self.errors[at]):.1f} of 255",
            "views": len(self.names),
            "frames of the turntable": len(self.turntable),
        }
        hint = "the picture may not be like those of training: its reconstruction is poor"
        return told | ({"hint": hint} if self.errors[at] > POOR else {})


def views_of(ctx: Ctx, model: CDVAE, inputs: Inputs) -> Views:
    """The object from all views."""
    facts, size = ctx.facts, ctx.config.data.size
    source, chosen = (labelled(facts, text, what) for text, what in ((inputs.source, "source"), (inputs.view, "view")))
    picture = prepared(inputs.picture, size, facts.fill if inputs.frame == "object" else 0.0)
    count = len(facts.views)
    every, given = torch.eye(count, device=ctx.device), ctx.to_device(picture)[None]
    every = every.to(model.rows(torch.zeros(1, dtype=torch.long, device=ctx.device)).dtype)
    codes, errors = [], []
    for rows in every.split(AT_ONCE):
        means, _ = model.translator.encode(given.expand(len(rows), -1, -1, -1), rows)
        again = as_bytes(model.translator.decode(means, rows))
        errors.append(difference(again, as_bytes(given).expand_as(again)))
        codes.append(means)
    off = torch.cat(errors)
    seen = int(off.argmin()) if source is None else source
    code = torch.cat(codes)[seen]
    filters = torch.cat([model.translator.condition(rows, True) for rows in every.split(AT_ONCE)])
    ring = next((row for row in facts.rings if (seen if chosen is None else chosen) in row), tuple(range(count)))
    return Views(
        as_bytes(picture), facts.views[seen], source is None, facts.views, off.float(),
        drawn_with(model, code, filters),
        drawn_with(model, code, around(filters[list(ring)], facts.closed, inputs.between)),
        "" if chosen is None else facts.views[chosen], inputs.between,
    )  # fmt: skip


def labelled(facts: Facts, text: str, what: str) -> int | None:
    """The view that a user names, by its name or its number; None if none is named."""
    if not text:
        return None
    if text in facts.views:
        return facts.views.index(text)
    if text.isascii() and text.isdigit() and len(text) < 6 and int(text) < len(facts.views):
        return int(text)
    raise VergenceError(
        f"{what} is the name of a view or its number from 0 to {len(facts.views) - 1}, got {text!r}"
        f"{did_you_mean(text, facts.views)}"
    )


def drawn_with(model: CDVAE, code: Tensor, filters: Tensor) -> Tensor:
    """One code (d,) drawn with many filters, bytes (n, 3, S, S)."""
    decode = model.translator.decoder
    return torch.cat([as_bytes(decode(code.expand(len(some), -1), some)) for some in filters.split(AT_ONCE)])


def around(filters: Tensor, closed: bool, between: int) -> Tensor:
    """Filters (n, ...) of a row of views with ``between`` more from each view to the next."""
    following = filters.roll(-1, 0) if closed else torch.cat([filters[1:], filters[-1:]])
    shares = torch.arange(between + 1, device=filters.device).to(filters) / (between + 1)
    shares = shares.view(1, -1, *[1] * (filters.dim() - 1))
    steps = torch.lerp(filters.unsqueeze(1), following.unsqueeze(1), shares).flatten(0, 1)
    return steps if closed else steps[: (len(filters) - 1) * (between + 1) + 1]


# Pictures -------------------------------------------------------------------------------------------------------------


def prepared(path: Path, size: int, fill: float) -> Tensor:
    """A picture for the network, from -1 to 1: whole, or with ``fill`` cut so that its object takes this share."""
    picture = read_image(path)
    height, width = picture.shape[-2:]
    if min(height, width) < SMALLEST:
        raise VergenceError(f"{path.name} has {width} x {height} pixels: expected at least {SMALLEST} x {SMALLEST}")
    box = object_box(picture) if fill else None
    if box is None:
        return squared(picture, size)
    top, left, bottom, right = box
    side = max(math.ceil(max(bottom - top, right - left) / fill), 1)
    ground = border(picture).median(1).values
    whole = ground.view(3, 1, 1).expand(3, side, side).clone()
    y, x = (side - (bottom - top)) // 2, (side - (right - left)) // 2
    whole[:, y : y + bottom - top, x : x + right - left] = picture[:, top:bottom, left:right]
    return squared(whole, size)


def border(picture: Tensor) -> Tensor:
    """The pixels along the four sides, (3, n)."""
    return torch.cat([picture[:, 0], picture[:, -1], picture[:, :, 0], picture[:, :, -1]], 1)


def object_box(picture: Tensor) -> tuple[int, int, int, int] | None:
    """Top, left, bottom and right of what differs from a plain ground, in bytes (3, H, W); None if the ground is not
    plain or there is nothing before it."""
    edge = border(picture).int()
    ground = edge.median(1).values
    if ((edge - ground.unsqueeze(1)).abs().amax(0) <= PLAIN).float().mean() < 0.9:
        return None
    there = (picture.int() - ground.view(3, 1, 1)).abs().amax(0) > PLAIN
    rows, columns = (there.any(axis).nonzero().flatten() for axis in (1, 0))
    if not len(rows):
        return None
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


def fill_of(data: Turntable) -> float:
    """The median share of a picture's side that objects take, if nearly all of them stand before a plain ground."""
    shares = []
    chosen = range(0, len(data), max(len(data) // 100, 1))
    for index in chosen:
        picture = as_bytes(data.picture(index))
        box = object_box(picture)
        if box is not None:
            shares.append(max(box[2] - box[0], box[3] - box[1]) / picture.shape[-1])
    return float(torch.tensor(shares).median()) if len(shares) > 0.8 * len(chosen) else 0.0


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Views) -> Sequence[Artifact]:
    """Writes all views as a strip and one by one, the turntable as a video, and the errors of the possible sources."""
    stem = inputs.picture.stem
    panels = [Panel(result.picture / 255, f"given: {result.source}")]
    panels += [Panel(view / 255, name) for name, view in zip(result.names, result.views, strict=True)]
    rows = [panels[start : start + PER_ROW] for start in range(0, len(panels), PER_ROW)]
    strip = grid(ctx.folder / f"{stem}-views.png", rows, 1.5)
    files = []
    if result.chosen:
        view = result.views[result.names.index(result.chosen)]
        at = _saved(ctx.folder / f"{stem}-{result.chosen}.png", view)
        files.append(Artifact("image", at, f"The object from view {result.chosen}."))
    files.append(Artifact("image", strip, "The picture as the network sees it, and the object from every view."))
    video = _video(ctx.folder / f"{stem}-turntable.mp4", result)
    files.append(Artifact("video", video, "The object from its row of views and those between, by filters between."))
    singles = ctx.folder / f"{stem}-views"
    make_folder(singles)
    for name, view in zip(result.names, result.views, strict=True):
        _saved(singles / f"{name}.png", view)
    files.append(Artifact("folder", singles, "Every view as a picture of its own."))
    errors = write_table(
        ctx.folder / f"{stem}-sources.csv", ("view", "error"),
        [(name, f"{value:.3f}") for name, value in zip(result.names, result.errors.tolist(), strict=True)],
    )  # fmt: skip
    files.append(Artifact("table", errors, "Error of the reconstruction for each view that the picture could show."))
    return files


def _saved(path: Path, picture: Tensor) -> Path:
    with replacing(path) as partial:
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(partial, "PNG")
    return path


def _video(path: Path, result: Views) -> Path:
    factor = max(LARGE // result.turntable.shape[-1], 1)
    large = F.interpolate(result.turntable.float(), scale_factor=factor, mode="bicubic", align_corners=False)
    frames = large.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return write_video(path, list(frames), RATE * (result.between + 1))
