"""Settings shared by re-identification systems; importing them does not need PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.contract.inputs import Folder, Images, Text
from vergence.core.errors import VergenceError

Sampler = Literal["plain", "balanced"]
"""Batches in random order, or with the same number of pictures per identity."""


@dataclass(frozen=True)
class PersonView:
    """Input size, augmentation and normalisation."""

    height: int = 384
    """Input height in pixels; pictures are stretched to it."""
    width: int = 128
    """Input width in pixels."""
    flip: bool = True
    """Training: flip horizontally with probability 0.5."""
    pad: int = 0
    """Training: crop at random after padding by this number of pixels."""
    erase: float = 0.0
    """Training: probability of random erasing (Zhong et al., 2020); the paper does not use it."""
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    """Channel means, subtracted."""
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    """Channel standard deviations, divided by."""

    def __post_init__(self) -> None:
        if not (16 <= self.height <= 4096 and 16 <= self.width <= 4096):
            raise VergenceError(f"a view has sides of 16 to 4096 pixels, got {self.height} x {self.width}")
        if not 0 <= self.erase <= 1 or not 0 <= self.pad < min(self.height, self.width):
            raise VergenceError(
                f"a view erases in a share of 0 to 1 of the pictures and pads by less than a side, "
                f"got erase={self.erase} and pad={self.pad}"
            )
        if not all(deviation > 0 for deviation in self.std):
            raise VergenceError(f"a view's std is above 0 in every channel, got {self.std}")


@dataclass(frozen=True)
class Protocol:
    """How rankings are evaluated."""

    area: Literal["step", "trapezoid"] = "step"
    """Average precision by steps, as in most public code, or by trapezoids, as in the Market-1501 toolbox."""
    rerank: bool = False
    """Re-rank by k-reciprocal neighbours first."""
    k1: int = 20
    """rerank: size of the k-reciprocal neighbourhood."""
    k2: int = 6
    """rerank: number of neighbours in local query expansion."""
    share: float = 0.3
    """rerank: weight of the original distance."""


@dataclass(frozen=True)
class Search:
    """Query pictures and the gallery to search."""

    query: Images = ()
    """Query pictures."""
    gallery: Folder | None = None
    """A folder of pictures to search."""
    index: Text = ""
    """A file that stores the descriptors of the gallery; without --gallery it is read."""
    top: int = 10
    """Number of matches shown per query."""

    def __post_init__(self) -> None:
        if not self.query:
            raise VergenceError("there is no query: give --query FILE...")
        if self.gallery is None and not self.index:
            raise VergenceError("there is no gallery: give --gallery DIR, or --index FILE of an earlier call")
        if self.top < 1:
            raise VergenceError(f"at least one match is shown, got --top {self.top}")
