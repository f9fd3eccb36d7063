"""FLOT as a system: scene flow with and without transport and refinement, under one protocol."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
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
from vergence.data.layouts import read, share
from vergence.drawing.figure import BLUE, GREEN, ORANGE
from vergence.drawing.viewer import Layer, View, picture
from vergence.points.data import LAYOUTS, Drawn
from vergence.points.flot import predict
from vergence.points.flot.claims import CLAIMS
from vergence.points.flot.model import FLOT, build, from_published
from vergence.points.flot.predict import Flow
from vergence.points.flot.settings import SETTINGS, Clouds, Config, Inputs, ModelConfig
from vergence.points.metrics import flow_scores
from vergence.points.streets import Streets
from vergence.points.synth import Rigid, rigid
from vergence.reading.weights import load_archive

Ctx = Context[Config, NoFacts]


class FLOTSystem(System[Config, NoFacts, FLOT, Drawn, Flow]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Drawn:
        asked = ctx.config.data
        scenes = read(asked.source, self.layouts, split, embedded=lambda: _embedded(asked, split))
        if asked.source == EMBEDDED or asked.world == "resampled":
            return Drawn(scenes, asked.points)
        if not scenes.aligned:
            raise VergenceError(f"{asked.source} has no perfect world: its rows do not correspond (ft3d_s's do)")
        return Drawn(scenes, asked.points, "together")

    def build(self, config: Config, facts: NoFacts) -> FLOT:
        return build(config.model)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        return torch.zeros(batch, config.data.points, 3), torch.zeros(batch, config.data.points, 3)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"unit": "metres", "axes": "left, up, forward", "points": config.data.points}

    def load_published(self, path: Path) -> tuple[Config, NoFacts, dict[str, Tensor]]:
        archive = load_archive(path)
        weights, iterations = archive.get("model"), archive.get("nb_iter")
        if not isinstance(weights, dict) or not isinstance(iterations, int) or iterations < 0:
            raise VergenceError(f"{path} is not a checkpoint of FLOT's authors: expected 'model' and 'nb_iter' in it")
        if not all(isinstance(tensor, Tensor) for tensor in weights.values()):
            raise VergenceError(f"{path} is not a checkpoint of FLOT's authors: its 'model' is not tensors by name")
        model = ModelConfig(iterations=iterations, average="guarded")
        return Config(model, Clouds(points=_points_of(path), scenes=600)), NoFacts(), from_published(weights)

    def losses(self, ctx: Ctx, model: FLOT, batch: Any) -> Mapping[str, Tensor]:
        """Eq. 9: the mean absolute error over the coordinates of all points whose flow is known."""
        error = (model(batch["p"], batch["q"])["flow"] - batch["flow"]).abs().sum(-1)
        mask = batch["mask"]
        return {"l1": (error * mask).sum() / (3 * mask.sum().clamp_min(1))}

    def evaluate(self, ctx: Ctx, model: FLOT, data: Drawn) -> Mapping[str, float]:
        """Scores on random points of each scene, averaged over scenes with equal weight."""
        rows = []
        for batch in ctx.batches(data, 1, "scenes"):
            flows = model(batch["p"], batch["q"])
            after, before = (
                flow_scores(flows[name].float(), batch["flow"], batch["mask"]) for name in ("flow", "before")
            )
            scores = after | {f"{name}_before": score for name, score in before.items()}
            rows.append({name: float(score[0]) for name, score in scores.items()})
        known = [row for row in ctx.gather(rows) if not math.isnan(row["epe"])]
        if not known:
            raise VergenceError("no scene has a point whose flow is known: there is nothing to evaluate")
        means = {name: sum(row[name] for row in known) / len(known) for name in known[0]}
        if model.settings.matching == "transport":
            means |= {"eps": float(model.eps), "power": float(model.power) if model.settings.iterations else 0.0}
        return means

    def infer(self, ctx: Ctx, model: FLOT, inputs: Inputs) -> Flow:
        return self.infer_many(ctx, model, [inputs])[0]

    def infer_many(self, ctx: Ctx, model: FLOT, inputs: Sequence[Inputs]) -> Sequence[Flow]:
        return predict.flows(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Flow) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, FLOT], data: Drawn) -> Sequence[Artifact]:
        """Draws held-out scenes moved by the true flow and by each network's."""
        rows = []
        for index in range(min(3, len(data))):
            scene = {name: value.unsqueeze(0).to(ctx.device) for name, value in data[index].items()}
            p, q = data[index]["p"], data[index]["q"]
            second = Layer("second cloud", q, ORANGE)
            row = [View("both instants", [Layer("first cloud", p, BLUE), second])]
            row.append(View("truth", [Layer("moved", p + data[index]["flow"], GREEN), second]))
            for name, model in models.items():
                flow = model(scene["p"], scene["q"])["flow"]
                score = flow_scores(flow.float(), scene["flow"], scene["mask"])["epe"]
                title = f"{name}: EPE {float(score):.2f} m"
                row.append(View(title, [Layer("moved", p + flow[0].cpu(), GREEN), second]))
            rows.append(row)
        caption = "Held-out scenes: the second cloud, and the first one moved by the truth and by each network's flow."
        return [Artifact("image", picture(ctx.folder / "flows.png", rows, side=2.6), caption)]


def _points_of(checkpoint: Path) -> int:
    """The number of points that the authors trained with: only the name of the file says it, as in
    ``model_8192.tar``."""
    named = re.search(r"_(\d{3,6})$", checkpoint.stem)
    return int(named[1]) if named else 2048


def _embedded(asked: Clouds, split: str) -> Rigid | Streets:
    count = share(asked.scenes, split, of=12)
    if asked.scene == "street":
        return Streets(count, asked.points, (split,))
    return rigid(count, asked.points, asked.objects, asked.world, split)


SYSTEM = FLOTSystem()
