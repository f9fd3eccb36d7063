"""Tracking in a user's video: boxes of the first frame are tracked to the last, drawn into a video and listed in a
table."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact, Box
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import write_table
from vergence.core.memory import peak
from vergence.data.images import fitted
from vergence.data.video import Video, open_video, write_video
from vergence.drawing.grid import Panel, grid
from vergence.reading.pictures import decode_picture
from vergence.tracking.crops import Frame
from vergence.tracking.protocol import Found
from vergence.tracking.sesiam.model import SiameseNetwork
from vergence.tracking.sesiam.settings import Config, Inputs
from vergence.tracking.siamese import Tracker, check_box, together

Ctx = Context[Config, NoFacts]

COLOURS = ("#ff4d4d", "#4da6ff", "#ffd24d", "#5fd35f", "#d98cff", "#ff9f4d")
COLUMNS = ("frame", "target", "x", "y", "width", "height", "score")


@dataclass(frozen=True, eq=False)
class Followed(Result):
    """Targets followed through a video."""

    video: str
    """The name of the video."""
    fps: float
    """Its frames per second."""
    boxes: NDArray[np.float64]
    """Left, top, width and height of every target in every frame, in pixels: (T, N, 4)."""
    scores: NDArray[np.float64]
    """Confidence from 0 to 1: (T, N); 1 in the first frame, where the boxes are given."""
    speed: float
    """Frames tracked per second, all targets together; 0 for a single frame."""
    lost: int
    """Frames that could not be read."""
    memory: int
    """Peak memory of the process, in bytes."""
    kept: tuple[bytes, ...]
    """For a camera, which cannot be read again: the frames as JPEG files."""

    def summary(self) -> Mapping[str, Any]:
        frames, targets = self.scores.shape
        last = "; ".join(", ".join(f"{v:.0f}" for v in box) for box in self.boxes[-1])
        return {
            "frames": frames,
            "targets": targets,
            "last box (x, y, width, height)": last,
            "mean score": float(self.scores.mean()),
            "frames per second": self.speed,
        }


def follow(ctx: Ctx, network: SiameseNetwork, inputs: Inputs) -> Followed:
    """Tracks boxes from the first frame of a user's video to its last."""
    video = opened(inputs.video)
    stream = iter(video)
    first = next(stream, None)
    if first is None:
        raise VergenceError(f"{video.name} has no frames")
    boxes = list(inputs.box) or chosen(first, video.name)
    for box in boxes:
        check_box(box, *first.shape[:2])
    run = _Run(ctx, network, video, boxes, inputs.frames)
    run.follow(first, stream)
    if len(run.places) == 1:
        ctx.progress.say(f"{video.name} has a single frame: there is nothing to follow")
    if video.lost:
        ctx.progress.say(f"{video.name} is damaged: {len(run.places)} frames were read, {video.lost} lost")
    return Followed(
        video.name,
        video.fps,
        np.array([[state.box for state in places] for places in run.places]),
        np.array([[state.score for state in places] for places in run.places]),
        (len(run.places) - 1) / run.seconds if run.seconds else 0.0,
        video.lost,
        peak(),
        tuple(run.kept),
    )


def opened(source: Path) -> Video:
    """Opens the file or folder of that name, or the camera of that number."""
    text = str(source)
    return open_video(int(text) if text.isdigit() and not source.exists() else source)


class _Run:
    """Tracks targets over a stream of frames; keeps only the boxes, and for a camera the frames."""

    def __init__(self, ctx: Ctx, network: SiameseNetwork, video: Video, boxes: Sequence[Box], most: int) -> None:
        self.ctx, self.video, self.boxes, self.most = ctx, video, boxes, most
        self.trackers = [Tracker(network, ctx.config.inference) for _ in boxes]
        self.places: list[Sequence[Found]] = []
        self.kept: list[bytes] = []
        self.seconds = 0.0

    def follow(self, first: Frame, stream: Iterator[Frame]) -> None:
        total = self.video.length if not self.most else min(self.most, self.video.length or self.most)
        task = self.ctx.progress.start("tracking", total)
        for tracker, box in zip(self.trackers, self.boxes, strict=True):
            tracker.start(first, box)
        self._keep(first, [Found((box.x, box.y, box.width, box.height), 1.0) for box in self.boxes])
        try:
            for frame in stream:
                if self.most and len(self.places) >= self.most:
                    break
                if self.ctx.cancelled():
                    raise Cancelled("cancelled")
                self._keep(frame, self._step(frame, first.shape))
                self.ctx.progress.update(task, len(self.places))
        except KeyboardInterrupt:
            if self.video.length is not None:  # a camera runs until it is stopped; results so far are kept
                raise
        self.ctx.progress.finish(task)

    def _step(self, frame: Frame, shape: tuple[int, ...]) -> Sequence[Found]:
        if frame.shape != shape:
            before, now = (f"{size[1]} x {size[0]}" for size in (shape, frame.shape))
            raise VergenceError(
                f"{self.video.name} changes its size from {before} to {now} at frame {len(self.places)}: expected "
                "frames of one size"
            )
        began = time.perf_counter()
        places = together(self.trackers, [frame] * len(self.trackers))
        self.seconds += time.perf_counter() - began
        return places

    def _keep(self, frame: Frame, places: Sequence[Found]) -> None:
        self.places.append(places)
        if self.video.length is None:
            buffer = io.BytesIO()
            Image.fromarray(frame).save(buffer, "JPEG", quality=90)
            self.kept.append(buffer.getvalue())


# Files ---------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Followed) -> Sequence[Artifact]:
    """Writes an annotated video, a few of its frames as a picture, and a table of boxes and scores."""
    stem = inputs.video.stem or "video"
    count = len(result.boxes)
    wanted = {round(i * (count - 1) / 5) for i in range(6)}
    strip: list[Frame] = []

    def drawn() -> Iterator[Frame]:
        frames = _frames(inputs.video, result)
        for number in ctx.progress.track(range(count), "drawing"):
            picture = _drawn(next(frames), result.boxes[number], result.scores[number])
            if number in wanted:
                strip.append(picture)
            yield picture

    shown = write_video(ctx.folder / f"{stem}.mp4", drawn(), result.fps)
    still = _strip(ctx.folder / f"{stem}.png", strip, sorted(wanted))
    rows = [
        (frame, target, *(f"{v:.3f}" for v in (*result.boxes[frame, target], result.scores[frame, target])))
        for frame in range(count)
        for target in range(result.scores.shape[1])
    ]
    table = write_table(ctx.folder / f"{stem}.csv", COLUMNS, rows)
    return [
        Artifact("video", shown, _summary(result)),
        Artifact("image", still, "The targets in six frames of the video."),
        Artifact("table", table, f"One row per frame and target: {', '.join(COLUMNS)}."),
    ]


def _frames(source: Path, result: Followed) -> Iterator[Frame]:
    """Iterates over the tracked frames again."""
    if result.kept:
        return (np.asarray(decode_picture(io.BytesIO(file), source).convert("RGB")) for file in result.kept)
    return iter(opened(source))


def _drawn(frame: Frame, boxes: NDArray[np.float64], scores: NDArray[np.float64]) -> Frame:
    picture = Image.fromarray(frame)
    draw = ImageDraw.Draw(picture)
    thick = max(round(min(frame.shape[:2]) / 180), 2)
    for number, ((x, y, w, h), score) in enumerate(zip(boxes.tolist(), scores.tolist(), strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        draw.rectangle((x, y, x + max(w, 1), y + max(h, 1)), outline=colour, width=thick)
        draw.text((x + 2, max(y - 12, 0)), f"{number}  {score:.2f}" if len(boxes) > 1 else f"{score:.2f}", colour)
    return np.asarray(picture)


def _strip(path: Path, frames: Sequence[Frame], numbers: Sequence[int]) -> Path:
    """Draws frames side by side, three per row."""
    panels = [
        Panel(fitted(torch.from_numpy(frame.copy()).permute(2, 0, 1), 480), f"frame {number}")
        for frame, number in zip(frames, numbers, strict=False)
    ]
    return grid(path, [panels[i : i + 3] for i in range(0, len(panels), 3)], side=3.2)


def _summary(result: Followed) -> str:
    """A one-sentence summary of the run."""
    frames, targets = result.scores.shape
    parts = [f"{frames} frames with {targets} target{'' if targets == 1 else 's'}"]
    if result.speed:
        parts.append(f"{result.speed:.1f} frames per second")
    if result.memory:
        parts.append(f"{result.memory / 2**20:.0f} MiB at most")
    if result.lost:
        parts.append(f"{result.lost} frames of {result.video} could not be read")
    return "; ".join(parts) + "."


# Boxes drawn by hand -------------------------------------------------------------------------------------------------


def chosen(frame: Frame, name: str) -> list[Box]:
    """Boxes that the user draws on the first frame; without a display, an error that says how to give them."""
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
