"""One rendered street with its objects in four looks: the labelled domain, and three domains to adapt to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from titles.canvas import Canvas, badge, quarters
from vergence.core.seeding import generator
from vergence.detection.finding import drawn_on
from vergence.detection.scenes import CLASSES, picture
from vergence.detection.styles import STYLES

HEIGHT, WIDTH, SCENE = 160, 240, 4
CAPTION = (
    "The embedded data: a rendered street as the labelled domain shows it, with boxes, and as three target domains do, "
    "without: fog by exact depth, night, watercolour. A detector learns from the first to find objects in the "
    "others. Boxes are annotated, not detected."
)
NAMES = {"photographic": "labelled", "foggy": "fog", "night": "night", "painted": "watercolour"}


def draw(path: Path) -> Path:
    seen = picture(generator("title", "dualmultilabel", SCENE), "target", HEIGHT, WIDTH)
    canvas = Canvas()
    for (style, name), box in zip(NAMES.items(), quarters(), strict=True):
        image = STYLES[style](seen.image, seen.depth, generator("title", style))
        bytes_ = (255 * image).round().to(torch.uint8)
        words = [CLASSES[label - 1] for label in seen.labels.tolist()]
        shown = (seen.boxes.tolist(), words) if style == "photographic" else ([], [])
        axes = canvas.picture(np.asarray(drawn_on(bytes_, *shown, classes=CLASSES, least=720)), *box)
        badge(axes, name, y=0.14)
    return canvas.save(path)
