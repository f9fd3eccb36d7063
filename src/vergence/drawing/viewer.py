"""Point cloud viewer: an interactive, self-contained HTML page, and the same view as a PNG."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.inputs import Axes
from vergence.core.files import write_text
from vergence.core.seeding import generator
from vergence.drawing.figure import figure, saved

MOST = 20_000
"""Maximum points per layer on a page; larger clouds are subsampled at random."""

FEW = 6_000
"""Maximum points per layer in a PNG."""


@dataclass(frozen=True)
class Layer:
    """One point cloud (N, 3) with a name and a colour (#rrggbb), which stands for it in the legend."""

    name: str
    points: Tensor
    colour: str
    vectors: Tensor | None = None
    """Motion of the points, (N, 3)."""
    colours: Tensor | None = None
    """A colour for every point, (N, 3) from 0 to 255."""
    normals: Tensor | None = None
    """Unit normals (N, 3): points are drawn as shaded discs."""
    disc: float = 0.0
    """Radius of the discs, in the unit of the points."""
    shown: bool = True
    """Whether a page shows it from the start."""


def turned(points: Tensor, axes: Axes) -> Tensor:
    """Coordinates (N, 3) in the viewer's axes: right, up, towards the eye."""
    order, sign = {"camera": ([0, 1, 2], [-1, 1, -1]), "lidar": ([1, 2, 0], [-1, 1, -1])}[axes]
    return points[:, order] * points.new_tensor(sign)


YAW, PITCH = 0.5, 0.55
"""The initial viewpoint, in radians."""


def page(
    path: Path,
    title: str,
    note: str,
    layers: Sequence[Layer],
    axes: Axes = "camera",
    eye: tuple[float, float] = (YAW, PITCH),
) -> Path:
    """Write a page in which layers can be rotated, shown, hidden, and moved along their vectors. ``eye`` is the initial
    viewpoint: radians to the side and from above."""
    everything = turned(torch.cat([_plain(layer.points)[thinned(len(layer.points), MOST)] for layer in layers]), axes)
    middle = everything.median(0).values
    radius = float((everything - middle).norm(dim=1).quantile(0.9))  # ignores the farthest points
    data = {
        "yaw": eye[0],
        "pitch": eye[1],
        "middle": middle.tolist(),
        "radius": max(radius, 1e-6),
        "dot": min(max(250 / len(everything) ** 0.5, 1.2), 5.0),
        "layers": [_packed(layer, axes) for layer in layers],
    }
    template = Path(__file__).with_name("viewer.html").read_text(encoding="utf-8")
    parts = {
        "title": html.escape(title),
        "note": html.escape(note),
        "data": json.dumps(data).replace("<", "\\u003c"),  # so that no text can close the script tag
    }
    for name, text in parts.items():
        template = template.replace("{{" + name + "}}", text)
    write_text(path, template)
    return path


def _packed(layer: Layer, axes: Axes) -> dict[str, Any]:
    kept = thinned(len(layer.points), MOST)
    packed: dict[str, Any] = {"name": layer.name, "colour": layer.colour, "shown": layer.shown}
    rows = {"points": layer.points, "vectors": layer.vectors, "normals": layer.normals}
    packed |= {name: _text(turned(_plain(value)[kept], axes)) for name, value in rows.items() if value is not None}
    if layer.colours is not None:
        packed["colours"] = base64.b64encode(_bytes(layer.colours)[kept].numpy().tobytes()).decode()
    if layer.normals is not None:
        packed["disc"] = layer.disc
    return packed


def thinned(count: int, most: int) -> Tensor:
    """Indices of the points to show: all ``count``, or ``most`` of them at random."""
    if count <= most:
        return torch.arange(count)
    return torch.randperm(count, generator=generator("shown", count))[:most].sort().values


def _plain(values: Tensor) -> Tensor:
    return values.detach().cpu().float()


def _bytes(colours: Tensor) -> Tensor:
    return colours.detach().cpu().clamp(0, 255).to(torch.uint8)


def _text(values: Tensor) -> str:
    return base64.b64encode(values.contiguous().numpy().astype("<f4").tobytes()).decode()


@dataclass(frozen=True)
class View:
    """One panel of a picture: layers with a title."""

    title: str
    layers: Sequence[Layer]


def picture(path: Path, rows: Sequence[Sequence[View]], axes: Axes = "camera", side: float = 3.4) -> Path:
    """Draw rows of views into one PNG, from the page's initial viewpoint; vectors are drawn as lines.

    All views of a row share one frame, which leaves out the farthest points.
    """
    frames = [_frame(row, axes) for row in rows]
    heights = [min(max((top - bottom) / (right - left), 0.4), 1.2) for left, right, bottom, top in frames]
    columns = max(len(row) for row in rows)
    drawn = figure(side * columns, side * sum(heights) + 0.3 * len(rows))
    grid = drawn.subplots(len(rows), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
    for row, places, (left, right, bottom, top) in zip(rows, grid, frames, strict=True):
        for place in places:
            place.set_axis_off()
        for view, place in zip(row, places, strict=False):
            place.set_title(view.title, fontsize=9)
            place.set_aspect("equal")
            place.set(xlim=(left, right), ylim=(bottom, top))
            for layer in view.layers:
                _draw(place, layer, axes)
            if view is row[0]:
                place.legend(loc="lower left", fontsize=7, frameon=False, markerscale=2, handletextpad=0.2)
    return saved(drawn, path)


def _draw(place: Any, layer: Layer, axes: Axes) -> None:
    from matplotlib.collections import LineCollection

    kept = thinned(len(layer.points), FEW)
    points = _plain(layer.points)[kept]
    seen = _seen(turned(points, axes))
    dot = max(min(600 / len(seen), 9.0), 1.2)
    if layer.normals is not None:
        _draw_discs(place, layer, axes, kept)
    elif layer.colours is not None:
        shades = _bytes(layer.colours)[kept].numpy() / 255
        order = _depth(turned(points, axes)).argsort().numpy()  # far ones first
        place.scatter(*seen.T.numpy()[:, order], s=dot, c=shades[order], linewidths=0, label=layer.name)
    else:
        place.scatter(*seen.T.numpy(), s=dot, c=layer.colour, linewidths=0, alpha=0.75, label=layer.name)
    if layer.vectors is not None:
        ends = _seen(turned(points + _plain(layer.vectors)[kept], axes))
        lines = torch.stack([seen, ends], 1).numpy()
        place.add_collection(LineCollection(list(lines), colors=layer.colour, linewidths=0.6, alpha=0.6))


def _draw_discs(place: Any, layer: Layer, axes: Axes, kept: Tensor) -> None:
    """Discs around points, turned to their normals and shaded as if lit from the eye."""
    from matplotlib.collections import EllipseCollection
    from matplotlib.colors import to_rgb

    assert layer.normals is not None
    points, normals = turned(_plain(layer.points)[kept], axes), turned(_plain(layer.normals)[kept], axes)
    facing = _depth(normals).abs().clamp(max=1)  # 1: seen from the front
    across = _seen(normals)  # the short axis of the ellipse
    plain = torch.tensor(to_rgb(layer.colour)).expand(len(points), 3)
    base = plain if layer.colours is None else _bytes(layer.colours)[kept].float() / 255
    order = _depth(points).argsort()
    shades = (base * (0.45 + 0.55 * facing[:, None]))[order].numpy()
    angles = torch.rad2deg(torch.atan2(across[:, 1], across[:, 0]))[order].numpy()
    wide = torch.full_like(facing, 2 * layer.disc)
    place.add_collection(
        EllipseCollection(
            (wide * facing)[order].numpy(), wide.numpy(), angles, units="xy", offsets=_seen(points)[order].numpy(),
            offset_transform=place.transData, facecolors=shades, linewidths=0,
        )
    )  # fmt: skip
    place.scatter([], [], s=9, c=layer.colour, label=layer.name)


def _frame(row: Sequence[View], axes: Axes) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of a frame around nearly all points of a row."""
    seen = [_seen(turned(_plain(layer.points), axes)) for view in row for layer in view.layers]
    every = torch.cat([part[thinned(len(part), FEW)] for part in seen])
    cut = 0.02 if len(every) > FEW else 0.0
    low, high = every.quantile(cut, 0), every.quantile(1 - cut, 0)
    margin = 0.05 * float((high - low).max()) + 1e-3
    return float(low[0]) - margin, float(high[0]) + margin, float(low[1]) - margin, float(high[1]) + margin


def _seen(points: Tensor) -> Tensor:
    """Orthographic projection of points (N, 3) to (N, 2)."""
    x, y, z = points.unbind(1)
    side, deep = math.cos(YAW) * x + math.sin(YAW) * z, math.cos(YAW) * z - math.sin(YAW) * x
    return torch.stack([side, math.cos(PITCH) * y - math.sin(PITCH) * deep], 1)


def _depth(points: Tensor) -> Tensor:
    """Positions of points (N, 3) towards the eye, (N,)."""
    x, y, z = points.unbind(1)
    return math.sin(PITCH) * y + math.cos(PITCH) * (math.cos(YAW) * z - math.sin(YAW) * x)
