"""A photograph, the gradient of a classifier, the perturbation that fools it, and how little of both is in the data."""

from __future__ import annotations

from pathlib import Path

import torch

import vergence
from titles.canvas import INK, Canvas, badge, pixels, quarters
from vergence.data.images import read_image
from vergence.data.photographs import path_of
from vergence.drawing.figure import GREEN, GREY, RED
from vergence.robustness.gradleak.pictures import signed

CAPTION = (
    "A photograph (scikit-image), the gradient of EfficientNet-Lite0's loss, the smallest perturbation that DeepFool "
    "finds added to it, and the share of photographs, of a random direction and of the gradients of four photographs "
    "in the first d principal components of 2,000 crops of other photographs: an illustration, no claim."
)
PICTURE = "chelsea.png"
OTHERS = ("rocket.jpg", "flower.jpg", "motorcycle_left.png")
"""As the first one, not among the photographs that the components are of."""


def draw(path: Path) -> Path:
    pictures = [read_image(path_of(name)) for name in (PICTURE, *OTHERS)]
    result = vergence.load("gradleak").predict(images=pictures, model="lite0", crops=2000, rank=50)
    canvas, places = Canvas(), quarters()
    shown, changes = (255 * result.pictures[0][0]).round().to(torch.uint8), result.changes[0][0]
    top, bottom = 38, 187  # rows of the square, so that a panel is 3:2
    cut = lambda picture: pixels(picture)[top:bottom]  # noqa: E731
    badge(canvas.picture(cut(shown), *places[0]), f"“{result.answers[0][0]}”", GREEN)
    badge(canvas.picture(cut(signed(result.gradients[0][0])), *places[1]), "its gradient")
    changed = (result.pictures[0][0] + changes).clamp(0, 1)
    axes = canvas.picture(cut(changed), *places[2])
    badge(axes, f"“{result.after[0][0]}”\nL2 change: {float(result.sizes[0][0]):.2f}", RED)
    _curves(canvas, result, *places[3])
    return canvas.save(path)


def _curves(canvas: Canvas, result: object, x: float, y: float, width: float, height: float) -> None:
    axes = canvas.axes(x + 78, y + 40, width - 98, height - 112)
    curve, images = result.curves[0].nanmean(0), result.picture_curves[0]
    d = torch.arange(1, len(curve) + 1)
    for values, colour in ((images, GREEN), (curve, RED), (d / result.dimensions[0], GREY)):
        axes.plot(d, values, color=colour, linewidth=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.tick_params(labelsize=17, colors=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_ylim(top=3, bottom=float(curve[0]) / 30)  # room for the words between the lines
    axes.text(1.1, float(images[0]) / 25, "photographs", color=GREEN, fontsize=21)
    axes.text(1.1, 18 / result.dimensions[0], "by chance", color=GREY, fontsize=21)
    axes.text(5, float(curve[0]) / 12, "gradients", color=RED, fontsize=21)
    canvas.write(x + 14, y + 18, "share in d components", INK, 28)
    canvas.write(x + width - 20, y + height - 22, "d", INK, 28, ha="right")
