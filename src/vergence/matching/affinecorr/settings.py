"""Settings of affine correspondences: methods, patches, scenes, inputs and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Method = Literal["raw", "pairwise", "corrected", "ref4", "ref4-corrected", "ref2", "ref3", "track3", "track6"]


@dataclass(frozen=True)
class Patch:
    """Patches that are aligned."""

    side: int = 21
    """Points along a side of a patch."""
    scale: float = 3.0
    """Half the side of a patch, in scales of its feature."""
    least: float = 10.0
    """The least half side, in pixels."""
    most: float = 30.0
    """The largest half side, in pixels."""
    blur: float = 0.8
    """Deviation of the Gaussian that pictures are smoothed with, in pixels."""
    coarse: int = 1
    """Begin with pictures reduced by 2 to this power."""
    steps: int = 40
    """The most Gauss-Newton steps at each size of the pictures."""
    tolerance: float = 0.005
    """Pixels: a patch is finished when no point of it moves by more."""
    gain: bool = True
    """Compare patches of mean 0 and norm 1, so that brightness and contrast do not matter."""
