"""CSALR as a system: part-based re-identification with and without attention, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import EMBEDDED
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.contract.training import Phase, phases_of
from vergence.data.layouts import read, share
from vergence.nn.resnet import load_imagenet
from vergence.reid.crowds import population
from vergence.reid.csalr import predict
from vergence.reid.csalr.claims import CLAIMS
from vergence.reid.csalr.model import PartNetwork, build, refine
from vergence.reid.csalr.pictures import Ctx, draw
from vergence.reid.csalr.predict import Matches
from vergence.reid.csalr.settings import SETTINGS, Config, Facts, Inputs
from vergence.reid.data import LAYOUTS, Viewed, judged, sampled
from vergence.reid.protocol import rank_people, refuse_unmatched, scores_of


class CSALRSystem(System[Config, Facts, PartNetwork, Viewed, Matches]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Viewed:
        asked = ctx.config.data
        own = "train" if split == "train" else "test"  # as for public data, validation is the test
        people = max(share(asked.people, own, of=2), 2)
        pictures = read(
            asked.source,
            self.layouts,
            split,
            embedded=lambda: population(
                people, asked.height, asked.width, own, tuple(range(asked.cameras)), asked.shots
            ),
        )
        return sampled(pictures, asked, asked.sampler, asked.each) if split == "train" else Viewed(pictures, asked)

    def facts(self, ctx: Ctx, data: Viewed) -> Facts:
        if (source := ctx.config.data.source) != EMBEDDED:
            refuse_unmatched(self.data(ctx, "val").data, source)
        return Facts(len(set(data.data.identities)), refined=False)

    def build(self, config: Config, facts: Facts) -> PartNetwork:
        refined = config.model.pooling == "refined" if facts.refined is None else facts.refined
        return build(config.model, facts.classes, refined)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 3, config.data.height, config.data.width),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        data = config.data
        return {"range": [0, 1], "resize": [data.height, data.width], "mean": data.mean, "std": data.std}

    def load_pretrained(self, config: Config, model: PartNetwork, state: Mapping[str, Any]) -> str:
        return load_imagenet(model.backbone, state)

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: Facts) -> Mapping[str, Phase]:
        wanted = ("stripes", "refine") if config.model.pooling == "refined" else ("train",)
        return {name: phase for name, phase in phases_of(config).items() if name in wanted}

    def start(self, ctx: Ctx, model: PartNetwork) -> PartNetwork:
        if ctx.phase == "refine":
            refine(model, ctx.config.model)
            ctx.facts = replace(ctx.facts, refined=True)
        return model

    def losses(self, ctx: Ctx, model: PartNetwork, batch: Any) -> Mapping[str, Tensor]:
        pictures, labels, _ = batch
        answers = model.answers(pictures)

        def summed(logits: Sequence[Tensor]) -> Tensor:
            return torch.stack([F.cross_entropy(x, labels) for x in logits]).sum()

        losses = {"parts": summed(answers.parts)}
        if answers.branches:
            losses["supervision"] = ctx.config.model.supervision * summed(answers.branches)
        return losses

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: PartNetwork, data: Viewed) -> Mapping[str, float]:
        queries, gallery = judged(data.data)
        descriptors = torch.cat([model(pictures).float() for pictures, _, _ in ctx.batches(data, 64)])
        ranked = rank_people(ctx.config.protocol, ctx.gather(descriptors).cpu(), queries, gallery)
        return scores_of(ctx, ranked, data.data)

    def infer(self, ctx: Ctx, model: PartNetwork, inputs: Inputs) -> Matches:
        return predict.find(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Matches) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, PartNetwork], data: Viewed) -> Sequence[Artifact]:
        return draw(ctx, models, data)


SYSTEM = CSALRSystem()
