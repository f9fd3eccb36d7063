"""A rendered room, tilted: its horizon, the two ends of the vertical, votes for vanishing points, and set upright."""

from __future__ import annotations

from pathlib import Path

import torch

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge, pixels
from vergence.dense.camera360.pictures import with_horizon

CAPTION = (
    "A panorama that was taken with a tilted camera (rendered) is set upright: the horizon and the ends of the "
    "vertical that a small network and the straight lines of the picture agree on, and the picture after one rotation."
)
PANORAMA = Path(vergence.__file__).parent / "dense" / "camera360" / "example" / "panorama.jpg"


def draw(path: Path) -> Path:
    result = vergence.load("camera360").predict(panorama=PANORAMA)
    half = (HEIGHT - GAP) / 2
    canvas = Canvas()
    tilted = with_horizon(result.panorama, torch.tensor(result.up), 0.8)
    upright = with_horizon(result.upright, torch.tensor([0.0, 0.0, 1.0]), 0.8)
    badge(canvas.picture(pixels(tilted), 0, 0, WIDTH, half), f"tilted by {result.tilt:.0f}°")
    badge(canvas.picture(pixels(upright), 0, half + GAP, WIDTH, half), "set upright")
    return canvas.save(path)
