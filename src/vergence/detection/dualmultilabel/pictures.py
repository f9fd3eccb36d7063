"""Held-out pictures of the target domain with the objects that each variant finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from vergence.contract.inputs import Artifact
from vergence.detection.data import Chosen, Sample
from vergence.detection.dualmultilabel.model import MCAR
from vergence.detection.dualmultilabel.predict import names_of
from vergence.detection.finding import drawn_on
from vergence.drawing.figure import GREY, figure, saved

SHOWN, SURE = 4, 0.5
"""Pictures of a report, and the score from which objects are drawn."""


def draw(ctx: Any, models: Mapping[str, MCAR], data: Chosen) -> Sequence[Artifact]:
    """The annotated objects, and those of each variant."""
    count = min(SHOWN, len(data))
    drawn = figure(2.3 * (1 + len(models)), 2.0 * count)
    grid = drawn.subplots(count, 1 + len(models), squeeze=False)
    several = sorted(range(len(data)), key=lambda n: -len(data.data.labels(n)))[: 3 * count : 3]  # with most objects
    for row, index in zip(grid, several, strict=True):
        sample = data[index]
        panels = [("annotated", _panel(sample, data.classes))]
        for variant, model in models.items():
            batch = ctx.to_device(data.collate([sample]))
            found = model.detect(batch.pictures, batch.sizes)[0]
            kept = (found.scores >= SURE).cpu()
            own = sample._replace(boxes=found.boxes.cpu()[kept], labels=found.labels.cpu()[kept])
            panels.append((variant, _panel(own, data.classes)))
        for axes, (title, image) in zip(row, panels, strict=True):
            axes.imshow(image)
            axes.set_axis_off()
            axes.set_title(title, fontsize=8, color=GREY)
    caption = f"Held-out pictures of the target domain: annotated objects, and those found with a score of {SURE:g}."
    return [Artifact("image", saved(drawn, ctx.folder / "objects.png"), caption)]


def _panel(sample: Sample, classes: Sequence[str]) -> Any:
    picture = (255 * sample.picture).round().clamp(0, 255).to(torch.uint8)
    return np.asarray(drawn_on(picture, sample.boxes.tolist(), names_of(classes, sample.labels), (), classes, 320))
