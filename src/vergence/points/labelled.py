"""Clouds with a class for every point: a page in which they can be turned, and a picture from above."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.inputs import Axes
from vergence.drawing.figure import figure, saved
from vergence.drawing.viewer import PITCH, YAW, Layer, page, thinned, turned
from vergence.points.classes import Colour


def hexadecimal(colour: Colour) -> str:
    """A colour as #rrggbb."""
    return "#" + "".join(f"{part:02x}" for part in colour)


def class_layers(points: Tensor, labels: Tensor, names: Sequence[str], colours: Sequence[Colour]) -> list[Layer]:
    """One layer of the viewer for each class that occurs, the most frequent first."""
    counts = labels.bincount(minlength=len(names))
    order = [label for label in counts.argsort(descending=True).tolist() if counts[label]]
    return [Layer(names[label], points[labels == label], hexadecimal(colours[label])) for label in order]


def class_page(
    path: Path, title: str, note: str, points: Tensor, labels: Tensor, names: Sequence[str], colours: Sequence[Colour]
) -> Path:
    """A page in which the classes of a cloud (forward, left, up) can be turned, shown and hidden."""
    return page(path, title, note, class_layers(points, labels, names, colours), "lidar")


def from_above(
    path: Path,
    views: Sequence[tuple[str, Tensor, Tensor]],
    names: Sequence[str],
    colours: Sequence[Colour],
    reach: float = 30.0,
    pixels: int = 500,
) -> Path:
    """Draw clouds from above, side by side, each given as title, points (P, 3) and labels (P,); forward is up."""
    from matplotlib.lines import Line2D

    drawn = figure(4.2 * len(views) + 1.5, 4.4)
    present: set[int] = set()
    for axis, (title, points, labels) in zip(drawn.subplots(1, len(views), squeeze=False)[0], views, strict=True):
        axis.imshow(seen_from_above(points, labels, colours, reach, pixels).permute(1, 2, 0).numpy())
        axis.set_title(title, fontsize=10)
        axis.set_axis_off()
        present |= set(labels.tolist())
    marks = [
        Line2D([], [], marker="s", linestyle="", color=hexadecimal(colours[label]), label=names[label])
        for label in sorted(present)
    ]
    drawn.legend(handles=marks, loc="outside right upper", fontsize=8, frameon=False)
    return saved(drawn, path)


def seen_from_above(
    points: Tensor, labels: Tensor, colours: Sequence[Colour], reach: float = 30.0, pixels: int = 500
) -> Tensor:
    """Bytes (3, pixels, pixels) on a dark ground; the highest point of a pixel is seen."""
    order = points[:, 2].argsort()
    points, labels = points[order].cpu(), labels[order].cpu()
    row = ((reach - points[:, 0]) / (2 * reach) * pixels).long()
    column = ((reach - points[:, 1]) / (2 * reach) * pixels).long()
    inside = (row >= 0) & (row < pixels) & (column >= 0) & (column < pixels)
    picture = torch.full((pixels, pixels, 3), 24, dtype=torch.uint8)
    picture[row[inside], column[inside]] = torch.tensor(colours, dtype=torch.uint8)[labels[inside]]
    return picture.permute(2, 0, 1)


# Single objects -------------------------------------------------------------------------------------------------------


def seen_from_the_side(points: Tensor, axes: Axes = "camera") -> tuple[Tensor, Tensor]:
    """Orthographic picture coordinates (N, 2) of an object, from a little above and beside, and its depth (N,), which
    grows towards the eye."""
    x, y, z = turned(points.detach().cpu().float(), axes).unbind(1)
    cos, sin = math.cos(YAW), math.sin(YAW)
    side, deep = cos * x + sin * z, cos * z - sin * x
    up = math.cos(PITCH) * y - math.sin(PITCH) * deep
    return torch.stack([side, up], 1), math.sin(PITCH) * y + math.cos(PITCH) * deep


def draw_object(
    place: Any, points: Tensor, labels: Tensor, colours: Sequence[Colour], axes: Axes = "camera", dot: float = 0.0
) -> None:
    """Draw a labelled object into Matplotlib's axes; near points cover far ones. ``dot`` is their area in points²."""
    kept = thinned(len(points), 6000)
    seen, depth = seen_from_the_side(points[kept], axes)
    order = depth.argsort()
    shades = torch.tensor(colours)[labels[kept].cpu()].float() / 255
    size = dot or max(min(2500 / len(order), 12.0), 1.5)
    place.scatter(*seen[order].T.numpy(), s=size, c=shades[order].numpy(), linewidths=0)
    place.set_aspect("equal")
    place.set_axis_off()


Labelled = tuple[str, Tensor, Tensor]
"""A title, points (P, 3) and labels (P,)."""


def objects_picture(
    path: Path,
    rows: Sequence[tuple[Sequence[Labelled], Sequence[str]]],
    colours: Sequence[Colour],
    axes: Axes = "camera",
) -> Path:
    """Draw rows of labelled objects; each row has names for its labels, which stand at its right."""
    from matplotlib.lines import Line2D

    columns = max(len(objects) for objects, _ in rows)
    named = any(names for _, names in rows)
    side = 4.0 if columns == len(rows) == 1 else 2.1
    drawn = figure(side * columns + (1.4 if named else 0), side * len(rows) + 0.1)
    ratios = [side] * columns + ([1.3] if named else [])
    grid = drawn.subplots(len(rows), len(ratios), squeeze=False, gridspec_kw={"width_ratios": ratios})
    for places, (objects, names) in zip(grid, rows, strict=True):
        for place in places:
            place.set_axis_off()
        for place, (title, points, labels) in zip(places, objects, strict=False):
            draw_object(place, points, labels, colours, axes)
            place.set_title(title, fontsize=9)
        if names:
            marks = [
                Line2D([], [], marker="o", linestyle="", color=hexadecimal(colours[number]), label=name)
                for number, name in enumerate(names)
            ]
            places[-1].legend(handles=marks, loc="center left", fontsize=8, frameon=False)
    return saved(drawn, path)
