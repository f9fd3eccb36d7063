"""The flow of a user's own clouds: found for random points, spread to the others, written and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact, Axes
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.files import write_array
from vergence.data.clouds import read_cloud
from vergence.drawing.figure import BLUE, GREEN, ORANGE
from vergence.drawing.viewer import Layer, View, page, picture
from vergence.ops.knn import nearest
from vergence.points.flot.model import FLOT
from vergence.points.flot.settings import Config, Inputs

Ctx = Context[Config, NoFacts]


@dataclass(frozen=True, eq=False)
class Flow(Result):
    """Scene flow between two clouds."""

    first: Tensor
    """Points of the earlier cloud, (N, 3) metres."""
    second: Tensor
    """Points of the later cloud, (M, 3) metres."""
    flow: Tensor
    """The motion of each point of the earlier cloud, in its axes, (N, 3) metres."""

    def summary(self) -> Mapping[str, Any]:
        lengths = self.flow.norm(dim=1)
        return {
            "points": f"{len(self.first)} and {len(self.second)}",
            "median motion, m": float(lengths.median()),
            "largest motion, m": float(lengths.max()),
            "mean flow, m": [round(v, 3) for v in self.flow.mean(0).tolist()],
        }


def flow(ctx: Ctx, model: FLOT, inputs: Inputs) -> Flow:
    """The flow of a user's clouds."""
    first, second = read_cloud(inputs.first), read_cloud(inputs.second)
    return Flow(first, second, flow_of(ctx, model, first, second, inputs.axes, inputs.points))


def flow_of(ctx: Ctx, model: FLOT, first: Tensor, second: Tensor, axes: Axes, most: int) -> Tensor:
    """The flow (N, 3) of a cloud, in its own axes: found for ``most`` random points, spread from them to the others."""
    order = {"camera": [0, 1, 2], "lidar": [1, 2, 0]}[axes]
    p, q = first[:, order], second[:, order]
    few = torch.randperm(len(p), generator=torch.Generator().manual_seed(0))[: most or None]
    some = torch.randperm(len(q), generator=torch.Generator().manual_seed(1))[: most or None]
    batch = ctx.to_device({"p": p[few].unsqueeze(0), "q": q[some].unsqueeze(0)})
    found = model(batch["p"], batch["q"])["flow"][0].float().cpu()
    whole = _spread(found, p[few], p) if len(few) < len(p) else torch.empty_like(p)
    whole[few] = found
    return whole[:, [order.index(axis) for axis in range(3)]]


def _spread(values: Tensor, at: Tensor, points: Tensor) -> Tensor:
    """Values (n, C) at some points, for all points (N, 3): of the three nearest, the nearer the more."""
    near = nearest(at[None], min(3, len(at)), points[None])[0]
    weight = 1 / (at[near] - points.unsqueeze(1)).norm(dim=-1).clamp_min(1e-6)
    return (values[near] * (weight / weight.sum(1, keepdim=True)).unsqueeze(-1)).sum(1)


def render(ctx: Ctx, inputs: Inputs, result: Flow) -> Sequence[Artifact]:
    """The flow as an array, a page in which clouds can be turned, and a picture."""
    first, second = inputs.first, inputs.second
    stem = f"{first.stem}-to-{second.stem}"
    array = write_array(ctx.folder / f"{stem}-flow.npy", result.flow.numpy())
    motion = float(result.flow.norm(dim=1).median())
    note = f"{len(result.first)} points, {len(result.second)} points; median motion {motion:.2f} m"
    layers = [Layer(first.name, result.first, BLUE, result.flow), Layer(second.name, result.second, ORANGE)]
    turned = page(ctx.folder / f"{stem}.html", stem, note, layers, inputs.axes)
    moved = Layer(f"{first.name}, moved", result.first + result.flow, GREEN)
    views = [
        View("both clouds", [Layer(first.name, result.first, BLUE), layers[1]]),
        View("the flow", layers[:1]),
        View("moved by the flow", [moved, layers[1]]),
    ]
    shown = picture(ctx.folder / f"{stem}.png", [views], inputs.axes)
    return [
        Artifact("table", array, f"The motion of each point of {first.name}, in its axes: (N, 3) metres."),
        Artifact("html", turned, "Both clouds and the motion, to be turned and played."),
        Artifact("image", shown, "Both clouds, the flow, and the first cloud moved by it."),
    ]
