"""Grids of pictures with captions, and heat maps over images."""

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
    """A heat map (h, w) blended over a picture (3, H, W) in grey, in [0, 1]; higher values are more opaque."""
    from matplotlib import colormaps

    grey = 0.8 * scaled(picture).cpu().mean(0, keepdim=True)
    heat = heat.detach().float().cpu()
    spread = heat.max() - heat.min()
    share = (heat - heat.min()) / spread if spread > 0 else torch.zeros_like(heat)
    # Nearest neighbour, so that the resolution of the map stays visible.
    full = torch.nn.functional.interpolate(share[None, None], grey.shape[-2:], mode="nearest")[0, 0]
    colours = torch.from_numpy(colormaps["inferno"](0.35 + 0.65 * full.numpy())[..., :3]).permute(2, 0, 1).float()
    cover = 0.9 * full.sqrt()  # square root, so that weak attention remains visible
    return grey * (1 - cover) + colours * cover


def grid(path: Path, rows: Sequence[Sequence[Panel]], side: float = 1.9) -> Path:
    """Draw rows of panels into one PNG."""
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
                for colour, edge in (("black", 3.2), ("white", 1.6)):  # visible on any background
                    axis.plot(x, y, "o", markersize=11, markerfacecolor="none", color=colour, markeredgewidth=edge)
    return saved(drawn, path)
