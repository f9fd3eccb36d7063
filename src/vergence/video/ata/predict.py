"""Labels over time for a user's videos, and one page per video: labels, matched patches and response maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import unused, write_table
from vergence.data.classes import Classes
from vergence.data.video import Video, open_video
from vergence.drawing.inline import data_uri
from vergence.drawing.page import write_page
from vergence.nn.video_vit import VideoViT
from vergence.video.ata.model import Response, respond
from vergence.video.ata.pictures import LABELS, followed, responses, shown, timeline
from vergence.video.ata.settings import Config, Inputs
from vergence.video.data import middle_clip
from vergence.video.settings import ClipView

Ctx = Context[Config, Classes]
AT_ONCE = 16
"""Batch size, in windows."""
UNIFORM = 2.0
"""Seconds per window if training clips span the whole video."""


@dataclass(frozen=True)
class Window:
    """A window of a video: its first and last frame, and the frames that the network gets."""

    first: int
    last: int
    places: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Labels over time of one video."""

    name: str
    fps: float
    frames: int
    """The number of frames of the video."""
    windows: tuple[Window, ...]
    """The windows that could be read."""
    scores: Tensor
    """Probabilities of the classes in each window, (W, K)."""
    clip: Tensor
    """Network input of the most confident window, in [0, 1]: (T, 3, S, S)."""
    matches: Tensor
    """The patch of the next frame that each patch of the clip is matched to, (T - 1, N)."""
    responses: Mapping[str, Response]
    """Response of each network to the clip."""

    @property
    def surest(self) -> int:
        """Index of the most confident window."""
        return int(self.scores.max(1).values.argmax())

    @property
    def spans(self) -> list[tuple[float, float]]:
        """Start and end of each window, in seconds."""
        return [(window.first / self.fps, (window.last + 1) / self.fps) for window in self.windows]


@dataclass(frozen=True, eq=False)
class Labels(Result):
    """Labels of videos over time."""

    labels: tuple[str, ...]
    """The names of the classes."""
    videos: tuple[Timeline, ...]
    """Scores over time of each video, and responses in the most confident window of the first network."""

    def summary(self) -> Mapping[str, Any]:
        if len(self.videos) == 1:
            return {self.videos[0].name: self.of(self.videos[0])}
        return {f"{number}. {video.name}": self.of(video) for number, video in enumerate(self.videos, 1)}

    def of(self, video: Timeline) -> str:
        """The most confident label of a video, with its time."""
        score, (start, end) = video.scores[video.surest], video.spans[video.surest]
        return f"{self.labels[int(score.argmax())]} ({float(score.max()):.0%}), {start:.2f} s to {end:.2f} s"


def windows(view: ClipView, video: Video, seconds: float, hop: float) -> list[Window]:
    """Windows of equal length that cover a video; the last one ends with it."""
    assert video.length is not None
    if not seconds:
        rate = view.rate or video.fps
        seconds = view.stride * view.frames / rate if view.sampling == "dense" else UNIFORM
    span = min(max(round(seconds * video.fps), 2), video.length)
    step = max(round((hop or seconds / 2) * video.fps), 1)
    starts = list(range(0, max(video.length - span, 0) + 1, step))
    if starts[-1] + span < video.length:
        starts.append(video.length - span)
    stretches = []
    for start in starts:
        places = [start + int((i + 0.5) * span / view.frames) for i in range(view.frames)]
        stretches.append(Window(start, start + span - 1, tuple(places)))
    return stretches


# Results -------------------------------------------------------------------------------------------------------------


def label(ctx: Ctx, model: VideoViT, inputs: Inputs) -> Labels:
    """Labels a user's videos over time."""
    networks: dict[str, VideoViT] = {ctx.config.model.temporal: model}
    for name in filter(None, (part.strip() for part in inputs.others.split(","))):
        other, temporal = _companion(ctx, Path(name))
        networks[temporal if temporal not in networks else f"{temporal} ({Path(name).name})"] = other
    if not -1 <= inputs.block < len(model.blocks):
        raise VergenceError(f"--block is from 0 to {len(model.blocks) - 1}, got {inputs.block}")
    videos = [open_video(path) for path in inputs.videos]  # report files that are no video before the work starts
    timelines = tuple(_timeline(ctx, networks, video, inputs) for video in ctx.progress.track(videos, "videos"))
    return Labels(tuple(map(ctx.facts.name, range(ctx.facts.classes))), timelines)


def _companion(ctx: Ctx, path: Path) -> tuple[VideoViT, str]:
    """Loads another network of this system for the same clips; returns it and its temporal variant."""
    other, identity = ctx.load(path)
    if not isinstance(other, VideoViT) or identity.system != "ata":
        raise VergenceError(f"{path} holds no network of ata: --others takes weights of its variants")
    mine, its, classes = ctx.config.data, identity.config.data, identity.facts.classes
    if (its.frames, its.size, classes) != (mine.frames, mine.size, ctx.facts.classes):
        raise VergenceError(
            f"{path} takes {its.frames} frames of {its.size} pixels and has {classes} classes; "
            f"--weights has {mine.frames} of {mine.size} and {ctx.facts.classes}"
        )
    return other, identity.config.model.temporal


def _timeline(ctx: Ctx, networks: Mapping[str, VideoViT], video: Video, inputs: Inputs) -> Timeline:
    view, model = ctx.config.data, next(iter(networks.values()))
    if video.length is None or video.length < 2:
        raise VergenceError(f"{video.name} has one frame only: a clip needs a video of at least two")
    if video.length < view.frames:
        ctx.progress.say(
            f"{video.name} has {video.length} frames, fewer than the {view.frames} of a clip: some come twice"
        )
    read, scores = _scores(ctx, model, video, windows(view, video, inputs.window, inputs.hop))
    surest = read[int(scores.max(1).values.argmax())]
    clip = ctx.to_device(middle_clip(view, video, surest.places))
    return Timeline(
        video.name,
        video.fps,
        video.length,
        tuple(read),
        scores,
        shown(clip, view),
        model.matches(clip[None])[0].cpu(),
        {name: respond(network, clip, inputs.block) for name, network in networks.items()},
    )


def _scores(ctx: Ctx, model: VideoViT, video: Video, wanted: Sequence[Window]) -> tuple[list[Window], Tensor]:
    """The windows that could be read, and their scores (W, classes)."""
    read: list[Window] = []
    scores: list[Tensor] = []
    refused: list[VergenceError] = []
    for start in range(0, len(wanted), AT_ONCE):
        clips = []
        for window in wanted[start : start + AT_ONCE]:
            if ctx.cancelled():
                raise Cancelled("cancelled")
            try:
                clips.append(middle_clip(ctx.config.data, video, window.places))
                read.append(window)
            except VergenceError as error:
                refused.append(error)
        if clips:
            scores.append(model(ctx.to_device(torch.stack(clips))).float().softmax(-1).cpu())
    if not read:
        raise refused[0]
    if refused:
        ctx.progress.say(f"{len(refused)} of {len(wanted)} windows are left out: {refused[0]}")
    return read, torch.cat(scores)


# Files ---------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Labels) -> list[Artifact]:
    """Writes a table of the labels of all windows, and for each video a page and its pictures."""
    count = min(LABELS, len(result.labels))
    heading = [f"{word} {rank}" for rank in range(1, count + 1) for word in ("label", "probability")]
    rows = [
        [str(path), f"{start:.2f}", f"{end:.2f}", *_likeliest(score, result.labels)]
        for path, video in zip(inputs.videos, result.videos, strict=True)
        for (start, end), score in zip(video.spans, video.scores, strict=True)
    ]
    table = write_table(ctx.folder / "labels.csv", ["file", "from", "to", *heading], rows)
    artifacts = [Artifact("table", table, "The most likely labels of every window, from and to in seconds.")]
    for path, video in zip(inputs.videos, result.videos, strict=True):
        artifacts += _page(ctx, path, video, result)
    return artifacts


def _likeliest(score: Tensor, labels: Sequence[str]) -> list[str]:
    best = score.argsort(descending=True)[:LABELS].tolist()
    return [value for i in best for value in (labels[i], f"{float(score[i]):.4f}")]


_FIGURES = """{% for image in images %}
<figure><img src="{{ image.data }}" alt="{{ image.caption }}"><figcaption>{{ image.caption }}</figcaption></figure>
{% endfor %}
"""


def _page(ctx: Ctx, path: Path, video: Timeline, result: Labels) -> list[Artifact]:
    """Writes the page of a video, with pictures of its most confident window."""
    page = unused(ctx.folder / f"{path.stem or path.name}.html")
    stem, name = page.with_suffix(""), result.labels[int(video.scores[video.surest].argmax())]
    images = [
        timeline(stem.with_name(f"{stem.name}-labels.png"), video.spans, video.scores, result.labels),
        followed(stem.with_name(f"{stem.name}-matches.png"), video.clip, video.matches, name),
        *responses(stem.with_name(f"{stem.name}-responses"), video.clip, video.responses, result.labels),
    ]
    start, end = video.spans[video.surest]
    note = f"{video.frames} frames, {video.fps:g} per second. Drawn below: {start:.2f} s to {end:.2f} s, {name}."
    values = [{"data": data_uri("png", image.path.read_bytes()), "caption": image.caption} for image in images]
    write_page(page, path.name, note, _FIGURES, "figure { margin: 1.6rem 0; }", images=values)
    return [Artifact("html", page, f"{path.name}: labels over time, matched patches and responses."), *images]
