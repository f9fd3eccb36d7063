"""Spans of whole videos from the windows of a network, and their protocol."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.metrics.spans import DETECTION_OVERLAPS, average_precision, average_recall
from vergence.ops.spans import soft_nms_spans
from vergence.reading.tables import read_json
from vergence.video.annotated import Sample, Window, Windowed
from vergence.video.settings import SpanProtocol, Suppression

AT_ONCE = 16
"""Windows in a batch."""
PER_WINDOW = 1000
"""Spans of a window that are merged with those of others."""
NUMBERS = {"activitynet": (5, 10, 50, 100), "thumos": (50, 100, 200, 500, 1000)}
NAMED = {"map30": 0.3, "map50": 0.5, "map70": 0.7, "map75": 0.75, "map95": 0.95}
"""Metrics of detection by their overlap."""
AREA = 100.0
"""The largest number of proposals of the area under the recall curve."""


class Scored(Protocol):
    """A network that scores all spans of a window."""

    def __call__(self, features: Tensor) -> dict[str, Tensor]:
        """Logits ``start`` and ``end`` (B, T) and ``content`` (B, E)."""

    def fused(self, logits: dict[str, Tensor], length: int) -> tuple[Tensor, Tensor]:
        """The spans (E, 2) as positions, and their scores (B, E)."""


@dataclass(frozen=True)
class Proposals:
    """The spans found in one video, best first."""

    spans: Tensor
    """(n, 2), seconds."""
    scores: Tensor
    """(n,)."""


def in_seconds(positions: Tensor, window: Window) -> Tensor:
    """Spans (E, 2) between the centres of positions, as seconds of the video."""
    return (positions.double() + 0.5) * window.step + window.start


def suppressed(
    positions: Tensor, rows: Sequence[tuple[Window, Tensor]], duration: float, nms: Suppression
) -> Proposals:
    """The best spans of one video from the scores (E,) of its windows; windows are merged first."""
    spans, scores = [], []
    for window, score in rows:
        best = score.topk(min(PER_WINDOW if len(rows) > 1 else len(score), len(score))).indices
        spans.append(in_seconds(positions[best], window))
        scores.append(score[best].double())
    every, score = torch.cat(spans), torch.cat(scores)
    index, lowered = soft_nms_spans(
        every[None], score[None], nms.sigma, (nms.low, nms.high), duration, min(nms.keep, len(every))
    )
    kept = index[0] >= 0
    return Proposals(every[index[0][kept]].clamp(0, duration).cpu(), lowered[0][kept].cpu())


def found(
    ctx: Context[Any, Any], model: Scored, data: Windowed, nms: Suppression
) -> tuple[list[Proposals], dict[str, float]]:
    """The proposals of every video, and the average precision of boundaries and contents before suppression."""
    parts, truths = [], []
    positions = torch.empty(0)
    for batch in ctx.batches(data, AT_ONCE, "windows"):
        sample = Sample(*batch)
        logits = model(sample.features)
        positions, score = model.fused(logits, sample.features.shape[2])
        boundary = torch.cat([logits["start"], logits["end"]], 1).float()
        parts.append((score.float(), boundary, logits["content"].float()))
        truths.append((torch.cat([sample.start, sample.end], 1), sample.content))
    score, boundary, content = (ctx.gather(torch.cat(part)) for part in zip(*parts, strict=True))
    of_boundary, of_content = (ctx.gather(torch.cat(part)) for part in zip(*truths, strict=True))
    by_video: dict[int, list[tuple[Window, Tensor]]] = {}
    for window, row in zip(data.rows, score, strict=True):
        by_video.setdefault(window.video, []).append((window, row))
    proposals = [
        suppressed(positions, by_video[video], data.data.durations[video], nms)
        for video in ctx.progress.track(range(len(data.data)), "videos")
    ]
    separate = {"boundary_ap": _precision(boundary, of_boundary), "content_ap": _precision(content, of_content)}
    return proposals, separate


def _precision(logits: Tensor, labels: Tensor) -> float:
    """Average precision in percent of all values against labels of 0 and 1; NaN without a positive."""
    from sklearn.metrics import average_precision_score

    truth = labels.flatten().cpu().numpy() > 0.5
    return 100 * float(average_precision_score(truth, logits.flatten().cpu().numpy())) if truth.any() else math.nan


def judged(
    data: Any, proposals: Sequence[Proposals], keep: int, protocol: SpanProtocol, classifier: str = ""
) -> dict[str, float]:
    """Recall of up to ``keep`` proposals per video, and with the file of a ``classifier`` the precision of
    detections."""
    spans, scores = [p.spans.numpy() for p in proposals], [p.scores.numpy() for p in proposals]
    truth = [t.numpy() for t in data.spans]
    curve = average_recall(truth, spans, scores, min(AREA, keep), protocol)
    whole = curve if protocol == "activitynet" else average_recall(truth, spans, scores, None, protocol, steps=200)
    rows = {f"ar{n}": whole.at(n) for n in NUMBERS[protocol] if n <= keep} | {"auc": curve.area}
    if classifier:
        rows |= detections(data, spans, scores, protocol, Path(classifier))
    return rows


def detections(
    data: Any, spans: Sequence[Any], scores: Sequence[Any], protocol: SpanProtocol, classifier: Path
) -> dict[str, float]:
    """Mean average precision of proposals that take the classes of their video: the best one as for ActivityNet, the
    best two as for THUMOS."""
    given = read_class_scores(classifier, data.names)
    best = 1 if protocol == "activitynet" else 2
    overlaps = np.array(sorted({*DETECTION_OVERLAPS[protocol].round(2), *NAMED.values()}))
    rows, truth = [], [t.numpy() for t in data.spans]
    for name in data.classes:
        chance = [mine.get(name, 0.0) if name in sorted(mine, key=lambda k: -mine[k])[:best] else 0.0 for mine in given]
        mine = [
            spans_of[[label == name for label in labels]] for spans_of, labels in zip(truth, data.labels, strict=True)
        ]
        kept = [s if c > 0 else s[:0] for s, c in zip(spans, chance, strict=True)]
        value = [s * c if c > 0 else s[:0] for s, c in zip(scores, chance, strict=True)]
        unclear = [a.numpy() for a in data.ambiguous]
        rows.append(average_precision(mine, kept, value, overlaps, protocol, unclear))
    mean = 100 * np.nanmean(np.stack(rows), 0)
    by_overlap = dict(zip(overlaps.round(2).tolist(), mean.tolist(), strict=True))
    official = [by_overlap[o] for o in DETECTION_OVERLAPS[protocol].round(2).tolist()]
    return {metric: by_overlap[overlap] for metric, overlap in NAMED.items()} | {"map": float(np.mean(official))}


def read_class_scores(path: Path, names: Sequence[str]) -> list[dict[str, float]]:
    """Class scores of every video from a JSON file {video: {class: score}}."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise VergenceError(f"{path} holds no class scores: expected {{video: {{class: score}}}}")
    rows = []
    for name in names:
        row = content.get(name)
        if not isinstance(row, dict) or not all(isinstance(v, int | float) and math.isfinite(v) for v in row.values()):
            raise VergenceError(f"{path} has no class scores of video {name!r}: expected {{class: score}}")
        rows.append({str(k): float(v) for k, v in row.items()})
    return rows
