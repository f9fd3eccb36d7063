"""ADTC as a system: pre-training on labelled pictures, rounds of clusters on unlabelled ones, one protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import EMBEDDED
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.contract.training import Phase
from vergence.core.errors import VergenceError
from vergence.data.layouts import read
from vergence.nn.resnet import load_imagenet
from vergence.ops.triplet import batch_hard
from vergence.reid.adtc import predict
from vergence.reid.adtc.claims import CLAIMS
from vergence.reid.adtc.model import ReidNetwork, build
from vergence.reid.adtc.pictures import Ctx, draw
from vergence.reid.adtc.predict import Matches
from vergence.reid.adtc.settings import SETTINGS, Config, Facts, Inputs, Labelling
from vergence.reid.camera_errors import camera_errors, margins
from vergence.reid.crowds import population
from vergence.reid.data import Balanced, Viewed, judged
from vergence.reid.protocol import rank_people, refuse_unmatched, scores_of
from vergence.reid.rounds import ROUND, Clustered, Ways, cluster, describe_all, relabel, round_of
from vergence.reid.unlabelled import UNLABELLED, has_identities


class ADTCSystem(System[Config, Facts, ReidNetwork, Viewed, Matches]):
    settings = SETTINGS
    layouts = UNLABELLED
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Viewed:
        asked = ctx.config.data
        if split == "train" and ctx.phase == "pretrain":
            return Balanced(self._labelled(ctx), asked, asked.each)
        own = "train" if split == "train" else "test"  # as for public data, validation is the test
        cameras = tuple(range(asked.cameras))
        pictures = read(
            asked.source,
            self.layouts,
            split,
            embedded=lambda: population(asked.people, asked.height, asked.width, own, cameras, asked.shots),
        )
        return Viewed(pictures, asked)

    def _labelled(self, ctx: Ctx) -> Any:
        """The pictures to pre-train on."""
        asked = ctx.config.data
        others = tuple(range(asked.cameras, 2 * asked.cameras))
        pictures = read(
            asked.labelled,
            self.layouts,
            "train",
            embedded=lambda: population(asked.known, asked.height, asked.width, "source", others, asked.shots),
        )
        if not has_identities(pictures):
            raise VergenceError(f"{asked.labelled} has no identities to pre-train on: expected --data.labelled "
                                "LAYOUT:PATH with some, or --pretrain.epochs 0")  # fmt: skip
        return pictures

    def facts(self, ctx: Ctx, data: Viewed) -> Facts:
        config = ctx.config
        if config.data.source != EMBEDDED and has_identities(judging := self.data(ctx, "val").data):
            refuse_unmatched(judging, config.data.source, " (unlabelled:PATH trains without evaluation)")
        begins = config.pretrain.epochs or config.pretrain.steps
        return Facts(len(set(self._labelled(ctx).identities)) if begins else 0, len(data))

    def build(self, config: Config, facts: Facts) -> ReidNetwork:
        return build(config.model, facts.classes, config.labels.rounds, facts.pictures)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 3, config.data.height, config.data.width),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        data = config.data
        return {"range": [0, 1], "resize": [data.height, data.width], "mean": data.mean, "std": data.std}

    def load_pretrained(self, config: Config, model: ReidNetwork, state: Mapping[str, Any]) -> str:
        return load_imagenet(model.backbone, state)

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: Facts) -> Mapping[str, Phase]:
        begin = {"pretrain": config.pretrain} if config.pretrain.epochs or config.pretrain.steps else {}
        return begin | {f"{ROUND}{number + 1}": config.adapt for number in range(config.labels.rounds)}

    def start(self, ctx: Ctx, model: ReidNetwork) -> ReidNetwork:
        if round_of(ctx.phase) is not None and model.classifier is not None:
            model.classifier = None  # identities are unknown from here on
            ctx.facts = replace(ctx.facts, classes=0)
        return model

    def rebuild(self, ctx: Ctx, model: ReidNetwork, data: Viewed, epoch: int) -> Mapping[str, Tensor] | None:
        """Labels for the round that begins."""
        if round_of(ctx.phase) is None or epoch > 0:
            return None
        return relabel(ctx, model, model.trail, data, _ways(ctx.config.labels), ctx.config.data.each)

    def rebuilt(self, ctx: Ctx, data: Viewed, state: Mapping[str, Tensor]) -> Clustered:
        return Clustered(data, tuple(state["labels"].tolist()), ctx.config.data.each)

    def losses(self, ctx: Ctx, model: ReidNetwork, batch: Any) -> Mapping[str, Tensor]:
        pictures, labels, _ = batch
        descriptors, asked = model(pictures), ctx.config.triplets
        if model.classifier is not None:  # with identities, as in the code of Xiong et al.: plain distances
            identity = F.cross_entropy(model.classifier(descriptors), labels)
            return {"identity": identity, "triplet": batch_hard(descriptors, labels, asked.margin)}
        if ctx.step == 0:
            ctx.log(**model.trail.told(-1))  # once per round: the curves of the labels' quality
        return {"triplet": batch_hard(descriptors, labels, asked.margin, asked.squared)}

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: ReidNetwork, data: Viewed) -> Mapping[str, float]:
        told = dict(model.trail.told(-1))
        if "nmi" in told:
            told["nmi_gain"] = told["nmi"] - model.trail.told(0).get("nmi", math.nan)
        if not has_identities(data.data):
            if ctx.stage == "test":
                ctx.progress.say("the pictures have no identities: clusters are reported, and no ranking")
            found = cluster(ctx, model, data, _ways(ctx.config.labels), ctx.config.data.each)[0]
            return {"map": math.nan, **found.quality()}
        queries, gallery = judged(data.data)
        descriptors = describe_all(ctx, model, data)
        scores = scores_of(ctx, rank_people(ctx.config.protocol, descriptors, queries, gallery), data.data)
        count = len(queries)
        errors = camera_errors(descriptors[:count], descriptors[count:], queries, gallery)
        apart = margins(descriptors, queries.identities, gallery.identities)
        extra = {} if apart is None else {"margin": apart.mean, "separated": apart.separated}
        return {**scores, "ice": float(errors.inside), "cce": float(errors.across), **extra, **told}

    def infer(self, ctx: Ctx, model: ReidNetwork, inputs: Inputs) -> Matches:
        return predict.find(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Matches) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, ReidNetwork], data: Viewed) -> Sequence[Artifact]:
        return draw(ctx, models, data, self.data(replace(ctx, phase=""), "train").data)


def _ways(asked: Labelling) -> Ways:
    return Ways(asked.way, asked.clusters, asked.top, asked.k, asked.mode == "zhong", asked.density)


SYSTEM = ADTCSystem()
