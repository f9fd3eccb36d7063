"""Grids of pictures with captions, and heat maps over images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.data.images import scaled
from vergence.drawing.figure import figure, saved


@dataclass(frozen=True)
class Scale:
    """Values at the two ends of the colours of a heat map, and the largest value of the map."""

    low: float
    high: float
    largest: float

    @classmethod
    def of(cls, heat: Tensor) -> Scale:
        """From the smallest value, but not below zero, to a value that 5 % of the cells exceed, or to a fiftieth of the
        largest: one very large cell does not hide the others, and rounding does not shine."""
        values = heat.detach().float().cpu().flatten()
        low, largest = max(float(values.min()), 0.0), max(float(values.max()), 0.0)
        high = max(float(values.sort().values[int(0.95 * (len(values) - 1))]), largest / 50)
        low = low if low > 1e-3 * high else 0.0  # what cannot be told from zero
        return cls(low, high if high > low else largest, largest)

    def share(self, heat: Tensor) -> Tensor:
        """Values as fractions of the scale, in [0, 1]."""
        if self.high <= self.low:
            return torch.zeros_like(heat)
        return ((heat - self.low) / (self.high - self.low)).clamp(0, 1)

    @property
    def ends(self) -> tuple[str, str]:
        """Labels of the two ends; a + if there are larger values."""
        return f"{self.low:.2g}", f"{self.high:.2g}{'+' if self.largest > self.high else ''}"


@dataclass(frozen=True)
class Panel:
    """One cell of a grid: a picture (3, H, W), a title, points (x, y) in its pixels to mark, and for a heat map the
    scale of its colours."""

    picture: Tensor
    title: str = ""
    points: Sequence[tuple[float, float]] = ()
    scale: Scale | None = None


def heated(picture: Tensor, heat: Tensor, title: str = "", points: Sequence[tuple[float, float]] = ()) -> Panel:
    """A panel with a heat map (h, w) over a picture (3, H, W), and its colour bar."""
    return Panel(overlay(picture, heat), title, points, Scale.of(heat))


def overlay(picture: Tensor, heat: Tensor) -> Tensor:
    """A heat map (h, w) blended over a picture (3, H, W) in grey, in [0, 1]; higher values are more opaque, and
    negative ones are not shown."""
    grey = 0.8 * scaled(picture).cpu().mean(0, keepdim=True)
    share = Scale.of(heat).share(heat.detach().float().cpu())
    # Nearest neighbour, so that the resolution of the map stays visible.
    full = torch.nn.functional.interpolate(share[None, None], grey.shape[-2:], mode="nearest")[0, 0]
    return _blended(grey, full)


def _blended(grey: Tensor, share: Tensor) -> Tensor:
    from matplotlib import colormaps

    colours = torch.from_numpy(colormaps["inferno"](0.35 + 0.65 * share.numpy())[..., :3]).permute(2, 0, 1).float()
    cover = 0.9 * share.sqrt()  # square root, so that weak attention remains visible
    return grey * (1 - cover) + colours * cover


def grid(path: Path, rows: Sequence[Sequence[Panel]], side: float = 1.9, labels: Sequence[str] = ()) -> Path:
    """Draw rows of panels into one PNG, with a label at the left of each row if there are any."""
    columns = max(len(row) for row in rows)
    drawn = figure(side * columns, (side + 0.25) * len(rows))
    axes = drawn.subplots(len(rows), columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for label, axis in zip(labels, axes[:, 0], strict=False):
        axis.text(-0.08, 0.5, label, transform=axis.transAxes, rotation=90, ha="right", va="center", fontsize=8)
    for row, places in zip(rows, axes, strict=True):
        for panel, axis in zip(row, places, strict=False):
            pixels = scaled(panel.picture).clamp(0, 1).permute(1, 2, 0).cpu().numpy()
            axis.imshow(pixels, vmin=0, vmax=1, interpolation="nearest")
            axis.set_title(panel.title, fontsize=8)
            if panel.scale is not None:
                _bar(axis, panel.scale)
            for x, y in panel.points:
                for colour, edge in (("black", 3.2), ("white", 1.6)):  # visible on any background
                    axis.plot(x, y, "o", markersize=11, markerfacecolor="none", color=colour, markeredgewidth=edge)
    return saved(drawn, path)


def bar(length: int) -> Tensor:
    """The colours of a heat map over mid-grey from low to high, (3, 1, length)."""
    return _blended(torch.full((1, 1, length), 0.4), torch.linspace(0, 1, length)[None])


def _bar(axis: Any, scale: Scale) -> None:
    """Draw a colour bar below a panel."""
    below = axis.inset_axes((0.0, -0.07, 1.0, 0.05))
    below.imshow(bar(64).permute(1, 2, 0).numpy(), aspect="auto")
    below.set_axis_off()
    for label, place, side in zip(scale.ends, (0.0, 1.0), ("left", "right"), strict=True):
        below.text(place, -0.3, label, transform=below.transAxes, ha=side, va="top", fontsize=6)
