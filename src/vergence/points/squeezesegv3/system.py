"""SqueezeSegV3 as a system: labels of LiDAR sweeps by adaptive and ordinary convolutions, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, share
from vergence.metrics.segmentation import class_iou, confusion, mean_iou, overall_accuracy
from vergence.points import scans
from vergence.points.range_images import Images, project
from vergence.points.scans import LAYOUTS, Labelled
from vergence.points.squeezesegv3.claims import CLAIMS
from vergence.points.squeezesegv3.model import build
from vergence.points.squeezesegv3.pictures import compared
from vergence.points.squeezesegv3.predict import elected, labelled
from vergence.points.squeezesegv3.settings import SETTINGS, Config, Facts, Inputs, Sweeps
from vergence.points.sweeps import RenderedSweeps, Scanner, rendered_sweeps

Ctx = Context[Config, Facts]
RARE = 0.001
"""Added to the frequency of a class before it divides the class's loss, as in the public code."""
MOST = 40
"""Rendered sweeps for validation and for the test, at most."""
THIN = ("pole", "traffic-sign", "trunk", "person", "bicycle", "bicyclist", "pedestrian", "traffic_cone")
"""Classes of things that are a few pixels wide."""


class SqueezeSegV3System(System[Config, Facts, Any, Images, Labelled]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Images:
        asked = ctx.config.data
        return Images(read(asked.source, self.layouts, split, embedded=lambda: _embedded(asked, split)), asked)

    def facts(self, ctx: Ctx, data: Images) -> Facts:
        return Facts(data.classes.names, data.frequencies())

    def slice(self, data: Images) -> Images:
        return Images(_First(data.data, 4, data.classes), data.settings)

    def build(self, config: Config, facts: Facts) -> Any:
        return build(config.model, len(facts.classes))

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 5, config.data.height, config.data.width),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        data = config.data
        return {
            "image": f"{data.height} x {data.width} pixels, from {data.up:g} degrees up to {data.down:g} down",
            "pixel": f"the {data.keep} point",
            "channels": "range, x (forward), y (left), z (up) in metres, intensity from 0 to 1",
            "mean": list(data.means),
            "deviation": list(data.deviations),
            "empty pixels": "0 after normalisation",
        }

    def losses(self, ctx: Ctx, model: Any, batch: Any) -> Mapping[str, Tensor]:
        """Eq. 5: cross-entropy at every level, weighted by the inverse frequency of a class; without class 0."""
        rare = [(share + RARE) ** -ctx.config.balance for share in ctx.facts.frequencies[1:]]
        weights = batch["image"].new_tensor([0.0, *rare])
        return {
            f"level{number}": level_loss(scores, batch["labels"], weights)
            for number, scores in enumerate(model(batch["image"]), 1)
        }

    def evaluate(self, ctx: Ctx, model: Any, data: Images) -> Mapping[str, float]:
        """Scores over all points of a split, with the label of a point's pixel and by vote; and over pixels."""
        if data.classes.names != ctx.facts.classes:
            raise VergenceError(
                f"{ctx.config.data.source} has other classes than the weights: {len(data.classes)} such as "
                f"{data.classes.names[-1]}, not {len(ctx.facts.classes)} such as {ctx.facts.classes[-1]}"
            )
        size = len(ctx.facts.classes)
        counts = torch.zeros(1, 3, size, size, dtype=torch.long)
        for batch in ctx.batches(data, 1, "sweeps"):
            with ctx.autocast():
                scores = model(batch["image"])[0][0].float()
            scores[0] = -torch.inf
            seen, truth = project(batch["points"][0], ctx.config.data), batch["point_labels"][0]
            labels = scores.argmax(0)
            guesses = (seen.points(labels), truth), (elected(seen, scores), truth), (labels, batch["labels"][0])
            for number, (guess, known) in enumerate(guesses):
                counts[0, number] += confusion(guess, known, size).cpu()
        points, voted, pixels = ctx.gather(counts).sum(0)
        if not int(points.sum()):
            raise VergenceError("no point has a class: there is nothing to evaluate")
        thin = [place for place, name in enumerate(ctx.facts.classes) if name in THIN]
        return {
            "miou": mean_iou(points),
            "miou_vote": mean_iou(voted),
            "accuracy": overall_accuracy(voted),
            "groups": _known(scans.scores(voted, data.classes)["groups"]),
            "thin": _known(100 * float(class_iou(voted)[thin].nanmean())),
            "miou_image": mean_iou(pixels),
            "accuracy_image": overall_accuracy(pixels),
        }

    def infer(self, ctx: Ctx, model: Any, inputs: Inputs) -> Labelled:
        return labelled(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Labelled) -> Sequence[Artifact]:
        return scans.render(ctx, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Any], data: Images) -> Sequence[Artifact]:
        return compared(ctx, models, data)


def level_loss(scores: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """The weighted mean cross-entropy of scores (B, classes, H, w) with labels (B, H, W), thinned out to their width; 0
    without a label."""
    labels = labels[..., :: labels.shape[-1] // scores.shape[-1]]
    each = F.cross_entropy(scores.float(), labels, weights.float(), reduction="none")
    return each.sum() / weights.float()[labels].sum().clamp(min=1e-6)


def _known(value: float) -> float:
    """0 for the mean over classes none of which occur."""
    return value if value == value else 0.0


class _First:
    """The first sweeps."""

    def __init__(self, data: Any, count: int, classes: Any) -> None:
        self.data, self.count, self.classes = data, count, classes

    def __len__(self) -> int:
        return min(self.count, len(self.data))

    def __getitem__(self, index: int) -> Any:
        return self.data[range(len(self))[index]]


def _embedded(asked: Sweeps, split: str) -> RenderedSweeps:
    scanner = Scanner(asked.height, asked.columns, asked.up, asked.down)
    count = share(asked.sweeps, split)
    return rendered_sweeps(count if split == "train" else min(count, MOST), ("squeezesegv3", split), scanner)


SYSTEM = SqueezeSegV3System()
