"""Pictures: the transform step by step, rankings, and precision against recall."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.data.images import resized
from vergence.drawing.figure import BLUE, GREEN, ORANGE, RED, colours, figure, saved
from vergence.drawing.grid import Panel, grid
from vergence.ops.lines import directions, line_offsets, supports
from vergence.retrieval.lineintegral.model import describe, invariants, normalised, ratios, scales, transform
from vergence.retrieval.lineintegral.settings import RECALLS, ModelConfig
from vergence.retrieval.masks import prepared
from vergence.retrieval.shapes import Shape

MOST = 400
"""Shapes that pictures choose from."""
FREQUENCIES = 30
"""Frequencies of a descriptor that are shown; the others are small."""


def ink(mask: Tensor, longest: int = 240) -> Tensor:
    """A mask (H, W) as a picture (3, S, S): dark on white, in the middle of a square."""
    whole = prepared(mask.cpu(), longest - 20)
    height, width = whole.shape
    side = max(longest, height, width)  # the border of a small mask is enlarged with it
    top, left = (side - height) // 2, (side - width) // 2
    whole = F.pad(whole, (left, side - width - left, top, side - height - top))
    whole = resized(whole[None], longest, longest)[0]
    dark = torch.tensor([0.11, 0.17, 0.23]).view(3, 1, 1)
    return 1 - whole * (1 - dark)


def descriptor_map(matrix: Tensor, most: float) -> Tensor:
    """The picture (3, 144, 240) of a descriptor's matrix; values from ``most`` on are brightest."""
    from matplotlib import colormaps

    part = matrix[:, :FREQUENCIES].detach().float().cpu()
    shares = (part.abs() / max(most, 1e-12)).clamp(0, 1).sqrt()
    pixels = torch.from_numpy(colormaps["magma"](shares.numpy())[..., :3]).permute(2, 0, 1).float()
    return F.interpolate(pixels[None], (144, 240), mode="nearest")[0]


def stacked(mask: Tensor, map_: Tensor) -> Tensor:
    """The pictures of a shape and of its descriptor, one above the other."""
    return torch.cat([mask, torch.ones(3, 8, mask.shape[-1]), map_], 1)


def anatomy(folder: Path, shapes: Sequence[Shape], config: ModelConfig) -> Artifact:
    """Two shapes of one class: their lines, Ψ, the normalised rows and the invariants."""
    first = shapes[0]
    other = next((s for s in shapes[1:] if s.label == first.label), first)
    drawn = figure(11, 5.0)
    axes = drawn.subplots(2, 4)
    for row, shape in zip(axes, (first, other), strict=True):
        image = prepared(shape.mask, config.size)
        rows = transform(image, config)
        moved = normalised(rows, config)
        _lines(row[0], image, config)
        for axis, matrix in ((row[1], rows), (row[2], moved / moved.mean(1, keepdim=True).clamp(min=1e-12))):
            axis.imshow(matrix, aspect="auto", cmap="viridis")
            axis.set(xticks=[0, config.angles - 1], yticks=[0, config.rows - 1])
            axis.set_xticklabels(["0", "2π"])
            axis.set_yticklabels(["μ = 0", "1"])
        row[3].imshow(invariants(image, config)[:, 1 : FREQUENCIES + 1].sqrt(), aspect="auto", cmap="magma")
        row[3].set(xticks=[0, FREQUENCIES - 1], yticks=[0, config.rows - 1])
        row[3].set_xticklabels(["1", str(FREQUENCIES)])
        row[3].set_yticklabels(["μ = 0", "1"])
    titles = ("lines between binding lines", "chord lengths Ψ(μ, θ)", "normalised rows", "Fourier magnitudes")
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=9)
    caption = (
        f"{first.name} and {other.name}: chords along lines that the shape places itself, rows after the affine "
        "normalisation (equal up to a shift or a mirror), and their Fourier magnitudes, which are compared."
    )
    return Artifact("image", saved(drawn, folder / "transform.png"), caption)


def _lines(axis: Any, image: Tensor, config: ModelConfig) -> None:
    """A shape with its lines at two angles: binding lines dashed."""
    axis.imshow(1 - 0.75 * image, cmap="gray", vmin=0, vmax=1)
    angles = directions(config.angles, image)
    support = supports(image[None], angles)
    offsets = line_offsets(support, torch.cat([ratios(config)[::3], torch.ones(1, dtype=torch.float64)]))[0]
    height, width = image.shape
    for place, colour in ((config.angles // 12, BLUE), (config.angles * 5 // 12, ORANGE)):
        for opposite in (place, place + config.angles // 2):
            angle = float(angles[opposite])
            for number, offset in enumerate(offsets[:, opposite].tolist()):
                x, y = offset * math.cos(angle), offset * math.sin(angle)
                style = {"linestyle": "--", "linewidth": 1.2} if number == len(offsets) - 1 else {"linewidth": 0.6}
                axis.axline((x, y), (x - math.sin(angle), y + math.cos(angle)), color=colour, **style)
    axis.set(xlim=(-8, width + 8), ylim=(height + 8, -8), aspect="equal")
    axis.set_axis_off()


def rankings(folder: Path, shapes: Sequence[Shape], config: ModelConfig, queries: int = 5, top: int = 8) -> Artifact:
    """Queries spread over the data and their nearest shapes; right ones have a green frame."""
    descriptors = torch.stack([describe(shape.mask, config) for shape in shapes])
    descriptors = descriptors / scales(config.method, descriptors)
    rows = []
    for number in range(queries):
        place = number * len(shapes) // queries
        far = (descriptors - descriptors[place]).abs().sum(1)
        order = [p for p in far.argsort(stable=True).tolist() if p != place][:top]
        hits = [Panel(_framed(shapes[p], shapes[place].label), f"{float(far[p]):.3g}") for p in order]
        rows.append([Panel(ink(shapes[place].mask), f"query: {shapes[place].name.split(',')[0]}"), *hits])
    caption = "Queries (left) and the nearest shapes with their distances: green is the query's class, red another."
    return Artifact("image", grid(folder / "rankings.png", rows, side=1.35), caption)


def _framed(shape: Shape, label: int) -> Tensor:
    picture = ink(shape.mask)
    colour = (GREEN if shape.label == label else RED).removeprefix("#")
    frame = torch.tensor([int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]).view(3, 1, 1)
    edge = torch.ones(picture.shape[1:], dtype=torch.bool)
    edge[8:-8, 8:-8] = False
    return torch.where(edge, frame, picture)


def curves(folder: Path, measured: Mapping[str, Mapping[str, float]], labels: Mapping[str, str]) -> Artifact:
    """Mean precision against recall of every variant."""
    drawn = figure(8.0, 4.0)
    axis = drawn.subplots()
    for (name, metrics), colour, style in zip(
        measured.items(), colours(len(measured)), ["-"] * 6 + ["--"] * len(measured), strict=False
    ):
        values = [metrics.get(f"precision_{recall}", math.nan) for recall in RECALLS]
        axis.plot(RECALLS, values, style, marker="o", markersize=3, color=colour, label=labels[name])
    axis.set(xlabel="recall [%]", ylabel="precision [%]", ylim=(0, 103))
    axis.set_xticks(RECALLS)
    axis.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return Artifact(
        "image", saved(drawn, folder / "precision.png"), "Mean precision at four recalls, every shape a query."
    )
