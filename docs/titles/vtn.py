"""Where groups of channels of an ImageNet network sample a photograph: prediction without weights."""

from __future__ import annotations

from pathlib import Path

import vergence
from titles.canvas import Canvas, badge, photograph, pixels, quarters
from vergence.recognition.vtn.pictures import draw_mesh

CAPTION = (
    "Fields of three of 32 groups of channels at the end of EfficientNet-Lite0, on a photograph (scikit-image): every "
    "dot is a position of the last map, drawn where its group samples and coloured by where it goes (red: right, blue: "
    "down). The volumetric transformer was not trained: its fields follow the responses alone."
)
NAME = "motorcycle_left.png"
GROUPS = (5, 18, 27)


def draw(path: Path) -> Path:
    canvas, places = Canvas("#000000"), iter(quarters())
    picture = photograph(NAME)
    result, photo = vergence.load("vtn").predict(images=[picture]), pixels(picture)
    whole = canvas.picture(photo, *next(places))
    badge(whole, "photograph")
    for group in GROUPS:
        axes = canvas.picture((0.5 * photo).astype(photo.dtype), *next(places))
        draw_mesh(axes, result.fields[0][group], result.regions[0], line=2.0, dot=70)
        badge(axes, f"channel group {group}")
    return canvas.save(path)
