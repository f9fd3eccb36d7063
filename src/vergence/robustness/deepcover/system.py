"""DeepCover as a system: a classifier, explanations of its answers, and what they are worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import First
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.layouts import read
from vergence.metrics.attribution import best_iou, top_iou
from vergence.nn.efficientnet_lite import public_names
from vergence.robustness.blackbox import BlackBox, Subject, shade
from vergence.robustness.chimera import Chimeras, chimeras, roaming
from vergence.robustness.classifiers import Classifier
from vergence.robustness.deepcover import pictures, predict
from vergence.robustness.deepcover.claims import CLAIMS
from vergence.robustness.deepcover.model import build, explained
from vergence.robustness.deepcover.predict import Explanations
from vergence.robustness.deepcover.settings import SETTINGS, Config, Facts, Inputs, Pictures
from vergence.robustness.planted import LAYOUTS, UNKNOWN, Planted
from vergence.robustness.sufficiency import deletion, insertion, sufficient

Ctx = Context[Config, Facts]
EIGHT = 0.08
"""Sect. 6.5: the share of the pixels that is compared with a trigger."""


class DeepCoverSystem(System[Config, Facts, Classifier, Planted, Explanations]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and classifier ----------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Planted:
        asked = ctx.config.data
        found = read(asked.source, self.layouts, split, embedded=lambda: _embedded(asked, split, ctx.config.seed))
        if split == "train":
            return Planted(found, asked.side, asked.poison)
        return Planted(First(found, asked.pictures), asked.side, trigger=asked.poison > 0)

    def facts(self, ctx: Ctx, data: Planted) -> Facts:
        classes = data.classes
        return Facts(len(classes), classes if len(classes) <= 100 else ())

    def slice(self, data: Planted) -> Planted:
        return Planted(First(data.data, 4), data.side, trigger=data.trigger)

    def build(self, config: Config, facts: Facts) -> Classifier:
        return build(config.model.network, config.data.side, facts.classes)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.full((batch, 3, config.data.side, config.data.side), 0.5),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"range": [0, 1], "side": config.data.side, "channels": 3}

    def load_pretrained(self, config: Config, model: Classifier, state: Mapping[str, Any]) -> str:
        weights = {f"network.{name}": tensor for name, tensor in public_names(state).items()}
        try:
            model.load_state_dict(weights)
        except RuntimeError:
            raise VergenceError(f"the weights of {config.pretrained} do not fit {config.model.network}") from None
        return f"all weights of {config.model.network} are from {config.pretrained}"

    # Training ---------------------------------------------------------------------------------------------------------

    def losses(self, ctx: Ctx, model: Classifier, batch: Any) -> Mapping[str, Tensor]:
        images, labels, _ = batch
        if int(labels.min()) < 0:
            raise VergenceError(f"{ctx.config.data.source} has no classes to train on")
        return {"cross_entropy": F.cross_entropy(model(images), labels)}

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: Classifier, data: Planted) -> Mapping[str, float]:
        """Explains every picture that the classifier gets right (every one, if the right answer is not known); while
        it is being trained, its accuracy is enough."""
        ctx.facts.refuse_others(data.classes)
        right, rows = [], []
        for number, (images, labels, regions) in enumerate(ctx.batches(data, 1, "explaining")):
            known, answer = int(labels), int(model(images).argmax())
            right.append(math.nan if known == UNKNOWN else float(answer == known))
            pasted = known == UNKNOWN or data.trigger or bool(regions.any()) or not _has_regions(data)
            if ctx.stage != "validate" and pasted and known in (UNKNOWN, answer):
                source = generator("explain", ctx.config.seed, ctx.rank, number, device=ctx.device)
                rows.append(_scores(ctx, model, images[0], regions[0], source))
        rows, right = ctx.gather(rows), [value for value in ctx.gather(right) if not math.isnan(value)]
        names = dict.fromkeys(name for row in rows for name in row) or dict.fromkeys(("iou", "size", "deletion"))
        metrics = {name: _mean([row[name] for row in rows if name in row]) for name in names}
        return metrics | {"accuracy": 100 * _mean(right), "explained": float(len(rows))}

    def judged_by(self, config: Config) -> str:
        return "accuracy"

    def needs_model(self, inputs: Inputs) -> bool:
        """Never: without weights, EfficientNet-Lite or the named classifier is explained."""
        return False

    def infer(self, ctx: Ctx, model: Classifier | None, inputs: Inputs) -> Explanations:
        return predict.explanations(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Explanations) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Classifier], data: Planted) -> Sequence[Artifact]:
        return pictures.draw(ctx, models, data)


def _embedded(asked: Pictures, split: str, seed: int) -> Chimeras:
    if asked.pasted == "photographs":
        return roaming(asked.pictures, asked.side, seed)
    if split == "train":
        return chimeras("train", asked.count, asked.side, asked.things, seed)
    return chimeras("test", asked.pictures, asked.side, max(asked.things // 2, 1), seed)


def _has_regions(data: Planted) -> bool:
    return data.trigger or len(data.data[0]) > 2


def _scores(ctx: Ctx, model: Classifier, image: Tensor, region: Tensor, source: torch.Generator) -> dict[str, float]:
    """The worth of one explanation."""
    settings = ctx.config.explain
    subject = Subject.of(BlackBox(model, ctx.config.batch), image, settings.background)
    explanation = explained(subject, settings, source)
    order, size = explanation.order, 100 * explanation.size
    inserted, deleted = insertion(subject, order), deletion(subject, order)
    changed = (~deleted.kept).nonzero()
    gone = 100 * float(deleted.shares[changed[0]]) if len(changed) else 100.0
    black = Subject(subject.box, image, subject.label, shade(image, "black"), subject.chance)
    scores = {
        "size": size,
        "small": 100 * float(size <= 10),
        "deletion": gone,
        "quick": 100 * float(gone <= 2),
        "insertion_area": inserted.area,
        "deletion_area": deleted.area,
        "size_black": 100 * sufficient(black, order, settings.step).size,
    }
    if explanation.suite is not None:
        scores["passing"] = 100 * explanation.suite.passes / settings.queries
    if not region.any():
        return scores
    best, eight = best_iou(order, region), top_iou(order, region, round(EIGHT * order.numel()))
    found = {f"best{bound}": 100 * float(best >= bound / 100) for bound in (50, 60, 70)}
    located = {"iou8": eight, "located8": 100 * float(eight >= 0.5)}
    return {"iou": top_iou(order, region)} | found | scores | located


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


SYSTEM = DeepCoverSystem()
