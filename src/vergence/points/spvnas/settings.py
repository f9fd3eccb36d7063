"""SPVNAS's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Cloud
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.points.architecture import STAGES, WIDTHS, Architecture, Plan, Space
from vergence.points.spvnas import ABOUT


@dataclass(frozen=True)
class ModelConfig:
    """The network."""

    kind: Literal["minkunet", "spvcnn", "spvnas"] = "spvcnn"
    """A U-Net of voxels alone; one with a point branch; or a supernet of these, from which one is searched."""
    widths: tuple[int, ...] = WIDTHS
    """Channels of the stem and the eight stages. spvnas: only the stem's."""
    cr: float = 1.0
    """Ratio of all widths."""
    voxel: float = 0.05
    """Side of a voxel in metres."""
    sight: Literal["raw", "voxel"] = "raw"
    """Points of the point branch: all of them as they are, or one for each voxel, at its corner, as in the authors'
    code."""
    nearest: bool = False
    """Points take the features of their voxel instead of interpolating."""
    dropout: float = 0.3
    """Dropout where the point branch meets the voxels again."""
    space: Space = Space()
    """spvnas: what the search may choose from."""

    def __post_init__(self) -> None:
        if len(self.widths) != STAGES + 1 or min(self.widths) < 1:
            raise VergenceError(f"a model has 9 widths of at least 1, got {self.widths}")
        if not (self.cr > 0 and self.voxel > 0 and 0 <= self.dropout < 1):
            raise VergenceError(
                f"a model has cr > 0, voxel > 0 and dropout from 0 to below 1, got {self.cr}, {self.voxel} and "
                f"{self.dropout}"
            )


@dataclass(frozen=True)
class Sweeps:
    """Labelled scans for training and test."""

    source: Source = EMBEDDED
    """embedded, semantickitti:PATH, nuscenes:PATH, folder:PATH, or a plain PATH to such a folder."""
    scans: int = 120
    """embedded: rendered sweeps to train on."""
    tested: int = 10
    """embedded: rendered sweeps for validation, and as many for test."""
    beams: int = 64
    """embedded: beams of the scanner."""
    columns: int = 2048
    """embedded: measurements of a beam in one revolution."""
    most: int = 80_000
    """Random points of a training scan that are kept at most."""
    sector: float = 1.0
    """Share of the revolution that a training scan keeps, in a random direction."""
    drop: float = 0.0
    """Rows of elevation angles that a training scan loses, as a share, up to this."""
    shine: float = 0.0
    """Change of a training scan's intensities, up to this share."""

    def __post_init__(self) -> None:
        if min(self.scans, self.tested, self.beams, self.columns, self.most) < 1:
            raise VergenceError("data has scans, tested, beams, columns and most of at least 1")
        if not (0 < self.sector <= 1 and 0 <= self.drop < 1 and 0 <= self.shine <= 1):
            raise VergenceError(
                f"data has sector in (0, 1], drop in [0, 1) and shine in [0, 1], got {self.sector}, {self.drop} and "
                f"{self.shine}"
            )


@dataclass(frozen=True)
class Config:
    """SPVNAS: network, scans, search, training. Networks built by hand have the phase `train` alone; the supernet has
    `train` with full depth, `shrink` with any, and the network that was found has `tune`."""

    model: ModelConfig = ModelConfig()
    data: Sweeps = Sweeps()
    search: Plan = Plan()
    balance: float = 0.0
    """The loss of a class is divided by its frequency to the power of this; 0 is the paper's loss."""
    train: Training = Training()
    shrink: Training = Training()
    tune: Training = Training()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Facts:
    """What the data and the search decide."""

    names: tuple[str, ...]
    """Classes by number; the first is ignored."""
    frequencies: tuple[float, ...] = ()
    """Frequency of each class in the training scans, where the loss needs it."""
    architecture: Architecture | None = None
    """spvnas: the network that was found; before the search there is none."""
    score: float = 0.0
    """spvnas: its mean intersection over union (percent) on the held-out scans, with the supernet's weights."""


@dataclass(frozen=True)
class Inputs:
    """A scan, or a folder of scans."""

    scan: Cloud
    """A LiDAR sweep (.bin, .ply, .pcd, .npz, .npy; forward, left, up, in metres), or a folder of them."""


def _sgd(lr: float, warmup: int = 0) -> Optimiser:
    schedule = Schedule("cosine", warmup=warmup)
    return Optimiser("sgd", lr=lr, nesterov=True, weight_decay=1e-4, schedule=schedule)


def _training(epochs: int, lr: float) -> Training:
    return Training(epochs=epochs, batch=16, optimiser=_sgd(lr, warmup=125))


def _short(steps: int, lr: float, batch: int = 1) -> Training:
    optimiser = Optimiser("adamw", lr=lr, weight_decay=1e-2, schedule=Schedule("cosine", floor=0.02))
    return Training(steps=steps, batch=batch, evaluate_every=0, log_every=10, optimiser=optimiser)


TINY = Config(
    ModelConfig(
        cr=0.25,
        voxel=0.4,
        dropout=0.1,
        space=Space((8, 8, 16, 24, 24, 16, 8, 8), (16, 24, 40, 64, 64, 40, 24, 24), 0.25, 4),
    ),
    Sweeps(scans=40, tested=12, beams=24, columns=384),
    Plan(budget=0.5, population=6, generations=5, scans=4, calibrate=3),
    balance=0.5,
    train=_short(100, 5e-3),
    shrink=_short(30, 3e-3),
    tune=_short(90, 5e-3),
)
STARTER = Config(
    ModelConfig(widths=(16, 16, 20, 24, 28, 24, 20, 16, 16), voxel=0.15, dropout=0.1),
    Sweeps(scans=120, sector=0.4, drop=0.3, shine=0.6),
    balance=0.5,
    train=_short(900, 5e-3, batch=2),
)
PAPER = Config(
    ModelConfig(),
    Sweeps("semantickitti:data"),
    train=_training(15, 0.24),
    shrink=_training(15, 0.096),
    tune=_training(10, 0.032),
)
PRESETS = {
    "tiny": TINY,
    "tiny-supernet": replace(TINY, model=replace(TINY.model, kind="spvnas"), tune=replace(TINY.tune, steps=0)),
    "paper": PAPER,
    "paper-0.64": replace(PAPER, model=replace(PAPER.model, cr=0.64)),
    "paper-0.5": replace(PAPER, model=replace(PAPER.model, cr=0.5)),
    "starter": STARTER,
}
NAS = {"model.kind": "spvnas"}
VARIANTS = {
    "spvcnn": Variant("SPVCNN", {"model.kind": "spvcnn"}),
    "minkunet": Variant("MinkUNet", {"model.kind": "minkunet"}),
    "spvnas": Variant("SPVNAS", NAS),
    "random": Variant("SPVNAS, random search", {**NAS, "search.by": "random"}),
    "uniform": Variant("SPVNAS, uniform widths", {**NAS, "search.by": "uniform"}),
    "nearest": Variant("SPVCNN, nearest", {"model.kind": "spvcnn", "model.nearest": True}, headline=False),
    "corners": Variant("SPVCNN, a point per voxel", {"model.kind": "spvcnn", "model.sight": "voxel"}, headline=False),
    "any-depth": Variant("SPVNAS, any depth throughout", {**NAS, "model.space.progressive": False}, headline=False),
}
METRICS = {
    "miou": Metric("mIoU", "%", digits=1),
    "small": Metric("small", "%", digits=1),
    "groups": Metric("groups", "%", digits=1),
    "accuracy": Metric("accuracy", "%", digits=1),
    "gmacs": Metric("MACs", "G", higher_is_better=False, digits=3),
    "up": Metric("MACs up", "%", higher_is_better=False, digits=0),
    "params": Metric("params", "M", higher_is_better=False, digits=3),
    "found": Metric("in search", "%", digits=1),
}

REPORTED = (
    Reported.table(
        "Table 2: SemanticKITTI, test",
        ("miou", "gmacs", "params"),
        {"minkunet": (63.1, 114.0, 21.7), "spvnas": (66.4, 73.8, 12.5)},
    ),
    Reported.table(
        "Authors' repository: SemanticKITTI, validation, cr 1.0",
        ("miou", "gmacs", "params"),
        {"minkunet": (61.1, 114.0, 21.7), "spvcnn": (63.8, 119.0, 21.8), "spvnas": (64.7, 65.0, 10.8)},
    ),
)
SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered LiDAR sweeps of streets with the classes of SemanticKITTI (24 beams with 384 measurements "
        "each, at voxels of 0.4 m); every point carries its class."
    ),
    reported=REPORTED,
    published={
        "paper": Published({"names": ["unlabeled", *map(str, range(19))]}, (1000, 19), 21_778_003),
        "paper-0.64": Published({"names": ["unlabeled", *map(str, range(19))]}, (1000, 19), 8_793_617),
        "paper-0.5": Published({"names": ["unlabeled", *map(str, range(19))]}, (1000, 19), 5_449_267),
    },
    learns=Learns(
        "entropy",
        steps=12,
        share=0.9,
        changes={"data.scans": 6, "data.tested": 2, "data.beams": 16, "data.columns": 96, "model.cr": 0.125},
    ),
    starters={
        "sweep": Starter(
            "classes of the points of a LiDAR sweep, trained on rendered streets",
            tried=(
                "two scans of SemanticKITTI: IoU of ground 93 %, vehicle 52 %, vegetation 69 %, building 72 %, pole "
                "61 %, in the mean 69 %; mIoU of its 19 classes 25 % (road, sidewalk and terrain are mixed up)"
            ),
            data="120 rendered sweeps of 64 beams (vergence.points.sweeps)",
        ),
    },
    minutes=0.7,
)
