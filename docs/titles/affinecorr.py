"""The motorcycle pair of scikit-image: normals as matched, refined, and the oriented points from another side."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from torch import Tensor

import vergence
from titles.canvas import PHOTOGRAPHS, Canvas, badge, pixels, quarters
from vergence.matching.affinecorr.pictures import draw_discs, outlines
from vergence.matching.affinecorr.predict import OrientedPoints
from vergence.matching.data import motorcycle
from vergence.metrics.oriented import normal_angle
from vergence.ops.affine_correspondences import oriented_point

CAPTION = (
    "Two photographs (scikit-image's motorcycle pair, left one shown) with known cameras become points with surface "
    "normals: discs that lie on the surface, in the colour of their normal (green: up). Errors are medians against the "
    "measured disparity. Last, the same discs in the photograph's colours, seen from another side."
)
PAIR = ("motorcycle_left.png", "motorcycle_right.png")
LENSES, POSE = "994.978,311.193,254.877;994.978,342.279,254.877", "-0.193001,0,0"
DISC = 8.5
GROUND = "#0d1420"
YAW, PITCH = 0.42, 0.3
"""Radians to the side and from above."""


def error(result: OrientedPoints, normals: Tensor) -> float:
    """The median angle to the normals of the ground truth, where it is known."""
    surface = motorcycle().surface
    assert surface is not None
    truth = oriented_point(surface.planes(result.pixels), result.cameras[0].normalised(result.pixels))[1]
    return float(normal_angle(normals, truth).nanmedian())


def from_the_side(axes: Axes, result: OrientedPoints) -> None:
    middle = result.points.median(0).values
    cos, sin = math.cos(YAW), math.sin(YAW)
    side = torch.tensor([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]]).double()
    cos, sin = math.cos(PITCH), math.sin(PITCH)
    turn = torch.tensor([[1, 0, 0], [0, cos, sin], [0, -sin, cos]]).double().mT @ side
    points = (result.points - middle) @ turn.mT + torch.tensor([0.2, 0.12, 3.3]).double()
    normals = result.normals @ turn.mT
    K = torch.tensor([[700.0, 0, 370], [0, 700, 250], [0, 0, 1]]).double()
    seen = points[:, 2] > 1
    points, normals = points[seen], normals[seen]
    order = points[:, 2].argsort(descending=True)
    light = 0.6 + 0.6 * normals[:, 2].abs()
    shades = (result.colours[seen].double() / 255 * light[:, None] + 0.06).clamp(0, 1)
    shapes = outlines(points, normals, K, DISC)[order].numpy()
    axes.add_collection(PolyCollection(list(shapes), facecolors=shades[order].numpy(), linewidths=0))
    axes.set(xlim=(0, 741), ylim=(500, 0), xticks=[], yticks=[])
    axes.set_facecolor(GROUND)


def draw(path: Path) -> Path:
    photographs = [PHOTOGRAPHS / name for name in PAIR]
    model = vergence.load("affinecorr")
    result = model.predict(images=photographs, intrinsics=LENSES, pose=POSE, points=12000)
    canvas, places = Canvas(), quarters()
    badge(canvas.picture(pixels(result.photographs[0]), *places[0]), "two photographs")
    for place, normals, word in ((places[1], result.before, "as matched"), (places[2], result.normals, "refined")):
        axes = canvas.axes(*place)
        draw_discs(axes, result.photographs[0], result.points, normals, result.cameras[0].K, DISC)
        axes.set_aspect("auto")
        badge(axes, f"{word}: {error(result, normals):.0f}° off")
    axes = canvas.axes(*places[3])
    from_the_side(axes, result)
    badge(axes, "oriented points")
    return canvas.save(path)
