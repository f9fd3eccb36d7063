"""ATA's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Text, Videos
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.classes import Classes
from vergence.video.ata import ABOUT
from vergence.video.settings import ClipView, Scene

Temporal = Literal[
    "averaging", "joint", "factorised", "ata", "ata-1", "ata-2", "ata-3", "ata-shared", "ata-first", "ata-kept",
    "ata-random", "ata-greedy", "ata-sinkhorn", "conv", "ata-conv", "shift", "ata-shift", "mean", "ata-mean",
]  # fmt: skip


@dataclass(frozen=True)
class ModelConfig:
    """The video ViT and its temporal modelling."""

    size: Literal["mini", "tiny", "ti16", "s16", "b16", "l16"] = "b16"
    """Model size; b16 is ViT-Base with patches of 16 pixels."""
    temporal: Temporal = "ata"
    """Temporal modelling, by the names of the variants."""
    blocks: tuple[int, ...] = ()
    """ata: indices of the aligned blocks, if not the variant's."""
    tubelet: int = 1
    """Frames that one patch spans."""
    drop_path: float = 0.1
    """Stochastic depth rate of the last block; it rises linearly from 0 at the first."""
    dropout: float = 0.0
    """Dropout rate before the classifier."""
    init: Literal["published", "scaled"] = "published"
    """Standard deviation of initial weights: 0.02 (published, suits a width of 768) or 1 / sqrt(inputs) (scaled)."""

    def __post_init__(self) -> None:
        if not (0 <= self.drop_path < 1 and 0 <= self.dropout < 1):
            raise VergenceError(f"drop_path and dropout are from 0 to below 1, got {self.drop_path} and {self.dropout}")


@dataclass(frozen=True)
class Footage(ClipView):
    """Source of the videos, and sampling of clips."""

    source: Source = EMBEDDED
    """embedded, kinetics:PATH, something:PATH, ucf101:PATH, hmdb51:PATH, folder:PATH, or a plain PATH to class
    folders of videos or of folders of frames."""
    fold: Literal[1, 2, 3] = 1
    """ucf101, hmdb51: which of the three splits."""
    damaged: Literal["refuse", "skip-training", "skip"] = "skip-training"
    """A video that cannot be read: raise an error, take another one in training (it is reported), or leave it out of
    evaluation too (the number left out is reported)."""
    count: int = 3200
    """embedded: number of training clips; a quarter as many for validation and test."""
    scene: Scene = Scene()
    """embedded: appearance and motion of the clips."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 16:
            raise VergenceError(f"embedded data has a count of at least 16, got {self.count}")
        if self.source == EMBEDDED:
            self.scene.check(self.frames, self.size)


@dataclass(frozen=True)
class Config:
    """ATA: network, videos, training."""

    model: ModelConfig = ModelConfig()
    data: Footage = Footage()
    train: Training = Training()
    pretrained: str = ""
    """A file with weights of an image ViT of this size, or of a TimeSformer, to start from (safetensors or a torch
    archive)."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Videos to label over time."""

    videos: Videos
    """Video files or folders of frames."""
    window: float = 0.0
    """Seconds per window, which gets one label (0: the span of a training clip; 2 s if that is the whole video)."""
    hop: float = 0.0
    """Seconds from one window to the next (0: half a window)."""
    others: Text = ""
    """Weights of other variants, separated by commas; their responses are drawn for comparison."""
    block: int = -1
    """Inner block whose responses are drawn (-1: the seventh of twelve blocks, the middle one of other depths)."""

    def __post_init__(self) -> None:
        if not self.videos:
            raise VergenceError("no video given to predict on")
        for name in ("window", "hop"):
            if not 0 <= getattr(self, name) < 1e9:
                raise VergenceError(f"--{name} is a number of seconds, at least 0, got {getattr(self, name)}")


def _paper_training() -> Training:
    """TimeSformer's training; the supplement specifies none."""
    schedule = Schedule("multistep", unit="epoch", milestones=(11, 14), gamma=0.1)
    optimiser = Optimiser("sgd", lr=0.005, momentum=0.9, weight_decay=1e-4, schedule=schedule)
    return Training(epochs=15, batch=16, evaluate_every=1, optimiser=optimiser)


def _tiny_training() -> Training:
    optimiser = Optimiser("adamw", lr=0.003, weight_decay=0.01, schedule=Schedule("cosine", warmup=40))
    return Training(epochs=4, batch=64, evaluate_every=0, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        ModelConfig("mini", drop_path=0.0, init="scaled"),
        Footage(
            frames=4,
            stride=1,
            rate=0,
            crops=1,
            size=40,
            resize=40,
            jitter=(40, 40),
            flip=False,  # mirroring changes the class
            std=(0.16, 0.16, 0.16),
        ),
        _tiny_training(),
    ),
    "paper": Config(ModelConfig(), Footage(source="kinetics:kinetics400"), _paper_training()),
    "paper-something": Config(
        ModelConfig(),
        Footage(sampling="uniform", flip=False, source="something:something-something-v2"),
        _paper_training(),
    ),
}

_COMPARED = {
    "averaging": "averaging",
    "joint": "joint attention",
    "factorised": "factorised attention",
    "ata": "ATA in all blocks",
    "ata-1": "ATA in the first quarter",
    "ata-2": "ATA in the first half",
    "ata-3": "ATA in three quarters",
}
_OTHERS = {
    "ata-shared": "ATA, matches shared by three blocks",
    "ata-first": "ATA, matched to the first frame",
    "ata-kept": "ATA, patches not put back",
    "ata-random": "random order (control)",
    "ata-greedy": "ATA, greedy matching",
    "ata-sinkhorn": "ATA, Sinkhorn matching",
    "conv": "convolution over time",
    "ata-conv": "aligned convolution over time",
    "shift": "shift over time",
    "ata-shift": "aligned shift over time",
    "mean": "mean over time",
    "ata-mean": "aligned mean over time",
}
VARIANTS = {
    name: Variant(label, {"model.temporal": name}, headline=name in _COMPARED)
    for name, label in (_COMPARED | _OTHERS).items()
}
METRICS = {
    "top1": Metric("Top-1", "%"),
    "top5": Metric("Top-5", "%"),
    "skipped": Metric("skipped", "videos", higher_is_better=False, digits=0),
}
REPORTED = (
    Reported.table(
        "Table 1: Kinetics-400, ViT-B",
        ("top1", "top5"),
        {"averaging": (76.0, 92.6), "joint": (77.4, 92.8), "factorised": (78.0, 94.3), "ata": (79.6, 94.3)},
    ),
    Reported.table(
        "Table 2: Kinetics-400, ViT-B, ATA in some blocks",
        ("top1", "top5"),
        {
            "factorised": (78.0, 93.7),
            "ata-1": (79.3, 94.4),
            "ata-2": (79.2, 94.3),
            "ata-3": (79.4, 94.4),
            "ata": (79.6, 94.3),
        },
    ),
)

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Classes,
    inputs=Inputs,
    embedded=(
        "Embedded: generated clips of textured objects that move over a cluttered background and rotate half-way; the "
        "class is the angle. Only comparing an object with itself over time reveals it, and objects move from patch "
        "to patch."
    ),
    reported=REPORTED,
    published={
        "paper": Published({"classes": 400}, (1, 400), parameters=121_566_352),
        "paper-something": Published({"classes": 174}, (1, 174), parameters=121_392_558),
    },
    learns=Learns(
        "cross_entropy",
        steps=10,
        share=0.6,
        # Learning the rotation takes hundreds of steps; memorising a few clips takes tens.
        changes={"data.count": 16, "train.batch": 16, "train.optimiser.schedule.warmup": 2},
    ),
    minutes=1.0,
)
