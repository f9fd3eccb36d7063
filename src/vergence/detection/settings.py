"""Settings that detectors share: pictures of two domains, metrics, and what prediction takes. Imports no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Images
from vergence.contract.settings import Metric
from vergence.core.errors import VergenceError

EMBEDDED_CLASSES = ("person", "car", "dog", "chair", "potted plant", "cup")
"""Classes of the rendered pictures."""


@dataclass(frozen=True)
class Domains:
    """Labelled pictures of one domain, and those of the domain to adapt to."""

    source: Source = EMBEDDED
    """Pictures of the target domain, to adapt to and to test on; their boxes are only for the test. embedded, voc:PATH,
    watercolor:PATH, comic:PATH, clipart:PATH, coco:PATH, cityscapes:PATH, foggy:PATH, yolo:PATH, csv:PATH, or a plain
    PATH to a folder of pictures with any names."""
    labelled: str = EMBEDDED
    """Pictures of the labelled domain, to train on: embedded, or a layout as above."""
    style: Literal["photographic", "foggy", "night", "painted"] = "foggy"
    """embedded: the look of the target domain."""
    scenes: int = 600
    """embedded: pictures of each domain to train on; two fifths as many to test on."""
    beta: float = 0.02
    """foggy: density of the fog, 0.005, 0.01 or 0.02."""
    shortest: int = 600
    """Pictures are resized to this shorter side (0: as they are) ..."""
    longest: int = 1000
    """... unless the longer side would exceed this."""
    flip: bool = True
    """Mirror training pictures with probability 0.5."""
    negatives: bool = True
    """Keep labelled pictures without objects; the public code leaves them out."""
    train_on: Literal["labelled", "target"] = "labelled"
    """Boxes to train on: those of the labelled domain, or (as an upper bound) those of the target domain."""

    def __post_init__(self) -> None:
        if not 2 <= self.scenes <= 100_000:
            raise VergenceError(f"embedded data has 2 to 100000 scenes, got {self.scenes}")
        if self.shortest and not 16 <= self.shortest <= self.longest <= 10_000:
            raise VergenceError(
                f"sides are from 16 to 10000 pixels, the shortest at most the longest, got {self.shortest} and "
                f"{self.longest}"
            )
        if not 0 < self.beta < 1:
            raise VergenceError(f"fog has a density beta between 0 and 1, got {self.beta:g}")


@dataclass(frozen=True)
class Search:
    """Pictures to find objects in."""

    images: Images
    """Pictures, folders of pictures, or videos."""
    score: float = 0.5
    """Detections below this score are left out."""
    most: int = 100
    """At most this many per picture, the best ones."""
    every: int = 1
    """Of a video, only every Nth frame."""

    def __post_init__(self) -> None:
        if not self.images:
            raise VergenceError("there is nothing to look at: give pictures, folders or videos")
        if not 0 <= self.score <= 1 or not 1 <= self.most <= 1000 or self.every < 1:
            raise VergenceError(
                "score is from 0 to 1, most from 1 to 1000 and every at least 1, got "
                f"{self.score:g}, {self.most} and {self.every}"
            )


PRECISION = {
    "map": Metric("mAP@0.5", "%"),
    "map_area": Metric("mAP@0.5, area", "%"),
    "ap": Metric("AP (COCO)", "%"),
    "ap50": Metric("AP50 (COCO)", "%"),
    "ap75": Metric("AP75 (COCO)", "%"),
    "ar100": Metric("AR (COCO)", "%"),
}
"""Average precisions: VOC's with 11 points and by area, and COCO's."""
