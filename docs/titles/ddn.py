"""A photograph that no training saw, enlarged by four: bicubic, restored, and the two parts of the restored one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

import vergence
from titles.canvas import Canvas, badge, pixels, quarters
from vergence.data.photographs import photograph
from vergence.generation.ddn.pictures import coloured, gain_of, shown_part

CAPTION = (
    "A cat of 111 x 75 pixels (scikit-image's chelsea, reduced by four; no training saw it) enlarged by four: bicubic, "
    "and by the starter weights. Below, the two parts of the result: what the small picture determines, and what the "
    "network invented, which no measurement supports (grey is zero)."
)
TOP, LEFT, HEIGHT, WIDTH, FACTOR, EDGE = 0, 4, 300, 444, 4, 8


def draw(path: Path) -> Path:
    whole = photograph("chelsea.png")[:, TOP : TOP + HEIGHT, LEFT : LEFT + WIDTH].byte()
    size = (WIDTH // FACTOR, HEIGHT // FACTOR)
    small = np.asarray(Image.fromarray(pixels(whole)).resize(size, Image.Resampling.BICUBIC))
    result = vergence.load("ddn").predict(photo=small, task="sr4")
    gain = gain_of(result.invented)
    shown = {
        "bicubic": result.before,
        "restored": result.picture,
        "measured": result.measured,
        "invented": shown_part(result.invented, gain),
    }
    canvas = Canvas()
    cut = (..., slice(EDGE, HEIGHT - EDGE), slice(EDGE, WIDTH - EDGE))
    for (title, picture), place in zip(shown.items(), quarters(), strict=True):
        bytes_ = (255 * coloured(picture)[cut]).round().to(torch.uint8)
        badge(canvas.picture(pixels(bytes_), *place, interpolation="bilinear"), title)
    return canvas.save(path)
