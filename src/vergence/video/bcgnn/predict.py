"""Spans in a user's video: ranked, as ActivityNet's JSON and a table, with a timeline under key frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.video import Video, open_video
from vergence.drawing.inline import data_uri
from vergence.drawing.page import write_page
from vergence.video.annotated import Window, resized, windows
from vergence.video.bcgnn.model import BCGNN
from vergence.video.bcgnn.pictures import Curve, Row, strip
from vergence.video.bcgnn.settings import Config, Facts, Inputs
from vergence.video.proposals import AT_ONCE, suppressed
from vergence.video.snippets import WIDTH, describe_video
from vergence.video.span_layouts import read_features

Ctx = Context[Config, Facts]
KEY_FRAMES = 8
HEIGHT = 120
"""Of a key frame, in pixels."""


@dataclass(frozen=True, eq=False)
class Spans(Result):
    """Spans of a video in which something happens, best first."""

    name: str
    """The video."""
    duration: float
    """Seconds."""
    spans: Tensor
    """Start and end in seconds, (n, 2)."""
    scores: Tensor
    """From 0 to 1, (n,)."""
    places: Tensor
    """Times at which boundaries were judged, in seconds, (T,)."""
    start: Tensor
    """Probability that something starts there, (T,)."""
    end: Tensor
    """Probability that something ends there, (T,)."""
    frames: Tensor
    """Key frames (K, 3, H, W), bytes, from equal parts of the video."""

    def summary(self) -> Mapping[str, Any]:
        best = zip(self.spans[:3].tolist(), self.scores[:3].tolist(), strict=True)
        rows = {f"{number}.": f"{a:.2f} s to {b:.2f} s ({p:.2f})" for number, ((a, b), p) in enumerate(best, 1)}
        return {"video": f"{self.name}, {self.duration:.1f} s"} | rows


def spans(ctx: Ctx, model: BCGNN, inputs: Inputs) -> Spans:
    """Finds the spans of a video or of the features of its snippets."""
    video = open_video(inputs.video)
    features, duration, name = _features(ctx, video, inputs)
    if features.shape[1] != ctx.facts.channels:
        raise VergenceError(
            f"the weights take features of {ctx.facts.channels} numbers per snippet, and {name} has {features.shape[1]}"
        )
    length = ctx.config.data.length
    rows = windows(len(features), duration, length, ctx.config.data.stride)
    boundary: list[Tensor] = []
    scored: list[tuple[Window, Tensor]] = []
    positions = torch.empty(0)
    for first in range(0, len(rows), AT_ONCE):
        some = rows[first : first + AT_ONCE]
        batch = [resized(features[w.first : w.first + w.snippets], length).mT for w in some]
        logits = model(ctx.to_device(torch.stack(batch)))
        positions, score = model.fused(logits, length)
        scored += list(zip(some, score.cpu(), strict=True))
        boundary.append(torch.stack([logits["start"], logits["end"]], 1).float().sigmoid().cpu())
    best = suppressed(positions.cpu(), scored, duration, ctx.config.nms)
    places, start, end = _joined(rows, torch.cat(boundary), length)
    most = min(inputs.spans, len(best.scores))
    return Spans(name, duration, best.spans[:most], best.scores[:most], places, start, end, _key_frames(video))


def _features(ctx: Ctx, video: Video, inputs: Inputs) -> tuple[Tensor, float, str]:
    if inputs.features:
        if not video.length:
            raise VergenceError(f"{video.name} has no frames: the seconds that its features cover are not known")
        return read_features(Path(inputs.features)), video.length / video.fps, video.name
    if ctx.facts.channels != WIDTH:
        raise VergenceError(
            f"the weights take features of {ctx.facts.channels} numbers per snippet from another network: give them "
            "with --features FILE (.npy or .csv)"
        )
    return *describe_video(video, ctx.config.data.rate), video.name


def _joined(rows: list[Window], boundary: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities over the whole video: means where windows overlap."""
    times: dict[float, list[Tensor]] = {}
    for window, values in zip(rows, boundary, strict=True):
        for place in range(length):
            times.setdefault(round(window.start + (place + 0.5) * window.step, 6), []).append(values[:, place])
    ordered = sorted(times)
    means = torch.stack([torch.stack(times[t]).mean(0) for t in ordered])
    return torch.tensor(ordered), means[:, 0], means[:, 1]


def _key_frames(video: Video) -> Tensor:
    count = video.length or 0
    places = [int((k + 0.5) * count / KEY_FRAMES) for k in range(min(KEY_FRAMES, count))]
    shorter = min(HEIGHT, *video.size)
    return torch.from_numpy(np.ascontiguousarray(video.at(places, shorter))).permute(0, 3, 1, 2)


_BODY = """
<figure><img src="{{ picture }}" alt="timeline"></figure>
<table><tr><th></th><th class="num">from</th><th class="num">to</th><th class="num">score</th></tr>
{% for start, end, score in rows %}
<tr><td>{{ loop.index }}</td><td class="num">{{ "%.2f"|format(start) }} s</td>
<td class="num">{{ "%.2f"|format(end) }} s</td><td class="num">{{ "%.3f"|format(score) }}</td></tr>
{% endfor %}
</table>
"""


def render(ctx: Ctx, inputs: Inputs, result: Spans) -> list[Artifact]:
    """Writes a timeline, a page, a table and a file in ActivityNet's format of results."""
    rows = [(a, b, s) for (a, b), s in zip(result.spans.tolist(), result.scores.tolist(), strict=True)]
    picture = strip(
        ctx.folder / "spans.png",
        result.frames,
        result.duration,
        [Row("spans found", result.spans, result.scores)],
        Curve(result.places, result.start, result.end),
    )
    page = write_page(
        ctx.folder / "spans.html",
        f"Spans of {result.name}",
        f"The {len(rows)} best spans of {result.duration:.1f} s, the best first.",
        _BODY,
        picture=data_uri("png", picture.read_bytes()),
        rows=rows,
    )
    table = write_table(
        ctx.folder / "spans.csv", ["from", "to", "score"], [[f"{a:.3f}", f"{b:.3f}", f"{s:.5f}"] for a, b, s in rows]
    )
    found = [{"segment": [round(a, 3), round(b, 3)], "score": round(s, 6)} for a, b, s in rows]
    path = ctx.folder / "spans.json"
    write_json(path, {"version": "VERSION 1.3", "results": {Path(result.name).stem: found}, "external_data": {}})
    return [
        Artifact("image", picture, "Key frames, the probabilities of starts and ends, and the spans found."),
        Artifact("html", page, "The spans on one page."),
        Artifact("table", table, "Spans in seconds, the best first."),
        Artifact("json", path, "The same in ActivityNet's format of results."),
    ]
