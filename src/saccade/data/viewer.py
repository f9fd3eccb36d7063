"""Clouds for people: a page in which they can be turned, complete in one file, and the same as a plain picture."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from saccade.files import replacing, write_text
from saccade.seeding import generator

MOST = 20_000
"""Points of a layer that are shown; of more, so many at random."""

Axes = Literal["camera", "lidar"]
"""Which way coordinates point: left, up, forward; or forward, left, up as laser scanners have it."""


@dataclass(frozen=True)
class Layer:
    """One cloud (N, 3) under a name and a colour (#rrggbb); with vectors (N, 3) where each point goes."""

    name: str
    points: Tensor
    colour: str
    vectors: Tensor | None = None


def turned(points: Tensor, axes: Axes) -> Tensor:
    """Coordinates (N, 3) as a viewer has them: right, up, towards the eye."""
    order, sign = {"camera": ([0, 1, 2], [-1, 1, -1]), "lidar": ([1, 2, 0], [-1, 1, -1])}[axes]
    return points[:, order] * points.new_tensor(sign)


def page(path: Path, title: str, note: str, layers: Sequence[Layer], axes: Axes = "camera") -> Path:
    """Write a page in which the layers can be turned, shown and hidden, and moved along their vectors."""
    everything = turned(torch.cat([layer.points for layer in layers]).detach().cpu().float(), axes)
    middle = everything.median(0).values
    reach = (everything - middle).norm(dim=1)
    radius = float(reach.quantile(0.98) if len(reach) < 1_000_000 else reach.max())
    data = {
        "middle": middle.tolist(),
        "radius": max(radius, 1e-6),
        "dot": 3.0,
        "layers": [_packed(layer, axes) for layer in layers],
    }
    template = Path(__file__).with_name("viewer.html").read_text(encoding="utf-8")
    parts = {
        "title": html.escape(title),
        "note": html.escape(note),
        "data": json.dumps(data).replace("<", "\\u003c"),  # no text of ours can end the script
    }
    for name, text in parts.items():
        template = template.replace("{{" + name + "}}", text)
    write_text(path, template)
    return path


def _packed(layer: Layer, axes: Axes) -> dict[str, str]:
    kept = thinned(len(layer.points), MOST)
    packed = {"name": layer.name, "colour": layer.colour, "points": _text(turned(_plain(layer.points)[kept], axes))}
    if layer.vectors is None:
        return packed
    return packed | {"vectors": _text(turned(_plain(layer.vectors)[kept], axes))}


def thinned(count: int, most: int) -> Tensor:
    """Which of so many points to show: all, or ``most`` of them at random."""
    if count <= most:
        return torch.arange(count)
    return torch.randperm(count, generator=generator("shown", count))[:most].sort().values


def _plain(values: Tensor) -> Tensor:
    return values.detach().cpu().float()


def _text(values: Tensor) -> str:
    return base64.b64encode(values.contiguous().numpy().astype("<f4").tobytes()).decode()


@dataclass(frozen=True)
class View:
    """One cell of a picture: layers under a title."""

    title: str
    layers: Sequence[Layer]


def picture(path: Path, rows: Sequence[Sequence[View]], axes: Axes = "camera", side: float = 3.4) -> Path:
    """Views in rows as one PNG, each drawn from the side the page starts with; vectors are lines to where points go."""
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(side * columns, (side + 0.2) * len(rows)), dpi=110, layout="constrained")
    for row, places in zip(rows, figure.subplots(len(rows), columns, squeeze=False), strict=True):
        for place in places:
            place.set_axis_off()
        for view, place in zip(row, places, strict=False):
            place.set_title(view.title, fontsize=9)
            place.set_aspect("equal")
            for layer in view.layers:
                kept = thinned(len(layer.points), MOST)
                points = _plain(layer.points)[kept]
                seen = _seen(turned(points, axes))
                dot = max(min(600 / len(seen), 9.0), 0.6)
                place.scatter(*seen.T.numpy(), s=dot, c=layer.colour, linewidths=0, label=layer.name)
                if layer.vectors is not None:
                    ends = _seen(turned(points + _plain(layer.vectors)[kept], axes))
                    lines = torch.stack([seen, ends], 1).numpy()
                    place.add_collection(LineCollection(list(lines), colors=layer.colour, linewidths=0.6, alpha=0.6))
            if view is row[0]:
                place.legend(loc="lower left", fontsize=7, frameon=False, markerscale=2, handletextpad=0.2)
    with replacing(path) as partial:
        figure.savefig(partial, format="png")
    return path


def _seen(points: Tensor, yaw: float = 0.6, pitch: float = 0.35) -> Tensor:
    """Where points (N, 3) come to lie on paper, (N, 2), without perspective."""
    angle, tilt = torch.tensor(yaw), torch.tensor(pitch)
    x, y, z = points.unbind(1)
    side, deep = angle.cos() * x + angle.sin() * z, angle.cos() * z - angle.sin() * x
    return torch.stack([side, tilt.cos() * y - tilt.sin() * deep], 1)
