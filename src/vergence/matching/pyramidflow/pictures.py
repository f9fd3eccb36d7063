"""Pictures of flow: arrows over the frame, the warped blend, what is occluded, and variants side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.core.files import replacing
from vergence.drawing.figure import figure, saved
from vergence.drawing.maps import flow_colours
from vergence.matching.pyramidflow.model import PyramidFlow, flows
from vergence.ops.flow import warp

ARROWS = 28
"""Arrows along the longer side of a picture."""
HIDDEN = (214, 39, 40)
"""The colour of what is occluded."""


def fastest(flow: Tensor) -> float:
    """The speed of full colour: the 99th percentile, at least one pixel."""
    speed = flow.float().norm(dim=0).flatten()
    step = max(len(speed) // 500_000, 1)
    return max(float(speed[::step].quantile(0.99)), 1.0)


def wheel(side: int) -> Tensor:
    """The colours of all directions, (3, side, side), grey outside of the disc."""
    axis = torch.linspace(-1, 1, side)
    flow = torch.stack(torch.meshgrid(axis, axis, indexing="xy"))
    return torch.where(flow.norm(dim=0) <= 1, flow_colours(flow, 1.0), 90)


def coloured(flow: Tensor, most: float | None = None) -> Tensor:
    """Flow (2, H, W) as bytes (3, H, W), with the colour wheel in a corner where there is room."""
    picture = flow_colours(flow, most or fastest(flow))
    height, width = picture.shape[-2:]
    side = min(height, width) // 6
    if side >= 16:
        picture[:, height - side - 4 : height - 4, width - side - 4 : width - 4] = wheel(side)
    return picture


def arrows(frame: Tensor, flow: Tensor) -> Tensor:
    """Arrows from where pixels are to where they go, over a frame (3, H, W) of bytes. Where motions are much smaller or
    larger than the distance of two arrows, all of them are scaled alike."""
    height, width = frame.shape[-2:]
    zoom = max(1, math.ceil(640 / max(height, width)))
    paled = (frame.float() * 0.6 + 60).round().byte().permute(1, 2, 0).numpy()
    picture = Image.fromarray(paled).resize((width * zoom, height * zoom), Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(picture)
    step = max(max(height, width) / ARROWS, 1.0)
    gain = min(max(1.3 * step / fastest(flow), 0.2), 8.0)
    colours = flow_colours(flow, fastest(flow) * 0.6)
    for y in np.arange(step / 2, height, step):
        for x in np.arange(step / 2, width, step):
            row, column = min(int(y), height - 1), min(int(x), width - 1)
            u, v = (float(c) * gain * zoom for c in flow[:, row, column])
            if math.isfinite(u) and math.isfinite(v):
                colour = tuple(int(c * 0.75) for c in colours[:, row, column])
                _arrow(draw, (x * zoom, y * zoom), (u, v), colour)
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


def _arrow(draw: Any, start: tuple[float, float], way: tuple[float, float], colour: tuple[int, ...]) -> None:
    (x, y), (u, v) = start, way
    length = math.hypot(u, v)
    if length < 1.5:
        draw.ellipse((x - 1, y - 1, x + 1, y + 1), fill=colour)
        return
    end, head = (x + u, y + v), max(min(length / 3, 9.0), 3.0)
    draw.line((x, y, *end), fill=colour, width=2)
    angle = math.atan2(v, u)
    for turn in (2.6, -2.6):
        tip = end[0] + head * math.cos(angle + turn), end[1] + head * math.sin(angle + turn)
        draw.line((*end, *tip), fill=colour, width=2)


def blend(first: Tensor, second: Tensor, flow: Tensor, hidden: Tensor) -> Tensor:
    """The mean of the first frame and of the second one moved back onto it, bytes (3, H, W): sharp where the flow is
    right. What the second frame does not show is red."""
    back = warp(second[None].float(), flow[None].float(), "border")[0]
    mixed = (first.float() + back) / 2
    red = first.float() * 0.4 + torch.tensor(HIDDEN).view(3, 1, 1) * 0.6
    return torch.where(hidden, red, mixed).round().byte()


def write_png(path: Path, picture: Tensor) -> Path:
    """Write bytes (3, H, W) or (H, W) as PNG."""
    array = picture.permute(1, 2, 0) if picture.dim() == 3 else picture
    with replacing(path) as partial:
        Image.fromarray(array.contiguous().numpy()).save(partial, "PNG")
    return path


def sheet(path: Path, rows: Sequence[Sequence[tuple[Tensor, str]]], width: float = 4.6) -> Path:
    """Pictures (3, H, W) with titles, in rows as high as the pictures are."""
    height, across = rows[0][0][0].shape[-2:]
    tall = min(max(width * height / across, 0.6), 3 * width)
    drawn = figure(width * max(map(len, rows)), (tall + 0.3) * len(rows))
    for axis in (axes := drawn.subplots(len(rows), max(map(len, rows)), squeeze=False)).flat:
        axis.set_axis_off()
    for row, places in zip(rows, axes, strict=True):
        for (picture, title), axis in zip(row, places, strict=False):
            axis.imshow(picture.permute(1, 2, 0).numpy(), interpolation="nearest")
            axis.set_title(title, fontsize=9)
    return saved(drawn, path)


def of_variants(ctx: Any, models: Mapping[str, PyramidFlow], data: Any) -> Sequence[Artifact]:
    """Held-out pairs: the first frame, the true flow, and that of each network."""
    from vergence.matching.pyramidflow.predict import pixels

    rows = []
    for index in range(min(4, len(data))):
        sample = data[index]
        first, second = (pixels(sample[name][None].to(ctx.device)) for name in ("first", "second"))
        truth, valid = sample["flow"], sample["valid"]
        most = fastest(truth)
        row = [(sample["first"], "first frame"), (flow_colours(truth, most), f"truth, up to {most:.0f} px")]
        for name, model in models.items():
            flow = flows(model, first, second)[0][0].float().cpu()
            error = (flow - truth).norm(dim=0)[valid].mean()
            row.append((flow_colours(flow, most), f"{name}: {float(error):.2f} px"))
        rows.append(row)
    shown = sheet(ctx.folder / "flows.png", rows, 2.2)
    return [Artifact("image", shown, "Held-out pairs: the true flow and that of each network, in the same colours.")]
