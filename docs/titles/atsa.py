"""The motorcycle of scikit-image: photograph, measured disparity, saliency, and the motorcycle cut out."""

from __future__ import annotations

from pathlib import Path

import torch

import vergence
from titles.canvas import PHOTOGRAPHS, Canvas, badge, pixels, quarters
from titles.mabnet import truth
from vergence.drawing.maps import coloured

CAPTION = (
    "A photograph (scikit-image's motorcycle) and its measured disparity give a map of what people look at first, and "
    "the object cut out, by the small network that comes with the system and was trained on rendered pictures alone."
)
PAPER = torch.tensor([236.0, 240.0, 245.0]).view(3, 1, 1)


def draw(path: Path) -> Path:
    disparity = truth()
    left = PHOTOGRAPHS / "motorcycle_left.png"
    result = vergence.load("atsa").predict(image=left, depth=disparity, nearest="bright")
    *colours, alpha = result.cutout().float()
    share = alpha / 255
    cut = torch.stack(colours) * share + PAPER * (1 - share)
    canvas, places = Canvas(), quarters()
    badge(canvas.picture(pixels(result.image), *places[0]), "a photograph")
    badge(canvas.picture(pixels(coloured(result.depth)), *places[1]), "and its depth")
    badge(canvas.picture(pixels(coloured(result.saliency, 0, 1, "magma")), *places[2]), "what stands out")
    badge(canvas.picture(pixels(cut.round().to(torch.uint8)), *places[3]), "cut out")
    return canvas.save(path)
