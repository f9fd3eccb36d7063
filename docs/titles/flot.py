"""The starter weights on a rendered street: two scans, and the first one moved by the flow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge

import vergence
from vergence.core.seeding import generator
from vergence.points.streets import street

CAPTION = (
    "A rendered street (not from training) scanned twice from a moving car, a tenth of a second apart, seen from above: both "
    "scans, and the first one moved by the flow that the starter weights predict."
)
GROUND, FIRST, SECOND, MOVED = "#0d1420", "#4da6ff", "#ffa63d", "#5fe08a"
SEED, POINTS = 0, 4096


def draw(path: Path) -> Path:
    scene = street(POINTS, generator("street", "title", SEED))
    result = vergence.load("flot").predict(first=scene.p, second=scene.q)
    first, second, moved = (np.asarray(v) for v in (scene.p, scene.q, result.first + result.flow))
    error = float((result.flow - scene.flow).norm(dim=1).mean())
    print("error", error, "motion", float(scene.flow.norm(dim=1).mean()))
    canvas, height = Canvas("#ffffff"), (HEIGHT - GAP) / 2
    for number, (cloud, colour, text) in enumerate(
        ((first, FIRST, "two scans, 0.1 s apart"), (moved, MOVED, "first scan moved by its flow"))
    ):
        axes = canvas.axes(0, number * (height + GAP), WIDTH, height)
        axes.set_facecolor(GROUND)
        for points, shade in ((second, SECOND), (cloud, colour)):
            axes.scatter(points[:, 2], points[:, 0], s=9, color=shade, linewidths=0, alpha=0.9)
        axes.set(xlim=(-24, 24), ylim=(-24 * height / WIDTH, 24 * height / WIDTH), xticks=[], yticks=[])
        badge(axes, text, "#23415f")
    return canvas.save(path)
