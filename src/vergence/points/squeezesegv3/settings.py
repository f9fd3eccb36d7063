"""SqueezeSegV3's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Cloud
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.points.squeezesegv3 import ABOUT

Operator = Literal["isk", "sk", "is", "s", "oisk", "plain", "se", "cbam", "cam", "pac"]
"""What stands before the second convolution of a block; the first five are spatially-adaptive convolutions."""


@dataclass(frozen=True)
class ModelConfig:
    """Backbone, decoder and heads."""

    layers: Literal["21", "53"] = "21"
    """Depth: 1, 1, 2, 2, 1 or 1, 2, 8, 8, 4 blocks."""
    shape: Literal["squeezeseg", "rangenet"] = "squeezeseg"
    """squeezeseg halves the width three times; rangenet, the baseline, five times, doubling the channels each time."""
    operator: Operator = "isk"
    """squeezeseg: the operator of its blocks. Subscripts name what the attention depends on: input channel (I), place
    (S), place in the kernel (K), output channel (O, for tests)."""
    widths: tuple[int, ...] = (32, 64, 128, 256)
    """squeezeseg: channels at the full, half, quarter and eighth width of the image; rangenet uses the first alone."""
    reach: int = 7
    """Side of the kernel that computes the attention from coordinates."""
    levels: Literal["every", "last"] = "every"
    """squeezeseg: a loss at every level of the decoder (Eq. 5), or at the last alone."""
    skips: Literal["detached", "attached"] = "detached"
    """Whether gradients flow through skip connections; they do not in the public code."""
    dropout: float = 0.01
    """Share of channels that are dropped in training."""

    def __post_init__(self) -> None:
        if len(self.widths) != 4 or min(self.widths) < 1:
            raise VergenceError(f"a model has four widths of at least 1, got {self.widths}")
        if self.reach < 1 or self.reach % 2 == 0 or not 0 <= self.dropout < 1:
            raise VergenceError(
                f"a model has an odd reach and a dropout from 0 to below 1, got {self.reach} and {self.dropout}"
            )


@dataclass(frozen=True)
class Sweeps:
    """Labelled sweeps, and their range images."""

    source: Source = EMBEDDED
    """embedded, semantickitti:PATH, nuscenes:PATH, folder:PATH, or a plain PATH to such a folder."""
    height: int = 64
    """Rows of a range image."""
    width: int = 2048
    """Its columns: a multiple of 8, or of 32 for rangenet."""
    up: float = 3.0
    """Degrees above the horizon of the first row."""
    down: float = 25.0
    """Degrees below the horizon of the last one."""
    keep: Literal["nearest", "farthest"] = "nearest"
    """The point that a pixel shows if there are several."""
    means: tuple[float, ...] = (12.12, 10.88, 0.23, -1.04, 0.21)
    """Mean of range, x, y, z and intensity."""
    deviations: tuple[float, ...] = (12.32, 11.47, 6.91, 0.86, 0.16)
    """Their standard deviation."""
    augment: Literal["none", "sensor"] = "none"
    """sensor: sweeps are mirrored, turned, raised and thinned out, and intensities scaled, as other scanners would have
    them."""
    sweeps: int = 160
    """embedded: number of training sweeps; a quarter as many, 40 at most, for validation and test."""
    columns: int = 512
    """embedded: rays of each beam in a revolution."""

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 8 or self.width % 8 or not self.up + self.down > 0:
            raise VergenceError(
                f"a range image has height >= 1, a width divisible by 8 and up > -down, got {self.height}, "
                f"{self.width}, {self.up} and {self.down}"
            )
        if len(self.means) != 5 or len(self.deviations) != 5 or min(self.deviations) <= 0:
            raise VergenceError("data has five means and five deviations above 0: range, x, y, z and intensity")
        if self.sweeps < 4 or self.columns < 8:
            raise VergenceError(f"data has sweeps >= 4 and columns >= 8, got {self.sweeps} and {self.columns}")


@dataclass(frozen=True)
class Config:
    """SqueezeSegV3: network, sweeps, training."""

    model: ModelConfig = ModelConfig()
    data: Sweeps = Sweeps()
    train: Training = Training()
    balance: float = 1.0
    """Classes count in the loss by the inverse of their frequency to this power: 1 as published, 0 for equal points."""
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        if not 0 <= self.balance <= 1:
            raise VergenceError(f"balance is from 0 to 1, got {self.balance}")
        if self.model.shape == "rangenet" and self.data.width % 32:
            raise VergenceError(f"rangenet needs images with a width divisible by 32, got {self.data.width}")


@dataclass(frozen=True)
class Facts:
    """What the training sweeps decide."""

    classes: tuple[str, ...]
    """Names of the classes; the first is ignored."""
    frequencies: tuple[float, ...]
    """The share of each class, which weights the loss."""


@dataclass(frozen=True)
class Inputs:
    """A LiDAR sweep, or a folder of them."""

    scan: Cloud
    """A sweep in metres, forward, left, up: KITTI's .bin, .ply, .pcd, .npz or .npy; or a folder of such files."""
    labels: Literal["vote", "pixel"] = "vote"
    """The label of a point: elected by the pixels around it with the nearest range, or that of its own pixel."""


def _published(lr: float, batch: int, decay: float) -> Training:
    schedule = Schedule("exponential", unit="epoch", warmup=1, gamma=decay)
    optimiser = Optimiser("sgd", lr=lr, momentum=0.9, weight_decay=1e-4, schedule=schedule)
    return Training(epochs=150, batch=batch, optimiser=optimiser)


def _short(steps: int, batch: int, lr: float) -> Training:
    optimiser = Optimiser(
        "adamw", lr=lr, weight_decay=1e-3, clip=5.0, schedule=Schedule("cosine", warmup=20, warmup_from=0.1, floor=0.02)
    )
    return Training(steps=steps, batch=batch, evaluate_every=0, log_every=20, optimiser=optimiser)


SMALL = Sweeps(height=32, width=256, sweeps=160, columns=256)
PRESETS = {
    "tiny": Config(ModelConfig(widths=(8, 12, 16, 16)), SMALL, _short(160, 2, 4e-3), balance=0.5),
    "paper": Config(ModelConfig(), Sweeps("semantickitti:data"), _published(0.01, 16, 0.995)),
    "paper-53": Config(ModelConfig(layers="53"), Sweeps("semantickitti:data"), _published(0.005, 8, 0.99)),
    "paper-ablation": Config(ModelConfig(), Sweeps("semantickitti:data", width=512), _published(0.01, 16, 0.995)),
    "starter": Config(
        ModelConfig(widths=(16, 24, 32, 48), reach=3),
        Sweeps(height=64, width=512, sweeps=280, columns=1024, augment="sensor"),
        _short(700, 2, 3e-3),
        balance=0.5,
    ),
}
VARIANTS = {
    "ssgv3": Variant("SSGV3, SAC-ISK", {"model.operator": "isk"}),
    "sac-sk": Variant("SAC-SK", {"model.operator": "sk"}),
    "sac-s": Variant("SAC-S", {"model.operator": "s"}),
    "plain": Variant("plain convolutions", {"model.operator": "plain"}),
    "one-loss": Variant("plain, last loss alone", {"model.operator": "plain", "model.levels": "last"}),
    "rangenet": Variant("RangeNet", {"model.shape": "rangenet", "model.levels": "last"}),
    "sac-is": Variant("SAC-IS", {"model.operator": "is"}, headline=False),
    "pac": Variant("PAC", {"model.operator": "pac"}, headline=False),
    "se": Variant("SE", {"model.operator": "se"}, headline=False),
    "cbam": Variant("CBAM", {"model.operator": "cbam"}, headline=False),
    "cam": Variant("CAM", {"model.operator": "cam"}, headline=False),
}
METRICS = {
    "miou": Metric("mIoU", "%"),
    "miou_vote": Metric("mIoU, vote", "%"),
    "accuracy": Metric("accuracy", "%"),
    "groups": Metric("groups, vote", "%"),
    "thin": Metric("thin", "%"),
    "miou_image": Metric("mIoU, image", "%"),
    "accuracy_image": Metric("acc., image", "%"),
}

_IMAGE = ("miou_image", "accuracy_image")
REPORTED = (
    Reported(
        "SemanticKITTI's test set, 64 x 2048, 21 layers",
        {"ssgv3": {"miou": 48.8, "miou_vote": 51.6}, "rangenet": {"miou": 47.4}},
        ("tiny", "paper"),
    ),
    Reported(
        "SemanticKITTI's test set, 64 x 2048, 53 layers",
        {"ssgv3": {"miou": 52.9, "miou_vote": 55.9}, "rangenet": {"miou": 49.9, "miou_vote": 52.2}},
        ("paper-53",),
    ),
    Reported.table(
        "Tables 3 and 5: SemanticKITTI's validation set, 64 x 512, 21 layers",
        _IMAGE,
        {
            "ssgv3": (46.3, 88.6),
            "sac-sk": (45.4, 88.2),
            "sac-s": (44.9, 87.6),
            "sac-is": (44.0, 86.9),
            "plain": (44.0, 86.8),
            "one-loss": (42.5,),
            "rangenet": (38.6,),
            "pac": (45.2, 88.2),
            "se": (44.2, 87.0),
            "cbam": (44.8, 87.5),
            "cam": (42.1, 85.8),
        },
    ),
)
_KITTI = {"classes": ["c"] * 20, "frequencies": [0.05] * 20}


def _maps(width: int) -> list[tuple[int, ...]]:
    return [(1, 20, 64, width // step) for step in (1, 2, 4, 8, 8)]


SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered LiDAR sweeps of streets with the classes of SemanticKITTI, 32 x 256 pixels, with noise, "
        "drop-out, and intensity by material and angle."
    ),
    reported=REPORTED,
    published={
        "paper": Published(_KITTI, _maps(2048), 9_247_140),
        "paper-53": Published(_KITTI, _maps(2048), 25_959_588),
        "paper-ablation": Published(_KITTI, _maps(512), 9_247_140),
    },
    learns=Learns(
        "level1",
        steps=12,
        share=0.85,
        changes={
            "data.sweeps": 4,
            "data.height": 16,
            "data.columns": 64,
            "data.width": 64,
            "train.batch": 2,
            "model.reach": 3,
        },
    ),
    starters={
        "street": Starter(
            "the classes of SemanticKITTI for sweeps of a 64-beam scanner on a car, trained on rendered streets",
            tried=(
                "two scans of SemanticKITTI (00/000000 and 000001): mIoU over groups 43.2 % (ground 92.6, vehicle "
                "41.1, vegetation 33.2, building 47.6, pole 1.3), over classes 16.0 %"
            ),
            data="280 rendered sweeps of streets (vergence.points.sweeps), mirrored, turned, raised and thinned out",
        ),
    },
    minutes=0.5,
)
