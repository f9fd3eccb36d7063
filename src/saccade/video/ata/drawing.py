"""Which patches were matched from frame to frame, and what networks respond to, as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from saccade.data.draw import Panel, grid, overlay
from saccade.files import replacing
from saccade.inputs import Artifact
from saccade.nn.video_vit import VideoViT
from saccade.video.ata.settings import Facts
from saccade.video.data import View

MOST = 8
"""Frames drawn side by side."""


def shown(clip: Tensor, view: View) -> Tensor:
    """A normalised clip (T, 3, S, S) as it looks, in [0, 1]."""
    mean, std = (clip.new_tensor(v).view(3, 1, 1) for v in (view.mean, view.std))
    return (clip * std + mean).clamp(0, 1).cpu()


def chained(matches: Tensor) -> Tensor:
    """Matches between neighbours (T - 1, N) as the patch of each frame that each patch of the first one becomes,
    (T, N)."""
    places = [torch.arange(matches.shape[1], device=matches.device)]
    for step in matches:
        places.append(step[places[-1]])
    return torch.stack(places)


def colours(side: int) -> Tensor:
    """A colour for each place of a grid, (N, 3): red to the right, blue downwards, green against both."""
    across = torch.linspace(0, 1, side).expand(side, side)
    return torch.stack([across, 1 - (across + across.T) / 2, across.T], -1).flatten(0, 1)


@torch.no_grad()
def followed(path: Path, model: VideoViT, clip: Tensor, view: View, title: str) -> Artifact:
    """Frames above; below, each patch in the colour of the place of the first frame it was followed from, with a line
    from where it was in the frame before, if that is elsewhere."""
    from matplotlib.figure import Figure

    matches = model.matches(clip[None])[0].cpu()
    places = chained(matches)
    side, frames = model.grid, shown(clip, view)
    step = len(frames) // len(places)  # a tubelet spans several frames
    chosen = np.unique(np.linspace(0, len(places) - 1, min(MOST, len(places))).astype(int))
    cell = frames.shape[-1] / side
    figure = Figure(figsize=(1.7 * len(chosen), 3.7), dpi=120, layout="constrained")
    axes = figure.subplots(2, len(chosen), squeeze=False)
    palette = colours(side)
    for column, time in enumerate(chosen):
        picture = frames[time * step].permute(1, 2, 0).numpy()
        painted = torch.empty(side * side, 3)
        painted[places[time]] = palette
        top, below = axes[0, column], axes[1, column]
        top.imshow(picture, interpolation="nearest")
        top.set_title(title if time == 0 else f"frame {time * step + 1}", fontsize=8)
        below.imshow(picture.mean(-1, keepdims=True).repeat(3, -1), interpolation="nearest")
        mosaic = painted.view(side, side, 3).numpy().repeat(1, 0)
        below.imshow(mosaic, extent=(-0.5, frames.shape[-1] - 0.5, frames.shape[-1] - 0.5, -0.5), alpha=0.55,
                     interpolation="nearest")  # fmt: skip
        if time:
            _lines(below, matches[time - 1], side, cell)
        for axis in (top, below):
            axis.set_axis_off()
    with replacing(path) as partial:
        figure.savefig(partial, format="png")
    caption = (
        "Which patches were matched: a colour follows a patch of the first frame, a line comes from where it was in "
        "the frame before."
    )
    return Artifact("image", path, caption)


def _lines(axis: object, match: Tensor, side: int, cell: float) -> None:
    start = torch.arange(len(match))
    for a, b in zip(start.tolist(), match.tolist(), strict=True):
        if a != b:
            (y0, x0), (y1, x1) = divmod(a, side), divmod(b, side)
            ends = [(x0 + 0.5) * cell, (x1 + 0.5) * cell], [(y0 + 0.5) * cell, (y1 + 0.5) * cell]
            near = max(abs(x0 - x1), abs(y0 - y1)) <= side // 2  # what goes across the picture is drawn faintly
            axis.plot(*ends, color="white", linewidth=0.9, alpha=0.9 if near else 0.25)  # type: ignore[attr-defined]
            axis.plot(ends[0][1], ends[1][1], "o", color="white", markersize=1.8)  # type: ignore[attr-defined]


@torch.no_grad()
def responses(
    stem: Path, models: Mapping[str, VideoViT], clip: Tensor, view: View, facts: Facts, block: int | None = None
) -> list[Artifact]:
    """Figures 1 and 2: frames, then a row a network of its last responses, and of those after the temporal operator
    of a block."""
    frames = shown(clip, view)
    chosen = np.unique(np.linspace(0, len(frames) - 1, min(MOST, len(frames))).astype(int)).tolist()
    made = []
    for kind in ("last", "inner"):
        rows = [[Panel(frames[t], f"frame {t + 1}") for t in chosen]]
        for name, model in models.items():
            scores = model(clip[None])[0].float().softmax(0)
            inner = middle_block(model) if block is None or block < 0 else block
            maps = model.maps(clip[None], None if kind == "last" else inner)[0].float().cpu()
            step = len(frames) // len(maps)
            answer = f"{name}: {facts.name(int(scores.argmax()))} {float(scores.max()):.0%}"
            heats = [(maps[t // step] - maps.mean()).abs() for t in chosen]
            rows.append([Panel(overlay(frames[t], h), answer if not n else "") for n, (t, h) in
                         enumerate(zip(chosen, heats, strict=True))])  # fmt: skip
        path = grid(stem.with_name(f"{stem.name}-{kind}.png"), rows, side=1.7)
        what = "before the classifier" if kind == "last" else "after the temporal operator of an inner block"
        made.append(Artifact("image", path, f"What the networks respond to, {what}: how far the mean over channels is "
                             "from its mean over the clip."))  # fmt: skip
    return made


def middle_block(model: VideoViT) -> int:
    """The seventh of twelve blocks, as in Figure 2."""
    return len(model.blocks) // 2
