"""Pictures: how a video plays over time, the four transformations of a video, and the pixels that networks look at."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.core.seeding import generator
from vergence.drawing.figure import PALETTE, figure, saved
from vergence.drawing.grid import Panel, grid, heated
from vergence.nn.guided import active_pixels, guided_gradient
from vergence.video.tampered import Timed, centred, checked_length, read_clips, timed_places
from vergence.video.temporaltransforms.model import TemporalNet
from vergence.video.temporaltransforms.settings import EVERY, SETTINGS, Config, Facts
from vergence.video.transforms import fastest, transformed_indices

if TYPE_CHECKING:
    from vergence.video.temporaltransforms.predict import Timeline

COLOURS: dict[str, str] = dict(zip(EVERY, (PALETTE[0], PALETTE[3], PALETTE[2], PALETTE[1]), strict=True))
WORDS: dict[str, str] = dict(zip(EVERY, ("plain", "shuffled", "back and forth", "warped"), strict=True))
SHOWN = 8
"""Frames of a clip that are drawn."""


def timeline(path: Path, video: Timeline, names: Sequence[str]) -> Path:
    """Key frames of a video, and under them the probability of each transformation and the playback speed."""
    panels = [1.4, *([1.3] if names else []), *([1.0] if video.speeds.numel() else []), 0.5]
    drawn = figure(9.6, sum(panels) + 0.9)
    axes = list(drawn.subplots(len(panels), 1, squeeze=False, height_ratios=panels)[:, 0])
    duration, middles = video.frames / video.fps, video.spans.mean(1)
    axis = axes.pop(0)
    axis.imshow(torch.cat(list(video.shown), 2).permute(1, 2, 0).numpy(), aspect="auto")
    axis.axis("off")
    if names:
        axis = axes.pop(0)
        _stacked(axis, video, names, duration)
    if video.speeds.numel():
        axis = axes.pop(0)
        axis.plot(middles, video.playback, color=PALETTE[0], marker="o", markersize=3)
        axis.set(xlim=(0, duration), ylim=(0.7, 10), yscale="log", ylabel="speed", xticks=[])
        axis.set_yticks([1, 2, 4, 8], ["1x", "2x", "4x", "8x"], fontsize=7)
        axis.minorticks_off()
        axis.grid(axis="y", linewidth=0.4)
    axis = axes.pop(0)
    axis.fill_between(middles, 100 * video.change, color=PALETTE[5], alpha=0.6)
    axis.set(xlim=(0, duration), ylim=(0, None), ylabel="change", xlabel="seconds")
    axis.set_yticks([])
    axis.tick_params(labelsize=7)
    drawn.align_ylabels()
    return saved(drawn, path)


def _stacked(axis: Any, video: Timeline, names: Sequence[str], duration: float) -> None:
    """The probabilities of each window as a column; windows share the time in which they overlap."""
    borders, base = video.borders, torch.zeros(len(video.spans))
    for k, name in enumerate(names):
        widths = [b - a for a, b in itertools.pairwise(borders)]
        axis.bar(borders[:-1], video.transforms[:, k], widths, base, align="edge", color=COLOURS[name],
                 label=WORDS[name])  # fmt: skip
        base = base + video.transforms[:, k]
    axis.set(xlim=(0, duration), ylim=(0, 1), yticks=[0, 1], ylabel="looks", xticks=[])
    axis.legend(frameon=False, fontsize=8, ncols=4, loc="lower right", bbox_to_anchor=(1.0, 0.97))


def of_variants(ctx: Context[Config, Facts], models: Mapping[str, TemporalNet], data: Timed) -> list[Artifact]:
    """The transformations of a held-out video, and the pixels that each network looks at in two."""
    video = data.data.video(0)[0]
    rows, length = [], checked_length(video, data.view.frames)
    for name in EVERY:
        indices = transformed_indices(name, length, min(2, fastest(length)), generator("pictures", name),
                                      data.view.frames)  # fmt: skip
        (clip,) = read_clips(video, [indices], data.view.resize)
        picked = range(0, data.view.frames, max(data.view.frames // SHOWN, 1))
        rows.append([Panel(clip[k], f"frame {int(indices[k])}") for k in picked])
    path = grid(ctx.folder / "transformations.png", rows, 1.2, [WORDS[name] for name in EVERY])
    artifacts = [Artifact("image", path, "A held-out video and its transformations; every second frame of a clip.")]
    for number in (0, len(data) // 2):
        artifacts += _looked_at(ctx, models, data, number)
    return artifacts


def _looked_at(
    ctx: Context[Config, Facts], models: Mapping[str, TemporalNet], data: Timed, number: int
) -> list[Artifact]:
    """Guided backpropagation of the strongest output of each network, for one clip of a video."""
    video, label = data.data.video(number)
    (places,) = timed_places(checked_length(video, data.view.frames), data.view, 1)
    clip = ctx.to_device(centred(read_clips(video, [places], data.view.resize)[0], data.view.size))
    frames = ((clip + 1) / 2).cpu()
    picked = range(1, data.view.frames, max(data.view.frames // SHOWN, 1))
    rows, labels = [[Panel(frames[k]) for k in picked]], ["clip"]
    for name, model in models.items():
        if model.head is None:
            continue
        maps = looked_at(model, clip[None])[0].cpu()
        rows.append([heated(frames[k], maps[k]) for k in picked])
        labels.append(SETTINGS.label(name))
    truth = data.data.classes[label] if data.data.classes else ""
    path = grid(ctx.folder / f"active-{number}.png", rows, 1.2, labels)
    return [Artifact("image", path, f"Guided backpropagation: pixels that decide the pretext task. {truth}".strip())]


def looked_at(model: TemporalNet, clips: Tensor) -> Tensor:
    """Maps (B, T, H, W) of the pixels that raise the strongest output of the pretext task."""

    def score(pixels: Tensor) -> Tensor:
        return torch.cat([logits.amax(1, keepdim=True) for logits in model.pretext(pixels).values()], 1)

    return active_pixels(guided_gradient(model, score, clips))
