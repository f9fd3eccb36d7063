"""Settings that systems of this room share; none of them needs PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError

MARK = 9
"""embedded: side of a mark in pixels."""
JITTER = 2
"""embedded: how far from its edge, left or right, a mark may stand."""
LEAST = 2 * (MARK + JITTER)
"""embedded: side of the smallest picture in which the marks cannot touch."""


@dataclass(frozen=True)
class PictureView:
    """How a network gets to see a picture."""

    size: int = 32
    """Side of what the network sees."""
    resize: int = 32
    """Shorter side of a picture before its middle is taken (evaluation and prediction)."""
    augment: Literal["none", "flip", "pad-flip", "crop-flip", "area-flip"] = "pad-flip"
    """Training: nothing; flip; crop after padding by 4, flip; crop anywhere after `resize`, flip; or crop a random
    area, flip."""
    areas: tuple[float, float] = (0.08, 1.0)
    """area-flip: least and greatest share of the picture."""
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Of the channels, taken out."""
    std: tuple[float, float, float] = (0.25, 0.25, 0.25)
    """Of the channels, divided by."""

    def __post_init__(self) -> None:
        if not 8 <= self.size <= self.resize <= 8192:
            raise VergenceError(
                f"a view has 8 <= size <= resize <= 8192, got size={self.size} and resize={self.resize}"
            )
        if not 0 < self.areas[0] <= self.areas[1]:
            raise VergenceError(f"a view's areas are two shares above 0, the smaller first, got {self.areas}")
        if not all(deviation > 0 for deviation in self.std):
            raise VergenceError(f"a view's std is above 0 in every channel, got {self.std}")

    def region(self, height: int, width: int) -> tuple[float, float, float]:
        """What evaluation sees of a picture, in its own pixels: left, top and side of a square."""
        side = min(height, width) * self.size / self.resize
        return (width - side) / 2, (height - side) / 2, side
