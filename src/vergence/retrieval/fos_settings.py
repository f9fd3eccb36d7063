"""Settings of foreground object search that its data needs too; importing them does not need PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class ForegroundView:
    """How backgrounds, boxes and cut-outs are shown to the networks."""

    size: int = 256
    """Pixels along a side of what the networks see."""
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    """Subtracted from each channel."""
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    """Each channel is divided by it."""
    relax: float = 0.5
    """Training: random space around a box, up to this share of its size."""
    zoom: float = 1.0
    """Training: how far backgrounds are zoomed in at random, the box always in view; 0 for never."""
    padding: float = 0.3
    """Training: random white space at each side of a cut-out, up to this share of its longer side."""
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.2)
    """Training: random changes of brightness, contrast, saturation and hue."""

    def __post_init__(self) -> None:
        if not 16 <= self.size <= 4096 or min(self.std) <= 0:
            raise VergenceError(f"pictures have a size of 16 to 4096 and std above 0, got {self.size} and {self.std}")
        if not (0 <= self.relax <= 4 and 0 <= self.zoom <= 1 and 0 <= self.padding <= 4 and min(self.jitter) >= 0):
            raise VergenceError(
                f"relax and padding are from 0 to 4, zoom from 0 to 1, jitter at least 0; got {self.relax}, "
                f"{self.padding}, {self.zoom} and {self.jitter}"
            )
