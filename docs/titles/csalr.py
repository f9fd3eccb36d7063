"""People found again by other cameras, and where one place of each query looks."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from torch import Tensor

import vergence
from titles.canvas import Canvas, pixels
from titles.people import same, tile, written
from vergence.data.images import read_image, resized, scaled

PEOPLE, TOP = 30, 6
ASKED = (1, 21, 41)
"""Queries, fixed before anything was searched."""
POINT = 1
"""The middle one of the three default points."""
CAPTION = (
    "Three queries among rendered people that the network has never seen, what one place of each attends to (the "
    "circle; second of three modules), and the nearest of 72 pictures by two other cameras: green is the same person, "
    "red another. Two pictures are right for each query. Starter weights, trained on rendered people only."
)


def draw(path: Path) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        files = written(Path(scratch), PEOPLE)
        asked = [files.queries[i] for i in ASKED]
        result = vergence.load("csalr").predict(query=asked, gallery=files.gallery, top=TOP)
        canvas = Canvas()
        for x, text in ((12, "query"), (122, "looks"), (262, f"nearest of {result.searched} by other cameras")):
            canvas.write(x, 22, text)
        for row, (query, matches) in enumerate(zip(asked, result.matches, strict=True)):
            y, picture = 44 + 198 * row, read_image(query)
            canvas.picture(pixels(picture), 12, y, 95, 190)
            maps = list(result.attention[row].values())
            axes = canvas.picture(heated(picture, maps[1][POINT]), 122, y, 95, 190)
            across, down = result.points[POINT]
            axes.plot([across * picture.shape[-1]], [down * picture.shape[-2]], "o", markersize=13, markeredgewidth=3,
                      markerfacecolor="none", markeredgecolor="white")  # fmt: skip
            for rank, match in enumerate(matches):
                found = read_image(Path(match.name))
                tile(canvas, found, 262 + 115 * rank, y, 95, 190, same(query, match.name))
    return canvas.save(path)


def heated(picture: Tensor, attention: Tensor) -> np.ndarray:
    """A picture that is bright where attention is high."""
    height, width = picture.shape[-2:]
    heat = resized(attention.clamp(min=0)[None], height, width)[0]
    heat = (heat / heat.max()).clamp(0, 1).sqrt()[None]
    shown = scaled(picture).mean(0, keepdim=True) * (0.35 + 0.65 * heat)
    warm = shown * (1 - heat) + heat * (0.4 * shown + 0.6 * heat.new_tensor([1.0, 0.55, 0.1])[:, None, None])
    return pixels((warm.clamp(0, 1) * 255).byte())
