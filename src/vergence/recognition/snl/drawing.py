"""What the unified view lets one see: where a point looks, the spectrum of the graph, and how a block filters it."""

from __future__ import annotations

import copy
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from vergence.contract.inputs import Artifact, Point
from vergence.core.files import replacing
from vergence.data.images import fitted
from vergence.drawing.grid import Panel, overlay
from vergence.nn import CompactGeneralised, NonlocalBlock, SharedAffinity
from vergence.ops import FactoredAffinity
from vergence.ops.affinity import DenseAffinity
from vergence.recognition.snl.model import Network, attention
from vergence.recognition.snl.settings import Facts

MOST = 1600
"""Positions of a graph whose matrix is written out for its eigenvalues."""
STEPS = 101


@dataclass(frozen=True)
class Look:
    """What a network sees of a picture, the points in it, its answer, and its blocks' attention (P, h, w)."""

    seen: Tensor
    points: tuple[Point, ...]
    logits: Tensor
    maps: dict[str, Tensor]

    @classmethod
    def of(cls, seen: Tensor, shares: Sequence[tuple[float, float]], logits: Tensor, maps: dict[str, Tensor]) -> Look:
        """Points are (x, y) as shares of the picture's sides."""
        shown = fitted(seen)
        height, width = shown.shape[-2:]
        marks = tuple(Point(x * width, y * height) for x, y in shares)
        return cls(shown, marks, logits.float().cpu(), {place: heat.float().cpu() for place, heat in maps.items()})

    def best(self, facts: Facts, count: int) -> list[tuple[str, float]]:
        """The most likely labels with their probabilities."""
        return likeliest(self.logits, facts, count)

    def panels(self, title: str, over: str = "") -> list[Panel]:
        """The picture with its points, then one panel for each block and point."""
        drawn = [Panel(self.seen, title, self.points)]
        for place, maps in self.maps.items():
            for number, (heat, point) in enumerate(zip(maps, self.points, strict=True), 1):
                drawn.append(Panel(overlay(self.seen, heat), over or f"{place}, point {number}", [point]))
        return drawn


def likeliest(logits: Tensor, facts: Facts, count: int) -> list[tuple[str, float]]:
    """The most likely labels with their probabilities."""
    chances = logits.softmax(0)
    return [(facts.name(i), float(chances[i])) for i in chances.argsort(descending=True)[:count].tolist()]


def labels_table(path: Path, rows: Sequence[tuple[str, Sequence[tuple[str, float]]]]) -> Artifact:
    """Files with their most likely labels, as a table."""
    most = max(len(best) for _, best in rows)
    heading = [f"{word} {rank}" for rank in range(1, most + 1) for word in ("label", "probability")]
    lines = [[name, *(v for label, chance in best for v in (label, f"{chance:.4f}"))] for name, best in rows]
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["file", *heading], *lines])
    return Artifact("table", path, "The most likely labels with their probabilities.")


# The spectrum ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def eigenvalues(block: NonlocalBlock, x: Tensor) -> Tensor | None:
    """Of the affinity of maps (B, C, ...), complex (B, K); None where the graph is too large to write out.

    A product of thin factors has the non-zero eigenvalues of the small product the other way round.
    """
    affinity = block.affinity(x.flatten(2).mT.double(), x.shape[2:])
    if isinstance(affinity, FactoredAffinity) and affinity.left.shape[-1] < affinity.left.shape[-2]:
        return torch.linalg.eigvals(affinity.gather(affinity.left)).flatten(1)
    if x.shape[2:].numel() > MOST:
        return None
    matrix = affinity.dense()
    if block.graph.symmetrise and block.graph.normalise == "symmetric":
        return torch.linalg.eigvalsh(matrix).to(torch.complex128)
    return torch.linalg.eigvals(matrix)


@torch.no_grad()
def response(block: NonlocalBlock, values: Tensor) -> Tensor:
    """By how much a block scales what it gets at frequencies ``values`` (K,) of its affinity: the singular values of
    ``I + W_g G(λ) γ/σ``, residual and BatchNorm included, (K, C), largest first.

    A graph of one node that looks at itself by λ has the eigenvalue λ: the block's own filter on it is G(λ).
    """
    count, inputs = len(values), torch.eye(block.channels, dtype=torch.float64)
    z = block.g(inputs)[:, None].repeat(count, 1, 1)  # every channel alone, for every frequency
    matrix = values.repeat_interleave(len(inputs))[:, None, None]
    if isinstance(block, CompactGeneralised):  # there channels are nodes too, in groups
        matrix = matrix[:, None] * torch.eye(block.g.out_features // block.groups, dtype=torch.float64)
    made = block.filter(DenseAffinity(matrix), z, z)[:, 0].unflatten(0, (count, -1))  # (K, C, C)
    return torch.linalg.svdvals(inputs + made * _scale(block.norm))


def _scale(norm: nn.Module) -> Tensor:
    """What stands behind the filter, as a factor a channel; GroupNorm's depends on what it gets and is left out."""
    if isinstance(norm, nn.BatchNorm1d):
        assert norm.running_var is not None
        return norm.weight / (norm.running_var + norm.eps).sqrt()
    gamma: Tensor = norm.weight if isinstance(norm, nn.GroupNorm) else cast(Any, norm).gamma
    return gamma


def spectra(path: Path, models: Mapping[str, nn.Module], batch: Tensor) -> list[Artifact]:
    """For the first block of every network: the eigenvalues of its graph on a batch, and its response over them."""
    from matplotlib.figure import Figure

    found = {name: _first(model, batch) for name, model in models.items()}
    drawn = {name: pair for name, pair in found.items() if pair is not None}
    if not drawn:
        return []
    figure = Figure(figsize=(2.3 * len(drawn) + 0.6, 4.6), dpi=110, layout="constrained")
    axes = figure.subplots(2, len(drawn), squeeze=False)
    for column, (name, (block, x)) in enumerate(drawn.items()):
        top, bottom = axes[:, column]
        values = eigenvalues(block, x)
        _draw_values(top, values)
        top.set_title(name, fontsize=9)
        _draw_response(bottom, block, values)
    axes[0, 0].set_ylabel("imaginary part", fontsize=8)
    axes[1, 0].set_ylabel("gain of the block", fontsize=8)
    with replacing(path) as partial:
        figure.savefig(partial, format="png")
    caption = (
        "The graph that each trained block makes of held-out data. Above: the eigenvalues of its affinity, with the "
        "unit circle (a symmetric, normalised one has real eigenvalues from -1 to 1). Below: by how much the block, "
        "its residual included, scales what it gets at each eigenvalue: the mean over channels (line) and from the "
        "least to the greatest (shaded); ticks are the eigenvalues. A gain of 1 everywhere does nothing."
    )
    return [Artifact("image", path, caption)]


def _first(model: nn.Module, batch: Tensor) -> tuple[NonlocalBlock, Tensor] | None:
    """A copy of the first nonlocal block of a network, in float64, and what it gets."""
    network = cast(Network, model.to(batch.device).eval())
    with torch.no_grad():
        inputs = attention(network, batch, [])[2]
    for place, block in network.inserted.items():
        inner = block.units[0] if isinstance(block, SharedAffinity) else block
        return cast(NonlocalBlock, copy.deepcopy(inner).double().cpu()), inputs[place].double().cpu()
    return None


def _draw_values(axis: Any, values: Tensor | None) -> None:
    turn = torch.linspace(0, 2 * torch.pi, 200)
    axis.plot(turn.cos(), turn.sin(), color="0.75", linewidth=0.8)
    axis.axhline(0, color="0.85", linewidth=0.6)
    if values is None:
        axis.text(0.5, 0.5, "too many positions", transform=axis.transAxes, ha="center", fontsize=8)
    else:
        axis.plot(values.real.flatten(), values.imag.flatten(), ".", markersize=3, alpha=0.5, color="tab:blue")
    axis.set_aspect("equal", adjustable="datalim")
    axis.tick_params(labelsize=7)


def _draw_response(axis: Any, block: NonlocalBlock, values: Tensor | None) -> None:
    real = torch.tensor([-1.0, 1.0]) if values is None else values.real
    low, high = min(float(real.min()), -1.0), max(float(real.max()), 1.0)
    grid = torch.linspace(low, high, STEPS, dtype=torch.float64)
    gains = response(block, grid)
    axis.fill_between(grid, gains[:, -1], gains[:, 0], color="tab:orange", alpha=0.2, linewidth=0)
    axis.plot(grid, gains.mean(1), color="tab:orange")
    axis.axhline(1, color="0.6", linewidth=0.6, linestyle=":")
    if values is not None:
        axis.plot(real.flatten(), torch.zeros(real.numel()), "|", color="tab:blue", markersize=6, alpha=0.4)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("eigenvalue of A", fontsize=8)
    axis.tick_params(labelsize=7)
