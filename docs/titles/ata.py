"""Matched patches follow a cup that moves over bricks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib import colormaps
from torch import Tensor

from titles.canvas import Canvas, badge, photograph, quarters
from vergence.data.images import resized, scaled
from vergence.nn.probe import caught
from vergence.ops.alignment import order
from vergence.recognition.snl.tasks.photographs import ready_network

CAPTION = (
    "Alignment of patches between neighbouring frames, which needs no training, here on features of EfficientNet- "
    "Lite0: a cup cut from a photograph moves over another one (both scikit-image's). A colour follows a patch "
    "from frame to frame; attention over time runs along such tracks."
)
PATCH, ROWS, COLUMNS = 16, 20, 30
FRAMES = 4
STEP = (77, -29)
"""Motion from frame to frame, in pixels: no multiple of a patch."""
SHAPES = ((276.0, 222.0, 206.0, 162.0), (292.0, 116.0, 122.0, 100.0))
"""Ellipses of saucer and cup in the photograph: centre and half axes."""


def frames() -> Tensor:
    """Frames (T, 3, H, W) in [0, 1]."""
    height, width = ROWS * PATCH, COLUMNS * PATCH
    ground = resized(scaled(photograph("brick.png")), width, width)[:, :height].expand(3, -1, -1)
    cup = scaled(photograph("coffee.png"))
    y, x = torch.meshgrid(torch.arange(400.0), torch.arange(600.0), indexing="ij")
    inside = [1 - ((x - cx) / across) ** 2 - ((y - cy) / down) ** 2 for cx, cy, across, down in SHAPES]
    layer = resized(torch.cat([cup, (torch.maximum(*inside) * 20).clamp(0, 1)[None]]), 200, 300)
    made = []
    for t in range(FRAMES):
        left, top = -22 + STEP[0] * t, 112 + STEP[1] * t
        padded = F.pad(layer, (left, width - 300 - left, top, height - 200 - top))
        made.append(ground * (1 - padded[3]) + padded[:3] * padded[3])
    return torch.stack(made)


def draw(path: Path) -> Path:
    clip = frames()
    network = ready_network()
    with torch.no_grad():
        _, seen = caught({"x": network.blocks[10]}, lambda: network((clip - 127 / 255) / (128 / 255)))
    x = seen["x"].flatten(2).mT[None]  # (1, T, N, C)
    tracks = order(x - x.mean((1, 2), keepdim=True))[0]  # (T, N)
    canvas = Canvas("#000000")
    chosen = [row * COLUMNS + column for row in (10, 13, 16) for column in (4, 7, 10)]
    colours = colormaps["hsv"](np.linspace(0, 0.9, len(chosen)))
    for time, place in enumerate(quarters()):
        axes = canvas.picture(clip[time].permute(1, 2, 0).numpy(), *place)
        for track, colour in zip(chosen, colours, strict=True):
            spots = [divmod(int(tracks[t, track]), COLUMNS) for t in range(time + 1)]
            xs, ys = [(c + 0.5) * PATCH for _, c in spots], [(r + 0.5) * PATCH for r, _ in spots]
            axes.plot(xs, ys, color=colour, linewidth=4)
            axes.plot(xs[-1], ys[-1], "s", color=colour, markersize=17, markeredgecolor="white", markeredgewidth=2.5)
        badge(axes, f"frame {time + 1}")
    return canvas.save(path)
