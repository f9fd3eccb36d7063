"""A rendered video that was tampered with: frames of its four passages, and what the starter weights see over time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge
from vergence import catalogue
from vergence.data.video import open_video
from vergence.video.temporaltransforms.pictures import COLOURS, WORDS

CAPTION = (
    "A rendered video (not from training) of a swinging chair, put together from four passages: as filmed, twice and "
    "four times as fast, shuffled. Below: the playback speed that the starter weights estimate, and what the passages "
    "look like to them."
)
PASSAGES = (("as filmed", 0, 40), ("2x", 40, 72), ("4x", 72, 104), ("shuffled", 104, 136))
TOP, CURVE, BAND = 270, 140, 110


def draw(path: Path) -> Path:
    video = catalogue.example("temporaltransforms")["videos"][0]
    frames = open_video(video)
    result = vergence.load("temporaltransforms").predict(videos=[video])
    found = result.videos[0]
    seconds = found.frames / found.fps
    canvas = Canvas("#ffffff")
    for name, start, end in PASSAGES:
        left, width = start / found.frames * WIDTH, (end - start) / found.frames * WIDTH - GAP
        picture = frames.at([(start + end) // 2])[0]
        cut = min(round(picture.shape[0] * width / TOP), picture.shape[1])
        first = max((picture.shape[1] - cut) // 2 - 12, 0)  # the chair swings left of the middle
        axes = canvas.picture(picture[:, first : first + cut], left, 0, width, TOP)
        badge(axes, name)
    axes = canvas.axes(0, TOP + 16, WIDTH, CURVE)
    axes.plot(found.spans.mean(1), found.playback, color="#1d2b3a", linewidth=5)
    axes.set(xlim=(0, seconds), ylim=(0.8, 11), yscale="log", xticks=[])
    axes.set_yticks([])
    axes.minorticks_off()
    for speed in (1, 2, 4, 8):
        axes.axhline(speed, color="#b8c0c8", linewidth=1.5)
        axes.text(0.08, speed, f"{speed}x", fontsize=19, va="center",
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 2})  # fmt: skip
    for side in axes.spines.values():
        side.set_visible(False)
    axes = canvas.axes(0, TOP + CURVE + 28, WIDTH, BAND)
    base = 0 * found.transforms[:, 0]
    for k, name in enumerate(result.transforms):
        widths = [b - a for a, b in pairwise(found.borders)]
        axes.bar(found.borders[:-1], found.transforms[:, k], widths, base, align="edge", color=COLOURS[name])
        base = base + found.transforms[:, k]
    for _, start, _ in PASSAGES[1:]:
        axes.axvline(start / found.fps, color="white", linewidth=3)
    axes.set(xlim=(0, seconds), ylim=(0, 1))
    axes.set_axis_off()
    for name, x in zip(result.transforms, (16, 190, 430, 730), strict=True):
        patch = canvas.axes(x, HEIGHT - 58, 36, 36)
        patch.set_facecolor(COLOURS[name])
        patch.set(xticks=[], yticks=[])
        canvas.write(x + 46, HEIGHT - 40, WORDS[name], size=30)
    return canvas.save(path)
