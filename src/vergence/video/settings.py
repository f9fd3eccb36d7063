"""Settings shared by video systems; importing them does not need PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError

SpanProtocol = Literal["activitynet", "thumos"]
"""The official scripts that judge proposals and detections."""


@dataclass(frozen=True)
class ClipView:
    """Frame sampling, crops, augmentation and normalisation of clips."""

    frames: int = 8
    """Frames per clip."""
    sampling: Literal["uniform", "dense"] = "dense"
    """uniform: one frame from each of `frames` equal segments of the video; dense: frames at a fixed stride."""
    stride: int = 32
    """dense: the stride, counted in frames at `rate` per second."""
    rate: float = 30.0
    """dense: the frame rate that `stride` refers to (0: the video's own)."""
    clips: int = 1
    """Testing: clips per video (uniform sampling takes other frames of the same segments)."""
    crops: Literal[1, 3] = 3
    """Testing: one centre crop, or three crops along the longer side."""
    size: int = 224
    """Input side in pixels."""
    resize: int = 224
    """Testing: shorter side of a frame before it is cropped."""
    jitter: tuple[int, int] = (256, 320)
    """Training: smallest and largest shorter side before a random crop."""
    flip: bool = True
    """Training: flip horizontally with probability 0.5; turn it off if left and right matter for the label."""
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Channel means, subtracted."""
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    """Channel standard deviations, divided by."""

    def __post_init__(self) -> None:
        if not 1 <= self.frames <= 1024 or not 1 <= self.clips <= 1024 or self.stride < 1 or not self.rate >= 0:
            raise VergenceError(
                f"a view has 1 to 1024 frames and clips, a stride of at least 1 and a rate of at least 0, got "
                f"{self.frames}, {self.clips}, {self.stride} and {self.rate:g}"
            )
        if (
            not 8 <= self.size <= min(self.resize, self.jitter[0])
            or not self.jitter[0] <= self.jitter[1] <= 8192
            or self.resize > 8192
        ):
            raise VergenceError(
                f"a view has 8 <= size <= resize and size <= jitter, the smaller first, got size={self.size}, "
                f"resize={self.resize} and jitter={self.jitter}"
            )
        if not all(deviation > 0 for deviation in self.std):
            raise VergenceError(f"a view's std is above 0 in every channel, got {self.std}")


@dataclass(frozen=True)
class TimedView:
    """Clips at playback speeds that are powers of two: sampling, crops and augmentation."""

    frames: int = 16
    """Frames per clip."""
    size: int = 112
    """Input side in pixels."""
    resize: int = 128
    """Shorter side of a frame before it is cropped."""
    flip: bool = True
    """Training: flip horizontally with probability 0.5, the clips of a video alike."""
    pan: float = 0.0
    """Pre-training: the camera drifts smoothly by up to this many pixels, as far as `resize` leaves room."""
    speed: int = 2
    """Transfer: clips play 2^speed times as fast (they skip 2^speed - 1 frames)."""
    clips: int = 10
    """Evaluation: clips per video, evenly spread."""
    window: int = 128
    """Pre-training: all clips of a video are taken from this many successive frames, which bounds the decoding."""

    def __post_init__(self) -> None:
        if not 8 <= self.frames <= 256 or not self.frames <= self.window <= 100_000:
            raise VergenceError(f"clips have 8 to 256 frames, windows as many or more: {self.frames}, {self.window}")
        if not 16 <= self.size <= self.resize <= 4096 or not 0 <= self.pan <= 4096:
            raise VergenceError(f"16 <= size <= resize <= 4096, got {self.size} and {self.resize}")
        if not 0 <= self.speed <= 3 or not 1 <= self.clips <= 1024:
            raise VergenceError(f"speed is 0 to 3 and clips 1 to 1024, got {self.speed} and {self.clips}")


@dataclass(frozen=True)
class Scene:
    """Appearance and motion of embedded clips."""

    side: int = 8
    """Side of an object, in pixels."""
    objects: int = 16
    """Objects per clip."""
    moving: float = 0.6
    """Probability that the objects move between two frames."""
    shade: float = 1.2
    """Strength of the shading."""
    clutter: float = 0.3
    """Strength of the background texture."""
    noise: float = 0.05
    """Standard deviation of the noise, new in every frame."""

    def __post_init__(self) -> None:
        if self.side < 4 or self.objects < 1:
            raise VergenceError(f"a scene has objects of at least 4 pixels, got {self.objects} of {self.side}")
        if not 0 <= self.moving <= 1 or not min(self.shade, self.clutter, self.noise) >= 0:
            raise VergenceError("a scene's chance to move is from 0 to 1, and its shade, clutter and noise at least 0")

    def check(self, frames: int, size: int) -> None:
        """Raises an error if the scene does not fit into clips of this size."""
        if frames < 2 or size % self.side or self.objects > (size // self.side) ** 2:
            raise VergenceError(
                f"embedded clips have at least 2 frames, of a side that divides by the objects', and room for all; got "
                f"{frames} frames of {size} pixels with {self.objects} objects of {self.side}"
            )


@dataclass(frozen=True)
class Suppression:
    """Soft-NMS of spans."""

    sigma: float = 0.4
    """Scores of overlapping spans fall by exp(-iou² / sigma)."""
    low: float = 0.5
    """Overlap above which they fall, for the shortest spans."""
    high: float = 0.9
    """The same for spans as long as the video."""
    keep: int = 100
    """Spans kept per video."""

    def __post_init__(self) -> None:
        if not self.sigma > 0 or not 0 <= self.low <= self.high <= 1 or not 1 <= self.keep <= 10_000:
            raise VergenceError(
                f"Soft-NMS has sigma > 0, 0 <= low <= high <= 1 and keeps 1 to 10,000 spans, got {self.sigma:g}, "
                f"{self.low:g}, {self.high:g} and {self.keep}"
            )
