"""Settings that systems of this room share; none of them needs PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class ClipView:
    """How a network gets to see a video."""

    frames: int = 8
    """Frames of a clip."""
    sampling: Literal["uniform", "dense"] = "dense"
    """One frame of each of so many equal parts of the video, or frames at a fixed distance."""
    stride: int = 32
    """dense: the distance, counted in frames at `rate` per second."""
    rate: float = 30.0
    """dense: frames per second to count in, whatever the video has (0: the video's own)."""
    clips: int = 1
    """Testing: clips of a video (uniform sampling takes other frames of the same parts)."""
    crops: Literal[1, 3] = 3
    """Testing: the middle of a frame, or three crops along its longer side."""
    size: int = 224
    """Side of what the network sees."""
    resize: int = 224
    """Testing: shorter side of a frame before it is cropped."""
    jitter: tuple[int, int] = (256, 320)
    """Training: least and greatest shorter side before a random crop."""
    flip: bool = True
    """Training: exchange left and right in every second draw; not where left and right are the label."""
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Of the channels, taken out."""
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Of the channels, divided by."""

    def __post_init__(self) -> None:
        if not 1 <= self.frames <= 1024 or not 1 <= self.clips <= 1024 or self.stride < 1 or not self.rate >= 0:
            raise VergenceError(
                f"a view has 1 to 1024 frames and clips, a stride of at least 1 and a rate of at least 0, got "
                f"{self.frames}, {self.clips}, {self.stride} and {self.rate:g}"
            )
        if not 8 <= self.size <= min(self.resize, self.jitter[0]) or not self.jitter[0] <= self.jitter[1] <= 8192:
            raise VergenceError(
                f"a view has 8 <= size <= resize and size <= jitter, the smaller first, got size={self.size}, "
                f"resize={self.resize} and jitter={self.jitter}"
            )
        if not all(deviation > 0 for deviation in self.std):
            raise VergenceError(f"a view's std is above 0 in every channel, got {self.std}")


@dataclass(frozen=True)
class Scene:
    """What the clips are like."""

    side: int = 8
    """Side of an object, in pixels."""
    objects: int = 16
    """Objects in a clip."""
    moving: float = 0.6
    """Chance that the objects move on between two frames."""
    shade: float = 1.2
    """How strong the shading is."""
    clutter: float = 0.3
    """How strong the ground's texture is."""
    noise: float = 0.05
    """Grain, new in every frame."""

    def __post_init__(self) -> None:
        if self.side < 4 or self.objects < 1:
            raise VergenceError(f"a scene has objects of at least 4 pixels, got {self.objects} of {self.side}")
        if not 0 <= self.moving <= 1 or not min(self.shade, self.clutter, self.noise) >= 0:
            raise VergenceError("a scene's chance to move is from 0 to 1, and its shade, clutter and noise at least 0")

    def check(self, frames: int, size: int) -> None:
        """Refuse clips that it does not fit into."""
        if frames < 2 or size % self.side or self.objects > (size // self.side) ** 2:
            raise VergenceError(
                f"embedded clips have at least 2 frames, of a side that divides by the objects', and room for all; got "
                f"{frames} frames of {size} pixels with {self.objects} objects of {self.side}"
            )
