"""Timelines: frames of a video, and under them the spans of the truth and of each network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.drawing.figure import BLUE, GREEN, ORANGE, figure, saved
from vergence.video.annotated import Windowed
from vergence.video.bcgnn.model import BCGNN
from vergence.video.bcgnn.settings import SETTINGS, Config, Facts
from vergence.video.proposals import found

SHOWN = 5
"""Spans drawn of a row."""


@dataclass(frozen=True)
class Row:
    """Spans (n, 2) to draw in one row; with scores (n,) they are drawn in steps, fainter for lower scores."""

    title: str
    spans: Tensor
    scores: Tensor | None = None
    colour: str = BLUE


@dataclass(frozen=True)
class Curve:
    """Probabilities of starts and ends over time."""

    places: Tensor
    start: Tensor
    end: Tensor


def strip(path: Path, frames: Tensor, duration: float, rows: Sequence[Row], curve: Curve | None = None) -> Path:
    """Writes frames (K, 3, H, W) side by side, and a timeline of the rows under them."""
    heights = (
        [1.5] * bool(len(frames)) + [0.9] * (curve is not None) + [0.35 + 0.13 * min(len(r.spans), SHOWN) for r in rows]
    )
    drawn = figure(9.6, sum(heights) + 0.5)
    axes = list(drawn.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
    if len(frames):
        axis = axes.pop(0)
        axis.imshow(torch.cat(list(frames), 2).permute(1, 2, 0).numpy(), aspect="auto")
        axis.axis("off")
    if curve is not None:
        axis = axes.pop(0)
        axis.plot(curve.places, curve.start, color=GREEN, label="start")
        axis.plot(curve.places, curve.end, color=ORANGE, label="end")
        axis.set(xlim=(0, duration), ylim=(0, 1.05), xticks=[], yticks=[0, 1])
        axis.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=2)
    for axis, row in zip(axes, rows, strict=True):
        _bars(axis, row, duration)
    axes[-1].set_xlabel("seconds")
    for axis in axes[:-1]:
        axis.set_xticks([])
    return saved(drawn, path)


def _bars(axis: Any, row: Row, duration: float) -> None:
    count = min(len(row.spans), SHOWN)
    top = float(row.scores.max()) if row.scores is not None and count else 1.0
    for number, (start, end) in enumerate(row.spans[:count].tolist()):
        strength = 1.0 if row.scores is None else 0.25 + 0.75 * float(row.scores[number]) / max(top, 1e-9)
        height = 0 if row.scores is None else -number
        axis.barh(height, end - start, left=start, height=0.8, color=row.colour, alpha=strength)
        if row.scores is not None:
            axis.text(min(end + 0.01 * duration, 0.95 * duration), height, f"{float(row.scores[number]):.2f}",
                      va="center", fontsize=7)  # fmt: skip
    axis.set(xlim=(0, duration), yticks=[])
    axis.set_ylim(-(count if row.scores is not None else 1) + 0.4, 0.6)
    axis.set_title(row.title, fontsize=9, loc="left", pad=2)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)


def compared(ctx: Context[Config, Facts], models: Mapping[str, BCGNN], data: Windowed) -> list[Artifact]:
    """One timeline for each of three held-out videos: the truth, and the best spans of every network."""
    some = Windowed(data.data.first(3), data.length, data.longest, data.stride)
    by_model = {name: found(ctx, model, some, ctx.config.nms)[0] for name, model in models.items()}
    artifacts = []
    for video in range(len(some.data)):
        rows = [Row("truth", some.data.spans[video], colour=GREEN)]
        for name, proposals in by_model.items():
            most = max(len(some.data.spans[video]), 2)
            rows.append(Row(SETTINGS.label(name), proposals[video].spans[:most], proposals[video].scores[:most]))
        shown = getattr(some.data, "shown", None)
        frames = shown[video] if shown is not None else torch.zeros(0, 3, 1, 1, dtype=torch.uint8)
        path = strip(ctx.folder / f"spans-{video}.png", frames, some.data.durations[video], rows)
        artifacts.append(Artifact("image", path, "A held-out video: the true spans and the best ones of each network."))
    return artifacts
