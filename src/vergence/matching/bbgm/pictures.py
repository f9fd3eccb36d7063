"""Pictures side by side with lines between keypoints that correspond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.drawing.figure import GREEN, RED, figure, saved
from vergence.matching.keypoints import MEAN, STD, truth

if TYPE_CHECKING:
    from vergence.matching.bbgm.predict import Correspondences

LINES = ("#e6194b", "#3cb44b", "#ffe119", "#4363d8", "#f58231", "#42d4f4", "#f032e6", "#bfef45", "#fabed4", "#dcbeff")
"""Colours of lines, which repeat after ten."""


def beside(first: Tensor, second: Tensor, gap: int = 6) -> tuple[Any, float, float]:
    """Two pictures of bytes (3, H, W) in one array, scaled to one height; the second's left edge and its scale."""
    from PIL import Image

    height = first.shape[-2]
    scale = height / second.shape[-2]
    size = (max(round(second.shape[-1] * scale), 1), height)
    other = np.asarray(Image.fromarray(second.permute(1, 2, 0).numpy()).resize(size))
    space = np.full((height, gap, 3), 255, np.uint8)
    return np.concatenate([first.permute(1, 2, 0).numpy(), space, other], 1), first.shape[-1] + gap, scale


def draw(
    axes: Any,
    pictures: tuple[Tensor, Tensor],
    points: tuple[Tensor, Tensor],
    partner: Tensor,
    colours: Sequence[str] | None = None,
    size: float = 5.0,
) -> None:
    """Two pictures with lines between keypoints (N, 2) and (M, 2) and their partners; keypoints without are rings."""
    whole, left, scale = beside(*pictures)
    axes.imshow(whole)
    one, other = points[0], points[1] * scale + torch.tensor([left, 0.0])
    for i, j in enumerate(partner.tolist()):
        if j < 0:
            continue
        colour = colours[i] if colours else LINES[i % len(LINES)]
        x, y = zip(one[i].tolist(), other[j].tolist(), strict=True)
        axes.plot(x, y, color="black", linewidth=size / 2, alpha=0.4)
        axes.plot(x, y, "o-", color=colour, linewidth=size / 3.3, markersize=size, markeredgecolor="black", mew=0.5)
    taken = set(partner.tolist())
    alone = [one[partner < 0], other[[j for j in range(len(other)) if j not in taken]]]
    ring = torch.cat(alone)
    axes.plot(ring[:, 0], ring[:, 1], "o", markersize=size, markerfacecolor="none", markeredgecolor="white", mew=1.2)
    axes.set(xlim=(-0.5, whole.shape[1] - 0.5), ylim=(whole.shape[0] - 0.5, -0.5))
    axes.set_axis_off()


def lines(path: Path, result: Correspondences) -> Path:
    """One row for each pair of pictures."""
    shapes = [result.pictures[first].shape for first, _ in result.pairs]
    drawn = figure(9.0, sum(9.0 * shape[-2] / (2 * shape[-1]) for shape in shapes))
    axes = drawn.subplots(len(result.pairs), 1, squeeze=False).ravel()
    for place, (first, second), partner in zip(axes, result.pairs, result.partners, strict=True):
        both = result.pictures[first], result.pictures[second]
        draw(place, both, (result.points[first], result.points[second]), partner, size=7.0)
    return saved(drawn, path)


def pairs(path: Path, batch: Mapping[str, Tensor], columns: Mapping[str, Sequence[Tensor]]) -> Artifact:
    """Rows of held-out pairs: true lines, and each network's, green where they are right."""
    std, mean = (torch.tensor(own).view(3, 1, 1) for own in (STD, MEAN))
    images = ((batch["images"][:, :2].cpu() * std + mean).clamp(0, 1) * 255).round().to(torch.uint8)
    true, sizes = truth(batch["labels"], 0, 1).cpu(), batch["counts"].cpu()
    wide = len(columns) + 1
    drawn = figure(3.3 * wide, 1.75 * len(images) + 0.3)
    places = drawn.subplots(len(images), wide, squeeze=False)
    for row, own in enumerate(true):
        n, m = sizes[row, :2].tolist()
        both = images[row, 0], images[row, 1]
        points = batch["points"][row, 0, :n].cpu() - 0.5, batch["points"][row, 1, :m].cpu() - 0.5
        right = torch.where(own[:n].any(1), own[:n].argmax(1), -1)
        draw(places[row, 0], both, points, right, size=3.5)
        for place, (label, partners) in zip(places[row, 1:], columns.items(), strict=True):
            partner = partners[row]
            colours = [GREEN if j == k else RED for j, k in zip(partner.tolist(), right.tolist(), strict=True)]
            draw(place, both, points, partner, colours, size=3.5)
            place.set_title(label if row == 0 else "", fontsize=8)
    places[0, 0].set_title("truth", fontsize=8)
    caption = "Held-out pairs: true matches, and those of each network: green is right, red is wrong, rings stay alone."
    return Artifact("image", saved(drawn, path), caption)
