"""How a user's videos play: windows that look sped up, shuffled, played back and forth or warped; and videos that move
alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import Cancelled
from vergence.core.files import unused, write_json, write_table
from vergence.data.video import Video, open_video
from vergence.drawing.inline import data_uri, thumbnail
from vergence.drawing.page import write_page
from vergence.video.probes import nearest
from vergence.video.tampered import centred, checked_length, read_clips, timed_places
from vergence.video.temporaltransforms.model import TemporalNet
from vergence.video.temporaltransforms.pictures import WORDS, timeline
from vergence.video.temporaltransforms.settings import Config, Facts, Inputs

Ctx = Context[Config, Facts]
AT_ONCE = 32
"""Windows per batch."""
STILL = 0.004
"""Mean change from frame to frame, of pixels from 0 to 1, below which a window is still: nothing tells how it plays."""
KEY_FRAMES = 6
KEY_HEIGHT = 96
FEW = 8
"""Fewer videos than this are compared without statistics of their own."""


class Passage(NamedTuple):
    """A part of a video that plays alike: seconds, verdict, and playback speed (NaN if not told)."""

    start: float
    end: float
    verdict: str
    speed: float


@dataclass(frozen=True, eq=False)
class Timeline:
    """How one video plays, window by window."""

    name: str
    fps: float
    frames: int
    """The number of frames of the video."""
    spans: Tensor
    """Start and end of each window in seconds, (W, 2)."""
    transforms: Tensor
    """Probability of each transformation, (W, K)."""
    speeds: Tensor
    """Probability of each playback speed, 1, 2, 4 and 8 times the training videos', (W, 4); empty if not told."""
    playback: Tensor
    """The expected playback speed, (W,): 2 for twice as fast as the training videos; NaN if not told."""
    change: Tensor
    """Mean change of the pixels from frame to frame, (W,)."""
    labels: Tensor
    """Probability of each class, (W, C); empty without a classifier."""
    descriptor: Tensor
    """Features of the motion, (D,)."""
    shown: Tensor
    """Key frames (K, 3, H, W), bytes, from equal parts of the video."""

    def verdicts(self, names: Sequence[str]) -> list[str]:
        """One word per window."""
        best = self.transforms.argmax(1).tolist() if self.transforms.numel() else [0] * len(self.spans)
        return [
            "still" if change < STILL else WORDS.get(names[k], names[k]) if names else ""
            for k, change in zip(best, self.change.tolist(), strict=True)
        ]

    @property
    def borders(self) -> list[float]:
        """Where the share of each window begins, in seconds, and the end of the video: overlaps are divided."""
        middles = self.spans.mean(1)
        return [0.0, *((middles[1:] + middles[:-1]) / 2).tolist(), self.frames / self.fps]

    def passages(self, names: Sequence[str]) -> list[Passage]:
        """Successive windows with the same verdict, as one passage."""
        verdicts, borders, found, first = self.verdicts(names), self.borders, list[Passage](), 0
        for k in range(1, len(verdicts) + 1):
            if k == len(verdicts) or verdicts[k] != verdicts[first]:
                speed = float(self.playback[first:k].median())
                found.append(Passage(borders[first], borders[k], verdicts[first], speed))
                first = k
        return found

    def speed(self) -> float:
        """The median playback speed of the windows that move; NaN if none does."""
        moving = self.playback[self.change >= STILL]
        return float(moving.median()) if len(moving) else float("nan")


@dataclass(frozen=True, eq=False)
class Playback(Result):
    """How videos play, and which of them move alike."""

    transforms: tuple[str, ...]
    """The names of the transformations; empty if the weights no longer tell them (fine-tuned)."""
    classes: tuple[str, ...]
    """The names of the classes, if the weights have a classifier."""
    videos: tuple[Timeline, ...]
    """One timeline per video."""
    neighbours: Tensor
    """The most similar other videos of each, by index, (N, K)."""
    similarities: Tensor
    """Their cosine similarities, (N, K)."""

    def summary(self) -> Mapping[str, Any]:
        return {f"{number}. {Path(video.name).name}": self.told(video) for number, video in enumerate(self.videos, 1)}

    def told(self, video: Timeline) -> str:
        """One line about a video."""
        parts = []
        if (speed := video.speed()) == speed:
            parts.append(f"plays at about {speed:.1f}x")
        odd = [p for p in video.passages(self.transforms) if p.verdict not in ("plain", "still", "")]
        parts += [f"{p.verdict} {p.start:.1f} s to {p.end:.1f} s" for p in odd[:3]]
        if len(odd) > 3:
            parts.append(f"and {len(odd) - 3} more passages")
        if self.transforms and all(verdict == "still" for verdict in video.verdicts(self.transforms)):
            parts = ["still: nothing tells how it plays"]
        if self.classes:
            parts.append(self.classes[int(video.labels.mean(0).argmax())])
        return ", ".join(parts) or "described"


def examine(ctx: Ctx, model: TemporalNet, inputs: Inputs) -> Playback:
    """Judges the windows of each video, and compares the videos."""
    told = model.head is not None and model.frozen
    names = tuple(ctx.config.pretext.transforms) if told and "motion" in model.outputs else ()
    videos = [open_video(path) for path in inputs.videos]  # report files that are no video before the work starts
    for video in videos:
        checked_length(video, ctx.config.data.frames)
    timelines = tuple(_timeline(ctx, model, video, inputs, told) for video in ctx.progress.track(videos, "videos"))
    count = min(inputs.neighbours, len(videos) - 1)
    index, similarity = _neighbours(torch.stack([video.descriptor for video in timelines]), count)
    labels = tuple(map(ctx.facts.name, range(ctx.facts.classes))) if model.classifier is not None else ()
    return Playback(names, labels, timelines, index, similarity)


def windows(length: int, fps: float, rate: float, frames: int, hop: float) -> tuple[list[list[int]], float]:
    """The frames of each window of a video, taken at ``rate`` per second where the video has them, and the step between
    them in frames. Windows are ``hop`` seconds apart (0: half a window); the last ends with the video."""
    step = min(max(fps / rate, 1.0), (length - 1) / (frames - 1))
    far = (frames - 1) * step
    hop = max(hop * fps, 1.0) if hop else frames * step / 2
    starts = [k * hop for k in range(int((length - 1 - far) / hop) + 1)]
    if length - 1 - far - starts[-1] > hop / 4:
        starts.append(length - 1 - far)
    return [[min(round(start + i * step), length - 1) for i in range(frames)] for start in starts], step


def _timeline(ctx: Ctx, model: TemporalNet, video: Video, inputs: Inputs, told: bool) -> Timeline:
    view, length = ctx.config.data, checked_length(video, ctx.config.data.frames)
    places, step = windows(length, video.fps, ctx.facts.rate, view.frames, inputs.hop)
    parts: dict[str, list[Tensor]] = {"motion": [], "speed": [], "classes": [], "change": []}
    for first in range(0, len(places), AT_ONCE):
        if ctx.cancelled():
            raise Cancelled("cancelled")
        clips = _clips(video, places[first : first + AT_ONCE], view.resize, view.size)
        parts["change"].append(clips.diff(dim=1).abs().mean((1, 2, 3, 4)) / 2)
        for name, logits in model(ctx.to_device(clips)).items():
            if name in parts and (told or name == "classes"):
                parts[name].append(logits.float().softmax(-1).cpu())
    found = {name: torch.cat(rows) if rows else torch.zeros(len(places), 0) for name, rows in parts.items()}
    # The frames of a window are `step / fps` seconds apart, those of the training videos `1 / rate`.
    pace = step * ctx.facts.rate / video.fps
    powers = torch.arange(found["speed"].shape[1], dtype=torch.float32)
    expected = 2 ** (found["speed"] @ powers) / pace if len(powers) else torch.full((len(places),), torch.nan)
    spread = timed_places(length, view, view.clips)
    clips = _clips(video, [place.tolist() for place in spread], view.resize, view.size)
    features = model.trunk.flat(model.trunk.maps(ctx.to_device(clips))).float().mean(0).cpu()
    spans = torch.tensor([[row[0] / video.fps, (row[-1] + 1) / video.fps] for row in places])
    return Timeline(video.name, video.fps, length, spans, found["motion"], found["speed"], expected, found["change"],
                    found["classes"], features, _key_frames(video, length))  # fmt: skip


def _clips(video: Video, places: Sequence[Sequence[int]], resize: int, size: int) -> Tensor:
    return centred(torch.stack(read_clips(video, [torch.tensor(row) for row in places], resize)), size)


def _key_frames(video: Video, length: int) -> Tensor:
    places = [int((k + 0.5) * length / KEY_FRAMES) for k in range(KEY_FRAMES)]
    pixels = np.ascontiguousarray(video.at(places, min(KEY_HEIGHT, *video.size)))
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def _neighbours(descriptors: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The most similar other videos (N, K), and their similarities."""
    total = len(descriptors)
    if count < 1:
        return torch.zeros(total, 0, dtype=torch.long), torch.zeros(total, 0)
    if total >= FEW:
        index, similarity = nearest(descriptors, descriptors, total)
    else:
        unit = torch.nn.functional.normalize(descriptors, dim=1)
        similarity, index = (unit @ unit.mT).sort(dim=1, descending=True, stable=True)
    others = index != torch.arange(total)[:, None]
    return (kept[others].view(total, total - 1)[:, :count] for kept in (index, similarity))  # type: ignore[return-value]


# Files ---------------------------------------------------------------------------------------------------------------

_BODY = """{% for video in videos %}
<h2>{{ video.name }}</h2><p>{{ video.told }}</p>
<figure><img src="{{ video.picture }}" alt="timeline"></figure>
{% if video.near %}<h3>moves most like</h3><ol class="row">
{% for name, similarity, frame in video.near %}
<li><figure><img src="{{ frame }}" alt=""><figcaption><b>{{ "%.2f"|format(similarity) }}</b> {{ name }}</figcaption>
</figure></li>
{% endfor %}</ol>{% endif %}
{% endfor %}
"""


def render(ctx: Ctx, inputs: Inputs, result: Playback) -> list[Artifact]:
    """Writes a table and a JSON file of all windows, one picture per video, and a page."""
    names, labels = result.transforms, result.classes
    rows, pages, artifacts, told = [], [], [], []
    for number, (path, video) in enumerate(zip(inputs.videos, result.videos, strict=True)):
        verdicts = video.verdicts(names)
        for k, (start, end) in enumerate(video.spans.tolist()):
            scores = [*video.transforms[k].tolist(), float(video.playback[k]), float(video.change[k])]
            label = [labels[int(video.labels[k].argmax())]] if labels else []
            rows.append([str(path), f"{start:.3f}", f"{end:.3f}", verdicts[k], *(f"{v:.4f}" for v in scores), *label])
        picture = timeline(unused(ctx.folder / f"{path.stem or path.name}.png"), video, names)
        artifacts.append(Artifact("image", picture, f"{path.name}: key frames, transformations and speed over time."))
        near = [
            (
                Path(result.videos[other].name).name,
                float(s),
                thumbnail(result.videos[other].shown[KEY_FRAMES // 2], KEY_HEIGHT),
            )
            for other, s in zip(result.neighbours[number].tolist(), result.similarities[number].tolist(), strict=True)
        ]
        pages.append({"name": path.name, "told": result.told(video), "near": near,
                      "picture": data_uri("png", picture.read_bytes())})  # fmt: skip
        passages = [
            {"from": round(p.start, 3), "to": round(p.end, 3), "verdict": p.verdict, "speed": _number(p.speed)}
            for p in video.passages(names)
        ]
        told.append({
            "video": str(path), "seconds": round(video.frames / video.fps, 3), "passages": passages,
            "playback_speed": _number(video.speed()),
            "neighbours": [{"video": name, "similarity": round(s, 4)} for name, s, _ in near],
        })  # fmt: skip
    words = [WORDS[name] for name in names]
    heading = ["file", "from", "to", "verdict", *words, "speed", "change", *(["class"] if labels else [])]
    table = write_table(ctx.folder / "windows.csv", heading, rows)
    data = ctx.folder / "playback.json"
    write_json(data, {"rate": ctx.facts.rate, "videos": told})
    note = (
        f"Speeds are relative to the training videos, {ctx.facts.rate:g} frames per second. Windows in which nothing "
        "moves are marked as still."
    )
    page = write_page(ctx.folder / "playback.html", "How these videos play", note, _BODY, videos=pages)
    return [
        Artifact("html", page, "All videos on one page, with those that move most alike."),
        *artifacts,
        Artifact("table", table, "Every window: verdict, probabilities, speed and change; from and to in seconds."),
        Artifact("json", data, "Passages, playback speeds and neighbours."),
    ]


def _number(value: float) -> float | None:
    return round(value, 3) if value == value else None
