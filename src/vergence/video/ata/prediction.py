"""Labels over time for a user's videos, and a page for each: when what happens, which patches follow which, and what
the networks respond to."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jinja2 import Environment
from torch import Tensor, nn

from vergence.contract.config import from_json
from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import load_tensors, replacing, write_text
from vergence.data.video import Video, open_video
from vergence.nn.video_vit import VideoViT
from vergence.video.ata.drawing import followed, responses
from vergence.video.ata.settings import Config, Facts, Inputs
from vergence.video.data import View

AT_ONCE = 16
"""Windows that go through the network together."""
UNIFORM = 2.0
"""Seconds of a window where a clip of training spans its whole video."""
SHOWN = 5
"""Labels in the table and curves in the plot."""


@dataclass(frozen=True)
class Window:
    """A stretch of a video: its first and last frame, and the frames the network looks at."""

    first: int
    last: int
    places: tuple[int, ...]


def windows(view: View, video: Video, seconds: float, hop: float) -> list[Window]:
    """Stretches of so many seconds that cover a video, the last one flush with its end."""
    assert video.length is not None
    if not seconds:
        own = view.rate or video.fps
        seconds = view.stride * view.frames / own if view.sampling == "dense" else UNIFORM
    span = min(max(round(seconds * video.fps), 2), video.length)
    step = max(round((hop or seconds / 2) * video.fps), 1)
    starts = list(range(0, max(video.length - span, 0) + 1, step))
    if starts[-1] + span < video.length:
        starts.append(video.length - span)
    found = []
    for start in starts:
        places = [start + int((i + 0.5) * span / view.frames) for i in range(view.frames)]
        found.append(Window(start, start + span - 1, tuple(places)))
    return found


class Prediction:
    """The work on all videos that were given."""

    def __init__(
        self, ctx: Context[Config, Facts], model: VideoViT, inputs: Inputs, build: Callable[[Config, Facts], nn.Module]
    ) -> None:
        if not inputs.videos:
            raise VergenceError("no video given to predict on")
        self.ctx, self.inputs, self.view = ctx, inputs, ctx.config.data
        self.model = model.to(ctx.device).eval()
        self.models: dict[str, VideoViT] = {ctx.config.model.temporal: self.model}
        for name in filter(None, (part.strip() for part in inputs.others.split(","))):
            config, other = _companion(Path(name), ctx, build)
            label = config.model.temporal
            self.models[label if label not in self.models else f"{label} ({Path(name).name})"] = other
        if not -1 <= inputs.block < len(self.model.blocks):
            raise VergenceError(f"--block is from 0 to {len(self.model.blocks) - 1}, got {inputs.block}")

    def files(self) -> list[Artifact]:
        rows: list[list[str]] = []
        made: list[Artifact] = []
        videos = [open_video(path) for path in self.inputs.videos]  # whatever is no video is said before the work
        for path, video in zip(self.inputs.videos, self.ctx.progress.track(videos, "videos"), strict=True):
            made += self._one(path, video, rows)
        table = self.ctx.folder / "labels.csv"
        count = max(len(row) for row in rows) // 2 - 1
        heading = [f"{word} {rank}" for rank in range(1, count + 1) for word in ("label", "probability")]
        with replacing(table) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["file", "from", "to", *heading], *rows])
        return [Artifact("table", table, "The most likely labels of every window, from and to in seconds."), *made]

    def _one(self, path: Path, video: Video, rows: list[list[str]]) -> list[Artifact]:
        if video.length is None or video.length < 2:
            raise VergenceError(f"{video.name} has one frame only: what happens in a video takes at least two")
        if video.length < self.view.frames:
            self.ctx.progress.say(
                f"{video.name} has {video.length} frames, fewer than the {self.view.frames} of a clip: some come twice"
            )
        wanted = windows(self.view, video, self.inputs.window, self.inputs.hop)
        read, scores = self._scores(video, wanted)
        for window, score in zip(read, scores, strict=True):
            best = score.argsort(descending=True)[:SHOWN].tolist()
            said = [value for i in best for value in (self.ctx.facts.name(i), f"{float(score[i]):.4f}")]
            rows.append([str(path), f"{window.first / video.fps:.2f}", f"{(window.last + 1) / video.fps:.2f}", *said])
        return self._page(path, video, read, scores)

    def _scores(self, video: Video, wanted: Sequence[Window]) -> tuple[list[Window], Tensor]:
        """Windows that could be read, and their scores (W, classes)."""
        read: list[Window] = []
        scores: list[Tensor] = []
        refused: list[VergenceError] = []
        for start in range(0, len(wanted), AT_ONCE):
            clips = []
            for window in wanted[start : start + AT_ONCE]:
                if self.ctx.cancelled():
                    raise Cancelled("cancelled")
                try:
                    clips.append(self.view.middle(video, window.places))
                    read.append(window)
                except VergenceError as error:
                    refused.append(error)
            if clips:
                scores.append(self.model(self._placed(torch.stack(clips))).float().softmax(-1).cpu())
        if not read:
            raise refused[0]
        if refused:
            self.ctx.progress.say(f"{len(refused)} of {len(wanted)} windows are left out: {refused[0]}")
        return read, torch.cat(scores)

    def _placed(self, clips: Tensor) -> Tensor:
        placed: Tensor = self.ctx.to_device(clips)
        return placed

    def _page(self, path: Path, video: Video, read: Sequence[Window], scores: Tensor) -> list[Artifact]:
        """Drawn for the window that the network is surest of."""
        surest = int(scores.max(1).values.argmax())
        window = read[surest]
        clip = self._placed(self.view.middle(video, window.places))
        name = self.ctx.facts.name(int(scores[surest].argmax()))
        stem = _unused(self.ctx.folder / f"{path.stem or path.name}.html")
        images = [timeline(stem.with_name(f"{stem.stem}-labels.png"), video, read, scores, self.ctx.facts)]
        images.append(followed(stem.with_name(f"{stem.stem}-matches.png"), self.model, clip, self.view, name))
        images += responses(
            stem.with_name(f"{stem.stem}-responses"), self.models, clip, self.view, self.ctx.facts, self.inputs.block
        )
        start, end = window.first / video.fps, (window.last + 1) / video.fps
        note = f"{video.length} frames, {video.fps:g} a second. Drawn below: {start:.2f} s to {end:.2f} s, {name}."
        _write_page(stem, path.name, note, images)
        return [Artifact("html", stem, f"{path.name}: labels over time, matched patches and responses."), *images]


def timeline(path: Path, video: Video, read: Sequence[Window], scores: Tensor, facts: Facts) -> Artifact:
    """The probabilities of the likeliest labels over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.6), dpi=120, layout="constrained")
    axis = figure.subplots()
    best = scores.max(0).values.argsort(descending=True)[:SHOWN].tolist()
    middles = [(w.first + w.last + 1) / 2 / video.fps for w in read]
    for label in best:
        if len(read) == 1:
            axis.hlines(float(scores[0, label]), read[0].first / video.fps, (read[0].last + 1) / video.fps,
                        color=f"C{best.index(label)}", label=facts.name(label))  # fmt: skip
        else:
            axis.plot(middles, scores[:, label].tolist(), marker="o", markersize=2.5, label=facts.name(label))
    axis.set(xlabel="seconds", ylabel="probability", ylim=(-0.03, 1.03))
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    with replacing(path) as partial:
        figure.savefig(partial, format="png")
    return Artifact("image", path, "Labels over time: each point is the middle of a window.")


def _companion(
    path: Path, ctx: Context[Config, Facts], build: Callable[[Config, Facts], nn.Module]
) -> tuple[Config, VideoViT]:
    """Another network of this system, that looks at the same clips."""
    tensors, metadata = load_tensors(path)
    try:
        described = json.loads(metadata.get("vergence", "{}"))
        system = described.get("system")
    except (ValueError, AttributeError, RecursionError):
        system = None
    if system != "ata":
        raise VergenceError(f"{path} holds no network of ata: --others takes weights of its variants")
    config = from_json(Config, described.get("config"), f"the config in {path}")
    facts = from_json(Facts, described.get("facts"), f"the facts in {path}")
    mine, its = ctx.config.data, config.data
    if (its.frames, its.size, facts.classes) != (mine.frames, mine.size, ctx.facts.classes):
        raise VergenceError(
            f"{path} looks at {its.frames} frames of {its.size} pixels and knows {facts.classes} classes; "
            f"--weights has {mine.frames} of {mine.size} and {ctx.facts.classes}"
        )
    model = build(config, facts)
    try:
        model.load_state_dict(tensors)
    except RuntimeError:
        raise VergenceError(f"the weights in {path} do not fit the network that its config describes") from None
    assert isinstance(model, VideoViT)
    return config, model.to(ctx.device, ctx.float_type).eval()


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1c1c1e; }
figure { margin: 1.6rem 0; } figure img { max-width: 100%; } figcaption { font-size: .85rem; color: #555; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
</style>
<h1>{{ title }}</h1>
<p>{{ note }}</p>
{% for image in images %}
<figure><img src="data:image/png;base64,{{ image.data }}" alt="{{ image.caption }}">
<figcaption>{{ image.caption }}</figcaption></figure>
{% endfor %}
</html>
"""


def _write_page(path: Path, title: str, note: str, images: Sequence[Artifact]) -> None:
    """One HTML file with everything in it."""
    shown = [{"data": base64.b64encode(i.path.read_bytes()).decode(), "caption": i.caption} for i in images]
    template = Environment(autoescape=True, trim_blocks=True).from_string(_PAGE)
    write_text(path, template.render(title=title, note=note, images=shown))


def _unused(path: Path) -> Path:
    """A name that no file has yet: two videos of one name may come from two folders."""
    names = (path, *(path.with_stem(f"{path.stem}-{n}") for n in range(2, 10_000)))
    return next(name for name in names if not name.exists())
