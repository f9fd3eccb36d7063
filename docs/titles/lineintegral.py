"""A silhouette found again under affine maps, with the descriptors that say so."""

from __future__ import annotations

from pathlib import Path

import torch
from skimage import data

from titles.canvas import TEXT, Canvas, pixels
from vergence.core.seeding import generator
from vergence.drawing.figure import GREEN, GREY
from vergence.retrieval.lineintegral.model import describe, shown
from vergence.retrieval.lineintegral.pictures import descriptor_map, ink
from vergence.retrieval.lineintegral.settings import ModelConfig
from vergence.retrieval.masks import Cameras, homography, seen
from vergence.retrieval.silhouettes import KINDS, silhouette

CONFIG = ModelConfig()
VIEWS, OTHERS = 4, 6
CAMERAS = Cameras(stretch=3.0, tilt=0.05, side=256)
CAPTION = (
    "A silhouette (scikit-image) and its nearest shapes by L1 among 84 drawn silhouettes and four views of itself: "
    "stretched, turned, mirrored, slightly in perspective. Below each shape its descriptor, 18 rows of Fourier "
    "magnitudes (the first 30 frequencies): nearly the same for the views (green), different for the others."
)


def gallery(horse: torch.Tensor) -> list[tuple[torch.Tensor, bool]]:
    """Shapes, and whether each is the horse."""
    views = [seen(horse, homography(CAMERAS, generator("title", n)), CAMERAS.side) for n in range(VIEWS)]
    others = [silhouette(kind, f"title {n}") >= 0.5 for kind in KINDS for n in range(OTHERS)]
    return [*((view, True) for view in views), *((other, False) for other in others)]


def draw(path: Path) -> Path:
    horse = torch.from_numpy(~data.horse())
    query = describe(horse, CONFIG)
    most = float(shown(query, CONFIG).quantile(0.98))
    ranked = []
    for mask, right in gallery(horse):
        descriptor = describe(mask, CONFIG)
        ranked.append((float((descriptor - query).abs().sum()), mask, descriptor, right))
    ranked.sort(key=lambda entry: entry[0])
    canvas = Canvas()
    canvas.picture(pixels(ink(horse)), 8, 70, 290, 290)
    canvas.picture(pixels(descriptor_map(shown(query, CONFIG), most)), 14, 372, 278, 170)
    canvas.write(14, 34, "query", size=42)
    canvas.write(14, 590, "its descriptor", size=TEXT)
    canvas.write(340, 34, f"nearest of {len(ranked)} shapes", size=42)
    for place, (far, mask, descriptor, right) in enumerate(ranked[:6]):
        x, y = 340 + 208 * (place % 3), 66 + 290 * (place // 3)
        axes = canvas.picture(pixels(ink(mask)), x + 12, y + 4, 176, 160)
        axes.set_aspect("equal")
        canvas.picture(pixels(descriptor_map(shown(descriptor, CONFIG), most)), x, y + 168, 200, 76)
        canvas.write(x + 100, y + 264, f"{far:.1f}", colour=GREEN if right else GREY, size=TEXT, ha="center")
    return canvas.save(path)
