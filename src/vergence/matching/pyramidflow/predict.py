"""Optical flow of a user's frames: two pictures, or a whole video frame by frame."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact, InMemory
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.images import SUFFIXES as PICTURES
from vergence.data.images import normalised, read_image
from vergence.data.maps import write_flo
from vergence.data.video import Frame, Video, open_video, write_video
from vergence.matching.pyramidflow import pictures as drawn
from vergence.matching.pyramidflow.model import PyramidFlow, flows
from vergence.matching.pyramidflow.settings import Config, Inputs
from vergence.ops.flow import occluded, resized_flow, warp
from vergence.reading.pictures import decode_picture

Ctx = Context[Config, NoFacts]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BYTES_PER_PIXEL = 900
"""Memory of the starter network for a pixel of one frame, about; the published one needs eight times that."""
APART = 0.05, 4.0
"""Disagreement of both directions that makes a pixel occluded: more than 2 px, or a twentieth of the squared motions.
Sundaram et al. take 0.01 and 0.5, less than a small network's own errors."""
COLUMNS = ("frame", "next", "mean px", "99 % px", "mean x", "mean y", "occluded %", "difference before", "after")


@dataclass(frozen=True, eq=False)
class OpticalFlow(Result):
    """Motion between two frames."""

    first: Tensor
    """The first frame, bytes (3, H, W)."""
    second: Tensor
    """The second frame, bytes (3, H, W)."""
    flow: Tensor
    """Motion of the first frame's pixels to the right and down, (2, H, W) pixels."""
    backward: Tensor
    """Motion of the second frame's pixels back to the first, (2, H, W) pixels."""
    occluded: Tensor
    """Pixels of the first frame that the second does not show, (H, W)."""
    before: float
    """Mean absolute difference of the frames, from 0 to 255."""
    after: float
    """The same after the second frame is warped onto the first, over pixels that are not occluded."""
    note: str
    """What is special about the frames; empty if nothing is."""

    def summary(self) -> Mapping[str, Any]:
        told: dict[str, Any] = {"note": self.note} if self.note else {}
        return told | {
            "size": f"{self.first.shape[-1]} x {self.first.shape[-2]}",
            "mean motion, px": round(float(self.flow.norm(dim=0).mean()), 3),
            "mean flow, px (right, down)": [round(v, 3) for v in self.flow.mean((1, 2)).tolist()],
            "fastest, px (99th percentile)": round(_quantile(self.flow.norm(dim=0)), 2),
            "occluded": f"{float(self.occluded.float().mean()):.1%}",
            "difference of frames, before and after warping": f"{self.before:.2f}, {self.after:.2f}",
        }


@dataclass(frozen=True, eq=False)
class MotionVideo(Result):
    """Motion in a video, from every frame to the next."""

    video: str
    """The name of the video."""
    fps: float
    """Its frames per second."""
    motion: Tensor
    """For each pair of frames: mean and 99th percentile of the speed, mean motion to the right and down (all in
    pixels), the occluded share, and the mean difference of the frames before and after warping; (T, 7)."""
    every: int
    """From each frame to the nth after it."""
    most: float
    """The speed in pixels that has full colour."""
    lost: int
    """Frames that could not be read."""
    colours: tuple[bytes, ...]
    """The flow in colours, one JPEG file per pair of frames."""

    def summary(self) -> Mapping[str, Any]:
        return {
            "pairs of frames": len(self.motion),
            "mean motion, px": round(float(self.motion[:, 0].mean()), 3),
            "fastest, px (99th percentile)": round(float(self.motion[:, 1].max()), 2),
            "occluded": f"{float(self.motion[:, 4].mean()):.1%}",
            "difference of frames, before and after warping": ", ".join(f"{v:.2f}" for v in self.motion[:, 5:].mean(0)),
        }


def pixels(frames: Tensor) -> Tensor:
    """Bytes (B, 3, H, W) as the network takes them."""
    return normalised(frames.float() / 255, MEAN, STD)


def optical_flow(ctx: Ctx, model: PyramidFlow, inputs: Inputs) -> OpticalFlow | MotionVideo:
    """The flow of two pictures, or of a video."""
    if len(inputs.images) == 1:
        only = inputs.images[0]
        if not _is_folder(only) and only.suffix.lower() in PICTURES and not isinstance(only, InMemory):
            read_image(only)  # a file that is no picture is refused as such
            raise VergenceError(f"{only} is a single picture: optical flow needs two, or a video or folder of frames")
        return _video(ctx, model, inputs)
    if len(inputs.images) != 2:
        raise VergenceError(f"optical flow is between two pictures, or in one video; got {len(inputs.images)} files")
    first, second = (read_image(path) for path in inputs.images)
    if first.shape != second.shape:
        one, two = (
            f"{path.name} ({p.shape[2]} x {p.shape[1]})" for path, p in zip(inputs.images, (first, second), strict=True)
        )
        raise VergenceError(f"{one} and {two} differ in size: expected two frames of one size")
    return between(ctx, model, first, second, inputs.scale)


def between(ctx: Ctx, model: PyramidFlow, first: Tensor, second: Tensor, scale: float = 1.0) -> OpticalFlow:
    """The flow between two frames of bytes (3, H, W)."""
    area = first[0].numel() * scale**2
    large = 8 if model.settings.width > 64 else 1
    ctx.need(BYTES_PER_PIXEL * large * area, f"the flow of {first.shape[2]} x {first.shape[1]} pixels")
    before = float((first.float() - second.float()).abs().mean())
    if torch.equal(first, second):
        still = torch.zeros(2, *first.shape[1:])
        note = "the two frames are identical: the flow is zero"
        ctx.progress.say(note)
        return OpticalFlow(
            first, second, still, still.clone(), torch.zeros(first.shape[1:], dtype=torch.bool), 0.0, 0.0, note
        )
    flow, backward = _both(ctx, model, first, second, scale)
    hidden = occluded(flow[None], backward[None], *APART)[0]
    back = warp(second[None].float(), flow[None], "border")[0]
    gap = (back - first.float()).abs().mean(0)[~hidden]
    after = float(gap.mean()) if len(gap) else float("nan")
    return OpticalFlow(first, second, flow, backward, hidden, before, after, "")


def _both(ctx: Ctx, model: PyramidFlow, first: Tensor, second: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    height, width = first.shape[-2:]
    frames = [pixels(ctx.to_device(frame[None])) for frame in (first, second)]
    if scale != 1:
        size = [max(round(side * scale), 1) for side in (height, width)]
        frames = [F.interpolate(frame, size, mode="bilinear", antialias=True) for frame in frames]
    found = flows(model, frames[0], frames[1])
    flow, backward = (resized_flow(f.float(), height, width, False)[0].cpu() for f in found)
    return flow, backward


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


# Videos ---------------------------------------------------------------------------------------------------------------


def _video(ctx: Ctx, model: PyramidFlow, inputs: Inputs) -> MotionVideo:
    """Only the frames in between are in memory, and the flow in colours as JPEG files."""
    video = open_video(inputs.images[0])
    total = min(inputs.frames or 10**9, video.length or 10**9) - inputs.every
    rows, colours, most = [], [], 0.0
    task = ctx.progress.start("flow", max(total, 0) or None)
    for number, (one, two) in enumerate(_pairs(video, inputs), 1):
        if ctx.cancelled():
            raise Cancelled("cancelled")
        found = between(_quiet(ctx), model, one, two, inputs.scale)
        speed = found.flow.norm(dim=0)
        most = most or drawn.fastest(found.flow) * 1.5  # one scale of colours, so that they do not flicker
        hidden = float(found.occluded.float().mean())
        rows.append(
            [
                float(speed.mean()),
                _quantile(speed),
                *found.flow.mean((1, 2)).tolist(),
                hidden,
                found.before,
                found.after,
            ]
        )
        colours.append(_jpeg(drawn.coloured(found.flow, most)))
        ctx.progress.update(task, number)
    ctx.progress.finish(task)
    if not rows:
        raise VergenceError(
            f"{video.name} has a single frame: optical flow needs two" if inputs.every == 1
            else f"{video.name} has no frame {inputs.every} after its first: optical flow needs both"
        )  # fmt: skip
    if video.lost:
        ctx.progress.say(f"{video.name} is damaged: {video.lost} frames could not be read")
    return MotionVideo(video.name, video.fps, torch.tensor(rows), inputs.every, most, video.lost, tuple(colours))


def _quiet(ctx: Ctx) -> Ctx:
    from dataclasses import replace

    from vergence.core.progress import Progress

    return replace(ctx, progress=Progress())


def _pairs(video: Video, inputs: Inputs) -> Iterator[tuple[Tensor, Tensor]]:
    """Frames and the nth after each."""
    kept: list[Tensor] = []
    for number, frame in enumerate(video):
        if inputs.frames and number >= inputs.frames:
            return
        kept.append(torch.from_numpy(np.ascontiguousarray(frame)).permute(2, 0, 1))
        if kept[0].shape != kept[-1].shape:
            raise VergenceError(
                f"{video.name} changes its size at frame {number}, from {kept[0].shape[2]} x {kept[0].shape[1]} to "
                f"{kept[-1].shape[2]} x {kept[-1].shape[1]}: expected frames of one size"
            )
        if len(kept) > inputs.every:
            yield kept.pop(0), kept[-1]


def _jpeg(picture: Tensor) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture.permute(1, 2, 0).contiguous().numpy()).save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def _quantile(speed: Tensor) -> float:
    values = speed.flatten()
    return float(values[:: max(len(values) // 500_000, 1)].quantile(0.99))


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: OpticalFlow | MotionVideo) -> Sequence[Artifact]:
    """Writes flow, occlusion and pictures; of a video the flow in colours beside the frames, and a table."""
    if isinstance(result, MotionVideo):
        return _video_files(ctx, inputs, result)
    one, two = inputs.images
    stem = f"{one.stem}-to-{two.stem}"
    most = drawn.fastest(result.flow)
    wheel, arrows = drawn.coloured(result.flow, most), drawn.arrows(result.first, result.flow)
    blend = drawn.blend(result.first, result.second, result.flow, result.occluded)
    panels = [
        [(result.first, one.name[-40:]), (wheel, f"flow, full colour at {most:.1f} px")],
        [(arrows, "motion"), (blend, "both frames after warping; red: occluded")],
    ]
    shown = drawn.sheet(ctx.folder / f"{stem}.png", panels)
    facts = ctx.folder / f"{stem}.json"
    write_json(facts, {"first": one.name, "second": two.name, **result.summary()})
    files = {name: ctx.folder / f"{stem}-{name}.png" for name in ("colours", "arrows", "blend", "occluded")}
    for name, picture in zip(files, (wheel, arrows, blend, result.occluded.byte() * 255), strict=True):
        drawn.write_png(files[name], picture)
    forward, backward = (
        write_flo(ctx.folder / f"{stem}-{name}.flo", flow.permute(1, 2, 0).numpy())
        for name, flow in (("flow", result.flow), ("backward", result.backward))
    )
    return [
        Artifact("image", shown, "The first frame, its flow in colours and as arrows, and both frames after warping."),
        Artifact("table", forward, f"Motion of each pixel of {one.name}, as Middlebury's .flo: float32 (H, W, 2)."),
        Artifact("table", backward, f"Motion of each pixel of {two.name} back to {one.name}."),
        Artifact("image", files["colours"], "The flow in colours: hue is the direction, strength the speed."),
        Artifact("image", files["arrows"], "The motion as arrows over the first frame."),
        Artifact("image", files["blend"], "The first frame and the second warped onto it, averaged; red: occluded."),
        Artifact("image", files["occluded"], f"White: pixels of {one.name} that {two.name} does not show."),
        Artifact("json", facts, "The main numbers."),
    ]


def _video_files(ctx: Ctx, inputs: Inputs, result: MotionVideo) -> Sequence[Artifact]:
    source = inputs.images[0]
    stem = source.stem or "video"
    count = len(result.colours)
    wanted = {round(i * (count - 1) / 2) for i in range(3)}
    strip: list[list[tuple[Tensor, str]]] = []

    def beside() -> Iterator[Frame]:
        frames = iter(open_video(source))
        for number in ctx.progress.track(range(count), "drawing"):
            frame = np.asarray(next(frames))
            flow = np.asarray(decode_picture(io.BytesIO(result.colours[number]), source).convert("RGB"))
            if number in wanted:
                both = [torch.from_numpy(picture.copy()).permute(2, 0, 1) for picture in (frame, flow)]
                strip.append([(both[0], f"frame {number}"), (both[1], f"flow, full colour at {result.most:.1f} px")])
            yield np.concatenate([frame, flow], 1 if frame.shape[0] >= frame.shape[1] else 0)

    made = write_video(ctx.folder / f"{stem}-flow.mp4", beside(), result.fps)
    still = drawn.sheet(ctx.folder / f"{stem}-flow.png", strip)
    rows = [
        (n, n + result.every, *(f"{v:.3f}" for v in row[:4]), f"{100 * row[4]:.2f}", *(f"{v:.3f}" for v in row[5:]))
        for n, row in enumerate(result.motion.tolist())
    ]
    table = write_table(ctx.folder / f"{stem}-motion.csv", COLUMNS, rows)
    return [
        Artifact("video", made, "The frames and their flow in colours."),
        Artifact("image", still, "Frames at the beginning, in the middle and at the end, with their flow."),
        Artifact("table", table, f"One row per pair of frames: {', '.join(COLUMNS)}."),
    ]
