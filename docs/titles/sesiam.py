"""The starter weights follow a crater while the camera comes closer."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import vergence
from titles.canvas import HEIGHT, INK, TEXT, Canvas, badge, photograph, quarters
from vergence.drawing.figure import GREY, ORANGE
from vergence.tracking.natural import Ground, seen

CAPTION = (
    "The starter weights (SiamFC) follow a crater in a photograph of the Moon (scikit-image; held out from their "
    "training) while the camera comes closer and moves away again: three frames, and the width of the box over time."
)
SIZE, FRAMES = 320, 96
CRATER = (118.0, 87.0)
"""Centre in the photograph."""
DIAMETER = 58.0
SHOWN = (0, 30, 54)


def camera(height: int, width: int) -> list[tuple[float, float, float]]:
    """For each frame the centre of the view in the photograph, and its zoom."""
    path = []
    for t in np.linspace(0, 1, FRAMES):
        zoom = 2 ** float(np.sin(np.pi * t) ** 2)
        half = SIZE / 2 / zoom
        x, y = CRATER[0] + 20 * np.sin(5 * np.pi * t), CRATER[1] + 12 * np.cos(4 * np.pi * t)
        path.append((min(max(x, half), width - half), min(max(y, half), height - half), zoom))
    return path


def draw(path: Path) -> Path:
    moon, frames, truth = photograph("moon.png").float(), [], []
    for x, y, zoom in camera(*moon.shape[-2:]):
        view = seen(Ground(moon, x, y, 1.0), SIZE, 0, 0, zoom, 0)
        frames.append(view.clamp(0, 255).round().to(torch.uint8).permute(1, 2, 0).numpy())
        side = DIAMETER * zoom
        corner = [(at - middle) * zoom + (SIZE - side) / 2 for at, middle in zip(CRATER, (x, y), strict=True)]
        truth.append([*corner, side, side])
    with tempfile.TemporaryDirectory() as folder:
        for number, frame in enumerate(frames):
            Image.fromarray(frame).save(Path(folder) / f"{number:03d}.png")
        boxes = vergence.load("sesiam").predict(video=folder, box=[tuple(truth[0])]).boxes[:, 0]
    return drawn(path, frames, np.array(truth), boxes)


def drawn(path: Path, frames: list[np.ndarray], truth: np.ndarray, boxes: np.ndarray) -> Path:
    canvas, places = Canvas(), quarters()
    cut = SIZE // 6  # frames are square, panels 3:2
    for number, place in zip(SHOWN, places, strict=False):
        axes = canvas.picture(frames[number], *place)
        x, y, w, h = boxes[number]
        axes.set_ylim(*_rows(y + h / 2, cut))
        axes.plot([x, x + w, x + w, x, x], [y, y, y + h, y + h, y], color=ORANGE, linewidth=5)
        badge(axes, "given" if number == 0 else f"frame {number}")
    x, y, width, height = places[3]
    axes = canvas.axes(x + 62, y + 62, width - 78, height - 118)
    axes.plot(truth[:, 2], color=GREY, linewidth=5, alpha=0.6)
    axes.plot(boxes[:, 2], color=ORANGE, linewidth=5)
    axes.plot(SHOWN, boxes[list(SHOWN), 2], "o", color=ORANGE, markersize=14)
    axes.set(xlim=(-2, FRAMES), ylim=(0, 1.12 * truth[:, 2].max()), xticks=[], yticks=[0, 50, 100])
    axes.tick_params(labelsize=20, length=0)
    axes.spines[["top", "right"]].set_visible(False)
    canvas.write(x + 62, y + 26, "width of the box", INK, TEXT - 4)
    canvas.write(x + width - 16, HEIGHT - 26, "time →", INK, TEXT - 6, ha="right")
    canvas.write(x + 62, HEIGHT - 26, "grey: true", GREY, TEXT - 6)
    return canvas.save(path)


def _rows(middle: float, cut: int) -> tuple[float, float]:
    """Upper and lower limit of the rows shown, around a box; upside down, as images are."""
    high = SIZE - 2 * cut
    top = min(max(middle - high / 2, 0), SIZE - high)
    return top + high - 0.5, top - 0.5
