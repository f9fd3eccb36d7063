"""FLOT as a system: scene flow with and without transport and refinement, under one protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
import tyro
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact, Cloud
from vergence.contract.loader import Data
from vergence.contract.system import Learns, Metric, NoFacts, Published, Reported, System, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.core.files import load_archive, replacing
from vergence.data.clouds import read_cloud
from vergence.data.layouts import EMBEDDED, find
from vergence.data.viewer import Axes, Layer, View, page, picture
from vergence.ops.knn import nearest
from vergence.points.data import LAYOUTS, Drawn
from vergence.points.flot import ABOUT
from vergence.points.flot.claims import CLAIMS
from vergence.points.flot.model import FLOT, Model, build, from_published
from vergence.points.metrics import flow_scores
from vergence.points.synth import World, rigid

FIRST, SECOND, MOVED = "#3b6fb6", "#e08a2c", "#2f9e63"
"""Colours of the two clouds and of where the first one goes."""


@dataclass(frozen=True)
class Clouds:
    """What is looked at."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = EMBEDDED
    """embedded, ft3d_s:PATH, ft3d_o:PATH, kitti_s:PATH, kitti_o:PATH, folder:PATH, or a plain PATH to such a folder."""
    points: int = 8192
    """Random points that are seen of each cloud."""
    world: World = "resampled"
    """perfect: every point has its partner in the second cloud (FT3D_p, where rows correspond); resampled: as it is."""
    scenes: int = 2400
    """embedded: scenes to train on; a twelfth as many to validate and to test."""
    objects: int = 4
    """embedded: things in a scene."""

    def __post_init__(self) -> None:
        if self.points < 1 or self.scenes < 12 or not 1 <= self.objects <= self.points:
            raise VergenceError(
                f"data has points >= 1, scenes >= 12 and 1 <= objects <= points, got {self.points}, {self.scenes} and "
                f"{self.objects}"
            )


@dataclass(frozen=True)
class Config:
    """FLOT: network, clouds, training."""

    model: Model = Model()
    data: Clouds = Clouds()
    train: Training = Training()
    seed: int = 0
    """Decides everything random."""


Ctx = Context[Config, NoFacts]


@dataclass(frozen=True)
class Inputs:
    """Two clouds of one scene, an instant apart."""

    first: Cloud
    """The earlier cloud: .npy, .npz, .ply, .pcd or KITTI's .bin."""
    second: Cloud
    """The later cloud; it may have another number of points."""
    axes: Axes = "camera"
    """How coordinates point: camera is left, up, forward, as the weights know it; lidar is forward, left, up."""
    points: int = 8192
    """Random points to find the flow of; the others take it from their three nearest. 0: all."""


def _training(epochs: int, milestone: int, batch: int) -> Training:
    schedule = Schedule("multistep", unit="epoch", milestones=(milestone,)) if milestone else Schedule()
    return Training(epochs=epochs, batch=batch, optimiser=Optimiser("adam", lr=1e-3, schedule=schedule))


def _tiny_training() -> Training:
    # Logarithms move by about the rate at each step: in so few steps, these two would arrive nowhere.
    optimiser = Optimiser("adam", lr=2e-3, rates={"log_*": 5.0}, schedule=Schedule("cosine", floor=0.05))
    return Training(epochs=5, batch=4, evaluate_every=1, log_every=20, optimiser=optimiser)


TINY = Config(
    Model(widths=(16, 32, 64), neighbours=12, start=(-3.0, -3.0)), Clouds(points=96, scenes=2400), _tiny_training()
)
PRESETS = {
    "tiny": TINY,
    "tiny-perfect": replace(TINY, data=replace(TINY.data, world="perfect")),
    "paper": Config(Model(), Clouds("ft3d_s:data"), _training(60, 50, 1)),
    "paper-occluded": Config(Model(), Clouds("ft3d_o:data", points=2048), _training(400, 340, 4)),
    "paper-study": Config(Model(), Clouds("ft3d_s:data", points=2048), _training(40, 0, 4)),
}


class Flot(System[Config, NoFacts]):
    about = ABOUT
    config_type, inputs_type = Config, Inputs
    presets = PRESETS
    variants = {
        "flot": Variant("FLOT, K = 1", {"model.iterations": 1}),
        "flot0": Variant("FLOT₀", {"model.iterations": 0}),
        "flot3": Variant("FLOT, K = 3", {"model.iterations": 3}),
        "nearest": Variant("nearest neighbour", {"model.matching": "nearest", "train.optimiser.rates": {}}),
        "zero": Variant("no flow", {"model.matching": "zero", "train.optimiser.rates": {}}),
        "flot5": Variant("FLOT, K = 5", {"model.iterations": 5}, headline=False),
        "euclidean": Variant("FLOT, K = 1, cost is distance", {"model.cost": "distance"}, headline=False),
    }
    metrics = {
        "epe": Metric("EPE", "m", higher_is_better=False, digits=4),
        "strict": Metric("AS", "%"),
        "relaxed": Metric("AR", "%"),
        "outliers": Metric("Out.", "%", higher_is_better=False),
        "epe_before": Metric("EPE ot", "m", higher_is_better=False, digits=4),
        "strict_before": Metric("AS ot", "%"),
        "relaxed_before": Metric("AR ot", "%"),
        "outliers_before": Metric("Out. ot", "%", higher_is_better=False),
        "eps": Metric("eps", higher_is_better=False, digits=3),
        "power": Metric("power", digits=3),
    }
    embedded = (
        "Embedded: generated scenes of boxes and ellipsoids that move rigidly. In the resampled world their surfaces "
        "are sampled afresh at the second instant; in the perfect world (preset tiny-perfect) every point has its "
        "partner."
    )
    layouts = LAYOUTS
    reported = (
        Reported(
            "Table 2: FT3D_s, 8192 points",
            {"flot": {"epe": 0.052, "strict": 73.2, "relaxed": 92.7, "outliers": 35.7}},
        ),
        Reported(
            "Table 2: KITTI_s, 8192 points, trained on FT3D_s",
            {"flot": {"epe": 0.056, "strict": 75.5, "relaxed": 90.8, "outliers": 24.2}},
        ),
        Reported(
            "Table 3: FT3D_o, 2048 points",
            {
                "flot0": {"epe": 0.160, "strict": 33.8, "relaxed": 63.8, "outliers": 70.5},
                "flot": {"epe": 0.156, "strict": 34.3, "relaxed": 64.3, "outliers": 70.0},
                "flot3": {"epe": 0.161, "strict": 32.3, "relaxed": 62.7, "outliers": 71.7},
            },
        ),
        Reported(
            "Table 3: KITTI_o, 2048 points, trained on FT3D_o",
            {
                "flot0": {"epe": 0.106, "strict": 45.3, "relaxed": 73.7, "outliers": 46.7},
                "flot": {"epe": 0.110, "strict": 41.9, "relaxed": 72.1, "outliers": 48.6},
                "flot3": {"epe": 0.107, "strict": 45.1, "relaxed": 74.0, "outliers": 46.3},
            },
        ),
        Reported(
            "Table 1: validation on FT3D_p, the perfect world, 2048 points",
            {
                "flot0": {"epe": 0.0026, "epe_before": 0.0026, "eps": 0.03, "power": 0.0},
                "flot": {"epe": 0.0011, "epe_before": 0.0010, "eps": 0.03, "power": 0.70},
                "flot3": {"epe": 0.0009, "epe_before": 0.0009, "eps": 0.03, "power": 0.82},
                "flot5": {"epe": 0.0009, "epe_before": 0.0010, "eps": 0.03, "power": 0.88},
            },
        ),
        Reported(
            "Table 1: validation on FT3D_s, 2048 points",
            {
                "flot0": {"epe": 0.0811, "epe_before": 0.1789, "eps": 0.03, "power": 0.0},
                "flot": {"epe": 0.0785, "epe_before": 0.1721, "eps": 0.03, "power": 0.64},
                "flot3": {"epe": 0.0786, "epe_before": 0.1764, "eps": 0.03, "power": 0.59},
                "flot5": {"epe": 0.0798, "epe_before": 0.1761, "eps": 0.03, "power": 0.56},
            },
        ),
    )
    published = {
        "paper": Published({}, {"flow": (1, 8192, 3), "before": (1, 8192, 3)}, 111_109),
        "paper-occluded": Published({}, {"flow": (1, 2048, 3), "before": (1, 2048, 3)}, 111_109),
        "paper-study": Published({}, {"flow": (1, 2048, 3), "before": (1, 2048, 3)}, 111_109),
    }
    learns = Learns("l1", steps=30, share=0.8, changes={"data.scenes": 24, "data.points": 48, "model.neighbours": 8})
    claims = CLAIMS
    tiny_minutes = 1.5

    def data(self, ctx: Ctx, split: str) -> Drawn:
        settings = ctx.config.data
        found = find(settings.source, self.layouts)
        if found is None:
            count = settings.scenes if split == "train" else max(settings.scenes // 12, 1)
            made = rigid(count, settings.points, settings.objects, settings.world, split)
            return Drawn(made, settings.points)
        scenes = found[0].read(found[1], split)
        if settings.world == "perfect" and not scenes.aligned:
            raise VergenceError(f"{settings.source} has no perfect world: its rows do not correspond (ft3d_s's do)")
        return Drawn(scenes, settings.points, "together" if settings.world == "perfect" else "apart")

    def build(self, config: Config, facts: NoFacts) -> nn.Module:
        return build(config.model)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        return torch.zeros(batch, config.data.points, 3), torch.zeros(batch, config.data.points, 3)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"unit": "metres", "axes": "left, up, forward", "points": config.data.points}

    def load_published(self, path: Path) -> tuple[Config, NoFacts, dict[str, Tensor]]:
        found = load_archive(path)
        weights, iterations = found.get("model"), found.get("nb_iter")
        if not isinstance(weights, dict) or not isinstance(iterations, int) or iterations < 0:
            raise VergenceError(f"{path} is not a checkpoint of FLOT's authors: expected 'model' and 'nb_iter' in it")
        if not all(isinstance(tensor, Tensor) for tensor in weights.values()):
            raise VergenceError(f"{path} is not a checkpoint of FLOT's authors: its 'model' is not tensors by name")
        model = Model(iterations=iterations, average="guarded")
        # Nothing in the file says how many points it was trained with; 2048 is quick, and all that the first one knows.
        return Config(model, Clouds(points=2048, scenes=600)), NoFacts(), from_published(weights)

    def losses(self, ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        """Eq. 9: the mean over the coordinates of all points whose flow is known."""
        error = (model(batch["p"], batch["q"])["flow"] - batch["flow"]).abs().sum(-1)
        mask = batch["mask"]
        return {"l1": (error * mask).sum() / (3 * mask.sum().clamp_min(1))}

    def evaluate(self, ctx: Ctx, model: nn.Module | None, data: Data) -> Mapping[str, float]:
        """One pass over the random points of each scene; the mean over scenes, each counting the same."""
        assert model is not None
        rows = []
        for batch in ctx.batches(data, 1, "scenes"):
            found = model(batch["p"], batch["q"])
            after, before = (
                flow_scores(found[name].float(), batch["flow"], batch["mask"]) for name in ("flow", "before")
            )
            scores = after | {f"{name}_before": score for name, score in before.items()}
            rows.append({name: float(score[0]) for name, score in scores.items()})
        known = [row for row in ctx.gather(rows) if not math.isnan(row["epe"])]
        if not known:
            raise VergenceError("no scene has a point whose flow is known: there is nothing to judge")
        means = {name: sum(row[name] for row in known) / len(known) for name in known[0]}
        if cast(FLOT, model).settings.matching == "transport":
            net = cast(FLOT, model)
            means |= {"eps": float(net.eps), "power": float(net.power) if net.settings.iterations else 0.0}
        return means

    def predict(self, ctx: Ctx, model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        if inputs.points < 0:
            raise VergenceError(f"points is at least 0, got {inputs.points}")
        first, second = read_cloud(inputs.first), read_cloud(inputs.second)
        flow = flow_of(ctx, cast(FLOT, model), first, second, inputs.axes, inputs.points)
        stem = f"{inputs.first.stem}-to-{inputs.second.stem}"
        target = ctx.folder / f"{stem}-flow.npy"
        with replacing(target) as partial, partial.open("wb") as file:
            np.save(file, flow.numpy())
        lengths = flow.norm(dim=1)
        said = f"{len(first)} points, {len(second)} points; motion of {lengths.median():.2f} m in the middle of all"
        layers = [Layer(inputs.first.name, first, FIRST, flow), Layer(inputs.second.name, second, SECOND)]
        turned = page(ctx.folder / f"{stem}.html", stem, said, layers, inputs.axes)
        moved = Layer(f"{inputs.first.name}, moved", first + flow, MOVED)
        views = [
            View("both clouds", [Layer(layers[0].name, first, FIRST), layers[1]]),
            View("the flow", layers[:1]),
            View("moved by the flow", [moved, layers[1]]),
        ]
        shown = picture(ctx.folder / f"{stem}.png", [views], inputs.axes)
        return [
            Artifact("table", target, f"The motion of each point of {inputs.first.name}, in its axes: (N, 3) metres."),
            Artifact("html", turned, "Both clouds and the motion, to be turned and played."),
            Artifact("image", shown, "Both clouds, the flow, and the first cloud moved by it."),
        ]

    def pictures(self, ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        """Held-out scenes, moved by the truth and by what every network found."""
        rows, made = [], []
        for index in range(min(3, len(data))):
            scene = {name: value.unsqueeze(0).to(ctx.device) for name, value in data[index].items()}
            p, q = data[index]["p"], data[index]["q"]
            second = Layer("second cloud", q, SECOND)
            row = [View("both instants", [Layer("first cloud", p, FIRST), second])]
            row.append(View("truth", [Layer("moved", p + data[index]["flow"], MOVED), second]))
            for name, model in models.items():
                with torch.no_grad():
                    flow = model.to(ctx.device).eval()(scene["p"], scene["q"])["flow"]
                score = flow_scores(flow.float(), scene["flow"], scene["mask"])["epe"]
                row.append(
                    View(f"{name}: EPE {float(score):.2f} m", [Layer("moved", p + flow[0].cpu(), MOVED), second])
                )
            rows.append(row)
        caption = "Held-out scenes: the second cloud, and the first one moved by the truth and by each network's flow."
        made.append(Artifact("image", picture(ctx.folder / "flows.png", rows, side=2.6), caption))
        return made


@torch.no_grad()
def flow_of(ctx: Ctx, model: FLOT, first: Tensor, second: Tensor, axes: Axes, most: int) -> Tensor:
    """The flow (N, 3) of a cloud, in its own axes: found for ``most`` random points, spread from them to the others."""
    order = {"camera": [0, 1, 2], "lidar": [1, 2, 0]}[axes]
    p, q = first[:, order], second[:, order]
    few = torch.randperm(len(p), generator=torch.Generator().manual_seed(0))[: most or None]
    some = torch.randperm(len(q), generator=torch.Generator().manual_seed(1))[: most or None]
    model.to(ctx.device).eval()
    batch = ctx.to_device({"p": p[few].unsqueeze(0), "q": q[some].unsqueeze(0)})
    found = model(batch["p"], batch["q"])["flow"][0].float().cpu()
    flow = _spread(found, p[few], p) if len(few) < len(p) else torch.empty_like(p)
    flow[few] = found
    return flow[:, [order.index(axis) for axis in range(3)]]


def _spread(values: Tensor, at: Tensor, points: Tensor) -> Tensor:
    """Values (n, C) at some points, for all points (N, 3): of the three nearest, the nearer the more."""
    near = nearest(at[None], min(3, len(at)), points[None])[0]
    weight = 1 / (at[near] - points.unsqueeze(1)).norm(dim=-1).clamp_min(1e-6)
    return (values[near] * (weight / weight.sum(1, keepdim=True)).unsqueeze(-1)).sum(1)


SYSTEM = Flot()
