"""Where a clicked point of a photograph looks: prediction without weights."""

from __future__ import annotations

from pathlib import Path

import torch.nn.functional as F

import vergence
from titles.canvas import Canvas, badge, photograph, pixels, quarters
from vergence.recognition.snl.tasks.photographs import PLACE, shown_heat

CAPTION = (
    "Where a clicked point looks: the attention of a Gaussian nonlocal block without parameters on EfficientNet- "
    "Lite0's features of two photographs (scikit-image). The scale ends at the 99th percentile. No block was "
    "trained."
)
CLICKS = {"chelsea.png": (170, 115, "eye"), "motorcycle_left.png": (590, 425, "tyre")}


def draw(path: Path) -> Path:
    canvas, model, places = Canvas("#000000"), vergence.load("snl"), iter(quarters())
    for name, (x, y, word) in CLICKS.items():
        picture = photograph(name)
        result, photo = model.predict(images=[picture], points=[(x, y)]), pixels(picture)
        left = canvas.picture(photo, *next(places))
        badge(left, f"clicked: {word}")
        right = canvas.picture(photo.mean(-1), *next(places), cmap="gray", vmin=0, vmax=330)
        heat = F.interpolate(
            shown_heat(result.attention[0][PLACE][0])[None, None], picture.shape[-2:], mode="bilinear"
        )[0, 0]
        share = ((heat - heat.min()) / (heat.max() - heat.min())).numpy()
        right.imshow(share, cmap="inferno", alpha=(0.15 + 0.85 * share) ** 0.7, aspect="auto")
        badge(right, "its attention")
        for axes in (left, right):
            for colour, width in (("black", 7), ("white", 3.5)):
                axes.plot(x, y, "o", markersize=22, markerfacecolor="none", color=colour, markeredgewidth=width)
    return canvas.save(path)
