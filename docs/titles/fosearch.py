"""A box in a photograph, and the three cut-outs that fit it best among rendered and photographed people."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path

import torch
from PIL import Image

import vergence
from titles.canvas import Canvas, badge, pixels, quarters
from vergence import catalogue
from vergence.core.seeding import generator
from vergence.retrieval.actors import MOTIONS
from vergence.retrieval.cutouts import trimmed
from vergence.retrieval.fosearch.pictures import outlined
from vergence.retrieval.staged import LIGHTS, VIEWS
from vergence.retrieval.staging import UPPER, cut_out

SIDE = 288
CAPTION = (
    "A photograph of scikit-image with a box, and the three best of 22 cut-outs in it: 20 rendered figures and two "
    "people cut out of other photographs, ranked by the starter weights, which were trained on rendered scenes alone. "
    "A box at the lower edge calls for an upper body. Cut-outs are blended in as they are, without shadows."
)


def gallery(folder: Path) -> Path:
    """Figures of every motion, view and light, larger than those of the example, and its two photographed people."""
    for motion, view in product(range(UPPER + 1), range(len(VIEWS))):
        both = cut_out(motion, view, SIDE, generator("cut-out", "title", motion, view))
        for light, picture in zip(LIGHTS, (both * 255).round().to(torch.uint8), strict=True):
            name = f"{(*MOTIONS, 'upper')[motion]}-{VIEWS[view]}-{light}.png"
            Image.fromarray(pixels(trimmed(picture, name))).save(folder / name)
    for name in ("astronaut", "photographer"):
        Image.open(catalogue.folder("fosearch") / "example" / f"{name}.png").save(folder / f"{name}.png")
    return folder


def draw(path: Path) -> Path:
    asked = catalogue.example("fosearch")
    with tempfile.TemporaryDirectory() as scratch:
        result = vergence.load("fosearch").predict(**(asked | {"gallery": gallery(Path(scratch)), "top": 3}))
    query = (outlined(result.background, result.box) * 255).round().to(torch.uint8)
    titles = ("who fits here?", *(f"{rank}. {hit.pattern.split(',')[0]}" for rank, hit in enumerate(result.hits, 1)))
    canvas = Canvas()
    for panel, picture, title in zip(quarters(), (query, *result.composites), titles, strict=True):
        badge(canvas.picture(pixels(picture), *panel), title)
    return canvas.save(path)
