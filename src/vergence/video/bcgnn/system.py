"""BC-GNN as a system: spans from boundaries and contents, with and without the graph, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, share
from vergence.video.annotated import Annotated, Sample, Windowed
from vergence.video.bcgnn import predict
from vergence.video.bcgnn.claims import CLAIMS
from vergence.video.bcgnn.model import BCGNN, losses
from vergence.video.bcgnn.pictures import compared
from vergence.video.bcgnn.predict import Spans
from vergence.video.bcgnn.settings import SETTINGS, Config, Facts, Inputs
from vergence.video.cues import cues
from vergence.video.films import films
from vergence.video.proposals import found, judged
from vergence.video.span_layouts import LAYOUTS, layouts

Ctx = Context[Config, Facts]


class BCGNNSystem(System[Config, Facts, BCGNN, Windowed, Spans]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Windowed:
        asked = ctx.config.data
        videos: Annotated = read(asked.source, layouts(asked.rate), split, embedded=lambda: self._embedded(ctx, split))
        inside = 0.75 if split == "train" and asked.stride else 0.0
        return Windowed(videos, asked.length, ctx.config.model.longest, asked.stride, inside)

    def _embedded(self, ctx: Ctx, split: str) -> Annotated:
        asked = ctx.config.data
        make = films if asked.embedded == "films" else cues
        return make(share(asked.count, split), asked.length, split)

    def slice(self, data: Windowed) -> Windowed:
        return Windowed(data.data.first(8), data.length, data.longest, data.stride, data.inside)

    def facts(self, ctx: Ctx, data: Windowed) -> Facts:
        return Facts(data.data.features[0].shape[1])

    def build(self, config: Config, facts: Facts) -> BCGNN:
        return BCGNN(config.model, facts.channels)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, facts.channels, config.data.length),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"positions": config.data.length, "stride": config.data.stride, "rate": config.data.rate}

    def losses(self, ctx: Ctx, model: BCGNN, batch: Any) -> Mapping[str, Tensor]:
        sample = Sample(*batch)
        _same_width(sample.features.shape[1], ctx.facts.channels)
        return losses(model, sample.features, sample.start, sample.end, sample.content)

    def evaluate(self, ctx: Ctx, model: BCGNN, data: Windowed) -> Mapping[str, float]:
        _same_width(data.data.features[0].shape[1], ctx.facts.channels)
        proposals, separate = found(ctx, model, data, ctx.config.nms)
        asked = ctx.config.data
        return judged(data.data, proposals, ctx.config.nms.keep, asked.protocol, asked.classifier) | separate

    def infer(self, ctx: Ctx, model: BCGNN, inputs: Inputs) -> Spans:
        return predict.spans(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Spans) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, BCGNN], data: Windowed) -> Sequence[Artifact]:
        """Draws the spans that each network finds in held-out films, under frames of the films."""
        return compared(ctx, models, data)


def _same_width(given: int, expected: int) -> None:
    if given != expected:
        raise VergenceError(f"the network takes features of {expected} numbers per snippet, got {given}")


SYSTEM = BCGNNSystem()
