"""A user's video: boxes on the first frame are followed to the last, drawn into a video and listed in a table."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact, Box
from vergence.contract.settings import NoFacts
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import write_table
from vergence.core.memory import peak
from vergence.data.video import Video, open_video, write_video
from vergence.tracking.crops import Frame
from vergence.tracking.protocol import Found
from vergence.tracking.sesiam.model import SiameseNetwork
from vergence.tracking.sesiam.settings import Config, Inputs
from vergence.tracking.siamese import Tracker, check_box, together

Ctx = Context[Config, NoFacts]

COLOURS = ("#ff4d4d", "#4da6ff", "#ffd24d", "#5fd35f", "#d98cff", "#ff9f4d")
COLUMNS = ("frame", "target", "x", "y", "width", "height", "score")


def follow_video(ctx: Ctx, network: SiameseNetwork, inputs: Inputs) -> Sequence[Artifact]:
    """An annotated video and a table of boxes and scores."""
    video = opened(inputs.video)
    stream = iter(video)
    first = next(stream, None)
    if first is None:
        raise VergenceError(f"{video.name} has no frames")
    boxes = list(inputs.box) or chosen(first, video.name)
    for box in boxes:
        check_box(box, *first.shape[:2])
    stem = inputs.video.stem or "video"
    run = _Run(ctx, network, video, boxes, inputs.frames)
    shown = write_video(ctx.folder / f"{stem}.mp4", run.frames(first, stream), video.fps)
    if run.count == 1:
        ctx.progress.say(f"{video.name} has a single frame: there is nothing to follow")
    rows = ((int(f), int(n), *(f"{v:.3f}" for v in rest)) for f, n, *rest in run.rows)
    table = write_table(ctx.folder / f"{stem}.csv", COLUMNS, rows)
    return [
        Artifact("video", shown, run.summary()),
        Artifact("table", table, f"One row per frame and target: {', '.join(COLUMNS)}."),
    ]


def opened(source: Path) -> Video:
    """A file or folder of that name, or the camera of that number."""
    text = str(source)
    return open_video(int(text) if text.isdigit() and not source.exists() else source)


class _Run:
    """Follows targets while the frames go by: nothing but the boxes is kept."""

    def __init__(self, ctx: Ctx, network: SiameseNetwork, video: Video, boxes: Sequence[Box], most: int) -> None:
        self.ctx, self.video, self.boxes, self.most = ctx, video, boxes, most
        self.trackers = [Tracker(network, ctx.config.inference) for _ in boxes]
        self.rows: list[tuple[float, ...]] = []
        self.count, self.seconds = 0, 0.0

    def frames(self, first: Frame, stream: Iterator[Frame]) -> Iterator[Frame]:
        """Every frame with its boxes drawn."""
        total = self.video.length if not self.most else min(self.most, self.video.length or self.most)
        task = self.ctx.progress.start("tracking", total)
        for tracker, box in zip(self.trackers, self.boxes, strict=True):
            tracker.start(first, box)
        yield self._drawn(first, [Found((box.x, box.y, box.width, box.height), 1.0) for box in self.boxes])
        try:
            for frame in stream:
                if self.most and self.count >= self.most:
                    break
                if self.ctx.cancelled():
                    raise Cancelled("cancelled")
                yield self._drawn(frame, self._step(frame, first.shape))
                self.ctx.progress.update(task, self.count)
        except KeyboardInterrupt:
            if self.video.length is not None:  # a camera goes on until someone stops it, and keeps what it has
                raise
        self.ctx.progress.finish(task)

    def _step(self, frame: Frame, shape: tuple[int, ...]) -> Sequence[Found]:
        if frame.shape != shape:
            before, now = (f"{size[1]} x {size[0]}" for size in (shape, frame.shape))
            raise VergenceError(
                f"{self.video.name} changes its size from {before} to {now} at frame {self.count}: expected frames of "
                "one size"
            )
        began = time.perf_counter()
        places = together(self.trackers, [frame] * len(self.trackers))
        self.seconds += time.perf_counter() - began
        return places

    def _drawn(self, frame: Frame, places: Sequence[Found]) -> Frame:
        picture = Image.fromarray(frame)
        draw = ImageDraw.Draw(picture)
        thick = max(round(min(frame.shape[:2]) / 180), 2)
        for number, ((x, y, w, h), score) in enumerate(places):
            self.rows.append((self.count, number, x, y, w, h, score))
            colour = COLOURS[number % len(COLOURS)]
            draw.rectangle((x, y, x + max(w, 1), y + max(h, 1)), outline=colour, width=thick)
            draw.text((x + 2, max(y - 12, 0)), f"{number}  {score:.2f}" if len(places) > 1 else f"{score:.2f}", colour)
        self.count += 1
        return np.asarray(picture)

    def summary(self) -> str:
        """What was done, in one sentence."""
        many = "target" if len(self.boxes) == 1 else "targets"
        parts = [f"{self.count} frames with {len(self.boxes)} {many}"]
        if self.seconds:
            parts.append(f"{(self.count - 1) / self.seconds:.1f} frames a second")
        held = peak()
        if held:
            parts.append(f"{held / 2**20:.0f} MiB at most")
        if self.video.lost:
            parts.append(f"{self.video.lost} frames of {self.video.name} could not be read")
            self.ctx.progress.say(
                f"{self.video.name} is damaged: {self.count} frames were read, {self.video.lost} lost"
            )
        return "; ".join(parts) + "."


# Boxes drawn by hand -------------------------------------------------------------------------------------------------


def chosen(frame: Frame, name: str) -> list[Box]:
    """Boxes that a person drags on the first frame; where there is no display, a sentence on how to give them."""
    height, width = frame.shape[:2]
    how = f"no box to follow in {name}: give --box x,y,width,height in the pixels of its {width} x {height} frames"
    if not (sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise VergenceError(how)
    import matplotlib

    if matplotlib.get_backend().lower() in ("agg", "pdf", "svg", "ps", "cairo", "template"):
        raise VergenceError(f"{how} (matplotlib has no window to draw one in)")
    boxes = _dragged(frame, f"drag a box, Enter takes it, closing the window starts: {name}")
    if not boxes:
        raise VergenceError(how)
    return boxes


def _dragged(frame: Frame, title: str) -> list[Box]:
    from matplotlib import pyplot
    from matplotlib.patches import Rectangle
    from matplotlib.widgets import RectangleSelector

    taken: list[Box] = []
    figure, axis = pyplot.subplots()
    axis.imshow(frame)
    axis.set_title(title, fontsize=9)
    axis.set_axis_off()
    selector = RectangleSelector(axis, lambda *_: None, interactive=True, useblit=False)

    def take(event: Any = None) -> None:
        left, right, top, bottom = selector.extents
        box = Box(left, top, right - left, bottom - top)
        if (event is None or event.key == "enter") and box.width >= 1 and box.height >= 1 and box not in taken:
            taken.append(box)
            axis.add_patch(Rectangle(box[:2], box.width, box.height, fill=False, edgecolor=COLOURS[0]))

    figure.canvas.mpl_connect("key_press_event", take)
    figure.canvas.mpl_connect("close_event", lambda _: take())
    pyplot.show()
    return taken
