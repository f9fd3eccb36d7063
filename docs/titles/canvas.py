"""A canvas of 960 x 640 pixels, placed by pixels from the upper left; text is large enough to be read at a third."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import skimage
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from vergence.data.images import read_image
from vergence.drawing.figure import saved

WIDTH, HEIGHT, GAP = 960, 640, 8
TEXT = 34
"""Height of a letter in pixels; a third of it can still be read."""
INK, PALE = "#1d2b3a", "#ffffff"
PHOTOGRAPHS = Path(skimage.__file__).parent / "data"


class Canvas:
    """A picture under construction."""

    def __init__(self, ground: str = PALE) -> None:
        self.figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=ground)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        return self.figure.add_axes((x / WIDTH, 1 - (y + height) / HEIGHT, width / WIDTH, height / HEIGHT))

    def picture(self, pixels: np.ndarray, x: float, y: float, width: float, height: float, **shown) -> Axes:
        """Show an image (H, W, 3) in a box; its own pixels are the coordinates of what is drawn on it."""
        axes = self.axes(x, y, width, height)
        axes.imshow(pixels, aspect="auto", **shown)
        axes.set_axis_off()
        axes.autoscale(False)
        return axes

    def write(self, x: float, y: float, text: str, colour: str = INK, size: float = TEXT, **how) -> None:
        """Write text with its middle at this height; fails if it would leave the canvas."""
        drawn = self.figure.text(
            x / WIDTH, 1 - y / HEIGHT, text, color=colour, fontsize=size * 0.72, **({"va": "center"} | how)
        )
        box = drawn.get_window_extent(FigureCanvasAgg(self.figure).get_renderer())
        if box.x0 < 0 or box.y0 < 0 or box.x1 > WIDTH or box.y1 > HEIGHT:
            raise ValueError(f"{text!r} leaves the canvas")

    def save(self, path: Path) -> Path:
        return saved(self.figure, path)


def badge(axes: Axes, text: str, colour: str = INK, size: float = TEXT, x: float = 0.02, y: float = 0.97) -> None:
    """Write white text on a dark ground into the upper left of a panel."""
    axes.text(
        x, y, text, transform=axes.transAxes, color="white", fontsize=size * 0.72, va="top", ha="left",
        bbox={"facecolor": colour, "edgecolor": "none", "pad": 5, "alpha": 0.85},
    )  # fmt: skip


def quarters() -> Sequence[tuple[float, float, float, float]]:
    """Four panels of 3:2, nearly, by rows: x, y, width, height."""
    width, height = (WIDTH - GAP) / 2, (HEIGHT - GAP) / 2
    return [(x, y, width, height) for y in (0, height + GAP) for x in (0, width + GAP)]


def photograph(name: str) -> Tensor:
    """A picture that comes with scikit-image, bytes (3, H, W)."""
    return read_image(PHOTOGRAPHS / name)


def pixels(picture: Tensor) -> np.ndarray:
    return picture.permute(1, 2, 0).numpy()
