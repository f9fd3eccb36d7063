"""Settings that systems of this room share; none of them needs PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError

World = Literal["t-mnist", "s-mnist", "natural"]
"""embedded: digits that move, digits that move and change their size, or things cut from photographs."""


@dataclass(frozen=True)
class Scene:
    """How large things are, and where they come from."""

    size: int = 255
    """Pixels of a frame's side."""
    digit: int = 40
    """Pixels of a digit's tile at scale 1."""
    frames: int = 100
    """Frames of a sequence."""
    digits: str = ""
    """A folder with MNIST's files; empty: scikit-learn's digits."""
    photographs: str = ""
    """A folder of pictures, for grounds and for natural scenes; empty: noise, and scikit-image's own pictures."""

    def __post_init__(self) -> None:
        if not (self.digit >= 8 and 1.5 * self.digit < self.size <= 4096 and 2 <= self.frames <= 100_000):
            raise VergenceError(
                f"a scene has digits of 8 pixels or more that fit into its frame one and a half times, and 2 frames or "
                f"more; got a frame of {self.size}, digits of {self.digit} and {self.frames} frames"
            )


@dataclass(frozen=True)
class Augmentation:
    """How training pairs are drawn."""

    pairs: int = 450_000
    """Pairs per epoch."""
    reach: int = 100
    """Frames that the two of a pair are apart, at most."""
    shift: float = 4.0
    """How far the target is from the middle of the search region along each axis, at most, in its pixels."""
    stretch: float = 0.05
    """How much larger or smaller a crop is than it should be, at most, as a share."""
    jitter: float = 0.05
    """How much brightness, contrast and saturation change, at most, as a share."""

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.reach < 0 or self.shift < 0 or not 0 <= self.stretch < 1 or not 0 <= self.jitter < 1:
            raise VergenceError(
                "pairs are at least 1, reach and shift at least 0, stretch and jitter from 0 to below 1; got "
                f"{self.pairs}, {self.reach}, {self.shift:g}, {self.stretch:g} and {self.jitter:g}"
            )


@dataclass(frozen=True)
class Inference:
    """How the response of a Siamese tracker is read."""

    reading: Literal["pyramid", "axis"] = "pyramid"
    """Where the size comes from: crops of several sizes, or the response's own scale axis in a single crop."""
    scales: int = 3
    """pyramid: crops per frame."""
    step: float = 1.0633
    """pyramid: the ratio of sizes from one crop to the next."""
    damping: float = 0.349
    """How far a frame moves the size towards that of the best response."""
    penalty: float = 0.9725
    """The factor of a response for every step away from the last size."""
    window: float = 0.224
    """How much of the response is a cosine window around the last place."""
    upsample: int = 16
    """Points of the finer response from one cell to the next."""

    def __post_init__(self) -> None:
        if self.scales < 1 or self.scales % 2 == 0:
            raise VergenceError(
                f"a pyramid has an odd number of crops, so that one is of the last size; got {self.scales}"
            )
        if not (self.step >= 1 and self.upsample >= 1):
            raise VergenceError(f"inference has step and upsample of at least 1, got {self.step} and {self.upsample}")
        for name in ("damping", "penalty", "window"):
            if not 0 <= getattr(self, name) <= 1:
                raise VergenceError(f"inference has a {name} from 0 to 1, got {getattr(self, name)}")
