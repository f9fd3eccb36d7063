"""A photographed page of scikit-image: its words marked by confidence, and what they say, set anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import vergence
from titles.canvas import GAP, HEIGHT, PHOTOGRAPHS, WIDTH, Canvas, badge
from vergence.documents.varctc.pictures import FACE, shade
from vergence.documents.varctc.predict import Reading
from vergence.rendering.documents.fonts import opened

CAPTION = (
    "A photograph of a bent page (scikit-image's page) becomes text: above, its words as they were found, below, what "
    "they say, set anew in the same places. Green words are sure; red ones should be checked by a person. The network "
    "of 470 thousand weights comes with the system and was trained on rendered lines alone."
)
ZOOM = 4
ROWS = (8, 142)
"""Of the page that is shown."""


def marked(result: Reading) -> np.ndarray:
    page = Image.fromarray(result.upright[0].permute(1, 2, 0).numpy())
    page = page.resize((page.width * ZOOM, page.height * ZOOM), Image.Resampling.BICUBIC)
    over = Image.new("RGBA", page.size, (0, 0, 0, 0))
    for word in (word for line in result.lines for word in line.words):
        box = tuple(ZOOM * v for v in word.box)
        ImageDraw.Draw(over).rectangle(box, fill=(*shade(word.confidence), 60), outline=(*shade(word.confidence), 255))
    return np.asarray(Image.alpha_composite(page.convert("RGBA"), over).convert("RGB"))


def set_anew(result: Reading) -> np.ndarray:
    height, width = result.upright[0].shape[-2:]
    sheet = Image.new("RGB", (width * ZOOM, height * ZOOM), "white")
    draw = ImageDraw.Draw(sheet)
    for line in result.lines:
        for word in line.words:
            left, top, right, bottom = (ZOOM * v for v in word.box)
            size = max(round(0.72 * (bottom - top)), 8)
            while size > 8 and opened(FACE, size).getlength(word.text) > right - left + 6:
                size -= 1
            draw.text(
                (left, bottom - 0.28 * (bottom - top)), word.text, shade(word.confidence), opened(FACE, size), "ls"
            )
    return np.asarray(sheet)


def draw(path: Path) -> Path:
    result = vergence.load("varctc").predict(images=PHOTOGRAPHS / "page.png")
    rows = slice(*(ZOOM * row for row in ROWS))
    canvas, tall = Canvas(), (HEIGHT - GAP) / 2
    words = [word for line in result.lines for word in line.words]
    first = canvas.picture(marked(result)[rows], 0, 0, WIDTH, tall)
    badge(first, "a photographed page", x=0.56, y=0.14)
    second = canvas.picture(set_anew(result)[rows], 0, tall + GAP, WIDTH, tall)
    badge(second, f"read, {sum(w.check for w in words)} of {len(words)} to check", x=0.51, y=0.14)
    return canvas.save(path)
