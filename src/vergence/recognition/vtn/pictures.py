"""Fields drawn on pictures: for each group the places that it samples, as a mesh in the colours of where they go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.data.images import scaled
from vergence.drawing.figure import figure, saved

if TYPE_CHECKING:
    from vergence.recognition.vtn.model import Network
    from vergence.recognition.vtn.tasks import Ctx, Viewed

Region = tuple[float, float, float, float]
"""The part of a picture that a map covers: left, top, width and height in pixels."""
SHOWN = 3
"""Held-out pictures, and groups of each network, in a report."""


def apart(fields: Tensor, count: int) -> list[int]:
    """Groups of fields (C, 2, h, w) that sample places with middles far apart, the one that moves most first."""
    height, width = fields.shape[-2:]
    middle = fields.float().mean((2, 3)) / torch.tensor([width, height])
    chosen = [int(fields.float().norm(dim=1).mean((1, 2)).argmax())]
    while len(chosen) < min(count, len(fields)):
        far = (middle[:, None] - middle[chosen]).norm(dim=-1).amin(1)
        far[chosen] = -1
        chosen.append(int(far.argmax()))
    return chosen


def sources(field: Tensor, region: Region) -> Tensor:
    """Where a field (2, h, w) samples, (h, w, 2) in pixels of the picture whose ``region`` the map covers."""
    height, width = field.shape[-2:]
    left, top, across, down = region
    x = (torch.arange(width) + field[0] + 0.5) * across / width + left - 0.5
    y = (torch.arange(height).unsqueeze(1) + field[1] + 0.5) * down / height + top - 0.5
    return torch.stack([x, y], -1)


def target_colours(height: int, width: int) -> Tensor:
    """A colour (h, w, 3) for every position of a map: red grows to the right, blue downwards."""
    x = torch.linspace(0, 1, width).expand(height, width)
    y = torch.linspace(0, 1, height).unsqueeze(1).expand(height, width)
    return torch.stack([0.15 + 0.85 * x, 0.95 - 0.35 * x - 0.35 * y, 0.15 + 0.85 * y], -1)


def draw_mesh(axes: Any, field: Tensor, region: Region, line: float = 0.7, dot: float = 14.0) -> None:
    """A field (2, h, w) on a picture: neighbours of the map joined by lines, and dots coloured by where they go."""
    from matplotlib.collections import LineCollection

    places = sources(field.detach().float().cpu(), region).numpy()
    height, width = places.shape[:2]
    lines = [*places, *places.transpose(1, 0, 2)]
    axes.add_collection(LineCollection(lines, colors="white", linewidths=line, alpha=0.55))
    colours = target_colours(height, width).reshape(-1, 3).numpy()
    axes.scatter(*places.reshape(-1, 2).T, c=colours, s=dot, linewidths=0)


def draw_rows(
    path: Path, rows: Sequence[Sequence[tuple[Tensor, str, Tensor | None, Region]]], side: float = 2.2
) -> Path:
    """Rows of panels: a picture (3, H, W), a title, and the field on it, if any."""
    columns = max(map(len, rows))
    height, width = rows[0][0][0].shape[-2:]
    drawn = figure(side * columns, (side * min(height / width, 2.0) + 0.4) * len(rows))
    axes = drawn.subplots(len(rows), columns, squeeze=False)
    for place in axes.flat:
        place.set_axis_off()
    for row, places in zip(rows, axes, strict=True):
        for (picture, title, field, region), place in zip(row, places, strict=False):
            shade = 1.0 if field is None else 0.55  # darker below a mesh
            place.imshow(shade * scaled(picture).clamp(0, 1).permute(1, 2, 0).cpu().numpy(), vmin=0, vmax=1)
            place.autoscale(False)
            place.set_title(title, fontsize=8)
            if field is not None:
                draw_mesh(place, field, region)
    return saved(drawn, path)


def report(ctx: Ctx, models: Mapping[str, Network], data: Viewed) -> Sequence[Artifact]:
    """Held-out pictures with the fields of every network that has any."""
    rows = []
    for index in range(min(SHOWN, len(data))):
        picture = scaled(data.data[index][0])
        height, width = picture.shape[-2:]
        region = (0.0, 0.0, float(width), float(height))
        row: list[tuple[Tensor, str, Tensor | None, Region]] = [(picture, "picture", None, region)]
        for name, model in models.items():
            fields = model.look(ctx.to_device(data[index][0][None]))[3]
            if fields is None:
                continue
            for group in apart(fields[0].cpu(), SHOWN):
                title = f"{name}, group {group}" if fields.shape[1] > 1 else name
                row.append((picture, title, fields[0, group], region))
        rows.append(row)
    caption = (
        "Held-out pictures and the places that each network's fields sample: neighbouring positions of the map are "
        "joined, and red grows to the right of the map, blue downwards. Of several groups, those are shown that lead "
        "to places far apart."
    )
    return [Artifact("image", draw_rows(ctx.folder / "fields.png", rows, 1.9), caption)]
