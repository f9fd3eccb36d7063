"""The starter weights on a rendered sweep: its range image, the labels of its pixels, and the cloud from above."""

from __future__ import annotations

from pathlib import Path

import torch

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge, pixels
from vergence.core.seeding import generator
from vergence.ops.spherical import spherical_project
from vergence.points.labelled import seen_from_above
from vergence.points.semantickitti import CLASS_SET
from vergence.points.squeezesegv3.pictures import painted
from vergence.points.sweeps import Scanner, street_sweep

CAPTION = (
    "A rendered LiDAR sweep of a street (not from training) as a range image, the classes that the starter weights "
    "give to its pixels, and to its points, seen from above."
)
SEED = 0
STRIP = 130
"""Height of a range image in the picture."""


def draw(path: Path) -> Path:
    sweep = street_sweep(generator("title", SEED), Scanner(64, 2048))
    cloud = torch.cat([sweep.points, sweep.intensity.unsqueeze(1)], 1)
    result = vergence.load("squeezesegv3").predict(scan=cloud)
    seen = spherical_project(sweep.points, 64, 1024)
    near = seen.image(1 / seen.range.clamp(min=2)).sqrt()
    shown = painted(seen.image(result.labels), seen.mask, CLASS_SET)
    canvas = Canvas("#ffffff")
    axes = canvas.picture(near.numpy(), 0, 0, WIDTH, STRIP, cmap="magma", interpolation="nearest")
    badge(axes, "LiDAR sweep, unrolled", y=0.9)
    axes = canvas.picture(shown.numpy(), 0, STRIP + GAP, WIDTH, STRIP, interpolation="nearest")
    badge(axes, "class of every pixel", y=0.9)
    top = 2 * (STRIP + GAP)
    high = HEIGHT - top
    wide = seen_from_above(result.points, result.labels, CLASS_SET.colours, reach=32.0, pixels=WIDTH)
    middle, half = WIDTH // 2, round(high / 2)
    # The street runs forward: turned, so that it lies along the picture.
    across = wide.rot90(1, (1, 2))[:, middle - half : middle + half]
    badge(canvas.picture(pixels(across), 0, top, WIDTH, high, interpolation="nearest"), "class of every point")
    return canvas.save(path)
