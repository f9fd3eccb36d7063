"""MABNet's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Image
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.matching.mabnet import ABOUT

MOST_DISPARITIES = 1024
"""Disparities that a config may ask for; the paper uses 192."""


@dataclass(frozen=True)
class ModelConfig:
    """The network; the defaults are the published MABNet."""

    stem: int = 32
    """Channels of the first three convolutions."""
    blocks: tuple[int, ...] = (3, 16, 3, 3)
    """Blocks of each group of the feature network; the second group begins with stride 2."""
    widths: tuple[int, ...] = (32, 64, 128, 128)
    """Channels of each group."""
    neck: int = 128
    """Channels in which the outputs of all groups but the first are joined."""
    channels: int = 32
    """Channels of the features that are matched, and of the volume's filters."""
    widen: float = 1.0
    """Factor of the channels of the feature network (stem, groups and neck)."""
    hourglasses: int = 3
    """Hourglasses in sequence, each with a disparity of its own while training."""
    shares: tuple[float, ...] = (1.0, 0.5, 0.25)
    """λ of the bottlenecks: width of each branch as a share of half the channels; dilations are 1, 2, 4, ..."""
    shares3d: tuple[float, ...] = (1.0, 0.5)
    """λ of the bottlenecks of the hourglasses."""
    block: Literal["mab", "resnet"] = "mab"
    """Blocks of the feature network: multibranch bottlenecks, or residual blocks as in PSMNet."""
    hourglass: Literal["multibranch", "plain"] = "multibranch"
    """Halving convolutions in pairs of two dilations, or single ones as in PSMNet."""
    disparities: int = 192
    """Disparities from 0 to one less are distinguished; a multiple of 16."""

    def __post_init__(self) -> None:
        sizes = (self.stem, *self.blocks, *self.widths, self.neck, self.channels, self.hourglasses)
        if min(sizes) < 1 or len(self.blocks) != len(self.widths) or len(self.widths) < 2 or self.hourglasses > 3:
            raise VergenceError(
                "a model has sizes of at least 1, two or more groups with as many widths, and 1 to 3 hourglasses, got "
                f"blocks {self.blocks}, widths {self.widths} and {self.hourglasses} hourglasses"
            )
        if not self.shares or not self.shares3d or min(*self.shares, *self.shares3d) <= 0:
            raise VergenceError(f"a bottleneck has shares above 0, got {self.shares} and {self.shares3d}")
        if not 16 <= self.disparities <= MOST_DISPARITIES or self.disparities % 16:
            raise VergenceError(
                f"disparities is a multiple of 16 from 16 to {MOST_DISPARITIES}, got {self.disparities}"
            )


@dataclass(frozen=True)
class Pairs:
    """Stereo pairs for training and test."""

    source: Source = EMBEDDED
    """embedded, sceneflow:PATH, kitti2015:PATH, kitti2012:PATH, middlebury:PATH, folder:PATH, or a plain PATH to such a
    folder."""
    height: int = 256
    """Height of the random crops of training."""
    width: int = 512
    """Width of the random crops of training."""
    jitter: bool = False
    """Change brightness, contrast, colours, sharpness and noise of each picture by itself, zoom, and flip up and down,
    while training."""
    layers: float = 0.0
    """embedded: share of the training pairs that are layers cut from photographs, new ones in every epoch."""
    pairs: int = 160
    """embedded: rendered training pairs."""
    held_out: int = 32
    """embedded: rendered pairs for validation, and for test."""
    picture: tuple[int, int] = (192, 384)
    """embedded: height and width of the pairs."""
    most: float = 64.0
    """embedded: disparities are below this; with jitter, below 1.5 times this."""

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 16 or self.height % 16 or self.width % 16:
            raise VergenceError(f"a crop's sides are multiples of 16, got {self.height} x {self.width}")
        if min(self.pairs, self.held_out) < 1 or not 0 <= self.layers < 1 or self.most < 1 or min(self.picture) < 16:
            raise VergenceError(
                "data has 1 or more pairs of each kind, a share of layers from 0 to below 1, pictures of 16 x 16 "
                f"pixels or more and disparities from 1 on, got {self.pairs}, {self.held_out}, {self.layers}, "
                f"{self.picture} and {self.most}"
            )


@dataclass(frozen=True)
class Config:
    """MABNet: network, pairs, training."""

    model: ModelConfig = ModelConfig()
    data: Pairs = Pairs()
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """A rectified pair: a point at x in the left photograph is in the same row of the right one, at x or left of it."""

    left: Image
    """The left photograph."""
    right: Image
    """The right photograph, of the same size."""
    disparities: int | None = None
    """The largest disparity to look for, in pixels of the left photograph; by default it is estimated from the pair."""
    longest: int = 1344
    """Photographs are matched at a longer side of at most this many pixels (0: any); disparities are those of the
    original."""
    enlarge: float = 1.8
    """Photographs smaller than that are enlarged by up to this factor before they are matched: the network compares
    features at a quarter of the resolution (1: not at all)."""
    baseline: float = 0.0
    """Distance between the two cameras; together with focal, it gives depth in the same unit."""
    focal: float = 0.0
    """Focal length in pixels of the left photograph."""
    offset: float = 0.0
    """How much farther right the right camera's principal point is, in pixels: added to the disparity before it becomes
    depth."""

    def __post_init__(self) -> None:
        if self.disparities is not None and self.disparities < 1:
            raise VergenceError(f"disparities is at least 1, got {self.disparities}")
        if self.longest != 0 and self.longest < 64:
            raise VergenceError(f"longest is 0 or at least 64, got {self.longest}")
        if not 1 <= self.enlarge <= 4:
            raise VergenceError(f"enlarge is from 1 to 4, got {self.enlarge}")
        if not (self.baseline >= 0 and self.focal >= 0):
            raise VergenceError(f"baseline and focal are positive, got {self.baseline} and {self.focal}")
        if bool(self.baseline) != bool(self.focal):
            raise VergenceError(f"depth needs baseline and focal, got only {'baseline' if self.baseline else 'focal'}")


def _published(epochs: int, decibels: dict[int, int]) -> Training:
    """Adam with a learning rate of 1e-3 that falls by some tenths of a power of ten at some epochs: 3 tenths halve it
    (to 0.501), 7 divide it by five."""
    falls = tuple(epoch for epoch, tenths in decibels.items() for _ in range(tenths))
    schedule = Schedule("multistep", unit="epoch", milestones=falls, gamma=10**-0.1) if falls else Schedule()
    return Training(epochs=epochs, batch=8, optimiser=Optimiser("adam", lr=1e-3, schedule=schedule))


SMALL = ModelConfig(stem=8, blocks=(4, 8, 4), widths=(8, 16, 32), neck=16, channels=8, hourglasses=1)
SCENEFLOW, KITTI = Pairs("sceneflow:data"), Pairs("kitti2015:data")
PRESETS = {
    "tiny": Config(
        replace(SMALL, disparities=64),
        Pairs(height=48, width=256, layers=0.5, pairs=60, held_out=16),
        Training(steps=400, batch=2, evaluate_every=0, log_every=10,
                 optimiser=Optimiser("adam", lr=3e-3, schedule=Schedule("cosine", warmup=20, floor=0.02))),
    ),
    "paper": Config(ModelConfig(), SCENEFLOW, _published(20, {15: 3, 18: 7})),
    "paper-tiny": Config(SMALL, SCENEFLOW, _published(20, {15: 3, 18: 7})),
    "paper-kitti": Config(ModelConfig(), KITTI, _published(600, {300: 3, 400: 4, 500: 3})),
    "paper-ablation": Config(ModelConfig(), SCENEFLOW, _published(10, {})),
    "starter": Config(
        replace(SMALL, disparities=96),
        Pairs(height=128, width=256, jitter=True, layers=0.4, pairs=300, held_out=16),
        Training(steps=1450, batch=4, evaluate_every=0, log_every=20,
                 optimiser=Optimiser("adam", lr=3e-3, schedule=Schedule("cosine", warmup=50, floor=0.02))),
    ),
}  # fmt: skip
_TWIN = {"model.block": "resnet", "model.hourglass": "plain"}


def _branches(count: int) -> dict[str, object]:
    return {"model.shares": (0.5,) * count, "model.shares3d": (0.5, 0.5)}


VARIANTS = {
    "mab": Variant("MABNet", {}),
    "twin": Variant("ResNet blocks, plain hourglass", dict(_TWIN)),
    "twin-wide": Variant("the same, wider", {**_TWIN, "model.widen": 1.5}, headline=False),
    "one-branch": Variant("one branch", _branches(1), headline=False),
    "two-branches": Variant("two branches", _branches(2), headline=False),
    "three-branches": Variant("three branches", _branches(3), headline=False),
    "four-branches": Variant("four branches", _branches(4), headline=False),
    "half-quarter": Variant("λ of 3D (.5, .25)", {"model.shares3d": (0.5, 0.25)}, headline=False),
    "half-half": Variant("λ of 3D (.5, .5)", {"model.shares3d": (0.5, 0.5)}, headline=False),
}
METRICS = {
    "epe": Metric("EPE", "px", higher_is_better=False, digits=3),
    "d1": Metric("D1", "%", higher_is_better=False),
    "two": Metric("> 2 px", "%", higher_is_better=False),
    "epe_visible": Metric("EPE, visible", "px", higher_is_better=False, digits=3),
    "d1_visible": Metric("D1, visible", "%", higher_is_better=False),
    "epe_constant": Metric("EPE of the mean", "px", higher_is_better=False, digits=3),
}
REPORTED = (
    Reported.table("Table 5: SceneFlow", ("epe",), {"mab": (0.797,)}, ("paper",)),
    Reported.table("Table 5: SceneFlow", ("epe",), {"mab": (1.663,)}, ("tiny", "paper-tiny")),
    Reported.table("Table 4: KITTI 2015", ("d1", "d1_visible"), {"mab": (2.41, 2.21)}, ("paper-kitti",)),
    Reported.table(
        "Table 1: branches, SceneFlow after 10 epochs",
        ("epe",),
        {"one-branch": (1.072,), "two-branches": (1.111,), "three-branches": (1.056,), "four-branches": (1.588,)},
        ("paper-ablation",),
    ),
    Reported.table(
        "Table 3: λ, SceneFlow after 10 epochs",
        ("epe",),
        {"half-quarter": (0.987,), "half-half": (1.006,), "mab": (0.994,)},
        ("paper-ablation",),
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
        "Embedded: rendered rooms, tables, streets and floating things, seen by two cameras that differ in brightness, "
        "colour, sharpness and noise, with exact disparity. Test pictures have textures from other photographs."
    ),
    reported=REPORTED,
    published={
        "paper": Published({}, (1, 256, 512), 1_655_044),
        "paper-tiny": Published({}, (1, 256, 512), 47_260),
        "paper-kitti": Published({}, (1, 256, 512), 1_655_044),
        "paper-ablation": Published({}, (1, 256, 512), 1_655_044),
    },
    learns=Learns(
        "last",
        steps=16,
        share=0.8,
        changes={
            "data.pairs": 4, "data.held_out": 1, "data.height": 32, "data.width": 64, "data.picture": (48, 96),
            "data.most": 12.0, "data.layers": 0.0, "model.disparities": 16,
        },
    ),
    starters={
        "rendered": Starter(
            "disparity of photographs, trained on rendered pairs",
            tried=(
                "scikit-image's motorcycle pair (Middlebury 2014): EPE 2.13 px, D1 12.5 % (OpenCV's SGBM with gaps "
                "filled: 1.97 px, 10.1 %)"
            ),
            data="300 rendered pairs of 384 x 192 pixels, and layers cut from photographs (vergence.matching.layers)",
        ),
    },
    minutes=2.0,
)  # fmt: skip
