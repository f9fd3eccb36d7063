"""Settings shared by tracking systems; importing them does not need PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError

World = Literal["t-mnist", "s-mnist", "natural"]
"""embedded: digits that move, digits that move and change size, or cut-outs of photographs."""


@dataclass(frozen=True)
class Scene:
    """Sizes and sources of embedded scenes."""

    size: int = 255
    """Side of a frame in pixels."""
    digit: int = 40
    """Side of a digit's tile at scale 1, in pixels."""
    frames: int = 100
    """Frames per sequence."""
    digits: str = ""
    """A folder with MNIST's files; empty: scikit-learn's digits."""
    photographs: str = ""
    """A folder of pictures for backgrounds and natural scenes; empty: noise, and scikit-image's pictures."""

    def __post_init__(self) -> None:
        if not (self.digit >= 8 and 1.5 * self.digit < self.size <= 4096 and 2 <= self.frames <= 100_000):
            raise VergenceError(
                f"a scene has digits of 8 pixels or more that fit into its frame one and a half times, and 2 frames or "
                f"more; got a frame of {self.size}, digits of {self.digit} and {self.frames} frames"
            )


@dataclass(frozen=True)
class Augmentation:
    """Sampling of training pairs."""

    pairs: int = 450_000
    """Pairs per epoch."""
    reach: int = 100
    """Largest distance between the two frames of a pair."""
    shift: float = 4.0
    """Largest shift of the target from the centre of the search region along each axis, in pixels."""
    stretch: float = 0.05
    """Largest relative change of the size of a crop."""
    jitter: float = 0.05
    """Largest relative change of brightness, contrast and saturation."""

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.reach < 0 or self.shift < 0 or not 0 <= self.stretch < 1 or not 0 <= self.jitter < 1:
            raise VergenceError(
                "pairs are at least 1, reach and shift at least 0, stretch and jitter from 0 to below 1; got "
                f"{self.pairs}, {self.reach}, {self.shift:g}, {self.stretch:g} and {self.jitter:g}"
            )


@dataclass(frozen=True)
class Inference:
    """Inference of a Siamese tracker."""

    reading: Literal["pyramid", "axis"] = "pyramid"
    """Size estimation: a pyramid of crops of several sizes, or the response's scale axis in a single crop."""
    scales: int = 3
    """pyramid: crops per frame."""
    step: float = 1.0633
    """pyramid: the ratio of sizes from one crop to the next."""
    damping: float = 0.349
    """Damping of the size: update rate towards the best response."""
    penalty: float = 0.9725
    """Factor on the response per step away from the last size."""
    window: float = 0.224
    """Weight of the cosine window around the last position."""
    upsample: int = 16
    """Upsampling factor of the response."""

    def __post_init__(self) -> None:
        if not 1 <= self.scales <= 99 or self.scales % 2 == 0:
            raise VergenceError(
                f"a pyramid has an odd number of crops up to 99, so that one is of the last size; got {self.scales}"
            )
        if not (1 <= self.step <= 4 and 1 <= self.upsample <= 64):
            raise VergenceError(
                f"inference has a step of 1 to 4 and an upsample of 1 to 64, got {self.step} and {self.upsample}"
            )
        for name in ("damping", "penalty", "window"):
            if not 0 <= getattr(self, name) <= 1:
                raise VergenceError(f"inference has a {name} from 0 to 1, got {getattr(self, name)}")
