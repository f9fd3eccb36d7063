"""SE-SiamFC as a system: Siamese trackers with and without scale-convolutions, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import EMBEDDED
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read
from vergence.reading.weights import load_state
from vergence.tracking import siamse
from vergence.tracking.crops import MEAN, STD
from vergence.tracking.data import Clips, Tracks
from vergence.tracking.layouts import LAYOUTS
from vergence.tracking.natural import natural
from vergence.tracking.pairs import Pairs, balanced_logistic, targets
from vergence.tracking.protocol import judge
from vergence.tracking.sesiam import predict
from vergence.tracking.sesiam.claims import CLAIMS
from vergence.tracking.sesiam.model import SiameseNetwork, configured
from vergence.tracking.sesiam.pictures import draw
from vergence.tracking.sesiam.predict import Followed
from vergence.tracking.sesiam.settings import SETTINGS, SIZES, Config, Inputs, ModelConfig, Sequences
from vergence.tracking.settings import World
from vergence.tracking.siamese import Tracker, together
from vergence.tracking.synth import moving_digits

Ctx = Context[Config, NoFacts]
WORLDS: Mapping[World, str] = {"t-mnist": "_t", "s-mnist": "_s"}
"""Worlds of digits, and the suffixes of their metrics."""


class SESiamSystem(System[Config, NoFacts, SiameseNetwork, Clips, Followed]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Pairs | Clips:
        asked, plan = ctx.config.data, SIZES[ctx.config.model.size]
        if split != "train" and asked.source == EMBEDDED:
            return embedded_clips(asked, split)
        generated = partial(embedded_tracks, asked, asked.world, asked.sequences, split)
        tracks = read(asked.source, self.layouts, split, embedded=generated)
        if split == "train":
            return Pairs(tracks, plan.template_size, plan.search_size, asked.pairs)
        return Clips({"": tracks}).only(asked.most or len(tracks.sequences))

    def slice(self, data: Clips) -> Clips:
        return data.only(2)

    def build(self, config: Config, facts: NoFacts) -> SiameseNetwork:
        return configured(config.model)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        plan = SIZES[config.model.size]
        return tuple(torch.zeros(batch, 3, side, side) for side in (plan.template_size, plan.search_size))

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        plan = SIZES[config.model.size]
        return {"range": [0, 1], "mean": MEAN, "std": STD, "template": plan.template_size, "search": plan.search_size}

    def load_pretrained(self, config: Config, model: SiameseNetwork, state: Mapping[str, Any]) -> str:
        """Initialises a scale-equivariant network from an ordinary one (Sec. 2 of the supplement)."""
        if config.model.name != "se-siamfc":
            raise VergenceError(f"only se-siamfc starts from an ordinary network; this is {config.model.name}")
        plain = configured(replace(config.model, name="siamfc+", connection="own"))
        try:
            plain.load_state_dict(state)
        except RuntimeError:
            raise VergenceError(
                f"{config.pretrained} does not hold an ordinary network of the size {config.model.size!r} and width"
            ) from None
        model.start_from(plain)
        return "starting from the ordinary network"

    def load_published(self, path: Path) -> tuple[Config, NoFacts, dict[str, Tensor]]:
        """SE-SiamFC as released, from a checkpoint of the authors' code."""
        weights = load_state(path)
        if f"{siamse.ROOT}conv1.basis" not in weights:
            raise VergenceError(f"{path} is not a checkpoint of SE-SiamFC's authors: expected {siamse.ROOT}conv1.basis")
        extent, stem_size = siamse.extents(weights)
        model = ModelConfig(connection="correlation", extent=extent, stem_size=stem_size)
        return Config(model), NoFacts(), siamse.renamed(weights, SIZES[model.size].scales)

    # Training ---------------------------------------------------------------------------------------------------------

    def losses(self, ctx: Ctx, model: SiameseNetwork, batch: Any) -> Mapping[str, Tensor]:
        response = model(batch["template"], batch["search"])
        height, width = response.shape[-2:]
        labels = targets(batch["offset"], height, width, SiameseNetwork.stride, ctx.config.model.radius)
        return {"logistic": balanced_logistic(response, labels.to(response.dtype))}

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: SiameseNetwork, data: Clips) -> Mapping[str, float]:
        scores = judge(ctx, data, partial(Tracker, model, ctx.config.inference), together)
        return {name: scores[name] for name in self.metrics if name in scores}

    def infer(self, ctx: Ctx, model: SiameseNetwork, inputs: Inputs) -> Followed:
        return predict.follow(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Followed) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, SiameseNetwork], data: Clips) -> Sequence[Artifact]:
        return draw(ctx, models, data)


def embedded_tracks(asked: Sequences, world: World, count: int, split: str) -> Tracks:
    """Sequences of an embedded world."""
    if world == "natural":
        return natural(count, split, asked.scene)
    return moving_digits(world, count, split, asked.scene)


def embedded_clips(asked: Sequences, split: str) -> Clips:
    """Embedded test sequences: digits in both worlds, whichever was trained on."""
    count = asked.tests if split == "test" else max(asked.tests // 2, 1)
    worlds: Mapping[World, str] = {"natural": ""} if asked.world == "natural" else WORLDS
    return Clips({ending: embedded_tracks(asked, world, count, split) for world, ending in worlds.items()})


SYSTEM = SESiamSystem()
