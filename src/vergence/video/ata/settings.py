"""What can be set: the network, the videos, how they are cut, and how the network is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from vergence.contract.data import EMBEDDED
from vergence.contract.inputs import Text, Videos
from vergence.contract.settings import Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.video.data import View
from vergence.video.synth import Scene

Temporal = Literal[
    "averaging", "joint", "factorised", "ata", "ata-1", "ata-2", "ata-3", "ata-shared", "ata-first", "ata-kept",
    "ata-random", "ata-greedy", "ata-sinkhorn", "conv", "ata-conv", "shift", "ata-shift", "mean", "ata-mean",
]  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A video ViT."""

    size: Literal["mini", "tiny", "ti16", "s16", "b16", "l16"] = "b16"
    """How large: b16 is ViT-Base with patches of 16 pixels."""
    temporal: Temporal = "ata"
    """What is done over time: the names of the variants."""
    blocks: tuple[int, ...] = ()
    """ata: the blocks that are aligned, where they are not the variant's."""
    tubelet: int = 1
    """Frames that one patch spans."""
    drop_path: float = 0.1
    """The last block's chance of being left out in training; it rises from 0 at the first."""
    dropout: float = 0.0
    """Before the classifier."""
    init: Literal["published", "scaled"] = "published"
    """How weights are drawn: with a deviation of 0.02, which suits a width of 768, or of 1 / sqrt(inputs)."""
    image_weights: str = ""
    """A file with weights of an image ViT of this size to start from (safetensors or a torch archive)."""

    def __post_init__(self) -> None:
        if not (0 <= self.drop_path < 1 and 0 <= self.dropout < 1):
            raise VergenceError(f"drop_path and dropout are from 0 to below 1, got {self.drop_path} and {self.dropout}")


@dataclass(frozen=True)
class Footage(View):
    """What is looked at, and how it is cut."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = "embedded"
    """embedded, kinetics:PATH, something:PATH, ucf101:PATH, hmdb51:PATH, folder:PATH, or a plain PATH to class
    folders of videos or of folders of frames."""
    fold: Literal[1, 2, 3] = 1
    """ucf101, hmdb51: which of the three ways to split."""
    damaged: Literal["refuse", "skip-training", "skip"] = "skip-training"
    """A video that cannot be read: refuse to go on, take another one in training (it is named and counted), or leave
    it out of evaluation too (the number that was is reported)."""
    count: int = 3200
    """embedded: clips to train on; a quarter as many to validate and to test."""
    scene: Scene = Scene()
    """embedded: what the clips are like."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 16:
            raise VergenceError(f"embedded data has a count of at least 16, got {self.count}")
        if self.source == EMBEDDED:
            self.scene.check(self.frames, self.size)


@dataclass(frozen=True)
class Config:
    """ATA: network, videos, training."""

    model: Model = Model()
    data: Footage = Footage()
    train: Training = Training()
    seed: int = 0
    """Decides everything random."""


@dataclass(frozen=True)
class Facts:
    """What the data decides."""

    classes: int
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.classes <= 1_000_000 or (self.labels and len(self.labels) != self.classes):
            raise VergenceError(
                f"{self.classes} classes with {len(self.labels)} names are not the facts of a classifier"
            )

    def name(self, number: int) -> str:
        return self.labels[number] if self.labels else str(number)


@dataclass(frozen=True)
class Inputs:
    """Videos to label over time."""

    videos: Videos
    """Video files or folders of frames."""
    window: float = 0.0
    """Seconds that one label stands for (0: what a clip of training spans, the whole video where it spans that)."""
    hop: float = 0.0
    """Seconds from one window to the next (0: half a window)."""
    others: Text = ""
    """Weights of other variants, separated by commas: their responses are drawn beside."""
    block: int = -1
    """Whose responses to draw besides the last ones (-1: the seventh of twelve blocks, the middle one of others)."""

    def __post_init__(self) -> None:
        for name in ("window", "hop"):
            if not 0 <= getattr(self, name) < 1e9:
                raise VergenceError(f"--{name} is a number of seconds, at least 0, got {getattr(self, name)}")


def _paper_training() -> Training:
    """TimeSformer's: the supplement gives none."""
    schedule = Schedule("multistep", unit="epoch", milestones=(11, 14), gamma=0.1)
    optimiser = Optimiser("sgd", lr=0.005, momentum=0.9, weight_decay=1e-4, schedule=schedule)
    return Training(epochs=15, batch=16, evaluate_every=1, optimiser=optimiser)


def _tiny_training() -> Training:
    optimiser = Optimiser("adamw", lr=0.003, weight_decay=0.01, schedule=Schedule("cosine", warmup=40))
    return Training(epochs=4, batch=64, evaluate_every=0, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        Model("mini", drop_path=0.0, init="scaled"),
        Footage(
            frames=4,
            stride=1,
            rate=0,
            crops=1,
            size=40,
            resize=40,
            jitter=(40, 40),
            flip=False,  # a mirrored turn is another one
            std=(0.16, 0.16, 0.16),
        ),
        _tiny_training(),
    ),
    "paper": Config(Model(), Footage(source="kinetics:kinetics400"), _paper_training()),
    "paper-something": Config(
        Model(),
        Footage(sampling="uniform", flip=False, source="something:something-something-v2"),
        _paper_training(),
    ),
}

VARIANTS = {
    "averaging": "averaging",
    "joint": "joint attention",
    "factorised": "factorised attention",
    "ata": "ATA in all blocks",
    "ata-1": "ATA in the first quarter",
    "ata-2": "ATA in the first half",
    "ata-3": "ATA in three quarters",
}
OTHERS = {
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
"""What `run` leaves out unless asked for all."""


def variants() -> dict[str, Variant]:
    """By name, those that `run` compares first."""
    made = {name: Variant(label, {"model.temporal": name}) for name, label in VARIANTS.items()}
    return made | {name: Variant(label, {"model.temporal": name}, headline=False) for name, label in OTHERS.items()}
