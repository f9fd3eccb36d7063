"""camera360's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Image
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.dense.camera360 import ABOUT

LIMITS = (1, 2, 3, 4, 5, 7.5, 10, 12)
"""Degrees at which the paper counts axes."""


@dataclass(frozen=True)
class ModelConfig:
    """The network; the defaults are GSCNN with a vanishing point stream and InceptionV3."""

    method: Literal["segmentation", "regression", "classification", "votes"] = "segmentation"
    """Two spots, the vertical directly, bins of pitch and roll from coarse to fine, or the most votes without a
    network."""
    backbone: Literal["inception", "small"] = "inception"
    """InceptionV3, or four small stages."""
    widths: tuple[int, ...] = (16, 24, 32, 64)
    """small: channels of the stages."""
    strides: tuple[int, ...] = (2, 2, 2, 2)
    """small: strides of the stages."""
    blocks: int = 1
    """small: residual blocks of each stage."""
    votes: bool = True
    """segmentation: with the vanishing point stream."""
    stream: tuple[int, ...] = (32, 16, 8)
    """segmentation: channels of the stream."""
    context: int = 256
    """segmentation: channels of the context (ASPP)."""
    rates: tuple[int, ...] = (6, 12, 18)
    """segmentation: dilations of the context."""
    low: int = 48
    """segmentation: channels of the second tap that join the context."""
    hidden: int = 256
    """segmentation: channels before the logits."""
    wraps: bool = True
    """Columns continue around the panorama in convolutions, instead of zeros."""
    cells: tuple[int, int] = (1, 1)
    """regression, classification: rows and columns of the means of the last map; 1 x 1 is its mean."""
    regressed: int = 0
    """regression: hidden units between the means and the vector (0: none)."""

    def __post_init__(self) -> None:
        if len(self.widths) != 4 or len(self.strides) != 4 or len(self.stream) != 3 or len(self.cells) != 2:
            raise VergenceError(
                "a network has 4 widths, 4 strides, 3 widths of its stream and 2 numbers of cells, got "
                f"{self.widths}, {self.strides}, {self.stream} and {self.cells}"
            )
        sizes = (*self.widths, *self.strides, *self.stream, *self.cells, *self.rates, self.context, self.low,
                 self.hidden)  # fmt: skip
        if min(sizes) < 1 or min(self.blocks, self.regressed) < 0:
            raise VergenceError("a network's sizes are at least 1")
        if max(self.strides) > 2:
            raise VergenceError(f"strides are 1 or 2, got {self.strides}")


@dataclass(frozen=True)
class Panoramas:
    """Panoramas for training and test."""

    source: Source = EMBEDDED
    """embedded, sun360:PATH (level panoramas), deep360up:PATH (a list of rotated ones), folder:PATH (level panoramas of
    your own), or a plain PATH to such a folder."""
    height: int = 256
    """Height of the network's input, a multiple of 32; its width is twice that."""
    rotations: int = 32
    """Files: rotations of each level panorama, which spread the vertical over the sphere."""
    kind: Literal["places", "rotated-noise", "sampled-noise"] = "places"
    """embedded: rendered places; or the control, white noise that was rotated or drawn directly."""
    scenes: int = 420
    """embedded: rendered places for training, each in 4 poses."""
    held_out: int = 90
    """embedded: places for validation and test in any pose, and as many near level."""
    jitter: bool = False
    """Change brightness, contrast, colours, sharpness and noise while training."""

    def __post_init__(self) -> None:
        if self.height < 32 or self.height % 32:
            raise VergenceError(f"data has a height that is a multiple of 32, got {self.height}")
        if min(self.rotations, self.scenes, self.held_out) < 1:
            raise VergenceError(
                "data has 1 or more rotations, scenes and held-out scenes, got "
                f"{self.rotations}, {self.scenes} and {self.held_out}"
            )


@dataclass(frozen=True)
class Objective:
    """What is learned, and how the vertical is read from it."""

    loss: Literal["sphere", "plane"] = "sphere"
    """Generalised dice over points that are uniform on the sphere, or over the pixels of the picture."""
    points: int = 16_384
    """sphere: the number of points."""
    radius: float = 5.0
    """Of the two spots, in degrees."""
    centroid: Literal["spherical", "pixel"] = "spherical"
    """Mean of a spot's directions, or of its pixels as in the paper, which is off near the poles."""
    tilt: float = 20.0
    """Test-time tilt: a panorama found to be near level is tilted by this many degrees and tried again (0: not)."""
    level: float = 10.0
    """Near level is below this many degrees."""

    def __post_init__(self) -> None:
        if not 0 < self.radius <= 45 or not 0 <= self.tilt < 90 or self.points < 100 or not 0 <= self.level <= 90:
            raise VergenceError(
                "an objective has a radius above 0 and up to 45, a tilt from 0 to below 90, a level from 0 to 90 "
                f"and 100 or more points, got {self.radius}, {self.tilt}, {self.level} and {self.points}"
            )


@dataclass(frozen=True)
class Config:
    """camera360: network, panoramas, objective, training."""

    model: ModelConfig = ModelConfig()
    data: Panoramas = Panoramas()
    objective: Objective = Objective()
    pretrained: str = ""
    """Initial weights of InceptionV3: a .safetensors or .pth file with torchvision's names."""
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """An equirectangular panorama, twice as wide as high, that shows all directions."""

    panorama: Image
    """The picture to set upright."""
    refine: Literal["lines", "off"] = "lines"
    """Turn the vertical to the one that the straight lines near it agree on, if enough of them do."""
    again: Literal["off", "tilted"] = "off"
    """Try again, tilted by 20 degrees, if the picture seems to be near level (the paper's test-time tilt)."""
    quality: int = 95
    """Of the upright panorama's JPEG file, from 1 to 100; 0 writes PNG."""

    def __post_init__(self) -> None:
        if not 0 <= self.quality <= 100:
            raise VergenceError(f"quality is from 0 to 100, got {self.quality}")


SMALL = ModelConfig(
    backbone="small", widths=(16, 16, 32, 64), strides=(2, 1, 2, 1), stream=(16, 8, 8), context=32, rates=(2, 6, 12),
    low=16, hidden=16, cells=(4, 8),
)  # fmt: skip
PRESETS = {
    "tiny": Config(
        SMALL,
        Panoramas(height=64, scenes=240, held_out=90),
        Objective(points=4096, radius=10.0, tilt=0.0),
        train=Training(steps=260, batch=4, evaluate_every=0, log_every=20,
                       optimiser=Optimiser("adam", lr=4e-3, schedule=Schedule("cosine", warmup=20, floor=0.02))),
    ),
    "paper": Config(
        ModelConfig(),
        Panoramas("sun360:data"),
        Objective(),
        pretrained="inception_v3.pth",
        train=Training(epochs=30, batch=8, keep="best", optimiser=Optimiser("adam", lr=1e-4)),
    ),
    "starter": Config(
        replace(SMALL, hidden=32),
        Panoramas(height=64, scenes=420, held_out=90, jitter=True),
        Objective(points=4096, radius=10.0),
        train=Training(steps=1200, batch=8, evaluate_every=0, log_every=20,
                       optimiser=Optimiser("adam", lr=3e-3, schedule=Schedule("cosine", warmup=50, floor=0.02))),
    ),
}  # fmt: skip
_DIRECT = {"model.wraps": False, "objective.tilt": 0.0}
_NOISE = {"model.votes": False, "objective.tilt": 0.0, "data.height": 32}
VARIANTS = {
    "gscnn": Variant("segmentation with votes", {}),
    "no-votes": Variant("segmentation", {"model.votes": False}),
    "regression": Variant("regression", {"model.method": "regression", **_DIRECT}),
    "votes": Variant("votes alone", {"model.method": "votes", "objective.tilt": 0.0}),
    "plane": Variant("dice in the plane", {"objective.loss": "plane"}, headline=False),
    "coarse-to-fine": Variant("coarse to fine", {"model.method": "classification", **_DIRECT}, headline=False),
    "tilt": Variant("with test-time tilt", {"objective.tilt": 20.0}, headline=False),
    "pixel": Variant("centroid of pixels", {"objective.centroid": "pixel"}, headline=False),
    "zeros": Variant("zero padding", {"model.wraps": False}, headline=False),
    "rotated-noise": Variant("rotated white noise", {"data.kind": "rotated-noise", **_NOISE}, headline=False),
    "sampled-noise": Variant("white noise, not rotated", {"data.kind": "sampled-noise", **_NOISE}, headline=False),
}


def named(limit: float) -> str:
    """A limit in the name of a metric: 7.5 is ``7_5``."""
    return f"{limit:g}".replace(".", "_")


METRICS = {
    "within_3": Metric("≤ 3°", "%", digits=1),
    **{f"within_{named(limit)}": Metric(f"≤ {limit:g}°", "%", digits=1) for limit in LIMITS if limit != 3},
    **{f"level_{named(limit)}": Metric(f"near level ≤ {limit:g}°", "%", digits=1) for limit in LIMITS},
    "error": Metric("mean error", "°", higher_is_better=False),
    "median": Metric("median error", "°", higher_is_better=False),
    "level_error": Metric("near level, mean error", "°", higher_is_better=False),
    "error_constant": Metric("mean error of no turn", "°", higher_is_better=False),
}
_WITHIN = tuple(f"within_{named(limit)}" for limit in LIMITS)
_LEVEL = tuple(f"level_{named(limit)}" for limit in LIMITS)
REPORTED = (
    Reported.table(
        "Table 1: SUN360, rotated validation",
        _WITHIN,
        {
            "gscnn": (25.1, 60.5, 80.5, 90.3, 94.7, 97.5, 98.1, 98.4),
            "no-votes": (20.9, 45.6, 57.0, 74.4, 90.2, 96.5, 97.4, 97.8),
            "regression": (4.9, 17.6, 34.8, 54.7, 70.1, 91.0, 95.7, 97.5),
            "votes": (0.2, 0.7, 1.2, 1.5, 1.7, 2.2, 2.5, 2.8),
        },
    ),
    Reported.table(
        "Table 1: SUN360, flat test",
        _LEVEL,
        {
            "gscnn": (34.0, 78.4, 92.4, 96.2, 97.8, 98.8, 99.3, 99.4),
            "no-votes": (0.4, 1.3, 3.1, 63.9, 96.5, 98.6, 99.0, 99.2),
            "regression": (10.2, 22.5, 35.3, 48.2, 60.1, 82.3, 93.4, 97.3),
            "votes": (0.3, 2.5, 6.1, 8.8, 11.0, 14.1, 16.7, 18.5),
        },
    ),
    Reported.table(
        "Table 1: SUN360, Deep360Up's test",
        _WITHIN,
        {
            "gscnn": (19.7, 53.6, 75.5, 87.2, 92.6, 97.1, 98.2, 98.4),
            "no-votes": (7.5, 23.5, 40.3, 55.9, 68.2, 87.1, 94.8, 97.4),
            "regression": (7.1, 24.5, 43.9, 60.7, 74.2, 91.9, 96.6, 97.9),
            "votes": (0.3, 0.9, 1.6, 2.1, 2.5, 3.3, 3.8, 4.2),
        },
        ("paper",),
    ),
)

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: rooms, streets and parks, rendered all around a camera that is tilted in any direction, or nearly "
        "level. No picture was rotated. Test pictures have textures from other photographs."
    ),
    reported=REPORTED,
    published={
        "paper": Published({}, (1, 2, 256, 512), 26_266_511),
    },
    learns=Learns(
        "dice",
        steps=12,
        share=0.95,
        changes={
            "data.scenes": 1, "data.held_out": 1, "data.height": 32, "objective.radius": 30.0, "objective.points": 500,
            "data.rotations": 1, "train.batch": 2,
        },
    ),
    starters={
        "rendered": Starter(
            "the vertical of panoramas, trained on rendered places",
            tried=(
                "one real room tilted by 30°, against the vertical of another method: 1.9° off, 0.07° after refinement "
                "by lines; rotated to six other poses: 0.9 to 7.3°, 0.15 to 0.57° after refinement"
            ),
            data="1,680 rendered panoramas of 256 x 128 pixels (vergence.dense.panoramas)",
        ),
    },
    minutes=1.0,
)  # fmt: skip
