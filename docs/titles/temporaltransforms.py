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
    "A rendered video (not from training) of a swinging chair, put together from four passages: as filmed, four times "
    "as fast, shuffled, back and forth. Below: what the starter weights see, window by window."
)
PASSAGES = (("as filmed", 0, 40), ("4x", 40, 72), ("shuffled", 72, 104), ("back and forth", 104, 136))
TOP, BAND = 320, 180


def draw(path: Path) -> Path:
    video = catalogue.example("temporaltransforms")["videos"][0]
    frames = open_video(video)
    result = vergence.load("temporaltransforms").predict(videos=[video])
    found = result.videos[0]
    canvas, width = Canvas("#ffffff"), (WIDTH - 3 * GAP) / 4
    for number, (name, start, end) in enumerate(PASSAGES):
        middle = (start + end) // 2
        picture = frames.at([middle])[0]
        cut = round(picture.shape[0] * width / TOP)
        left = (picture.shape[1] - cut) // 2
        axes = canvas.picture(picture[:, left : left + cut], number * (width + GAP), 0, width, TOP)
        badge(axes, name, size=28)
    axes = canvas.axes(8, TOP + 24, WIDTH - 16, BAND)
    middles = found.spans.mean(1)
    borders = [0.0, *((middles[1:] + middles[:-1]) / 2).tolist(), found.frames / found.fps]
    base = 0 * found.transforms[:, 0]
    for k, name in enumerate(result.transforms):
        widths = [b - a for a, b in pairwise(borders)]
        axes.bar(borders[:-1], found.transforms[:, k], widths, base, align="edge", color=COLOURS[name])
        base = base + found.transforms[:, k]
    for _, start, _ in PASSAGES[1:]:
        axes.axvline(start / found.fps, color="white", linewidth=4)
        axes.axvline(start / found.fps, color="black", linewidth=2)
    axes.set(xlim=(0, found.frames / found.fps), ylim=(0, 1), xticks=[], yticks=[])
    for number, name in enumerate(result.transforms):
        x = 16 + number * WIDTH / 4
        patch = canvas.axes(x, HEIGHT - 78, 34, 34)
        patch.set_facecolor(COLOURS[name])
        patch.set(xticks=[], yticks=[])
        canvas.write(x + 44, HEIGHT - 60, WORDS[name], size=26)
    return canvas.save(path)
