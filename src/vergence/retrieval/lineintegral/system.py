"""Retrieval by shape as a system: descriptors without training, under the protocols of MCD and MPEG-7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import EMBEDDED, First
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read
from vergence.metrics.classes import NONE, class_scores
from vergence.retrieval.lineintegral import pictures, predict
from vergence.retrieval.lineintegral.claims import CLAIMS
from vergence.retrieval.lineintegral.model import describe, scales
from vergence.retrieval.lineintegral.predict import Rankings
from vergence.retrieval.lineintegral.settings import RECALLS, SETTINGS, Config, Inputs
from vergence.retrieval.masks import Cameras
from vergence.retrieval.shapes import LAYOUTS, Drawn, Shape, Shapes, Some, Views

Ctx = Context[Config, NoFacts]
SLICE = 48
"""Shapes whose evaluation repeats stored results."""


@dataclass(frozen=True)
class _Listed:
    """Shapes of different sizes, whose batches are lists."""

    shapes: Shapes

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, index: int) -> Shape:
        return self.shapes[index]

    def collate(self, samples: Sequence[Shape]) -> list[Shape]:
        return list(samples)


class LineIntegral(System[Config, NoFacts, None, Shapes, Rankings]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Shapes:
        asked, seed = ctx.config.data, ctx.config.seed
        shapes: Shapes = read(
            asked.source,
            self.layouts,
            split,
            embedded=lambda: Drawn(asked.kinds, asked.individuals, f"{split} {seed}"),
        )
        if asked.shapes:
            shapes = Some(shapes, asked.shapes)
        views = asked.views if asked.source == EMBEDDED else asked.copies
        return Views(shapes, views, Cameras(asked.stretch, asked.tilt, asked.side), seed) if views else shapes

    def slice(self, data: Shapes) -> Shapes:
        return First(data, SLICE)

    def evaluate(self, ctx: Ctx, model: None, data: Shapes) -> Mapping[str, float]:
        """Every shape of a class is a query in turn, against all shapes."""
        descriptors, labels = described(ctx, data)
        scores = class_scores(descriptors / scales(ctx.config.model.method, descriptors), labels)
        step = 100 // len(scores.precision)
        return {
            "knee": scores.knee,
            "knee_others": scores.knee_others,
            "bullseye": scores.bullseye,
            "first": scores.first,
            **{f"precision_{recall}": float(scores.precision[recall // step - 1]) for recall in RECALLS},
        }

    def infer(self, ctx: Ctx, model: None, inputs: Inputs) -> Rankings:
        return predict.search(ctx, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Rankings) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, None], data: Shapes) -> Sequence[Artifact]:
        """The transform of two views of a shape, rankings, and precision against recall of the variants."""
        some = [data[index] for index in range(min(len(data), pictures.MOST))]
        labels = {name: self.settings.label(name) for name in ctx.measured}
        drawn = [
            pictures.anatomy(ctx.folder, some, ctx.config.model),
            pictures.rankings(ctx.folder, some, ctx.config.model),
        ]
        return [*drawn, pictures.curves(ctx.folder, ctx.measured, labels)] if ctx.measured else drawn


def described(ctx: Ctx, data: Any) -> tuple[Tensor, Tensor]:
    """Descriptors (N, D) and labels (N,) of all shapes; memory grows by the descriptors only."""
    rows, labels = [], []
    for batch in ctx.batches(_Listed(data), 16, "shapes"):
        rows += [describe(shape.mask, ctx.config.model).cpu() for shape in batch]
        labels += [shape.label for shape in batch]
    if not rows:
        raise VergenceError("there is nothing to evaluate: the data has no shapes")
    gathered = ctx.gather(torch.stack(rows)), ctx.gather(torch.tensor(labels))
    if int((gathered[1] != NONE).sum()) < 2:
        raise VergenceError("there is nothing to evaluate: fewer than two shapes have a class")
    return gathered


SYSTEM = LineIntegral()
