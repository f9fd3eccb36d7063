"""Patch-wise attacks as a system: each network is attacked with the others as substitutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import First
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.data.layouts import read
from vergence.nn.efficientnet_lite import LITE
from vergence.robustness.classifiers import Zoo
from vergence.robustness.data import LAYOUTS, Squares, digits
from vergence.robustness.metrics import Transfer, fooled, wrong
from vergence.robustness.patchwise import predict
from vergence.robustness.patchwise.claims import CLAIMS
from vergence.robustness.patchwise.model import attack_of, build, fill
from vergence.robustness.patchwise.pictures import Ctx, draw
from vergence.robustness.patchwise.predict import Adversarial, named
from vergence.robustness.patchwise.settings import SETTINGS, Config, Facts, Inputs


class PatchwiseSystem(System[Config, Facts, Zoo, Squares, Adversarial]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and networks ------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Squares:
        asked = ctx.config.data
        pictures = read(asked.source, self.layouts, split, embedded=lambda: digits(split, asked.side))
        if asked.limit and split != "train":
            pictures = First(pictures, asked.limit)
        return Squares(pictures, asked.side, asked.channels, asked.noise)

    def facts(self, ctx: Ctx, data: Squares) -> Facts:
        classes = data.data.classes
        return Facts(len(classes), tuple(classes) if len(classes) <= 100 else ())

    def build(self, config: Config, facts: Facts) -> Zoo:
        return build(config.model, config.data.channels, config.data.side, facts.classes)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.full((batch, config.data.channels, config.data.side, config.data.side), 0.5),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"range": [0, 1], "side": config.data.side, "channels": config.data.channels}

    # Training ---------------------------------------------------------------------------------------------------------

    def start(self, ctx: Ctx, model: Zoo) -> Zoo:
        if ctx.config.model.weights == "imagenet":  # one asset per network; `pretrained` would name a single one
            fill(model)
        return model

    def losses(self, ctx: Ctx, model: Zoo, batch: Any) -> Mapping[str, Tensor]:
        """One loss per network; they share no parameters, so the sum trains each independently."""
        images, labels = batch
        return {name: F.cross_entropy(logits, labels) for name, logits in model(images).items()}

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: Zoo, data: Squares) -> Mapping[str, float]:
        ctx.facts.refuse_others(data.data.classes)
        groups = groups_of(tuple(model), ctx.config.attack.substitutes)
        attack = attack_of(ctx.config.attack)
        before, after = [], []
        for images, labels in ctx.batches(data, ctx.config.batch, "attacking"):
            before.append(wrong(model, images, labels))
            after.append(fooled(lambda c, x, y: attack(c, x, y, ctx.generator), model, groups, images, labels))
        return Transfer.of(model, groups, ctx.gather(torch.cat(before)), ctx.gather(torch.cat(after))).summary()

    def needs_model(self, inputs: Inputs) -> bool:
        """Whether any named network is not one of the pretrained EfficientNet-Lites."""
        return any(name not in LITE for name in [*named(inputs.substitutes), *named(inputs.targets)])

    def infer(self, ctx: Ctx, model: Zoo | None, inputs: Inputs) -> Adversarial:
        return predict.attacked(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Adversarial) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Zoo], data: Squares) -> Sequence[Artifact]:
        return draw(ctx, models, data)


def groups_of(names: Sequence[str], how: str) -> list[tuple[str, ...]]:
    """The substitutes of each attack: each network alone, or all but one."""
    if how == "each":
        return [(name,) for name in names]
    return [tuple(other for other in names if other != name) for name in names]


SYSTEM = PatchwiseSystem()
