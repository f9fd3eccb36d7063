"""SE-SiamFC's settings: configs, inputs, sizes of networks, presets, variants, metrics, and reported numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import tyro

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Boxes, Video
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.tracking.sesiam import ABOUT
from vergence.tracking.settings import Augmentation, Inference, Scene, World

Pooling = Literal["max", "first", "none"]
Borders = tuple[Literal["zeros", "circular"], Literal["zeros", "circular"]]


@dataclass(frozen=True)
class ModelConfig:
    """The network and its size."""

    name: Literal["siamfc", "siamfc+", "se-siamfc"] = "se-siamfc"
    """Plain and shallow (AlexNet's at the size otb), plain and residual (otb alone; siamfc at the others), or with
    scale-convolutions."""
    size: Literal["tiny", "mnist", "otb"] = "otb"
    """The supplement's Table 2 (otb), its Table 1 (mnist), or a quarter of the width at half the resolution (tiny)."""
    connection: Literal["own", "correlation", "scale-convolution"] = "own"
    """Comparison of features: own is that of the paper's tables, which for se-siamfc is the scale-convolution; the
    released network uses correlation."""
    width: float = 1.0
    """Multiplier of the number of channels."""
    outer_pooling: Pooling = "max"
    """se-siamfc: pooling over scales before the connection."""
    extent: int = 2
    """se-siamfc at otb: number of scales in the first 1x1 kernel."""
    stem_size: int = 9
    """se-siamfc at otb: side of the stem's largest kernel; from 13 on it can represent any ordinary 7x7 stem."""
    borders: Borders = ("circular", "zeros")
    """Padding of maps, in training and in evaluation."""
    radius: float = 2.0
    """Radius of positive labels in the response, in cells (L1 distance)."""

    def __post_init__(self) -> None:
        if not (0 < self.width <= 16 and self.extent >= 1 and self.stem_size >= 3 and self.radius >= 0):
            raise VergenceError(
                "a network has a width above 0 and up to 16, an extent of 1 or more, a stem of 3 or more and a radius "
                f"of 0 or more; got {self.width:g}, {self.extent}, {self.stem_size} and {self.radius:g}"
            )


@dataclass(frozen=True)
class Sequences:
    """Source of the training and test sequences."""

    source: Source = EMBEDDED
    """embedded, got10k:PATH, otb2013:PATH, otb50:PATH, otb100:PATH, vot2016:PATH, vot2017:PATH, vot2018:PATH,
    vot:PATH, lasot:PATH, folder:PATH, or a plain PATH to frames with a groundtruth.txt."""
    world: World = "t-mnist"
    """embedded: training world. Digits that move, digits that move and change size (both are tested on both), or
    cut-outs of photographs."""
    scene: Scene = Scene()
    """embedded: sizes and sources of the scenes."""
    sequences: int = 1000
    """embedded: number of training sequences."""
    tests: int = 100
    """embedded: number of test sequences per world; half as many for validation."""
    most: int = 0
    """Other data: largest number of test sequences (0: all)."""
    pairs: Augmentation = Augmentation()

    def __post_init__(self) -> None:
        if self.sequences < 1 or self.tests < 1 or self.most < 0:
            raise VergenceError(
                f"sequences and tests are at least 1 and most at least 0, got {self.sequences}, {self.tests} and "
                f"{self.most}"
            )


@dataclass(frozen=True)
class Config:
    """SE-SiamFC: network, sequences, training, inference."""

    model: ModelConfig = ModelConfig()
    data: Sequences = Sequences()
    train: Training = Training()
    inference: Inference = Inference()
    pretrained: str = ""
    """se-siamfc: a weights file of the ordinary network of this size for initialisation."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """A video and the targets to track."""

    video: Video
    """A video file, a folder of frames, or a camera's number."""
    box: tyro.conf.UseAppendAction[Boxes] = ()
    """A target in the first frame, as x,y,width,height in pixels; repeat it for more targets. If none is given and
    there is a display, a window opens to draw boxes in."""
    frames: int = 0
    """Number of frames to track (0: all; for a camera, until Ctrl-C)."""

    def __post_init__(self) -> None:
        if self.frames < 0:
            raise VergenceError(f"frames is at least 0, got {self.frames}")


# Networks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Architecture of a network. Kernels of the plain ones have a side of ``order``, with one weight per cell."""

    widths: tuple[int, ...]
    template_size: int = 127
    search_size: int = 255
    order: int = 3
    size: int = 5
    """Side of the largest scale's kernels."""
    scales: tuple[float, ...] = (1.0, 1.2, 1.44)
    stem_order: int = 7
    stem_size: int = 9
    """The smallest scale's kernel holds all of a 7x7 stem from 13 on; the released network has 9."""
    extent: int = 2
    """Number of scales in the first 1x1 kernel of the residual network."""
    inner_pooling: Pooling = "max"
    """Pooling over scales at the start of the residual network's second stage."""
    outer_pooling: Pooling = "max"
    """Pooling before the connection; with none it compares functions of scale and position."""
    targets: tuple[float, ...] = (1 / 1.2, 1.0, 1.2)
    """Sizes of the target that scale-convolution looks for, as multiples of the template's."""
    borders: Borders = ("circular", "zeros")
    """Padding of maps, in training and in evaluation."""
    gain: float = 0.1
    """Factor on responses, so that the logistic loss does not start saturated."""

    @property
    def step(self) -> float | None:
        """Ratio of neighbouring scales; none if there is only one."""
        return self.scales[1] / self.scales[0] if len(self.scales) > 1 else None

    def scaled(self, width: float) -> Plan:
        """A copy with the channels multiplied by ``width``, rounded to multiples of 8."""
        if not width > 0:
            raise VergenceError(f"width is a positive multiple of the channels, got {width}")
        return replace(self, widths=tuple(max(8, round(w * width / 8) * 8) for w in self.widths))


SIZES: Mapping[str, Plan] = {
    "tiny": Plan((24, 32, 64, 64), 63, 127, 5, 9, (1.0, math.sqrt(2), 2.0)),
    "mnist": Plan((96, 128, 256, 256)),
    "otb": Plan((64, 128), scales=(0.9, 0.9 * 1.4, 0.9 * 1.4**2)),
}

# Presets and variants ------------------------------------------------------------------------------------------------

ORIGINAL = Inference(step=1.0375, damping=0.59, penalty=0.9745, window=0.176)
"""SiamFC's training settings, which the paper's T/S-MNIST experiment follows."""


def _decaying(first: float, last: float, units: int) -> Schedule:
    """Exponential decay from one learning rate to another, by a constant factor per epoch."""
    return Schedule("exponential", unit="epoch", gamma=(last / first) ** (1 / (units - 1)))


def _quick(steps: int, batch: int) -> Training:
    schedule = Schedule("exponential", warmup=20, gamma=0.03 ** (1 / steps))
    optimiser = Optimiser("adamw", lr=2e-3, weight_decay=1e-4, clip=10.0, schedule=schedule)
    return Training(steps=steps, batch=batch, evaluate_every=0, optimiser=optimiser)


TINY = Config(
    ModelConfig(size="tiny", radius=1.0),
    Sequences(
        scene=Scene(size=160, digit=26, frames=40),
        sequences=300,
        tests=10,
        pairs=Augmentation(pairs=4800, reach=40, shift=16.0),
    ),
    _quick(200, 8),
    ORIGINAL,
)
PRESETS = {
    "tiny": TINY,
    "natural": Config(
        ModelConfig(size="tiny", radius=1.0),
        Sequences(
            world="natural",
            scene=Scene(size=240, digit=48, frames=60),
            sequences=1000,
            tests=12,
            pairs=Augmentation(pairs=16_000, reach=30, shift=16.0, stretch=0.1, jitter=0.15),
        ),
        _quick(1500, 8),
        Inference(),
    ),
    "paper": Config(
        ModelConfig(),
        Sequences("got10k:data"),
        Training(
            epochs=50,
            batch=24,
            evaluate_every=0,
            optimiser=Optimiser("sgd", 1e-2, weight_decay=1e-4, clip=10.0, schedule=_decaying(1e-2, 1e-5, 50)),
        ),
    ),
    "paper-mnist": Config(
        ModelConfig(size="mnist"),
        Sequences(pairs=Augmentation(pairs=50_000)),
        Training(
            epochs=50,
            batch=8,
            evaluate_every=0,
            optimiser=Optimiser("sgd", 1e-2, weight_decay=5e-4, schedule=_decaying(1e-2, 1e-5, 50)),
        ),
        ORIGINAL,
    ),
}

_PLAIN, _SCALE = {"model.name": "siamfc+"}, {"model.name": "se-siamfc"}
AXIS = {"inference.reading": "axis", "inference.damping": 0.1}
"""A step of the axis is several of the pyramid's, so a frame follows less of it."""
_T, _S = {"data.world": "t-mnist"}, {"data.world": "s-mnist"}
VARIANTS = {
    "siamfc-t": Variant("SiamFC, trained on T", _PLAIN | _T),
    "se-siamfc-t": Variant("SE-SiamFC, trained on T", _SCALE | _T),
    "siamfc-s": Variant("SiamFC, trained on S", _PLAIN | _S),
    "se-siamfc-s": Variant("SE-SiamFC, trained on S", _SCALE | _S),
    "siamfc": Variant("SiamFC (SiamFC+ at the size otb)", _PLAIN, headline=False),
    "se-siamfc": Variant("SE-SiamFC", _SCALE, headline=False),
    "alexnet": Variant("SiamFC, AlexNet at the size otb", {"model.name": "siamfc"}, headline=False),
    "se-released": Variant("SE-SiamFC as released", _SCALE | {"model.connection": "correlation"}, headline=False),
    "se-axis": Variant("SE-SiamFC, size from its own axis", _SCALE | AXIS, headline=False),
    "se-unpooled": Variant("SE-SiamFC, scales kept", _SCALE | {"model.outer_pooling": "none"}, headline=False),
    "se-one-tap": Variant("SE-SiamFC, i = 1", _SCALE | {"model.extent": 1}, headline=False),
    "se-zero": Variant("SE-SiamFC, zero padding", _SCALE | {"model.borders": ("zeros", "zeros")}, headline=False),
    "siamfc-9": Variant("SiamFC, nine crops", _PLAIN | {"inference.scales": 9}, headline=False),
}
METRICS = {
    "auc": Metric("AUC", "%"),
    "auc_t": Metric("AUC on T", "%"),
    "auc_s": Metric("AUC on S", "%"),
    "precision": Metric("precision at 20 px", "%"),
    "precision_t": Metric("precision on T", "%"),
    "precision_s": Metric("precision on S", "%"),
    "ao": Metric("AO", "%"),
    "sr50": Metric("SR 0.5", "%"),
    "sr75": Metric("SR 0.75", "%"),
    "accuracy": Metric("accuracy", "%"),
    "robustness": Metric("failures per sequence", higher_is_better=False),
    "eao": Metric("EAO", "%"),
}
# The text at hand is the supplement, which has no results: these stand in the authors' repository, with two digits.
REPORTED = (
    Reported.table("OTB-2013 (the authors' repository)", ("auc",), {"siamfc": (67.0,), "se-siamfc": (68.0,)}),
    Reported.table("OTB-2015 (the authors' repository)", ("auc",), {"siamfc": (64.0,), "se-siamfc": (66.0,)}),
    Reported.table("VOT2016 (the authors' repository)", ("eao",), {"siamfc": (30.0,), "se-siamfc": (36.0,)}),
    Reported.table("VOT2017 (the authors' repository)", ("eao",), {"siamfc": (23.0,), "se-siamfc": (27.0,)}),
)

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: up to eight digits move over a coloured background, and one of them is the target. In T sizes are "
        "constant; in S they oscillate between two thirds and one and a half. Test digits are not in the training "
        "set."
    ),
    reported=REPORTED,
    published={
        "paper": Published({}, (1, 17, 17), 1_449_024),
        "paper-mnist": Published({}, (1, 17, 17), 998_880),
    },
    starters={
        "natural": Starter(
            "follows one object through a video",
            preset="natural",
            variant="siamfc",
            seed=0,
            tried="VOT's sequence bag (196 frames): mean overlap 0.65, never lost",
            data="1,000 sequences of objects cut from the photographs of scikit-image (preset natural)",
        ),
    },
    learns=Learns(
        "logistic",
        steps=12,
        share=0.9,
        variant="siamfc-t",
        changes={
            "model.width": 0.5,
            "data.sequences": 4,
            "data.tests": 1,
            "data.scene.frames": 4,
            "data.scene.size": 96,
            "data.scene.digit": 20,
            "data.pairs.pairs": 48,
            "train.batch": 4,
            "train.optimiser.schedule.warmup": 2,
        },
    ),
    minutes=1.5,
)
