"""Pictures of nonlocal blocks: attention of a point, spectrum of the graph, and response of the filter."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vergence.contract.inputs import Artifact, Point
from vergence.core.errors import VergenceError
from vergence.data.images import fitted
from vergence.drawing.figure import BLUE, ORANGE, figure, saved
from vergence.drawing.grid import Panel, Scale, heated, overlay
from vergence.nn import CompactGeneralised, NonlocalBlock, SharedAffinity
from vergence.ops import FactoredAffinity
from vergence.ops.affinity import DenseAffinity
from vergence.ops.compact import SeriesAffinity
from vergence.recognition.snl.model import Network, attention, blocks
from vergence.recognition.snl.predict import Shares
from vergence.recognition.snl.settings import Footage, Tracklets

MOST = 1600
"""Largest number of positions for which the dense matrix is formed for its eigenvalues."""
STEPS = 101

# Attention of points --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """The network input of a picture, the points in it, and the attention maps of the blocks (P, h, w)."""

    seen: Tensor
    points: tuple[Point, ...]
    maps: Mapping[str, Tensor]

    @classmethod
    def of(cls, seen: Tensor, shares: Shares, maps: Mapping[str, Tensor]) -> Look:
        shown = fitted(seen)
        height, width = shown.shape[-2:]
        return cls(shown, tuple(Point(x * width, y * height) for x, y in shares), maps)

    def panels(self, title: str, over: str = "") -> list[Panel]:
        """The picture with its points, then one panel for each block and point."""
        drawn = [Panel(self.seen, title, self.points)]
        for place, maps in self.maps.items():
            for number, (heat, point) in enumerate(zip(maps, self.points, strict=True), 1):
                drawn.append(heated(self.seen, heat, over or f"{place}, point {number}", [point]))
        return drawn


def inside(points: Sequence[Point], region: tuple[float, float, float], of: str = "") -> Shares:
    """Points from pixels of a picture to fractions of the region that a network gets: left, top and side."""
    left, top, side = region
    shares = [((p.x - left) / side, (p.y - top) / side) for p in points]
    for point, (x, y) in zip(points, shares, strict=True):
        if not (0 <= x < 1 and 0 <= y < 1):
            raise VergenceError(
                f"the point {point.x:g},{point.y:g} is outside what the network sees{of}: "
                f"x from {left:g} to {left + side:g}, y from {top:g} to {top + side:g}"
            )
    return shares


@dataclass(frozen=True)
class Attended:
    """Attention of the points of a clip in one block: a heading, and heat maps (P, t, h, w); t may be fewer than the
    frames of the clip."""

    heading: str
    heats: Tensor


def attended(model: Network, seen: Tensor, shares: Shares, heading: Callable[[str, Tensor], str]) -> list[Attended]:
    """Attention in every block that works on a whole clip (T, 3, H, W) at once; ``heading(place, logits)``."""
    logits, maps, _ = attention(model, seen[None], shares)
    return [
        Attended(heading(place, logits[0]), heats[0].float().cpu())
        for place, heats in maps.items()
        if heats.dim() == 5  # else each frame by itself
    ]


def clip_rows(
    data: Footage | Tracklets, clip: Tensor, shares: Shares, count: int, title: str, looks: Sequence[Attended]
) -> list[list[Panel]]:
    """``count`` frames of a clip (T, 3, H, W) and the middle one as a row of panels, and below them one row per block
    and point: the attention of points of the middle frame."""
    mean, std = (clip.new_tensor(values).view(3, 1, 1) for values in (data.mean, data.std))
    frames = [fitted(frame.clamp(0, 1)) for frame in clip * std + mean]
    middle, (height, width) = len(frames) // 2, frames[0].shape[-2:]
    steps = min(count, len(frames)) - 1
    chosen = sorted({round(i * (len(frames) - 1) / max(steps, 1)) for i in range(steps + 1)} | {middle})
    marks = [Point(x * width, y * height) for x, y in shares]

    def row(pictures: Sequence[Tensor], title: str, points: Sequence[Point], scale: Scale | None = None) -> list[Panel]:
        return [
            Panel(picture, title if t == chosen[0] else "", points if t == middle else (), scale)
            for t, picture in zip(chosen, pictures, strict=True)
        ]

    rows = [row([frames[t] for t in chosen], title, marks)]
    for look in looks:
        for number, (heat, mark) in enumerate(zip(look.heats, marks, strict=True), 1):
            # Side by side, so that all frames share a scale: it is one graph.
            heats = torch.cat([heat[t * len(heat) // len(frames)] for t in chosen], -1)
            over = overlay(torch.cat([frames[t] for t in chosen], -1), heats)
            numbered = f"{look.heading}, point {number}" if len(marks) > 1 else look.heading
            rows.append(row(over.split(width, -1), numbered, [mark], Scale.of(heats)))
    return rows


# The spectrum ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def eigenvalues(block: NonlocalBlock, x: Tensor) -> Tensor | None:
    """Eigenvalues of the affinity of maps (B, C, ...), complex (B, K); None if the graph is too large or not finite.

    A product of thin factors has the non-zero eigenvalues of the small product in reverse order.
    """
    affinity = block.affinity(x.flatten(2).mT.double(), x.shape[2:])
    affinity = affinity.factored() if isinstance(affinity, SeriesAffinity) else affinity
    if isinstance(affinity, FactoredAffinity) and affinity.left.shape[-1] < affinity.left.shape[-2]:
        return _general_eigenvalues(affinity.gather(affinity.left).flatten(0, -3), len(x))
    if x.shape[2:].numel() > MOST:
        return None
    matrix = affinity.dense()
    if block.graph.symmetrise and block.graph.normalise == "symmetric" and matrix.isfinite().all():
        return torch.linalg.eigvalsh(matrix).to(torch.complex128)
    return _general_eigenvalues(matrix.flatten(0, -3), len(x))


def _general_eigenvalues(matrices: Tensor, batch: int) -> Tensor | None:
    """Eigenvalues (batch, K) of square matrices by NumPy, whose solver also converges where many are the same, as for a
    constant input; PyTorch's may not."""
    if not matrices.isfinite().all():
        return None
    values = np.linalg.eigvals(matrices.cpu().numpy())
    return torch.from_numpy(values).to(torch.complex128).reshape(batch, -1)


@torch.no_grad()
def response(block: NonlocalBlock, values: Tensor) -> Tensor:
    """Gain of a block at eigenvalues ``values`` (K,) of its affinity: the singular values of ``I + W_g G(λ) γ/σ``,
    including residual and BatchNorm, (K, C), largest first.

    A graph of one node with a self-loop of weight λ has the eigenvalue λ: the block's filter on it is G(λ).
    """
    count, inputs = len(values), torch.eye(block.channels, dtype=torch.float64)
    z = block.g(inputs)[:, None].repeat(count, 1, 1)  # every channel alone, for every frequency
    matrix = values.repeat_interleave(len(inputs))[:, None, None]
    if isinstance(block, CompactGeneralised):  # its channels are nodes too, in groups
        matrix = matrix[:, None] * torch.eye(block.g.out_features // block.groups, dtype=torch.float64)
    filtered = block.filter(DenseAffinity(matrix), z, z)[:, 0].unflatten(0, (count, -1))  # (K, C, C)
    return torch.linalg.svdvals(inputs + filtered * _scale(block.norm))


def _scale(norm: nn.Module) -> Tensor:
    """The normalisation after the filter as one factor per channel; GroupNorm's statistics depend on the input and are
    left out."""
    if isinstance(norm, nn.BatchNorm1d):
        return norm.weight / (norm.get_buffer("running_var") + norm.eps).sqrt()
    if isinstance(norm, nn.Identity):
        return torch.ones((), dtype=torch.float64)
    return norm.get_parameter("weight" if isinstance(norm, nn.GroupNorm) else "gamma")


def spectra(path: Path, models: Mapping[str, Network], batch: Tensor) -> list[Artifact]:
    """Plots, for the first block of every network, the eigenvalues of its graph on a batch, and its response."""
    pairs = {name: pair for name, model in models.items() if (pair := _first(model, batch))}
    if not pairs:
        return []
    drawn = figure(2.3 * len(pairs) + 0.6, 4.6)
    axes = drawn.subplots(2, len(pairs), squeeze=False)
    for column, (name, (block, x)) in enumerate(pairs.items()):
        top, bottom = axes[:, column]
        values = eigenvalues(block, x)
        _draw_values(top, values)
        top.set_title(name, fontsize=9)
        _draw_response(bottom, block, values)
    axes[0, 0].set_ylabel("imaginary part", fontsize=8)
    axes[1, 0].set_ylabel("gain of the block", fontsize=8)
    caption = (
        "The graph of each trained block on held-out data. Above: the eigenvalues of its affinity, with the unit "
        "circle (a symmetric, normalised one has real eigenvalues from -1 to 1). Below: the gain of the block, with "
        "its residual, at each eigenvalue: the mean over channels (line) and the range over channels (shaded); "
        "ticks are the eigenvalues. A gain of 1 everywhere is the identity."
    )
    return [Artifact("image", saved(drawn, path), caption)]


def _first(network: Network, batch: Tensor) -> tuple[NonlocalBlock, Tensor] | None:
    """A copy of the first nonlocal block of a network, in float64, and its input."""
    inputs = attention(network, batch, [])[2]
    for place, block in blocks(network).items():
        inner = block.units[0] if isinstance(block, SharedAffinity) else block
        if isinstance(inner, NonlocalBlock):
            return copy.deepcopy(inner).double().cpu(), inputs[place].double().cpu()
    return None


def _draw_values(axis: Any, values: Tensor | None) -> None:
    turn = torch.linspace(0, 2 * torch.pi, 200)
    axis.plot(turn.cos(), turn.sin(), color="0.75", linewidth=0.8)
    axis.axhline(0, color="0.85", linewidth=0.6)
    if values is None:
        axis.text(0.5, 0.5, "not computed", transform=axis.transAxes, ha="center", fontsize=8)
    else:
        axis.plot(values.real.flatten(), values.imag.flatten(), ".", markersize=3, alpha=0.5, color=BLUE)
    axis.set_aspect("equal", adjustable="datalim")
    axis.tick_params(labelsize=7)


def _draw_response(axis: Any, block: NonlocalBlock, values: Tensor | None) -> None:
    real = torch.tensor([-1.0, 1.0]) if values is None else values.real
    low, high = min(float(real.min()), -1.0), max(float(real.max()), 1.0)
    grid = torch.linspace(low, high, STEPS, dtype=torch.float64)
    gains = response(block, grid)
    axis.fill_between(grid, gains[:, -1], gains[:, 0], color=ORANGE, alpha=0.2, linewidth=0)
    axis.plot(grid, gains.mean(1), color=ORANGE)
    axis.axhline(1, color="0.6", linewidth=0.6, linestyle=":")
    if values is not None:
        axis.plot(real.flatten(), torch.zeros(real.numel()), "|", color=BLUE, markersize=6, alpha=0.4)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("eigenvalue of A", fontsize=8)
    axis.tick_params(labelsize=7)
