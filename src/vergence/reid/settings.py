"""Settings shared by re-identification systems; importing them does not need PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.contract.inputs import Folder, Images, Text
from vergence.contract.settings import Metric
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
class People(PersonView):
    """A view of people, how they fill batches, and how many of them are rendered."""

    each: int = 4
    """Pictures per identity in a batch, where batches are balanced."""
    people: int = 100
    """embedded: number of training identities; half as many for validation and test."""
    shots: int = 3
    """embedded: pictures of each person by each camera."""
    cameras: int = 4
    """embedded: number of cameras."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, (least, most) in {"people": (2, 10_000), "shots": (1, 100), "cameras": (2, 100)}.items():
            if not least <= getattr(self, name) <= most:
                raise VergenceError(f"embedded data has {least} to {most} {name}, got {getattr(self, name)}")
        if self.each < 1:
            raise VergenceError(f"batches have at least 1 picture of each identity, got {self.each}")


@dataclass(frozen=True)
class Identities:
    """The number of people that a classifier learns."""

    classes: int

    def __post_init__(self) -> None:
        if not 1 <= self.classes <= 10_000_000:
            raise VergenceError(f"{self.classes} identities cannot be trained on: expected 1 to 10000000")


RANKING = {
    "map": Metric("mAP", "%"),
    "rank1": Metric("Rank-1", "%"),
    "rank5": Metric("Rank-5", "%"),
    "rank10": Metric("Rank-10", "%"),
}
UNMATCHED = {"unmatched": Metric("queries without a match", higher_is_better=False, digits=0)}
"""Metrics of the protocol; the second is reported only where it is not zero."""


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
