"""Pictures for reports: held-out panoramas, and what each network makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.dense.camera360.levelling import network_input, verticals
from vergence.dense.camera360.model import Network
from vergence.dense.verticals import upright
from vergence.drawing.grid import Panel, grid
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
        row = [Panel(with_horizon(picture, up), "true horizon"), Panel(votes.expand(3, -1, -1), "votes")]
        for name, model in models.items():
            inputs = network_input(ctx.to_device(picture)[None], ctx.to_device(votes)[None], ctx.config.data.height)
            axis = verticals(model, *inputs, ctx.config.objective.centroid)[0][0].cpu().float()
            error = float(axis_errors(axis[None], up[None])[0])
            level = rotate(picture[None].float(), upright(axis))[0].round().clamp(0, 255).to(torch.uint8)
            label = f"{_labels(name)}: {error:.1f}° off"
            row.append(Panel(level, label))
        rows.append(row)
    caption = "Held-out panoramas: true horizon, votes for vanishing points, and set upright by each method."
    return [Artifact("image", grid(ctx.folder / "panoramas.png", rows, side=2.4), caption)]


def _labels(name: str) -> str:
    from vergence.dense.camera360.settings import SETTINGS

    return SETTINGS.label(name)
