"""What frozen features of clips know: probes for classes, nearest neighbours, synchronisation, and temporal order.

A probe is three fully connected layers, trained on features of clips that are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.metrics.topk import topk_accuracy
from vergence.video.data import Sample, Videos
from vergence.video.settings import TimedView
from vergence.video.tampered import Timed, centred, checked_length, read_clips

AT_ONCE = 512
"""Frames that are described at a time."""
FARTHEST = 6
"""The largest offset of two clips to be synchronised, in frames."""
RANKS = (1, 5, 10, 20, 50)
Describe = Callable[[Tensor], Tensor]
"""Features (B, D) of clips (B, T, 3, S, S)."""


class Described(NamedTuple):
    """Features of several clips per video."""

    features: Tensor
    """(N, V, D)."""
    labels: Tensor
    """(N,)."""
    damaged: Sequence[str] = ()


def described(ctx: Context[Any, Any], describe: Describe, data: Any, per_video: int, frames: int) -> Described:
    """Features of all clips of ``data``, whose samples are ``per_video`` clips; videos left out have label -1."""
    features, labels, damaged = [], [], []
    for batch in ctx.batches(data, max(AT_ONCE // (per_video * frames), 1)):
        sample = Sample(*batch)
        features.append(describe(sample.clips.flatten(0, 1)).float().unflatten(0, sample.clips.shape[:2]))
        labels.append(sample.label)
        damaged += sample.damaged
    return Described(ctx.gather(torch.cat(features)), ctx.gather(torch.cat(labels)), ctx.gather(damaged))


def still(clips: Tensor) -> Tensor:
    """Clips (..., T, 3, S, S) with their middle frame repeated."""
    middle = clips.shape[-4] // 2
    return clips[..., middle : middle + 1, :, :, :].expand_as(clips)


# Probes --------------------------------------------------------------------------------------------------------------


def three_layers(inputs: int, hidden: int, outputs: int, generator: torch.Generator) -> nn.Sequential:
    """Three new fully connected layers, with batch normalisation in all but the last."""
    probe = nn.Sequential(
        nn.Linear(inputs, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(),
        nn.Linear(hidden, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(),
        nn.Linear(hidden, outputs),
    )  # fmt: skip
    for layer in probe:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
    nn.init.zeros_(probe[-1].bias)  # type: ignore[arg-type]
    return probe


def probed(
    known: Tensor,
    labels: Tensor,
    asked: Tensor,
    classes: int,
    generator: torch.Generator,
    *,
    hidden: int = 64,
    steps: int = 200,
    batch: int = 128,
    lr: float = 3e-3,
) -> Tensor:
    """Probabilities (M, classes) of videos ``asked`` (M, V, D) by a probe trained on ``known`` (N, V, D) with labels
    (N,): the mean over the clips of a video."""
    if len(known) != len(labels) or not len(known):
        raise VergenceError(f"a probe needs as many labels as videos, got {len(labels)} labels for {len(known)} videos")
    mean, spread = known.mean((0, 1)), known.std((0, 1), correction=0) + 1e-6
    rows, targets = ((known - mean) / spread).flatten(0, 1), labels.repeat_interleave(known.shape[1])
    with torch.enable_grad():
        probe = three_layers(rows.shape[1], hidden, classes, generator).to(rows)
        optimiser = torch.optim.AdamW(probe.parameters(), lr, weight_decay=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(steps):
            some = torch.randint(len(rows), (min(batch, max(len(rows), 2)),), generator=generator).to(rows.device)
            optimiser.zero_grad()
            F.cross_entropy(probe(rows[some]), targets[some]).backward()
            optimiser.step()
            schedule.step()
    probe.eval()
    with torch.no_grad():
        answers = probe(((asked - mean) / spread).flatten(0, 1)).softmax(-1)
    return answers.unflatten(0, asked.shape[:2]).mean(1)


# Nearest neighbours --------------------------------------------------------------------------------------------------


def nearest(known: Tensor, asked: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` most similar of the descriptors ``known`` (N, D) for each of ``asked`` (M, D): indices and cosine
    similarities (M, count), after both are normalised with the mean and deviation of ``known``."""
    mean, spread = known.mean(0), known.std(0, correction=0) + 1e-6
    ours, theirs = (F.normalize((x - mean) / spread, dim=1) for x in (asked, known))
    similarity, index = (ours @ theirs.mT).sort(dim=1, descending=True, stable=True)
    return index[:, :count], similarity[:, :count]


def retrieval(
    known: Tensor, known_labels: Tensor, asked: Tensor, labels: Tensor, ranks: Sequence[int] = RANKS
) -> dict[str, float]:
    """The share of queries, in percent, with a video of their class among the k nearest: ``nn1``, ``nn5``, ..."""
    index, _ = nearest(known, asked, max(ranks))
    right = known_labels[index] == labels[:, None]
    return {f"nn{k}": float(right[:, :k].any(1).double().mean() * 100) for k in ranks if k <= len(known)}


# Time ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shifted:
    """Two overlapping clips per draw, the second up to six frames before or after the first; the label is the offset,
    from 0 (six before) to 12."""

    data: Videos
    view: TimedView
    draws: int = 1

    def __len__(self) -> int:
        return len(self.data) * self.draws

    def __getitem__(self, index: int) -> Sample:
        number = range(len(self))[index]
        video, _ = self.data.video(number // self.draws)
        source = torch.Generator().manual_seed(number)
        length = checked_length(video, self.view.frames + FARTHEST)
        offset = int(torch.randint(-FARTHEST, FARTHEST + 1, (), generator=source))
        start = int(torch.randint(length - self.view.frames - abs(offset) + 1, (), generator=source))
        first = torch.arange(self.view.frames) + start + max(-offset, 0)
        clips = torch.stack(read_clips(video, [first, first + offset], self.view.resize))
        return Sample(centred(clips, self.view.size), offset + FARTHEST)

    collate = staticmethod(Timed.collate)


@dataclass(frozen=True)
class Pieces:
    """One clip per draw made of two pieces of half its length, at most half a clip apart: in order (label 0) or
    exchanged (1)."""

    data: Videos
    view: TimedView
    draws: int = 1

    def __len__(self) -> int:
        return len(self.data) * self.draws

    def __getitem__(self, index: int) -> Sample:
        number = range(len(self))[index]
        video, _ = self.data.video(number // self.draws)
        source = torch.Generator().manual_seed(number)
        length, half = checked_length(video, self.view.frames), self.view.frames // 2
        gap = int(torch.randint(min(half, length - 2 * half) + 1, (), generator=source))
        start = int(torch.randint(length - 2 * half - gap + 1, (), generator=source))
        first = torch.arange(half) + start
        pieces = [first, first + half + gap]
        swapped = int(torch.randint(2, (), generator=source))
        (clip,) = read_clips(video, [torch.cat(pieces[::-1] if swapped else pieces)], self.view.resize)
        return Sample(centred(clip, self.view.size)[None], swapped)

    collate = staticmethod(Timed.collate)


def time_tasks(
    ctx: Context[Any, Any], maps: Describe, known: Videos, asked: Videos, view: TimedView, draws: int,
    **probe: Any,
) -> Mapping[str, float]:  # fmt: skip
    """Accuracy of synchronisation and its mean absolute error in frames, and accuracy of temporal order: probes on the
    training videos, judged on the others."""

    def flattened(clips: Tensor) -> Tensor:
        return maps(clips).flatten(1)

    offsets = [described(ctx, flattened, Shifted(videos, view, draws), 2, view.frames) for videos in (known, asked)]
    # ψ(v1) - ψ(v2), as in the paper
    apart = [part.features[:, :1] - part.features[:, 1:] for part in offsets]
    answers = probed(apart[0], offsets[0].labels, apart[1], 2 * FARTHEST + 1, ctx.generator, **probe)
    error = (answers.argmax(1) - offsets[1].labels).abs().double().mean()
    orders = [described(ctx, flattened, Pieces(videos, view, draws), 1, view.frames) for videos in (known, asked)]
    told = probed(orders[0].features, orders[0].labels, orders[1].features, 2, ctx.generator, **probe)
    return {
        "sync": topk_accuracy(answers, offsets[1].labels),
        "sync_mae": float(error),
        "order": topk_accuracy(told, orders[1].labels),
    }


# Together ------------------------------------------------------------------------------------------------------------


def usable(found: Described) -> Described:
    """Without the videos that could not be read."""
    kept = found.labels >= 0
    if not kept.any():
        raise VergenceError(f"not one video can be read: {found.damaged[0]}")
    return Described(found.features[kept], found.labels[kept])


def neighbours_and_probes(
    ctx: Context[Any, Any], trunk: Any, known: Timed, asked: Timed, classes: int, things: Sequence[Sequence[int]] = (),
    with_probes: bool = True, **probe: Any,
) -> dict[str, float]:  # fmt: skip
    """Retrieval by ``trunk.flat`` among the videos ``known``; with probes on ``trunk.maps`` also the accuracy for the
    classes, for those of still clips, and for ``things``, other labels of both sets of videos."""

    def both(describe: Describe) -> list[Described]:
        return [usable(described(ctx, describe, data, data.view.clips, data.view.frames)) for data in (known, asked)]

    def features(clips: Tensor) -> Tensor:
        maps = trunk.maps(clips)
        return torch.cat([trunk.flat(maps), maps.flatten(1)], 1)

    ours, theirs = both(features)
    flat, maps = zip(*(d.features.split([trunk.outputs, d.features.shape[2] - trunk.outputs], 2)
                       for d in (ours, theirs)), strict=True)  # fmt: skip
    found = retrieval(flat[0].mean(1), ours.labels, flat[1].mean(1), theirs.labels)
    if not with_probes:
        return found
    answers = probed(maps[0], ours.labels, maps[1], classes, ctx.generator, **probe)
    found["probe"] = topk_accuracy(answers, theirs.labels)
    if things:
        labels, truth = (torch.tensor(each, device=ctx.device) for each in things)
        answers = probed(maps[0], labels, maps[1], int(labels.max()) + 1, ctx.generator, **probe)
        found["appearance"] = topk_accuracy(answers, truth)
    ours, theirs = both(lambda clips: trunk.maps(still(clips)).flatten(1))
    answers = probed(ours.features, ours.labels, theirs.features, classes, ctx.generator, **probe)
    return found | {"still": topk_accuracy(answers, theirs.labels)}
