"""The starter weights on a rendered street: two scans, and the first one moved by the flow."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge
from vergence.core.seeding import generator
from vergence.points.streets import street

CAPTION = (
    "A rendered street (not from training) scanned twice from a moving car, a tenth of a second apart: both "
    "scans, and the first one moved by the flow that the starter weights predict."
)
GROUND, FIRST, SECOND, MOVED = "#0d1420", "#4da6ff", "#ffa63d", "#5fe08a"
SEED, POINTS = 0, 16_384
TURN, TILT = math.radians(62), math.radians(34)
"""Direction of the view: about the vertical axis, and downwards."""
REACH = 13.0
"""Half the width of the view in metres."""


def seen(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right, up and depth of points (N, 3), whose axes are left, up, forward."""
    left, up, forward = points.T
    right = math.sin(TURN) * forward - math.cos(TURN) * left
    away = math.cos(TURN) * forward + math.sin(TURN) * left
    return right, math.cos(TILT) * up + math.sin(TILT) * away, away


def draw(path: Path) -> Path:
    scene = street(POINTS, generator("street", "title", SEED))
    result = vergence.load("flot").predict(first=scene.p, second=scene.q)
    first, second, moved = (np.asarray(v) for v in (scene.p, scene.q, result.first + result.flow))
    canvas, height = Canvas("#ffffff"), (HEIGHT - GAP) / 2
    rows = ((first, FIRST, "two scans, 0.1 s apart"), (moved, MOVED, "first scan moved by its flow"))
    for number, (cloud, colour, text) in enumerate(rows):
        axes = canvas.axes(0, number * (height + GAP), WIDTH, height)
        axes.set_facecolor(GROUND)
        for points, shade in ((second, SECOND), (cloud, colour)):
            right, up, _ = seen(points)
            axes.scatter(right, up, s=5, color=shade, linewidths=0, alpha=0.75)
        low = -REACH * height / WIDTH
        axes.set(xlim=(-REACH, REACH), ylim=(low + 1, 1 - low), xticks=[], yticks=[])
        badge(axes, text, "#23415f")
    return canvas.save(path)
