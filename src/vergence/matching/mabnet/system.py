"""MABNet as a system: rendered and real stereo pairs, training, the protocol, and disparity of a user's photographs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import EMBEDDED, First
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read
from vergence.drawing.grid import Panel, grid
from vergence.drawing.maps import coloured
from vergence.matching.layers import layered_pair
from vergence.matching.mabnet import predict
from vergence.matching.mabnet.claims import CLAIMS
from vergence.matching.mabnet.model import MABNet, build
from vergence.matching.mabnet.predict import Disparity
from vergence.matching.mabnet.settings import SETTINGS, Config, Inputs, Pairs
from vergence.matching.stereo import LAYOUTS, MEAN, STD, Crops, RenderedPairs
from vergence.metrics.displacement import endpoint_error, outliers

Ctx = Context[Config, NoFacts]
WEIGHTS = (0.5, 0.7, 1.0)
"""Of the losses of three hourglasses (Eq. 4); fewer have the last ones."""
SAMPLED = 2000
"""Disparities of a picture that the constant baseline is measured on."""


class MABNetSystem(System[Config, NoFacts, MABNet, Crops, Disparity]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Crops:
        asked = ctx.config.data
        pairs = read(asked.source, self.layouts, split, embedded=lambda: _embedded(asked, split))
        if split != "train" or asked.source != EMBEDDED or not asked.layers:
            return Crops(pairs, asked.height, asked.width, asked.jitter)
        extra = round(asked.pairs * asked.layers / (1 - asked.layers))
        height, width = asked.picture
        draws = partial(layered_pair, height=height, width=width, most=asked.most)
        return Crops(pairs, asked.height, asked.width, asked.jitter, extra, draws)

    def slice(self, data: Crops) -> Any:
        return First(data, 4)

    def build(self, config: Config, facts: NoFacts) -> MABNet:
        return build(config.model)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        size = (batch, 3, config.data.height, config.data.width)
        return torch.zeros(size), torch.zeros(size)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"mean": MEAN, "std": STD, "range": "0 to 1", "sides": "multiples of 16", "order": "left, right"}

    def losses(self, ctx: Ctx, model: MABNet, batch: Any) -> Mapping[str, Tensor]:
        """Eqs. 2 to 4: smooth L1 over the pixels whose disparity is known and within the network's range."""
        truth, known = batch["disparity"], batch["valid"] & (batch["disparity"] < ctx.config.model.disparities)
        predicted = model(batch["left"], batch["right"])
        count = known.sum().clamp_min(1)
        names = ("first", "second", "last")[-len(predicted) :]
        return {
            name: weight * (F.smooth_l1_loss(own.float(), truth, reduction="none") * known).sum() / count
            for name, weight, own in zip(names, WEIGHTS[-len(predicted) :], predicted, strict=True)
        }

    def evaluate(self, ctx: Ctx, model: MABNet, data: Crops) -> Mapping[str, float]:
        """Errors of whole pictures, averaged over pictures with equal weight."""
        rows, some = [], []
        for batch in ctx.batches(data, 1, "pairs"):
            truth, known = batch["disparity"], batch["valid"] & (batch["disparity"] < ctx.config.model.disparities)
            if not known.any():
                continue
            predicted = model(batch["left"], batch["right"]).float()
            seen = known & batch["visible"]
            rows.append({
                "epe": endpoint_error(predicted, truth, known),
                "d1": outliers(predicted, truth, known),
                "two": outliers(predicted, truth, known, pixels=2.0, share=0.0),
                "epe_visible": endpoint_error(predicted, truth, seen),
                "d1_visible": outliers(predicted, truth, seen),
            })  # fmt: skip
            values = truth[known]
            some.append(values[:: max(len(values) // SAMPLED, 1)].double().cpu())
        rows, some = ctx.gather(rows), ctx.gather(some)
        if not rows:
            raise VergenceError("no pair has a pixel whose disparity is known: there is nothing to evaluate")
        scores = {name: [row[name] for row in rows if not math.isnan(row[name])] for name in rows[0]}
        mean = float(torch.cat(some).mean())
        scores["epe_constant"] = [float((values - mean).abs().mean()) for values in some]
        return {name: sum(values) / len(values) if values else math.nan for name, values in scores.items()}

    def infer(self, ctx: Ctx, model: MABNet, inputs: Inputs) -> Disparity:
        return predict.disparity_of(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Disparity) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, MABNet], data: Crops) -> Sequence[Artifact]:
        """Draws held-out pairs with the true disparity and that of each network."""
        rows = []
        for index in range(min(4, len(data))):
            sample = data[index]
            left = (sample["left"] * torch.tensor(STD).view(3, 1, 1) + torch.tensor(MEAN).view(3, 1, 1)).clamp(0, 1)
            truth, known = sample["disparity"], sample["valid"]
            most = float(truth.max())
            row = [Panel(left, "left picture"), Panel(coloured(truth.where(known, torch.nan), 0, most) / 255, "truth")]
            for name, model in models.items():
                pair = (ctx.to_device(sample[side]).unsqueeze(0) for side in ("left", "right"))
                found = model(*pair)[0].float().cpu()
                title = f"{self.settings.label(name)}: EPE {endpoint_error(found, truth, known):.2f} px"
                row.append(Panel(coloured(found, 0, most) / 255, title))
            rows.append(row)
        caption = "Held-out rendered pairs: the left picture, its true disparity and that of each network."
        return [Artifact("image", grid(ctx.folder / "disparities.png", rows, side=2.6), caption)]


def _embedded(asked: Pairs, split: str) -> RenderedPairs:
    count = asked.pairs if split == "train" else asked.held_out
    return RenderedPairs.of(
        count, *asked.picture, asked.most, ("starter", split), "test" if split == "test" else "train"
    )


SYSTEM = MABNetSystem()
