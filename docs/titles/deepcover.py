"""A photograph, what two methods say its class rests on, and the pixels that are enough for it."""

from __future__ import annotations

from pathlib import Path

import torch

import vergence
from titles.canvas import Canvas, badge, photograph, pixels, quarters
from vergence.drawing.figure import GREEN
from vergence.robustness.deepcover.pictures import heat

CAPTION = (
    "A photograph (scikit-image), EfficientNet-Lite0's answer to it, what the answer rests on by DeepCover and by RISE "
    "(800 queries each), and DeepCover's sufficient set: with all other pixels grey, the answer is the same."
)
TOP, BOTTOM = 90, 431
"""Rows of the photograph, so that it is 3:2."""


def draw(path: Path) -> Path:
    picture = photograph("camera.png")[:, TOP:BOTTOM]
    result = vergence.load("deepcover").predict(images=[picture], method="deepcover,rise", queries=800)
    shown, mask = result.pictures[0], result.masks[0][0]
    canvas, places = Canvas(), quarters()
    badge(canvas.picture(pixels(shown), *places[0]), f"“{result.answers[0]}”, {result.chances[0]:.0%}", GREEN)
    for place, name, scores in zip(places[1:3], ("DeepCover", "RISE"), result.scores[0], strict=True):
        badge(canvas.picture(pixels((255 * heat(shown, scores)).to(torch.uint8)), *place), name)
    enough = torch.where(mask, shown, torch.tensor(128, dtype=torch.uint8))
    axes = canvas.picture(pixels(enough), *places[3])
    badge(
        axes, f"{100 * result.sizes[0, 0]:.0f} % of the pixels:\n“{result.answers[0]}”, {result.seen[0, 0]:.0%}", GREEN
    )
    return canvas.save(path)
