"""Settings shared by recognition systems; importing them does not need PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError
from vergence.data.classes import Classes

MARK = 9
"""embedded: side of a mark in pixels."""
JITTER = 2
"""embedded: largest distance of a mark from the left or right edge."""
LEAST = 2 * (MARK + JITTER)
"""embedded: side of the smallest picture in which the marks cannot touch."""


@dataclass(frozen=True)
class Facts(Classes):
    """The classes; ImageNet's without weights of one's own."""

    classes: int = 1000


@dataclass(frozen=True)
class PictureView:
    """Input size, augmentation and normalisation."""

    size: int = 32
    """Input side in pixels."""
    resize: int = 32
    """Shorter side of a picture before the centre crop (evaluation and prediction)."""
    augment: Literal["none", "flip", "pad-flip", "crop-flip", "area-flip"] = "pad-flip"
    """Training: none; flip; random crop after padding by 4, flip; random crop after `resize`, flip; or crop of a random
    area, flip."""
    areas: tuple[float, float] = (0.08, 1.0)
    """area-flip: smallest and largest fraction of the picture."""
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Channel means, subtracted."""
    std: tuple[float, float, float] = (0.25, 0.25, 0.25)
    """Channel standard deviations, divided by."""

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
        """The square of a picture that evaluation uses: left, top and side, in its own pixels."""
        side = min(height, width) * self.size / self.resize
        return (width - side) / 2, (height - side) / 2, side


@dataclass(frozen=True)
class Tokens:
    """Embedded sets of noisy tokens: what a single nonlocal block does with them is to be learned."""

    target: Literal["clean", "noise"] = "clean"
    """Answer for each token: the token without its noise (a low-pass filter), or its noise alone (a high-pass one)."""
    count: int = 4800
    """Number of training sets in an epoch, drawn afresh in each; a quarter as many for validation and test."""
    tokens: int = 64
    """Tokens of a set."""
    width: int = 16
    """Channels of a token."""
    prototypes: int = 4
    """Different tokens of a set before the noise: standard normal, new ones for every set."""
    noise: float = 0.7
    """Standard deviation of the noise."""

    def __post_init__(self) -> None:
        if not all(1 <= value <= 100_000 for value in (self.count, self.tokens, self.width, self.prototypes)):
            raise VergenceError(f"sets of tokens have sizes from 1 to 100000, got {self}")
        if not self.noise >= 0:
            raise VergenceError(f"the noise of tokens is at least 0, got {self.noise}")
