"""A cat and its copy, turned, made smaller and relit: lines between keypoints that correspond."""

from __future__ import annotations

import json
from pathlib import Path

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, pixels
from vergence import catalogue
from vergence.matching.bbgm.pictures import LINES

CAPTION = (
    "Seven keypoints on a photograph (scikit-image's cat) and on its copy, turned, made smaller and relit, in another "
    "order: lines join those that correspond, by the small network that comes with the system."
)
MARGIN = 16
"""Pixels left and right of the outer keypoints."""
HEAD = 84
"""Height of the line of text above the pictures."""


def draw(path: Path) -> Path:
    folder = catalogue.folder("bbgm") / "example"
    given = json.loads((folder / "inputs.json").read_text())
    result = vergence.load("bbgm").predict(
        first=folder / given["first"], second=folder / given["second"], places_a=given["places_a"],
        places_b=given["places_b"],
    )  # fmt: skip
    canvas = Canvas()
    # Side by side, each cut to the columns that have keypoints, so that it is as large as the canvas allows.
    wide = (WIDTH - GAP) / 2
    views = []
    for number, (picture, points) in enumerate(zip(result.pictures, result.points, strict=True)):
        height, width = picture.shape[-2:]
        left = max(int(points[:, 0].min()) - MARGIN, 0)
        right = min(int(points[:, 0].max()) + MARGIN, width)
        scale = min(wide / (right - left), (HEIGHT - HEAD) / height)
        x, y = number * (wide + GAP) + (wide - scale * (right - left)) / 2, HEAD
        views.append((x - left * scale, y, scale))
        canvas.picture(pixels(picture)[:, left:right], x, y, scale * (right - left), scale * height)
    lines = canvas.axes(0, 0, WIDTH, HEIGHT)
    lines.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    lines.set_axis_off()
    lines.patch.set_alpha(0)
    for i, j in enumerate(result.partners[0].tolist()):
        if j < 0:
            continue
        places = []
        for points, (x, y, scale), k in zip(result.points, views, (i, j), strict=True):
            places.append((x + float(points[k][0]) * scale, y + float(points[k][1]) * scale))
        xs, ys = zip(*places, strict=True)
        lines.plot(xs, ys, "o-", color=LINES[i % len(LINES)], linewidth=4, markersize=13, markeredgecolor="black")
    canvas.write(12, HEAD / 2, "keypoints matched by a solver", size=38)
    return canvas.save(path)
