"""What a measurement is, as plain data; :mod:`vergence.generation.measurements` computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class Measure:
    """The measurement y = Hx + noise."""

    kind: Literal["average", "bicubic", "mask", "blur", "fourier", "identity"] = "bicubic"
    """Block means, bicubic reduction, known pixels, blur, frequencies (magnetic resonance), or everything."""
    factor: int = 2
    """average, bicubic: how many times smaller the measurement is along each side."""
    antialias: bool = True
    """bicubic: with anti-aliasing, as the paper describes it; the public code has none."""
    inverse: Literal["exact", "approx"] = "exact"
    """bicubic: the pseudo-inverse, or bicubic enlargement in its place, as in the paper; fourier: of real pictures, or
    the real part of the zero-filled inverse."""
    blur: tuple[float, float] = (1.5, 1.5)
    """blur: least and greatest standard deviation of Gaussian kernels, in pixels."""
    motion: float = 0.0
    """blur: the share of training batches that are blurred along a line instead."""
    cutoff: float = 0.05
    """blur: frequencies weakened to this share of the strongest count as not measured."""
    holes: float = 0.3
    """mask: about the greatest share of unknown pixels."""
    acceleration: float = 4.0
    """fourier: pixels per measured frequency."""
    noise: float = 0.1
    """Standard deviation of the noise, for pictures from 0 to 1."""
    varied: bool = False
    """Draw the noise level of each training picture between 0 and that."""

    def __post_init__(self) -> None:
        if not (1 <= self.factor <= 8 and 0 <= self.noise <= 10 and 1 <= self.acceleration <= 1000):
            raise VergenceError(
                "a measurement has a factor from 1 to 8, noise from 0 to 10 and an acceleration from 1 to 1000, got "
                f"{self.factor}, {self.noise:g} and {self.acceleration:g}"
            )
        if not (0.1 <= self.blur[0] <= self.blur[1] <= 12 and 0 < self.cutoff < 1):
            raise VergenceError(f"a blur is from 0.1 to 12 and a cutoff from 0 to 1, got {self.blur} and {self.cutoff}")
        if not (0 < self.holes < 1 and 0 <= self.motion <= 1):
            raise VergenceError(f"holes and motion are shares from 0 to 1, got {self.holes:g} and {self.motion:g}")
