"""A rendered film that was not trained on: key frames, and the spans that the starter weights find under them."""

from __future__ import annotations

from pathlib import Path

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge
from vergence import catalogue
from vergence.data.video import open_video

CAPTION = (
    "A rendered film (not from training) in which a man walks and a woman waves, and the two best spans that the "
    "starter weights find; green and orange are the probabilities of starts and ends."
)
TIMES = (0.8, 1.9, 4.2, 5.4)
"""Seconds of the four frames: still, walking, still, waving."""
LEFT = 44
"""The first column of the frames that is shown."""
FOUND, START, END = "#3b6fb6", "#2f9e63", "#e08a2c"


def draw(path: Path) -> Path:
    inputs = catalogue.example("bcgnn")
    video = open_video(inputs["video"])
    result = vergence.load("bcgnn").predict(**inputs)
    canvas, width, height = Canvas("#ffffff"), (WIDTH - 3 * GAP) / 4, 310
    frames = video.at([round(t * video.fps) for t in TIMES])
    cut = round(frames.shape[1] * width / height)  # columns of a frame that fill a panel
    for number, (frame, time) in enumerate(zip(frames, TIMES, strict=True)):
        axes = canvas.picture(frame[:, LEFT : LEFT + cut], number * (width + GAP), 0, width, height)
        badge(axes, f"{time:.1f} s")
    top = height + 2 * GAP
    axes = canvas.axes(16, top, WIDTH - 32, HEIGHT - top - 54)
    axes.plot(result.places, result.start, color=START, linewidth=3)
    axes.plot(result.places, result.end, color=END, linewidth=3)
    for start, end in result.spans[:2].tolist():
        axes.axvspan(start, end, color=FOUND, alpha=0.35, linewidth=0)
    axes.set(xlim=(0, result.duration), ylim=(0, 1.05), yticks=[], xticks=[])
    ticks = range(1, int(result.duration))
    axes.set_xticks(ticks, [f"{tick} s" for tick in ticks], fontsize=24)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return canvas.save(path)
