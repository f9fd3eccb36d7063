"""A rendered film that was not trained on: key frames, and the spans that the starter weights find under them."""

from __future__ import annotations

from pathlib import Path

import vergence
from titles.canvas import GAP, INK, WIDTH, Canvas
from vergence import catalogue
from vergence.data.video import open_video

CAPTION = (
    "A rendered film (not from training) in which a man walks and a woman waves, and the two best spans that the "
    "starter weights find; green and orange are the probabilities of starts and ends."
)
TIMES = (0.8, 2.6, 4.2, 5.4)
"""Seconds of the four frames: still, walking, still, waving."""
FOUND, START, END = "#3b6fb6", "#2f9e63", "#e08a2c"


def draw(path: Path) -> Path:
    inputs = catalogue.example("bcgnn")
    video = open_video(inputs["video"])
    result = vergence.load("bcgnn").predict(**inputs)
    canvas, width = Canvas("#ffffff"), (WIDTH - GAP) / 2
    height = width * 2 / 3 * 0.66
    frames = video.at([round(t * video.fps) for t in TIMES])
    for number, (frame, time) in enumerate(zip(frames, TIMES, strict=True)):
        x, y = (number % 2) * (width + GAP), (number // 2) * (height + GAP)
        tall = frame.shape[0]
        cut = round(tall * 0.66)
        axes = canvas.picture(frame[tall - cut :], x, y, width, height)
        axes.text(0.03, 0.95, f"{time:.1f} s", transform=axes.transAxes, color="white", fontsize=26, va="top",
                  bbox={"facecolor": INK, "edgecolor": "none", "pad": 4, "alpha": 0.8})  # fmt: skip
    top = 2 * (height + GAP) + 8
    axes = canvas.axes(16, top, WIDTH - 32, 640 - top - 54)
    axes.plot(result.places, result.start, color=START, linewidth=3)
    axes.plot(result.places, result.end, color=END, linewidth=3)
    for start, end in result.spans[:2].tolist():
        axes.axvspan(start, end, color=FOUND, alpha=0.35, linewidth=0)
    axes.set(xlim=(0, result.duration), ylim=(0, 1.05), yticks=[], xticks=range(0, int(result.duration) + 1))
    axes.tick_params(labelsize=24)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.text(result.duration, 1.0, "seconds", fontsize=22, ha="right", va="top")
    return canvas.save(path)
