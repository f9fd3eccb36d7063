"""BC-GNN's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Text, Video
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.video.bcgnn import ABOUT
from vergence.video.settings import SpanProtocol, Suppression

LONGEST_WINDOW = 512
"""Positions of a window that a config may ask for: spans grow with their square."""
WIDEST = 4096


@dataclass(frozen=True)
class Facts:
    """What the features decide."""

    channels: int = 400
    """Numbers per snippet."""

    def __post_init__(self) -> None:
        if not 1 <= self.channels <= 65_536:
            raise VergenceError(f"features have 1 to 65,536 numbers per snippet, got {self.channels}")


@dataclass(frozen=True)
class ModelConfig:
    """The graph network."""

    base: int = 256
    """Channels of the two convolutions of the base."""
    width: int = 128
    """Channels of nodes and edges."""
    content: int = 128
    """Channels of the sequence that contents are sampled from."""
    points: int = 32
    """Samples of a span."""
    kernel: int = 3
    """Kernel size of the convolutions, odd."""
    content_kernel: int = 3
    """Kernel size of the convolution that gives the contents, odd."""
    blocks: int = 2
    """Reasoning blocks; 0 leaves boundaries and contents apart, as in boundary-matching networks (BMN)."""
    directed: bool = True
    """Whether an edge has one feature for each direction."""
    update: Literal["edges", "none", "cosine"] = "edges"
    """Edges that are updated from their ends (Eq. 1), that stay as they are, or that are the cosine similarity of
    their ends (a graph convolution)."""
    propagate: Literal["plain", "normalised"] = "plain"
    """Which edges go on to the next block and to the output: those of Eq. 1, or of Eq. 2 as the paper's notation
    may be read; the latter shrink with the number of neighbours."""
    longest: int = 0
    """The longest span in positions; 0 for any."""

    def __post_init__(self) -> None:
        sizes = (self.base, self.width, self.content)
        if not all(1 <= size <= WIDEST for size in sizes) or not 2 <= self.points <= 256:
            raise VergenceError(
                f"a model has 1 to {WIDEST} channels and 2 to 256 samples of a span, got {sizes} and {self.points}"
            )
        if any(k < 1 or k % 2 == 0 or k > 31 for k in (self.kernel, self.content_kernel)):
            raise VergenceError(f"kernels are odd, from 1 to 31, got {self.kernel} and {self.content_kernel}")
        if not 0 <= self.blocks <= 16 or not 0 <= self.longest <= LONGEST_WINDOW:
            raise VergenceError(
                f"a model has 0 to 16 blocks and spans of up to {LONGEST_WINDOW} positions (0: any), got {self.blocks} "
                f"and {self.longest}"
            )


@dataclass(frozen=True)
class Sequences:
    """Snippet features with annotated spans."""

    source: Source = EMBEDDED
    """embedded, activitynet:PATH, thumos14:PATH, folder:PATH, or a plain PATH to such a folder."""
    length: int = 100
    """Positions of a window."""
    stride: int = 0
    """Positions from one window to the next; 0: every video is one window, its features interpolated."""
    classifier: str = ""
    """Evaluation: a JSON file with class scores for each video, {video: {class: score}}, for detection by class."""
    protocol: SpanProtocol = "activitynet"
    """Overlaps and average precision as in the official scripts of the one or the other."""
    rate: float = 7.5
    """Snippets per second, where features are computed from videos."""
    embedded: Literal["films", "cues"] = "films"
    """embedded: rendered films, or sequences of noise with cues of starts, ends and contents."""
    count: int = 160
    """embedded: number of training videos; a quarter as many for validation and test."""

    def __post_init__(self) -> None:
        if not 2 <= self.length <= LONGEST_WINDOW or not 0 <= self.stride <= self.length:
            raise VergenceError(
                f"a window has 2 to {LONGEST_WINDOW} positions and a stride of at most as many, got {self.length} and "
                f"{self.stride}"
            )
        if not 0.1 <= self.rate <= 120 or self.count < 4:
            raise VergenceError(f"data has a rate from 0.1 to 120 and count >= 4, got {self.rate:g} and {self.count}")


@dataclass(frozen=True)
class Config:
    """BC-GNN: network, sequences, suppression, training."""

    model: ModelConfig = ModelConfig()
    data: Sequences = Sequences()
    nms: Suppression = Suppression()
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        if self.model.longest >= self.data.length:
            raise VergenceError(
                f"spans of up to {self.model.longest} positions do not fit into windows of {self.data.length}"
            )


@dataclass(frozen=True)
class Inputs:
    """A video, and features of its snippets if another network made them."""

    video: Video
    """The video: a file, or a folder of its frames."""
    features: Text = ""
    """A file of snippet features, .npy or .csv with one row per snippet, instead of those computed from the video."""
    spans: int = 10
    """The number of spans to give."""

    def __post_init__(self) -> None:
        if not 1 <= self.spans <= 1000:
            raise VergenceError(f"spans is from 1 to 1000, got {self.spans}")


def _training(epochs: int, batch: int, lr: float, decay: float) -> Training:
    return Training(epochs=epochs, batch=batch, optimiser=Optimiser("adam", lr=lr, weight_decay=decay))


_SHORT = Optimiser("adamw", lr=1e-3, weight_decay=0.3, schedule=Schedule("cosine", floor=0.02))
_SMALL = ModelConfig(base=48, width=24, content=24, points=8)
TINY = Config(
    _SMALL,
    Sequences(length=48, count=160),
    Suppression(keep=50),
    Training(epochs=20, batch=8, evaluate_every=0, log_every=20, optimiser=_SHORT),
)
PRESETS = {
    "tiny": TINY,
    "tiny-cues": Config(
        replace(_SMALL, base=24, points=4, kernel=1, content_kernel=1),
        Sequences(length=16, embedded="cues", count=400),
        Suppression(keep=20),
        Training(
            epochs=15, batch=20, evaluate_every=0, log_every=20, optimiser=replace(_SHORT, lr=3e-3, weight_decay=0.0)
        ),
    ),
    "paper": Config(ModelConfig(), Sequences("activitynet:data"), Suppression(), _training(20, 16, 1e-4, 0.005)),
    "paper-thumos": Config(
        ModelConfig(longest=64),
        Sequences("thumos14:data", length=128, stride=64, protocol="thumos"),
        Suppression(keep=1000),
        _training(20, 16, 1e-4, 0.005),
    ),
    "starter": Config(
        _SMALL,
        Sequences(length=48, stride=24, count=160),
        Suppression(keep=50),
        Training(epochs=40, batch=8, evaluate_every=0, log_every=20, optimiser=_SHORT),
    ),
}
VARIANTS = {
    "bcgnn": Variant("BC-GNN", {"model.blocks": 2}),
    "apart": Variant("boundaries and contents apart (BMN-like)", {"model.blocks": 0}),
    "gcn": Variant("graph convolution", {"model.update": "cosine"}),
    "undirected": Variant("undirected edges", {"model.directed": False}),
    "no-update": Variant("edges not updated", {"model.update": "none"}),
    "one-block": Variant("one block", {"model.blocks": 1}, headline=False),
    "undirected-no-update": Variant(
        "undirected, not updated", {"model.directed": False, "model.update": "none"}, headline=False
    ),
    "normalised": Variant("normalised edges go on", {"model.propagate": "normalised"}, headline=False),
}
METRICS = {
    "auc": Metric("AUC", "%"),
    "ar5": Metric("AR@5", "%"),
    "ar10": Metric("AR@10", "%"),
    "ar50": Metric("AR@50", "%"),
    "ar100": Metric("AR@100", "%"),
    "ar200": Metric("AR@200", "%"),
    "ar500": Metric("AR@500", "%"),
    "ar1000": Metric("AR@1000", "%"),
    "boundary_ap": Metric("AP of boundaries", "%"),
    "content_ap": Metric("AP of contents", "%"),
    "map30": Metric("mAP 0.3", "%"),
    "map50": Metric("mAP 0.5", "%"),
    "map70": Metric("mAP 0.7", "%"),
    "map75": Metric("mAP 0.75", "%"),
    "map95": Metric("mAP 0.95", "%"),
    "map": Metric("mAP", "%"),
}

REPORTED = (
    Reported.table("ActivityNet-1.3 validation (apart: BMN)", ("ar100", "auc"),
                   {"bcgnn": (76.73, 68.05), "apart": (75.01, 67.10)}),
    Reported.table(
        "Ablation on ActivityNet-1.3",
        ("ar100", "auc"),
        {
            "gcn": (75.57, 66.88),
            "undirected-no-update": (76.18, 67.36),
            "no-update": (76.15, 67.53),
            "undirected": (76.40, 67.79),
            "bcgnn": (76.73, 68.05),
        },
    ),
    Reported.table(
        "THUMOS-14, two-stream features, Soft-NMS (apart: BMN)",
        ("ar50", "ar100", "ar200", "ar500", "ar1000"),
        {"bcgnn": (40.50, 49.60, 56.33, 62.80, 66.57), "apart": (39.36, 47.72, 54.70, 62.07, 65.49)},
    ),
    Reported.table(
        "Detection on ActivityNet-1.3 (apart: BMN)",
        ("map50", "map75", "map95", "map"),
        {"bcgnn": (50.56, 34.75, 9.37, 34.26), "apart": (50.07, 34.78, 8.29, 33.85)},
    ),
    Reported.table("Detection on THUMOS-14, UntrimmedNet (apart: BMN)", ("map70", "map50", "map30"),
                   {"bcgnn": (23.1, 40.4, 57.1), "apart": (20.5, 38.8, 56.0)}),
)  # fmt: skip

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered films of 6.4 s in which people walk, jump, wave and throw (to be found) and things fall, "
        "roll and swing (not to be found), with bystanders, a shaking camera and cuts; described by motion in 4 x 6 "
        "cells. Preset tiny-cues: noise with cues, in which only the content tells actions from decoys."
    ),
    reported=REPORTED,
    published={
        "paper": Published({"channels": 400}, {"start": (1, 100), "end": (1, 100), "content": (1, 4950)}, 1_455_619),
        "paper-thumos": Published(
            {"channels": 400}, {"start": (1, 128), "end": (1, 128), "content": (1, 6112)}, 1_455_619
        ),
    },
    learns=Learns(
        "content", steps=20, share=0.9, preset="tiny-cues", changes={"data.count": 40, "train.optimiser.lr": 1e-2}
    ),
    starters={
        "people": Starter(
            "spans in which a person does something, in videos of a camera that is held still",
            data="160 rendered films of 6.4 s and their mirror images (vergence.video.films)",
            tried="another rendered film: a walk found 0.3 s too long at both ends, a wave in place and 1.8 s too long",
        ),
    },
    minutes=0.5,
)
