"""Photographs that move over photographs: two frames, the flow by the starter weights, and what is occluded."""

from __future__ import annotations

from pathlib import Path

import torch

import vergence
from titles.canvas import Canvas, badge, pixels, quarters
from vergence.core.seeding import generator
from vergence.drawing.maps import flow_colours
from vergence.matching.flying import flying_pair
from vergence.matching.pyramidflow.pictures import HIDDEN, fastest

CAPTION = (
    "Two frames in which photographs of scikit-image, a cat and flowers, turn, grow and move over each other; "
    "no training saw these. The starter weights find the motion of every pixel: hue is the direction, strength the "
    "speed. Last, in red, what the second frame does not show, by the forward-backward check."
)
SCENE, SIZE, MOST = 4, (224, 336), 24.0


def draw(path: Path) -> Path:
    pair = flying_pair(generator("title", SCENE), *SIZE, MOST, "test")
    result = vergence.load("pyramidflow").predict(images=[pixels(pair.first), pixels(pair.second)])
    error = float((result.flow - pair.flow).norm(dim=0)[pair.visible].mean())
    red = torch.tensor(HIDDEN).view(3, 1, 1)
    hidden = torch.where(result.occluded, 0.3 * pair.first + 0.7 * red, 0.8 * pair.first.float()).byte()
    flow = flow_colours(result.flow, fastest(pair.flow))
    shown = {
        "first frame": pair.first, "second frame": pair.second, f"flow: {error:.1f} px off": flow, "occluded": hidden,
    }  # fmt: skip
    canvas = Canvas()
    for (title, picture), place in zip(shown.items(), quarters(), strict=True):
        badge(canvas.picture(pixels(picture), *place, interpolation="bilinear"), title)
    return canvas.save(path)
