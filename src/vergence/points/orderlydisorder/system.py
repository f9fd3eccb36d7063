"""Pattern-Net as a system: classes and parts of clean and disturbed clouds, under one protocol for all networks."""

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
from vergence.points.metrics import part_iou, part_scores
from vergence.points.objects import embedded_shapes
from vergence.points.orderlydisorder import pictures, predict
from vergence.points.orderlydisorder.claims import CLAIMS
from vergence.points.orderlydisorder.model import Network, build, mapping_deviation
from vergence.points.orderlydisorder.predict import Recognised
from vergence.points.orderlydisorder.settings import NOISE, SETTINGS, Config, Inputs
from vergence.points.shapedata import LAYOUTS, Clouds, Disturb, Disturbed, noisy, thinned, tilted, uneven
from vergence.points.shapes import ShapeFacts

Ctx = Context[Config, ShapeFacts]
AT_ONCE = 16
"""Clouds in a batch of evaluation."""
DISTURBANCES: dict[str, Disturb] = {
    **{f"noise_{round(100 * sigma):02d}": noisy(sigma) for sigma in NOISE},
    "missing": thinned(0.25),
    "density": uneven(4.0),
    "turned": tilted(180),
}


class PatternNetSystem(System[Config, ShapeFacts, Network, Clouds, Recognised]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Clouds:
        asked = ctx.config.data
        parts = asked.task == "parts"
        count = share(asked.objects, split, of=6)
        shapes = read(
            asked.source,
            self.layouts,
            split,
            lambda: embedded_shapes(count, max(asked.pool, asked.points), parts, asked.turn != "none", split),
        )
        if parts and not shapes.parts:
            raise VergenceError(f"{asked.source} has no parts: --data.task parts needs shapenetpart or embedded data")
        return Clouds(shapes, asked)

    def facts(self, ctx: Ctx, data: Clouds) -> ShapeFacts:
        shapes = data.data
        if data.asked.task == "class":
            return ShapeFacts(len(shapes.classes), shapes.classes)
        return ShapeFacts(len(shapes.classes), shapes.classes, shapes.parts, shapes.part_names)

    def build(self, config: Config, facts: ShapeFacts) -> Network:
        return build(config.model, facts)

    def example(self, config: Config, facts: ShapeFacts, batch: int = 1) -> tuple[Tensor, ...]:
        points, clones = config.data.points, config.model.clones
        size = points // clones
        split = torch.arange(clones * size).view(1, clones, size).expand(batch, -1, -1)
        split = split[:, :1] if config.model.alone else split
        inputs = torch.zeros(batch, points, 3), split
        return (*inputs, torch.zeros(batch, dtype=torch.long)) if facts.parts else inputs

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {
            "points": config.data.points,
            "centre": "mean of the points",
            "scale": "the farthest point has a distance of 1",
            "axes": "the second is up",
            "split": "a random permutation of the points, cut into equal clones: indices (B, L, N)",
        }

    def judged_by(self, config: Config) -> str:
        return "accuracy" if config.data.task == "class" else "instance_iou"

    # Training and evaluation ------------------------------------------------------------------------------------------

    def losses(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        """Eq. 9, and PointNet's regularisation of its feature transform."""
        asked = ctx.config.loss
        out = forward(ctx, model, batch["points"], batch["label"])
        target = batch.get("parts", batch["label"])
        logits = out["logits"].flatten(0, -2).float()
        losses = {"cross_entropy": F.cross_entropy(logits, target.flatten(), label_smoothing=asked.smoothing)}
        if "clones" in out and out["clones"].shape[2] > 1:
            deviation = mapping_deviation(out["clones"], out["linkage"], asked.ridge).mean()
            ctx.log(deviation=deviation)
            if asked.mapping:
                losses["mapping"] = asked.mapping * deviation
        if "transform" in out:
            matrix = out["transform"].float()
            eye = torch.eye(matrix.shape[1], device=matrix.device)
            losses["orthogonality"] = 0.001 * (matrix @ matrix.mT - eye).square().sum((1, 2)).mean()
        return losses

    def evaluate(self, ctx: Ctx, model: Network, data: Clouds) -> Mapping[str, float]:
        """Clean clouds; in the final test also disturbed ones, which are not scaled again. Every cloud is decomposed
        once, at random."""
        shapes = _inner(data)
        if ctx.config.data.task == "parts":
            ctx.facts.refuse_others(shapes.classes, shapes.parts)
            return evaluate_parts(ctx, model, data)
        ctx.facts.refuse_others(shapes.classes, ())
        right, labels, spread = classify(ctx, model, data)
        by_class = [float(right[labels == label].mean()) for label in labels.unique().tolist()]
        scores = {"accuracy": 100 * float(right.mean()), "class_accuracy": 100 * sum(by_class) / len(by_class)}
        if spread is not None:
            scores["spread"] = spread
        if ctx.stage == "test":
            for name, disturb in DISTURBANCES.items():
                scores[name] = 100 * float(classify(ctx, model, Disturbed(data, disturb, name))[0].mean())
        return scores

    def infer(self, ctx: Ctx, model: Network, inputs: Inputs) -> Recognised:
        return predict.recognise(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Recognised) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: Clouds) -> Sequence[Artifact]:
        if ctx.config.data.task == "parts":
            return pictures.parts(ctx, models, data)
        return pictures.robustness(ctx, models, data, classify)


def forward(ctx: Ctx, model: Network, points: Tensor, category: Tensor) -> dict[str, Tensor]:
    """The network's output with a fresh random decomposition of every cloud."""
    return predict.decomposed(model, points, category, ctx.generator)


def classify(ctx: Ctx, model: Network, data: Any) -> tuple[Tensor, Tensor, float | None]:
    """Whether each cloud was classified rightly (S,) as 0 or 1, its class, and the mean spread of ω over clouds."""
    right, labels, spreads = [], [], []
    for batch in ctx.batches(data, AT_ONCE):
        out = forward(ctx, model, batch["points"], batch["label"])
        right.append((out["logits"].argmax(1) == batch["label"]).double())
        labels.append(batch["label"])
        if "clones" in out and out["clones"].shape[2] > 1:
            spreads.append(mapping_deviation(out["clones"], out["linkage"], ctx.config.loss.ridge))
    spread = float(ctx.gather(torch.cat(spreads)).mean()) if spreads else None
    return ctx.gather(torch.cat(right)), ctx.gather(torch.cat(labels)), spread


def evaluate_parts(ctx: Ctx, model: Network, data: Clouds) -> dict[str, float]:
    """Part IoU and accuracy of points, given the category: only the parts of the object's category are candidates, as
    in PointNet's protocol."""

    def scored(of: Any) -> tuple[float, float, float]:
        ious, labels, right = [], [], []
        for batch in ctx.batches(of, AT_ONCE):
            logits = forward(ctx, model, batch["points"], batch["label"])["logits"].float()
            for scores, truth, label in zip(logits, batch["parts"], batch["label"].tolist(), strict=True):
                first, count = ctx.facts.first_parts[label], ctx.facts.parts[label]
                predicted = first + scores[:, first : first + count].argmax(1)
                ious.append(part_iou(predicted, truth, first, count))
                labels.append(label)
                right.append(float((predicted == truth).double().mean()))
        every, classes, accuracy = ctx.gather(ious), ctx.gather(labels), ctx.gather(right)
        instance, category = part_scores(torch.tensor(every, dtype=torch.float64), torch.tensor(classes))
        return instance, category, 100 * sum(accuracy) / len(accuracy)

    instance, category, accuracy = scored(data)
    scores = {"instance_iou": instance, "category_iou": category, "accuracy": accuracy}
    if ctx.stage == "test":
        scores["instance_iou_noise"] = scored(Disturbed(data, noisy(0.05), "parts"))[0]
    return scores


def _inner(data: Any) -> Any:
    """The objects behind what samples them, or a part of it."""
    while not hasattr(data, "classes"):
        data = data.data
    return data


SYSTEM = PatternNetSystem()
