"""Scene flow of a user's clouds: computed for random points, interpolated to the others, written and drawn."""

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
AT_ONCE = 4
"""Batch size, in pairs of clouds."""
BYTES_PER_MATCH = 20
"""Memory of transport for a pair of points, as measured."""


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


@dataclass(frozen=True)
class _Pair:
    """Two clouds, and the random points of them that the network gets, in its axes."""

    first: Tensor
    second: Tensor
    axes: Axes
    most: int

    @property
    def order(self) -> list[int]:
        return {"camera": [0, 1, 2], "lidar": [1, 2, 0]}[self.axes]

    @property
    def seen(self) -> tuple[Tensor, Tensor]:
        """Indices of the points of each cloud that the network gets."""
        counts = enumerate((len(self.first), len(self.second)))
        few, some = (torch.randperm(n, generator=torch.Generator().manual_seed(seed)) for seed, n in counts)
        return few[: self.most or None], some[: self.most or None]

    def sampled(self) -> tuple[Tensor, Tensor]:
        few, some = self.seen
        return self.first[few][:, self.order], self.second[some][:, self.order]

    def whole(self, flow: Tensor) -> Tensor:
        """Interpolates the flow of the sampled points to all points (N, 3), in the cloud's own axes."""
        few, p = self.seen[0], self.first[:, self.order]
        spread = _spread(flow, p[few], p) if len(few) < len(p) else torch.empty_like(p)
        spread[few] = flow
        return spread[:, [self.order.index(axis) for axis in range(3)]]


def flows(ctx: Ctx, model: FLOT, inputs: Sequence[Inputs]) -> list[Flow]:
    """The flow of a user's clouds; pairs with equal numbers of points share a batch."""
    trained = ctx.config.data.points
    counts = [trained if i.points is None else i.points for i in inputs]
    pairs = [_Pair(read_cloud(i.first), read_cloud(i.second), i.axes, n) for i, n in zip(inputs, counts, strict=True)]
    by_size: dict[tuple[int, int], list[int]] = {}
    for index, pair in enumerate(pairs):
        p, q = pair.seen
        by_size.setdefault((len(p), len(q)), []).append(index)
    largest = max(p * q * min(len(same), AT_ONCE) for (p, q), same in by_size.items())
    ctx.need(BYTES_PER_MATCH * largest, f"matching {largest:,} pairs of points")
    batches = [same[i : i + AT_ONCE] for same in by_size.values() for i in range(0, len(same), AT_ONCE)]
    results: dict[int, Flow] = {}
    for batch in ctx.progress.track(batches, "pairs of clouds"):
        p, q = (torch.stack(clouds) for clouds in zip(*(pairs[i].sampled() for i in batch), strict=True))
        seen = model(ctx.to_device(p), ctx.to_device(q))["flow"].float().cpu()
        for index, flow in zip(batch, seen, strict=True):
            pair = pairs[index]
            results[index] = Flow(pair.first, pair.second, pair.whole(flow))
    return [results[index] for index in range(len(pairs))]


def _spread(values: Tensor, at: Tensor, points: Tensor) -> Tensor:
    """Interpolates values (n, C) to points (N, 3): inverse-distance average of the three nearest."""
    near = nearest(at[None], min(3, len(at)), points[None])[0]
    weight = 1 / (at[near] - points.unsqueeze(1)).norm(dim=-1).clamp_min(1e-6)
    return (values[near] * (weight / weight.sum(1, keepdim=True)).unsqueeze(-1)).sum(1)


def render(ctx: Ctx, inputs: Inputs, result: Flow) -> Sequence[Artifact]:
    """Writes the flow as an array, an interactive page and a picture."""
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
        Artifact("html", turned, "Both clouds and the motion, to rotate and play."),
        Artifact("image", shown, "Both clouds, the flow, and the first cloud moved by it."),
    ]
