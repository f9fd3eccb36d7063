"""A cat and its copy, turned, made smaller and relit: lines between keypoints that correspond."""

from __future__ import annotations

import json
from pathlib import Path

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge, pixels
from vergence import catalogue
from vergence.matching.bbgm.pictures import LINES

CAPTION = (
    "Seven keypoints on a photograph (scikit-image's cat) and on its copy, turned, made smaller and relit, in another "
    "order: lines join those that correspond, by the small network that comes with the system."
)


def draw(path: Path) -> Path:
    folder = catalogue.folder("bbgm") / "example"
    given = json.loads((folder / "inputs.json").read_text())
    result = vergence.load("bbgm").predict(
        first=folder / given["first"], second=folder / given["second"], places_a=given["places_a"],
        places_b=given["places_b"],
    )  # fmt: skip
    canvas = Canvas()
    # One picture above the other, and only the part of each that has the keypoints: both fill the canvas.
    tall = (HEIGHT - GAP) / 2
    boxes = [(0.0, 0.0), (0.0, tall + GAP)]
    cuts = []
    for picture, points, (x, y) in zip(result.pictures, result.points, boxes, strict=True):
        height, width = picture.shape[-2:]
        cut = min(round(width * tall / WIDTH), height)
        top = min(max(round(float(points[:, 1].mean()) - cut / 2), 0), height - cut)
        cuts.append(top)
        canvas.picture(pixels(picture)[top : top + cut], x, y, WIDTH, tall)
    lines = canvas.axes(0, 0, WIDTH, HEIGHT)
    lines.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    lines.set_axis_off()
    lines.patch.set_alpha(0)
    for i, j in enumerate(result.partners[0].tolist()):
        if j < 0:
            continue
        places = []
        for points, picture, (x, y), top, k in zip(result.points, result.pictures, boxes, cuts, (i, j), strict=True):
            scale = WIDTH / picture.shape[-1]
            places.append((x + float(points[k][0]) * scale, y + (float(points[k][1]) - top) * scale))
        xs, ys = zip(*places, strict=True)
        lines.plot(xs, ys, "o-", color=LINES[i % len(LINES)], linewidth=4, markersize=13, markeredgecolor="black")
    badge(lines, "keypoints matched by a solver")
    return canvas.save(path)
