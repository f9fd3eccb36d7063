"""The starter weights on a rendered sweep: the echoes as they come, and every point with its class."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge
from vergence.core.seeding import generator
from vergence.points.semantickitti import CLASS_SET
from vergence.points.sweeps import Scanner, street_sweep

CAPTION = (
    "A rendered LiDAR sweep of 64 beams (not from training) by intensity, and the class of every point as the "
    "starter weights see it: road and sidewalk, cars, buildings, vegetation, trunks, poles, people."
)
GROUND = "#0d1420"
SEED = 14
CAMERA, YAW, PITCH = (-13.0, -3.0, 7.5), math.radians(8), math.radians(20)
"""Place of the eye (forward, left, up), its direction about the vertical axis, and how far it looks down."""
FOCAL = 620.0


def seen(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right, up and depth of points (N, 3) in pixels from the middle of the view."""
    forward, left, up = (points - np.array(CAMERA)).T
    away = math.cos(YAW) * forward + math.sin(YAW) * left
    right = math.sin(YAW) * forward - math.cos(YAW) * left
    depth = math.cos(PITCH) * away - math.sin(PITCH) * up
    high = math.sin(PITCH) * away + math.cos(PITCH) * up
    return FOCAL * right / depth, FOCAL * high / depth, depth


def panel(axes: Axes, points: np.ndarray, colours: np.ndarray, width: float, height: float) -> None:
    right, up, depth = seen(points)
    order = np.argsort(-depth)
    order = order[depth[order] > 3]
    size = np.clip(26 / depth[order], 0.6, 4.5) ** 1.3
    axes.set_facecolor(GROUND)
    axes.scatter(right[order], up[order], s=size, c=colours[order], linewidths=0)
    axes.set(xlim=(-width / 2, width / 2), ylim=(-height / 2, height / 2), xticks=[], yticks=[])


def draw(path: Path) -> Path:
    sweep = street_sweep(generator("title", "spvnas", SEED), Scanner(64, 2048))
    values = np.concatenate([sweep.points.numpy(), sweep.intensity.numpy()[:, None]], 1)
    result = vergence.load("spvnas").predict(scan=values)
    points, bright = values[:, :3], np.clip(0.25 + 0.9 * values[:, 3:], 0, 1)
    plain = bright * np.array([[0.75, 0.88, 1.0]])
    palette = np.array(CLASS_SET.colours) / 255
    palette = 0.85 * palette + 0.15
    height = (HEIGHT - GAP) / 2
    canvas = Canvas("#ffffff")
    for number, (colours, text) in enumerate(((plain, "a LiDAR sweep"), (palette[result.labels], "a class per point"))):
        axes = canvas.axes(0, number * (height + GAP), WIDTH, height)
        panel(axes, points, colours, WIDTH, height)
        badge(axes, text, "#23415f")
    return canvas.save(path)
