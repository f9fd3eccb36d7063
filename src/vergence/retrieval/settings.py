"""Settings shared by retrieval systems; importing them does not need PyTorch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError

Ranks = Literal["renumbered", "original"]
"""Rank of a neighbour after others were dropped: renumbered, as at inference, or its original rank."""


@dataclass(frozen=True)
class Extractor:
    """The network that computes descriptors, and its input sizes."""

    backbone: str = "resnet101-gem"
    """resnet101-gem, resnet50, resnet18, or efficientnet-lite0 to 2 (these come with weights)."""
    weights: str = ""
    """A file for the backbone: the authors' or torchvision's names (.safetensors, or .pth of plain tensors)."""
    longest: int = 1024
    """Pictures are scaled down to this many pixels on their longer side."""
    scales: tuple[float, ...] = (1.0, math.sqrt(2), 1 / math.sqrt(2))
    """Scales whose descriptors are averaged."""

    def __post_init__(self) -> None:
        if self.longest < 32 or not self.scales or min(self.scales) <= 0:
            raise VergenceError(
                f"pictures are described at 32 pixels or more and at scales above 0, got longest={self.longest} and "
                f"scales={self.scales}"
            )
