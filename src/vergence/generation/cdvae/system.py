"""CDVAE as a system: rendered and real turntables, a game of three players, the protocol, and views of a user's
object."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read
from vergence.generation.cdvae import pictures, predict
from vergence.generation.cdvae.claims import CLAIMS
from vergence.generation.cdvae.model import CDVAE, Step, build, drawn
from vergence.generation.cdvae.predict import Views, fill_of
from vergence.generation.cdvae.settings import SETTINGS, Config, Facts, Inputs
from vergence.generation.turned import turned
from vergence.generation.turntables import LAYOUTS, Pairs, Turntable
from vergence.generation.viewmetrics import as_bytes, difference, mean_of, nearest, others_mean, probe, similarity

Ctx = Context[Config, Facts]
AT_ONCE = 64


class CDVAESystem(System[Config, Facts, CDVAE, Turntable, Views]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Turntable:
        asked = ctx.config.data
        count = asked.objects if split == "train" else asked.held_out
        table: Turntable = read(
            asked.source, self.layouts, split, lambda: turned(asked.kinds, count, asked.views, asked.size, split)
        )
        known: Facts | None = ctx.facts
        if known and known.views and known.views != table.names:
            raise VergenceError(
                f"the network learnt {len(known.views)} views ({', '.join(known.views[:4])}...), and {asked.source} "
                f"has {len(table.names)} ({', '.join(table.names[:4])}...): expected the same names"
            )
        return replace(table, size=asked.size)

    def facts(self, ctx: Ctx, data: Turntable) -> Facts:
        return Facts(data.names, data.rings, data.closed, fill_of(data))

    def slice(self, data: Turntable) -> Turntable:
        kept = data.objects < data.objects.min() + 12
        places = kept.nonzero().flatten().tolist()
        return replace(
            data, pictures=[data.pictures[i] for i in places], labels=data.labels[kept], objects=data.objects[kept]
        )

    def build(self, config: Config, facts: Facts) -> CDVAE:
        return build(config, facts)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        size, views = config.data.size, torch.zeros(batch, dtype=torch.long)
        return torch.zeros(batch, 3, size, size), views, views + 1

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"size": config.data.size, "range": "-1 to 1", "channels": "RGB", "views": "integers from 0"}

    def load_pretrained(self, config: Config, model: CDVAE, state: Mapping[str, Any]) -> str:
        """VGG-16 with torchvision's names, for the content and style losses."""
        if model.features is None or config.model.features != "vgg16":
            raise VergenceError("pretrained weights are for model.features vgg16, and this network has none")
        own = model.features.layers.state_dict()
        named = {name.removeprefix("features."): w for name, w in state.items() if name.startswith("features.")}
        missing = [name for name, w in own.items() if name not in named or named[name].shape != w.shape]
        if missing:
            raise VergenceError(f"these weights lack features.{missing[0]}: expected torchvision's vgg16")
        model.features.layers.load_state_dict({name: named[name] for name in own})
        return f"{len(own)} tensors of VGG-16 were loaded for content and style; all others are new"

    # Training ---------------------------------------------------------------------------------------------------------

    def update(self, ctx: Ctx, model: CDVAE, batch: Any) -> Mapping[str, Tensor]:
        """The discriminator, the latent classifier, then encoder and decoder; the fakes are made once for all."""
        step = Step(model, batch["picture"], batch["view"], ctx.generator)
        losses: dict[str, Tensor] = {}
        for player in ("discriminator", "dac", "translator"):
            # Others are frozen while a player moves, so that no gradients are computed for them.
            _moves(model, player)
            own = step.losses(player, ctx.config.loss)
            ctx.optimisers[player].zero_grad()
            ctx.backward(torch.stack(list(own.values())).sum())
            ctx.optimisers[player].step()
            losses |= {name: loss.detach() for name, loss in own.items()}
        _moves(model, "")
        return losses

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: CDVAE, data: Turntable) -> Mapping[str, float]:
        """Translated pictures of held-out objects; not numbers where no object is seen from two views."""
        rows = [_measured(ctx, model, batch) for batch in ctx.batches(Pairs(data), AT_ONCE, "pairs")]
        gathered = ctx.gather(rows)
        if not gathered:
            return dict.fromkeys(self.metrics, math.nan) | {"reconstruction": _reconstruction(ctx, model, data)}
        of = {name: torch.cat([row[name] for row in gathered]) for name in gathered[0]}
        return {
            "l1": mean_of(of["l1"]),
            "ssim": mean_of(of["ssim"]),
            "view": nearest(of["made"], of["real"], of["object"]),
            "identity": nearest(of["made"], of["real"], of["to"]),
            "probe": probe(of["code"], of["to"], of["object"]),
            "reconstruction": mean_of(of["reconstruction"]),
            "copied": mean_of(of["copied"]),
            "average": others_mean(of["real"], of["to"]),
        }

    def infer(self, ctx: Ctx, model: CDVAE, inputs: Inputs) -> Views:
        return predict.views_of(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Views) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, CDVAE], data: Turntable) -> Sequence[Artifact]:
        labels = {name: self.settings.label(name) for name in models}
        return pictures.drawn(ctx, labels, models, data)


def _measured(ctx: Ctx, model: CDVAE, batch: Any) -> dict[str, Tensor]:
    real = as_bytes(batch["target"])
    made = as_bytes(model(batch["source"], batch["from"], batch["to"]))
    mean, spread = model.translator.encode(batch["target"], model.rows(batch["to"]))
    again = as_bytes(model.translator.decode(mean, model.rows(batch["to"])))
    code = drawn(mean, spread, ctx.generator)
    return {
        "made": made, "real": real, "code": code.double().cpu(), "to": batch["to"].cpu(),
        "object": batch["object"].cpu(), "l1": difference(made, real), "ssim": similarity(made, real),
        "reconstruction": difference(again, real), "copied": difference(as_bytes(batch["source"]), real),
    }  # fmt: skip


def _reconstruction(ctx: Ctx, model: CDVAE, data: Turntable) -> float:
    parts = []
    for batch in ctx.batches(data, AT_ONCE, "pictures"):
        again = model(batch["picture"], batch["view"], batch["view"])
        parts.append(difference(as_bytes(again), as_bytes(batch["picture"])))
    return mean_of(torch.cat(ctx.gather(parts)))


def _moves(model: CDVAE, player: str) -> None:
    """Freeze every player but one; none if none is named."""
    for name, part in model.named_children():
        if name != "features":
            part.requires_grad_(not player or name == player)


SYSTEM = CDVAESystem()
