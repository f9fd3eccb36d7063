"""Settings of temporal transformations: configs, inputs, presets, variants, metrics, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Videos
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.classes import Classes
from vergence.video.settings import TimedView
from vergence.video.temporaltransforms import ABOUT

Transform = Literal["speed", "random", "periodic", "warp"]
EVERY: tuple[Transform, ...] = ("speed", "random", "periodic", "warp")
SPEEDS = 4


@dataclass(frozen=True)
class Facts(Classes):
    """What the data decides: its classes (none without labels), and the frame rate of the videos."""

    classes: int = 0
    labels: tuple[str, ...] = ()
    rate: float = 25.0
    """Frames per second of the training videos: speeds are relative to it."""

    def __post_init__(self) -> None:
        if self.classes:
            super().__post_init__()
        if not 0 < self.rate < 100_000:
            raise VergenceError(f"videos have more than 0 frames per second, got {self.rate:g}")


@dataclass(frozen=True)
class ModelConfig:
    """The 3D network."""

    network: Literal["c3d", "r3d18", "r2plus1d18"] = "c3d"
    """The small C3D, a 3D ResNet-18, or R(2+1)D-18."""
    widths: tuple[int, ...] = (64, 128, 256, 256, 256)
    """Channels of the five convolutions of C3D, or of the four stages of a ResNet."""
    hidden: int = 2048
    """Width of the two fully connected layers before the output; 0: none, as in ResNets."""

    def __post_init__(self) -> None:
        needed = 5 if self.network == "c3d" else 4
        if len(self.widths) != needed or not all(1 <= width <= 4096 for width in self.widths):
            raise VergenceError(f"{self.network} has {needed} widths from 1 to 4096, got {self.widths}")
        if not 0 <= self.hidden <= 65_536:
            raise VergenceError(f"hidden layers have 0 to 65,536 units, got {self.hidden}")


@dataclass(frozen=True)
class Pretext:
    """What the network is asked in pre-training."""

    kind: Literal["temporal", "order", "rotation", "labels", "none"] = "temporal"
    """temporal: which transformation, and which speed; order: whether three pieces of a clip are in order (in the
    spirit of Shuffle & Learn); rotation: by how many quarter turns (3D-RotNet); labels: the class; none: no
    pre-training (random initialisation)."""
    transforms: tuple[Transform, ...] = EVERY
    """temporal: the transformations to tell apart; one clip of each per video."""
    speed_loss: bool = True
    """temporal: whether the speed of the speed clip is asked too."""

    def __post_init__(self) -> None:
        if self.kind == "temporal":
            if self.transforms[:1] != ("speed",) or len(set(self.transforms)) < len(self.transforms):
                raise VergenceError(f"transforms are speed and others, each once, got {', '.join(self.transforms)}")
            if len(self.transforms) == 1 and not self.speed_loss:
                raise VergenceError("speed alone without its loss leaves nothing to learn")

    def outputs(self, classes: int = 0) -> dict[str, int]:
        """The outputs of the head by name."""
        if self.kind == "temporal":
            motion = {"motion": len(self.transforms)} if len(self.transforms) > 1 else {}
            return motion | ({"speed": SPEEDS} if self.speed_loss else {})
        return {"order": {"order": 2}, "rotation": {"rotation": 4}, "labels": {"labels": max(classes, 1)}}.get(
            self.kind, {}
        )


@dataclass(frozen=True)
class Footage(TimedView):
    """Source of the videos, and the clips taken from them."""

    source: Source = EMBEDDED
    """embedded, ucf101:PATH, hmdb51:PATH, kinetics:PATH, something:PATH, folder:PATH, unlabelled:PATH (all videos below
    a folder), or a plain PATH to class folders of videos or to videos without labels."""
    unlabelled: str = ""
    """Videos to pre-train on, if not those of `source`; their labels are not used."""
    fold: Literal[1, 2, 3] = 1
    """ucf101, hmdb51: which of the three splits."""
    damaged: Literal["refuse", "skip-training", "skip"] = "skip-training"
    """A video that cannot be read or has fewer than 16 frames: raise an error, take another one in training (it is
    reported), or leave it out of evaluation too (the number left out is reported)."""
    count: int = 288
    """embedded: number of training videos; a quarter as many for validation and test."""
    length: int = 128
    """embedded: frames per video."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 4 or self.length < self.frames:
            raise VergenceError(f"embedded data has a count of at least 4 and a length of at least {self.frames}, got "
                                f"{self.count} and {self.length}")  # fmt: skip


@dataclass(frozen=True)
class Transfer(Training):
    """Training of a classifier on the pre-trained network."""

    mode: Literal["finetune", "frozen", "linear", "none"] = "finetune"
    """Train all layers; three new fully connected layers on frozen convolutions; one such layer; or nothing."""


@dataclass(frozen=True)
class Measures:
    """What evaluation measures beside the accuracy of the classifier."""

    retrieval: bool = True
    """Nearest neighbours among the training videos."""
    probes: bool = False
    """Three fully connected layers on frozen features for the classes, on clips and on still ones (one frame repeated);
    embedded data: also for the things that move."""
    time: bool = False
    """Synchronisation of two clips, and the order of two pieces."""
    draws: int = 2
    """time: clips drawn per video."""
    steps: int = 200
    """Steps that a probe is trained for."""
    hidden: int = 2048
    """Width of a probe's layers."""

    def __post_init__(self) -> None:
        if not 1 <= self.draws <= 1000 or not 1 <= self.steps <= 1_000_000 or not 1 <= self.hidden <= 65_536:
            raise VergenceError(f"draws, steps and hidden are at least 1: {self.draws}, {self.steps}, {self.hidden}")


@dataclass(frozen=True)
class Config:
    """Temporal transformations: network, pretext task, videos, pre-training, transfer."""

    model: ModelConfig = ModelConfig()
    pretext: Pretext = Pretext()
    data: Footage = Footage()
    pretrain: Training = Training()
    transfer: Transfer = Transfer()
    measures: Measures = Measures()
    pretrained: str = ""
    """Weights of another run of this system, instead of pre-training."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Videos to examine."""

    videos: Videos
    """Video files or folders of frames, each of at least 16 frames."""
    hop: float = 0.0
    """Seconds from one window of 16 frames to the next (0: half a window)."""
    neighbours: int = 3
    """With several videos: the number of most similar ones to show for each."""

    def __post_init__(self) -> None:
        if not self.videos:
            raise VergenceError("no video given to predict on")
        if not 0 <= self.hop < 1e9 or not 0 <= self.neighbours <= 100:
            raise VergenceError(
                f"--hop is at least 0 seconds and --neighbours 0 to 100, got {self.hop:g} and {self.neighbours}"
            )


def _adamw(lr: float, warmup: int = 0) -> Optimiser:
    schedule = Schedule("cosine", warmup=warmup, floor=1e-3)
    return Optimiser("adamw", lr=lr, betas=(0.9, 0.99), weight_decay=1e-4, schedule=schedule)


def _paper(pretrain: int, transfer: int, source: str = "ucf101:UCF101", unlabelled: str = "",
           mode: Literal["finetune", "frozen"] = "finetune", model: ModelConfig | None = None) -> Config:  # fmt: skip
    return Config(
        model or ModelConfig(),
        Pretext(),
        Footage(source=source, unlabelled=unlabelled),
        Training(epochs=pretrain, batch=7, evaluate_every=0, optimiser=_adamw(3e-4)),
        Transfer(epochs=transfer, batch=24, evaluate_every=0, optimiser=_adamw(5e-5), mode=mode),
        Measures(),
    )


_R3D = ModelConfig("r3d18", (64, 128, 256, 512), 0)
_R2PLUS1D = replace(_R3D, network="r2plus1d18")
TINY = Config(
    ModelConfig("c3d", (8, 16, 32, 48, 64), 64),
    Pretext(),
    Footage(size=24, resize=24, clips=2),
    Training(steps=700, batch=4, evaluate_every=0, log_every=10, optimiser=_adamw(1.5e-3)),
    Transfer(steps=60, batch=24, evaluate_every=0, log_every=10, optimiser=_adamw(5e-3), mode="frozen"),
    Measures(probes=True, time=True, draws=1, hidden=64),
)
PRESETS = {
    "tiny": TINY,
    "starter": Config(
        ModelConfig("c3d", (12, 24, 48, 64, 64), 64),
        Pretext(),
        Footage(size=24, resize=30, pan=4.0),
        Training(steps=2000, batch=8, evaluate_every=0, log_every=50, optimiser=_adamw(1.5e-3)),
        Transfer(steps=1, mode="none"),
        Measures(retrieval=False),
    ),
    "paper": _paper(100, 75),
    "paper-hmdb51": _paper(100, 75, "hmdb51:HMDB51", "ucf101:UCF101"),
    "paper-kinetics": _paper(15, 75, unlabelled="kinetics:kinetics600"),
    "paper-ablation": _paper(50, 50, mode="frozen"),
    "paper-r3d18": _paper(200, 150, model=_R3D),
    "paper-r2plus1d18": _paper(200, 150, model=_R2PLUS1D),
}


def _set(*transforms: Transform, speed_loss: bool = True) -> Mapping[str, Any]:
    return {"pretext.transforms": ("speed", *transforms), "pretext.speed_loss": speed_loss}


_SETS: dict[str, tuple[Transform, ...]] = {
    "random": ("random",),
    "periodic": ("periodic",),
    "warp": ("warp",),
    "random-periodic": ("random", "periodic"),
    "random-warp": ("random", "warp"),
    "periodic-warp": ("periodic", "warp"),
}
VARIANTS = {
    "all": Variant("all four transformations", _set("random", "periodic", "warp")),
    "speed": Variant("speed alone", _set()),
    "none": Variant("random initialisation", {"pretext.kind": "none"}),
    "labels": Variant("supervised pre-training", {"pretext.kind": "labels"}),
    "order": Variant("order of pieces (Shuffle & Learn)", {"pretext.kind": "order"}, headline=False),
    "rotation": Variant("rotation (3D-RotNet)", {"pretext.kind": "rotation"}, headline=False),
    **{name: Variant(f"speed + {' + '.join(others)}", _set(*others), headline=False) for name, others in _SETS.items()},
    **{
        f"{name}-no-speed": Variant(f"{label}, no speed loss", _set(*others, speed_loss=False), headline=False)
        for name, (label, others) in {
            **{name: (f"speed + {' + '.join(others)}", others) for name, others in _SETS.items()},
            "all": ("all four", EVERY[1:]),
        }.items()
    },
}
METRICS = {
    "top1": Metric("Top-1", "%"),
    "top5": Metric("Top-5", "%"),
    "probe": Metric("classes, probe", "%"),
    "appearance": Metric("things, probe", "%"),
    "still": Metric("classes of stills, probe", "%"),
    **{f"nn{k}": Metric(f"retrieval @{k}", "%") for k in (1, 5, 10, 20, 50)},
    "sync": Metric("synchronised", "%"),
    "sync_mae": Metric("sync. error", "frames", higher_is_better=False),
    "order": Metric("before or after", "%"),
    "told": Metric("pretext", "%"),
    "told_speed": Metric("speed told", "%"),
    "skipped": Metric("skipped", "videos", higher_is_better=False, digits=0),
}
REPORTED = (
    Reported.table(
        "Table 1: UCF101, frozen convolutions of C3D",
        ("top1",),
        {
            "labels": (60.7,), "speed": (49.3,), "random": (55.1,), "periodic": (56.5,), "warp": (55.8,),
            "random-periodic": (60.0,), "random-warp": (60.4,), "periodic-warp": (59.5,), "all": (60.6,),
            "random-no-speed": (44.5,), "periodic-no-speed": (40.6,), "warp-no-speed": (43.5,),
            "random-periodic-no-speed": (47.4,), "random-warp-no-speed": (54.8,), "periodic-warp-no-speed": (50.6,),
            "all-no-speed": (54.2,),
        },
        ("tiny", "paper-ablation"),
    ),
    Reported.table("Table 2: UCF101, C3D fine-tuned", ("top1",),
                   {"all": (68.3,), "order": (55.8,), "rotation": (60.6,)}, ("paper",)),
    Reported.table("Table 2: HMDB51, C3D fine-tuned", ("top1",),
                   {"all": (38.4,), "order": (25.4,), "rotation": (27.3,)}, ("paper-hmdb51",)),
    Reported.table("Table 2: UCF101, pre-trained on Kinetics", ("top1",), {"all": (69.9,)}, ("paper-kinetics",)),
    Reported.table("Table 2: UCF101, 3D ResNet-18", ("top1",), {"all": (77.3,)}, ("paper-r3d18",)),
    Reported.table("Table 2: UCF101, R(2+1)D", ("top1",), {"all": (81.6,)}, ("paper-r2plus1d18",)),
    Reported.table(
        "Table 3: time tasks, UCF101",
        ("sync", "sync_mae", "order"),
        {"labels": (36.7, 1.85, 66.6), "rotation": (28.0, 2.84, 57.8), "order": (39.0, 1.89, 69.8),
         "all": (42.4, 1.61, 76.9)},
    ),
    Reported.table("Sec. 4: UCF101, still videos and moving ones", ("still", "probe"),
                   {"all": (1.0, 58.1), "labels": (18.5, 56.5)}),
    Reported.table("Table 4: UCF101, 3D ResNet-18 pre-trained on Kinetics", ("nn1", "nn5", "nn10", "nn20", "nn50"),
                   {"all": (26.1, 48.5, 59.1, 69.6, 82.8)}),
)  # fmt: skip
_EIGHT = {"motion": (1, 4), "speed": (1, 4)}
_C3D = Published({"classes": 0}, _EIGHT, 17_259_464)
SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered videos of 8.5 s in which a person, a ball, a chair, a plant, an animal or a box bounces, "
        "slides, swings, spins, rocks or passes by; the class is how it moves, whatever it is. A single frame tells "
        "what the thing is, and not how it moves."
    ),
    reported=REPORTED,
    published={
        **{preset: _C3D for preset in ("paper", "paper-hmdb51", "paper-kinetics", "paper-ablation")},
        "paper-r3d18": Published({"classes": 0}, _EIGHT, 31_824_456),
        "paper-r2plus1d18": Published({"classes": 0}, _EIGHT, 31_304_229),
    },
    learns=Learns(
        "cross_entropy",
        steps=12,
        share=0.8,
        changes={
            "data.count": 6,
            "data.length": 16,
            "data.clips": 1,
            "pretrain.batch": 2,
            "transfer.batch": 6,
            "transfer.optimiser.lr": 2e-2,
            "measures.steps": 3,
            "measures.time": False,
        },
    ),
    starters={
        "playback": Starter(
            "how a clip of a single moving thing plays: plain, shuffled, back and forth, warped, and how fast",
            data="288 rendered videos of 8.5 s (vergence.video.laws), with a camera that drifts",
            tried=(
                "a real video (VOT's bag, 196 frames) at 0.5, 1, 2, 4 and 8 times its speed: told 1.1, 1.6, 3.9, 5.5 "
                "and 7.8; 10 of 14 shuffled windows found, 8 of 27 back and forth; fast ones are often called warped"
            ),
        ),
    },
    minutes=0.8,
)
