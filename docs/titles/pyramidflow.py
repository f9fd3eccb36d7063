"""Things on a table in motion: two frames, the flow by the starter weights, and what is occluded."""

from __future__ import annotations

from pathlib import Path

import torch

import vergence
from titles.canvas import Canvas, badge, pixels, quarters
from vergence.core.seeding import generator
from vergence.drawing.maps import flow_colours
from vergence.matching.pyramidflow.pictures import HIDDEN, arrows, fastest
from vergence.rendering.pairs import flow_pair

CAPTION = (
    "Two rendered frames of things that move on a table while the camera moves, too. The starter weights find the "
    "motion of every pixel: hue is the direction, strength the speed; the exact flow is beside it. Last, in red, what "
    "the second frame does not show, by the forward-backward check."
)
SCENE = 7
"""Of the test set: its photographs were in no training."""
SIZE = (316, 476)


def draw(path: Path) -> Path:
    pair = flow_pair(generator("flow", "test", SCENE), *SIZE, 60.0, "test", finer=2)
    result = vergence.load("pyramidflow").predict(images=[pixels(pair.first), pixels(pair.second)], scale=0.5)
    error = float((result.flow - pair.flow).norm(dim=0)[pair.visible].mean())
    canvas, places = Canvas(), quarters()
    most = fastest(pair.flow)
    badge(canvas.picture(pixels(arrows(pair.first, result.flow)), *places[0]), "two frames: motion")
    badge(canvas.picture(pixels(flow_colours(result.flow, most)), *places[1]), f"flow: {error:.1f} px off")
    badge(canvas.picture(pixels(flow_colours(pair.flow, most)), *places[2]), "exact flow")
    red = torch.tensor(HIDDEN).view(3, 1, 1)
    hidden = torch.where(result.occluded, 0.3 * pair.first + 0.7 * red, 0.8 * pair.first.float()).byte()
    badge(canvas.picture(pixels(hidden), *places[3]), "occluded")
    return canvas.save(path)
