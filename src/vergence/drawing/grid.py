"""Pictures for people: grids with captions, and maps laid over images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vergence.data.images import scaled
from vergence.drawing.figure import figure, saved


@dataclass(frozen=True)
class Panel:
    """One cell of a grid: a picture (3, H, W), a title, and points (x, y) in its pixels to mark."""

    picture: Tensor
    title: str = ""
    points: Sequence[tuple[float, float]] = ()


def overlay(picture: Tensor, heat: Tensor) -> Tensor:
    """A map (h, w) laid over a grey picture (3, H, W): the higher a value, the more of its colour; in [0, 1]."""
    from matplotlib import colormaps

    grey = 0.8 * scaled(picture).cpu().mean(0, keepdim=True)
    heat = heat.detach().float().cpu()
    spread = heat.max() - heat.min()
    share = (heat - heat.min()) / spread if spread > 0 else torch.zeros_like(heat)
    # Nearest: each cell of the map stays one cell, so nobody reads more into it than there is.
    full = torch.nn.functional.interpolate(share[None, None], grey.shape[-2:], mode="nearest")[0, 0]
    colours = torch.from_numpy(colormaps["inferno"](0.35 + 0.65 * full.numpy())[..., :3]).permute(2, 0, 1).float()
    cover = 0.9 * full.sqrt()  # a quarter of the highest value covers half: faint attention is still seen
    return grey * (1 - cover) + colours * cover


def grid(path: Path, rows: Sequence[Sequence[Panel]], side: float = 1.9) -> Path:
    """Panels in rows as one PNG."""
    columns = max(len(row) for row in rows)
    drawn = figure(side * columns, (side + 0.25) * len(rows))
    axes = drawn.subplots(len(rows), columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for row, places in zip(rows, axes, strict=True):
        for panel, axis in zip(row, places, strict=False):
            pixels = scaled(panel.picture).clamp(0, 1).permute(1, 2, 0).cpu().numpy()
            axis.imshow(pixels, vmin=0, vmax=1, interpolation="nearest")
            axis.set_title(panel.title, fontsize=8)
            for x, y in panel.points:
                for colour, edge in (("black", 3.2), ("white", 1.6)):  # seen on any ground
                    axis.plot(x, y, "o", markersize=11, markerfacecolor="none", color=colour, markeredgewidth=edge)
    return saved(drawn, path)
