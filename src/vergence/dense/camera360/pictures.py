"""Pictures for reports: held-out panoramas, and what each network makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.dense.camera360.model import Network, verticals
from vergence.dense.verticals import network_input, upright
from vergence.drawing.figure import figure, saved
from vergence.metrics.angles import axis_errors
from vergence.ops.sphere import pixel_directions, rotate

SHOWN = 5
HORIZON, SPOT = (255, 64, 64), (64, 220, 255)
"""Colours of the horizon and of the rings around the ends of the vertical."""


def with_horizon(picture: Tensor, up: Tensor, thick: float = 0.6) -> Tensor:
    """A panorama (3, H, W) of bytes with the horizon of a vertical (3,), a line of about ``thick`` hundredths of the
    height, and a ring around each end of the vertical."""
    height, width = picture.shape[-2:]
    rows = []
    for part in pixel_directions(height, width, torch.zeros(())).split(256):  # huge panoramas, too
        rows.append((part @ up.float()).abs())
    cosine = torch.cat(rows)
    reach = 3.14 * thick / 100
    drawn = torch.where(cosine < reach, _colour(HORIZON), picture)
    ring = (torch.acos(cosine.clamp(max=1)) - 0.087).abs() < reach  # 5 degrees
    return torch.where(ring, _colour(SPOT), drawn)


def _colour(values: tuple[int, int, int]) -> Tensor:
    return torch.tensor(values, dtype=torch.uint8).view(3, 1, 1)


def held_out(ctx: Context[Any, Any], models: Mapping[str, Network], data: Any) -> Sequence[Artifact]:
    """Draws held-out panoramas with their votes, and each network's horizon with the picture that it sets upright."""
    rows = []
    for number in range(min(SHOWN, len(data))):
        sample = data[number * len(data) // SHOWN]
        picture, votes, up = sample["image"], sample["votes"], sample["up"]
        row = [(with_horizon(picture, up), "true horizon"), (votes.expand(3, -1, -1), "votes")]
        for name, model in models.items():
            inputs = network_input(ctx.to_device(picture)[None], ctx.to_device(votes)[None], ctx.config.data.height)
            axis = verticals(model, *inputs, ctx.config.objective.centroid)[0][0].cpu().float()
            error = float(axis_errors(axis[None], up[None])[0])
            level = rotate(picture[None].float(), upright(axis))[0].round().clamp(0, 255).to(torch.uint8)
            row.append((level, f"{_labels(name)}: {error:.1f}° off"))
        rows.append(row)
    caption = "Held-out panoramas: true horizon, votes for vanishing points, and set upright by each method."
    return [Artifact("image", rows_of_panoramas(ctx.folder / "panoramas.png", rows), caption)]


def rows_of_panoramas(path: Path, rows: Sequence[Sequence[tuple[Tensor, str]]], width: float = 2.6) -> Path:
    """Draws rows of panoramas (3, H, 2 H) of bytes with their titles; ``width`` is in inches."""
    columns = max(len(row) for row in rows)
    drawn = figure(width * columns, (width / 2 + 0.25) * len(rows))
    for row, places in zip(rows, drawn.subplots(len(rows), columns, squeeze=False), strict=True):
        for (picture, title), place in zip(row, places, strict=False):
            place.imshow(picture.permute(1, 2, 0).numpy())
            place.set_title(title, fontsize=9)
        for place in places:
            place.set_axis_off()
    return saved(drawn, path)


def _labels(name: str) -> str:
    from vergence.dense.camera360.settings import SETTINGS

    return SETTINGS.label(name)
