"""A photograph's crops ranked before and after query expansion."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import vergence
from titles.canvas import PHOTOGRAPHS, TEXT, Canvas
from vergence.drawing.figure import GREEN, RED

NAMES = "astronaut.png chelsea.png coffee.png rocket.jpg motorcycle_left.png camera.png retina.jpg coins.png"
CROPS, SIDE, SHOWN = 8, 128, 6
QUERY = "astronaut-6.png"
CAPTION = (
    "Search among 64 crops of 8 photographs (scikit-image) with EfficientNet-Lite0's descriptors, before and "
    "after the query is expanded by its three nearest neighbours, for one of the queries that this helps most. "
    "Nothing was trained: it is alpha-QE, the baseline that prediction uses without weights. Green: from the "
    "query's photograph; red: not."
)


def crops(folder: Path) -> list[Path]:
    """Random crops of every photograph, of a quarter to a half of its shorter side."""
    random, paths = np.random.default_rng(0), []
    for name in NAMES.split():
        whole = Image.open(PHOTOGRAPHS / name).convert("RGB")
        for number in range(CROPS):
            side = int(min(whole.size) * random.uniform(0.25, 0.5))
            left, top = (int(random.integers(0, extent - side + 1)) for extent in whole.size)
            crop = whole.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
            paths.append(folder / f"{Path(name).stem}-{number}.png")
            crop.save(paths[-1])
    return paths


def same(first: str, second: str) -> bool:
    return Path(first).stem.rpartition("-")[0] == Path(second).stem.rpartition("-")[0]


def draw(path: Path) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        crops(folder)
        result = vergence.load("lattqe").predict(query=[folder / QUERY], gallery=folder, neighbours=3)
        answer = result.answers[0]
        canvas = Canvas()
        canvas.picture(np.asarray(Image.open(folder / QUERY)), 12, 12, 208, 208)
        canvas.write(240, 70, "query: one of 64 crops", size=42)
        canvas.write(240, 140, "which come from the", size=TEXT)
        canvas.write(240, 184, "same photograph?", size=TEXT)
        for block, (text, hits) in enumerate((("before", answer.before), ("after expansion", answer.after))):
            left = 12 + 482 * block
            canvas.write(left, 262, text)
            for rank, hit in enumerate(hits[:SHOWN]):
                x, y = left + 155 * (rank % 3), 302 + 166 * (rank // 3)
                tile(canvas, Image.open(hit.name), x, y, same(answer.name, hit.name))
    return canvas.save(path)


def tile(canvas: Canvas, picture: Image.Image, x: float, y: float, right: bool) -> None:
    """A result in a frame: green if it is right, red and crossed out if not."""
    axes = canvas.picture(np.asarray(picture), x, y, 145, 156)
    colour, edge = GREEN if right else RED, SIDE - 0.5
    axes.plot([-0.5, edge, edge, -0.5, -0.5], [-0.5, -0.5, edge, edge, -0.5], color=colour, linewidth=16)
    if not right:
        axes.plot([0, SIDE], [0, SIDE], color=colour, linewidth=6)
