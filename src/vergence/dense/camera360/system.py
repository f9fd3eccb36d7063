"""camera360 as a system: rendered and real panoramas, training, the protocol, and a user's panorama set upright."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Spread
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.contract.training import Phase, phases_of
from vergence.core.errors import VergenceError
from vergence.data.layouts import read
from vergence.dense.camera360 import predict
from vergence.dense.camera360.claims import CLAIMS
from vergence.dense.camera360.model import COARSE, FINE, CoarseToFine, Network, Regressor, build, verticals
from vergence.dense.camera360.pictures import held_out
from vergence.dense.camera360.predict import Levelled
from vergence.dense.camera360.settings import LIMITS, SETTINGS, Config, Inputs, Panoramas, named
from vergence.dense.panorama_data import LAYOUTS, Files, Noise, Prepared, Rendered
from vergence.dense.verticals import bins, dice_loss, log_cosh, middles, network_input, tilted_again, upright
from vergence.metrics.angles import axis_errors, shares_within
from vergence.nn.inception import InceptionV3, load_imagenet
from vergence.ops.sphere import rotate

Ctx = Context[Config, NoFacts]
NOISE = 256
"""Samples of white noise in an epoch, and for a test."""


class Camera360(System[Config, NoFacts, Network, Prepared, Levelled]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Prepared:
        asked = ctx.config.data
        found = read(asked.source, self.layouts, split, embedded=lambda: _embedded(asked, split))
        if isinstance(found, Files):
            level = found.files[0][1] is None
            found = replace(found, height=asked.height, rotations=asked.rotations if level else 1)
        return Prepared(found, asked.height, asked.jitter)

    def slice(self, data: Prepared) -> Any:
        return Spread(data, 16)

    def build(self, config: Config, facts: NoFacts) -> Network:
        return build(config.model)

    def load_pretrained(self, config: Config, model: Network, state: Mapping[str, Any]) -> str:
        if isinstance(model, CoarseToFine):
            backbones = [model.first, model.second]
        else:
            backbones = [getattr(model, "backbone", None)]  # type: ignore[list-item]
        said = [load_imagenet(own, state) for own in backbones if isinstance(own, InceptionV3)]
        if not said:
            raise VergenceError("only InceptionV3 starts from pretrained weights, and this network has none")
        return said[0]

    def phases(self, config: Config, facts: NoFacts) -> Mapping[str, Phase]:
        """Votes alone need no training."""
        return {} if config.model.method == "votes" else phases_of(config)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        height = config.data.height
        return torch.zeros(batch, 3, height, 2 * height), torch.zeros(batch, 1, height, 2 * height)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {
            "range": "-1 to 1",
            "size": f"{config.data.height} x {2 * config.data.height}",
            "second input": "votes for vanishing points, 0 to 1",
        }

    def losses(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        images, votes = network_input(batch["image"], batch["votes"], ctx.config.data.height)
        up = batch["up"].float()
        if isinstance(model, Regressor):
            return {"log_cosh": log_cosh(model(images, votes).float(), up)}
        if isinstance(model, CoarseToFine):
            return _classified(model, images, votes, up)
        turn = torch.rand((), generator=ctx.generator, device=ctx.device) * (2 * torch.pi)
        aim = ctx.config.objective
        points = aim.points if aim.loss == "sphere" else 0
        return {"dice": dice_loss(model(images, votes), up, aim.radius, points, turn)}

    def evaluate(self, ctx: Ctx, model: Network, data: Prepared) -> Mapping[str, float]:
        """Shares of verticals within some degrees, of panoramas in any pose and of those near level."""
        aim, height = ctx.config.objective, ctx.config.data.height

        def find(pictures: Tensor, votes: Tensor) -> Tensor:
            return verticals(model, *network_input(pictures, votes, height), aim.centroid)[0]

        errors, near, tilts = [], [], []
        for batch in ctx.batches(data, 16, "panoramas"):
            found = find(batch["image"], batch["votes"])
            found = tilted_again(find, batch["image"], found, aim.tilt, aim.level)
            errors.append(axis_errors(found, batch["up"]).cpu())
            tilts.append(axis_errors(torch.tensor([0.0, 0.0, 1.0]).to(batch["up"]).expand_as(batch["up"]),
                                     batch["up"]).cpu())  # fmt: skip
            near.append(batch["near"].cpu())
        every, level, start = (ctx.gather(torch.cat(parts)) for parts in (errors, near, tilts))
        rotated = every[~level] if bool((~level).any()) else every
        scores = {f"within_{named(k)}": share for k, share in zip(LIMITS, shares_within(rotated), strict=True)}
        scores |= {f"level_{named(k)}": share for k, share in zip(LIMITS, shares_within(every[level]), strict=True)}
        return scores | {
            "error": float(rotated.mean()),
            "median": float(rotated.median()),
            "level_error": float(every[level].mean()),
            "error_constant": float((start[~level] if bool((~level).any()) else start).mean()),
        }

    def infer(self, ctx: Ctx, model: Network, inputs: Inputs) -> Levelled:
        return predict.levelled(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Levelled) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: Prepared) -> Sequence[Artifact]:
        return held_out(ctx, models, data)


def _embedded(asked: Panoramas, split: str) -> Rendered | Noise:
    if asked.kind == "places":
        return Rendered.of(asked.scenes, asked.held_out, asked.height, split)
    return Noise(NOISE, asked.height, (split,), asked.kind == "rotated-noise")


def _classified(model: CoarseToFine, images: Tensor, votes: Tensor, up: Tensor) -> Mapping[str, Tensor]:
    """Cross-entropies of the coarse bins, and of the fine bins of pictures turned by their true coarse bins."""
    coarse = bins(up, COARSE, 10.0)
    logits = model(images, votes).unflatten(1, (2, COARSE)).float()
    turns = upright(middles(coarse, COARSE, 10.0).to(images))
    rest = (turns.mT @ up.unsqueeze(-1)).squeeze(-1)
    fine = model.fine(rotate(images, turns)).unflatten(1, (2, FINE)).float()
    return {
        "coarse": F.cross_entropy(logits.flatten(0, 1), coarse.flatten()),
        "fine": F.cross_entropy(fine.flatten(0, 1), bins(rest, FINE, 1.0).flatten()),
    }


SYSTEM = Camera360()
