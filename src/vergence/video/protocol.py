"""Evaluation of video classifiers: scores averaged over the clips of a video, and accuracy without damaged ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.core.errors import VergenceError
from vergence.data.layouts import say_left_out
from vergence.metrics.topk import accuracies
from vergence.video.data import Sample
from vergence.video.settings import ClipView

SKIPPED = {"refuse": (), "skip-training": ("train",), "skip": ("train", "test")}
"""Splits in which damaged videos are left out, by the setting ``damaged``."""
AT_ONCE = 256
"""Frames that evaluation holds at a time."""


def mean_scores(
    ctx: Context[Any, Any], score: Callable[[Tensor], Tensor], data: Data, view: ClipView
) -> tuple[Tensor, Tensor, list[str]]:
    """The mean of ``score(clips)`` over the clips and crops of each video (N, classes), labels (-1: damaged), and the
    errors of damaged videos. ``score`` takes clips (B, T, 3, H, W) and gives (B, classes)."""
    parts, damaged = [], []
    for batch in ctx.batches(data, max(AT_ONCE // (view.frames * view.clips * view.crops), 1)):
        sample = Sample(*batch)
        scores = score(sample.clips.flatten(0, 1))
        parts.append((scores.unflatten(0, sample.clips.shape[:2]).mean(1), sample.label))
        damaged += sample.damaged
    scores, labels = (ctx.gather(torch.cat(part)) for part in zip(*parts, strict=True))
    return scores, labels, ctx.gather(damaged)


def accuracy(ctx: Context[Any, Any], scores: Tensor, labels: Tensor, damaged: Sequence[str]) -> dict[str, float]:
    """Top-1, Top-5 if there are more than five classes, and the number of videos left out, which are reported."""
    say_left_out(ctx.progress, damaged)
    known = labels >= 0
    if not known.any():
        raise VergenceError(f"not one video can be read: {damaged[0]}")
    return accuracies(scores[known], labels[known]) | ({"skipped": float(len(damaged))} if damaged else {})


def say_damaged(ctx: Context[Any, Any], sample: Any) -> None:
    """Reports and counts videos of a training batch that could not be read."""
    if sample.damaged:
        ctx.log(damaged=float(len(sample.damaged)))
        say_left_out(ctx.progress, sample.damaged)
