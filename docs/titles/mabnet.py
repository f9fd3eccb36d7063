"""The motorcycle pair of scikit-image: the photograph, its disparity, the measured one, and the points in space."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes

import vergence
from titles.canvas import PHOTOGRAPHS, Canvas, badge, pixels, quarters
from vergence.data.photographs import path_of
from vergence.drawing.maps import coloured
from vergence.matching.mabnet.predict import Disparity
from vergence.metrics.displacement import endpoint_error
from vergence.reading.arrays import read_npz

CAPTION = (
    "A stereo pair (scikit-image's motorcycle, left photograph shown) becomes a disparity for every pixel, by the tiny "
    "network of 47 thousand weights that comes with the system and was trained on rendered pairs alone; the measured "
    "disparity for comparison, and the points that follow from baseline and focal length, seen from the side."
)
LENS = {"baseline": 0.193001, "focal": 994.978, "offset": 31.086}
GROUND = "#0d1420"
YAW, PITCH = -0.3, 0.12
"""Radians to the side and from above."""


def truth() -> torch.Tensor:
    return torch.from_numpy(read_npz(path_of("motorcycle_disp.npz"))["arr_0"].astype(np.float32))


def from_the_side(axes: Axes, result: Disparity) -> None:
    points, colours = result.points()
    near = points[:, 2] < 5.5
    points, colours = points[near], colours[near]
    middle = torch.tensor([0.0, 0.0, float(points[:, 2].median())])
    cos, sin = math.cos(YAW), math.sin(YAW)
    side = torch.tensor([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]])
    cos, sin = math.cos(PITCH), math.sin(PITCH)
    turn = torch.tensor([[1, 0, 0], [0, cos, -sin], [0, sin, cos]]) @ side
    seen = (points - middle) @ turn.mT + middle
    order = seen[:, 2].argsort(descending=True)
    x, y = (900 * seen[order, i] / seen[order, 2] for i in range(2))
    axes.scatter(x, y, s=1.6, c=colours[order].numpy() / 255, linewidths=0)
    axes.set(xlim=(-380, 380), ylim=(255, -255), xticks=[], yticks=[])
    axes.set_facecolor(GROUND)


def draw(path: Path) -> Path:
    left, right = (PHOTOGRAPHS / f"motorcycle_{side}.png" for side in ("left", "right"))
    result = vergence.load("mabnet").predict(left=left, right=right, **LENS)
    known = truth()
    valid = known.isfinite()
    error = endpoint_error(result.disparity, known, valid)
    low, high = (float(known[valid].quantile(q)) for q in (0.01, 0.99))
    canvas, places = Canvas(), quarters()
    badge(canvas.picture(pixels(result.left), *places[0]), "a stereo pair")
    badge(canvas.picture(pixels(coloured(result.disparity, low, high)), *places[1]), f"disparity: {error:.1f} px off")
    measured = torch.where(valid, known, torch.nan)
    badge(canvas.picture(pixels(coloured(measured, low, high)), *places[2]), "measured")
    axes = canvas.axes(*places[3])
    from_the_side(axes, result)
    badge(axes, "from the side")
    return canvas.save(path)
