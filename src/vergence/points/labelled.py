"""Clouds with a class for every point: a page in which they can be turned, and a picture from above."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from vergence.drawing.figure import figure, saved
from vergence.drawing.viewer import Layer, page
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
