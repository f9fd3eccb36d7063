"""LAttQE's settings: configs, inputs, presets, variants, metrics, and the paper's own figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Folder, Images, Text
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.retrieval.lattqe import ABOUT
from vergence.retrieval.settings import Extractor, Ranks

KS = (2, 4, 16, 64)
"""Numbers of neighbours that the table is over."""


@dataclass(frozen=True)
class ModelConfig:
    """What weighs the neighbours."""

    method: Literal["lattqe", "none", "aqe", "aqewd", "alpha", "dqe"] = "lattqe"
    """LAttQE, or a baseline that learns nothing."""
    layers: int = 3
    """Encoders."""
    heads: int = 64
    """Attention heads; they share the descriptor's length."""
    width: int = 2048
    """Hidden width of an encoder's feed-forward part (0: the descriptor's length)."""
    ranks: int = 64
    """Neighbours with a rank of their own; those further down share the last one's."""
    dropout: float = 0.1
    """In the encoders, while training."""
    mixing: Literal["attention", "dense"] = "attention"
    """dense: encoders without self-attention, so that no neighbour sees the others."""
    position: Literal["learned", "none"] = "learned"
    """none: neighbours are a set without an order."""
    content: Literal["descriptors", "none"] = "descriptors"
    """none: only ranks are seen, and every query gets the same weights."""
    output: Literal["weights", "direct"] = "weights"
    """direct: average what comes out of the encoders instead of the descriptors."""
    negative: Literal["keep", "clamp"] = "keep"
    """A negative cosine subtracts its neighbour, or counts nothing."""
    auxiliary: float = 1.0
    """Weight of the loss that tells relevant neighbours from others (0: no such classifier)."""
    margin: float = 0.1
    """Negatives farther away than this are left alone."""
    alpha: float = 3.0
    """alpha: the power of the similarity."""
    svm_negatives: int = 5
    """dqe: lowest-ranked items on the other side."""
    svm_c: float = 0.1
    """dqe: what a violated margin costs."""

    def __post_init__(self) -> None:
        for name, least in {"layers": 1, "heads": 1, "width": 0, "ranks": 1, "svm_negatives": 0}.items():
            if getattr(self, name) < least:
                raise VergenceError(f"a model's {name} is at least {least}, got {getattr(self, name)}")
        if self.position == "none" and self.content == "none":
            raise VergenceError("a model without ranks and without descriptors has nothing to look at")
        if not (0 <= self.dropout < 1 and self.auxiliary >= 0 and self.margin >= 0 and self.svm_c > 0):
            raise VergenceError(
                f"dropout is a share below 1, auxiliary and margin at least 0, svm_c above 0; got {self.dropout}, "
                f"{self.auxiliary}, {self.margin}, {self.svm_c}"
            )


@dataclass(frozen=True)
class Descriptors:
    """What is searched among."""

    source: Source = EMBEDDED
    """embedded, sfm120k:PATH, roxford5k:PATH, rparis6k:PATH, pictures:PATH, or a PATH to descriptors with labels."""
    test: str = ""
    """What to test on, if something else than what is trained on, e.g. roxford5k:PATH."""
    distractors: str = ""
    """A file of descriptors ('descriptors', N x D) to add to the gallery of a revisited benchmark."""
    least: int = 32
    """Training: each query draws its number of neighbours from here ..."""
    most: int = 64
    """... to here."""
    drop: float = 0.6
    """Training: each query draws the share of its neighbours to drop, from 0 to this."""
    ranks: Ranks = "renumbered"
    """Training: neighbours move up when others are dropped, or keep their ranks."""
    negatives: int = 5
    """Training: mined for each query."""
    pool: int = 20_000
    """Training: descriptors that negatives are mined in."""
    updates: int = 2000
    """Training: steps between two pools; they make an epoch."""
    classes: int = 100
    """embedded: classes to train on; half as many to validate and to test."""

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most or not 0 <= self.drop <= 1:
            raise VergenceError(
                f"training draws neighbours from least to most and drops a share of 0 to 1, got least={self.least}, "
                f"most={self.most}, drop={self.drop}"
            )
        for name in ("negatives", "pool", "updates"):
            if getattr(self, name) < 1:
                raise VergenceError(f"training needs {name} of at least 1, got {getattr(self, name)}")
        if not 4 <= self.classes <= 100_000:
            raise VergenceError(f"embedded data has 4 to 100000 classes, got {self.classes}")


@dataclass(frozen=True)
class Protocol:
    """Numbers of neighbours in evaluation."""

    neighbours: int = 64
    """Of a query, for the expansion that is judged."""
    database: int = 48
    """Of each item, to augment the database (0: it is not)."""
    augmented: int = 64
    """Of a query in the augmented database."""

    def __post_init__(self) -> None:
        if min(self.neighbours, self.database, self.augmented) < 0:
            raise VergenceError("numbers of neighbours are at least 0")


@dataclass(frozen=True)
class Config:
    """LAttQE: model, descriptors, protocol, training."""

    model: ModelConfig = ModelConfig()
    data: Descriptors = Descriptors()
    extractor: Extractor = Extractor()
    protocol: Protocol = Protocol()
    train: Training = Training()
    """The encoders."""
    temper: Training = Training()
    """The temperature for databases, with everything else frozen."""
    seed: int = 0
    """Decides everything random."""


@dataclass(frozen=True)
class Facts:
    """What the data decides, and how far training has come."""

    dimension: int = 1
    """Of the descriptors; where nothing is learnt from them, any."""
    tempered: bool = False
    """Whether the model has its temperature by now."""

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= 1_000_000:
            raise VergenceError(f"descriptors have 1 to 1000000 numbers, not {self.dimension}")


@dataclass(frozen=True)
class Inputs:
    """Pictures to find, where to look, and how to expand."""

    query: Images = ()
    """Pictures of what to find."""
    gallery: Folder | None = None
    """A folder of pictures to look in."""
    index: Text = ""
    """A file that keeps the gallery for the next call; without --gallery it is read. A name that ends with a slash is a
    folder of files, for galleries that do not fit memory."""
    descriptors: Text = ""
    """Instead of pictures: an .npz or .safetensors file with 'gallery' (N, D) and 'queries' (Q, D)."""
    method: Literal["auto", "weights", "none", "aqe", "aqewd", "alpha", "dqe"] = "auto"
    """What expands: the method of --weights, or one that needs no training; auto is the first if weights are given,
    else alpha."""
    neighbours: int = 0
    """The number of neighbours to expand with (0: as many as the weights were trained for)."""
    top: int = 10
    """The number of results to show of each query."""
    kind: Literal["flat", "ivf", "hnsw", "ivfpq"] = "flat"
    """How the index looks: at everything, or approximately."""
    backbone: Text = ""
    """What describes pictures; if not given, what the weights were trained with."""
    backbone_weights: Text = ""
    """Weights of the backbone."""

    def __post_init__(self) -> None:
        if not (self.query or self.descriptors):
            raise VergenceError("nothing to find: give --query FILE..., or --descriptors FILE")
        if not (self.descriptors or self.index or self.gallery is not None):
            raise VergenceError("nowhere to look: give --gallery DIR, or --index FILE of an earlier call")
        if self.top < 1 or self.neighbours < 0:
            raise VergenceError(
                f"at least one result is shown, got --top {self.top} and --neighbours {self.neighbours}"
            )


def _training(epochs: int) -> Training:
    schedule = Schedule("exponential", unit="epoch", gamma=0.99)
    optimiser = Optimiser("adam", lr=1e-4, weight_decay=1e-6, schedule=schedule)
    return Training(epochs=epochs, batch=64, keep="best", optimiser=optimiser)


def _tiny_training(steps: int, lr: float) -> Training:
    optimiser = Optimiser("adam", lr=lr, weight_decay=1e-6, schedule=Schedule("cosine", warmup=30))
    return Training(steps=steps, batch=64, evaluate_every=0, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        ModelConfig(heads=2, width=64, dropout=0.0),
        Descriptors(pool=1000, updates=200),
        Extractor("resnet18", longest=256, scales=(1.0,)),
        train=_tiny_training(600, 1e-3),
        temper=_tiny_training(60, 0.1),
    ),
    "paper": Config(
        ModelConfig(),
        Descriptors(source="sfm120k:data"),
        train=_training(100),
        temper=replace(_training(5), keep="last"),
    ),
}

_STILL = {f"{phase}.{length}": 0 for phase in ("train", "temper") for length in ("epochs", "steps")}


def _classic(label: str, method: str, neighbours: int, database: int, augmented: int) -> Variant:
    """A baseline with the numbers of neighbours that its row of Table 3 was tuned to."""
    protocol = {"protocol.neighbours": neighbours, "protocol.database": database, "protocol.augmented": augmented}
    return Variant(label, {"model.method": method, **protocol, **_STILL})


def _ablation(label: str, **changes: Any) -> Variant:
    return Variant(label, {f"model.{name}": value for name, value in changes.items()}, headline=False)


VARIANTS = {
    "none": _classic("no expansion", "none", 0, 0, 0),
    "aqe": _classic("AQE", "aqe", 2, 4, 4),
    "aqewd": _classic("AQEwD", "aqewd", 4, 4, 6),
    "dqe": _classic("DQE", "dqe", 4, 4, 2),
    "alpha": _classic("αQE", "alpha", 72, 36, 10),
    "lattqe": Variant("LAttQE"),
    "no-attention": _ablation("LAttQE without self-attention", mixing="dense"),
    "no-position": _ablation("LAttQE without ranks", position="none"),
    "no-content": _ablation("LAttQE of ranks only", content="none"),
    "no-auxiliary": _ablation("LAttQE without auxiliary loss", auxiliary=0.0),
    "clamped": _ablation("LAttQE without negative weights", negative="clamp"),
    "direct": _ablation("LAttQE, encoder outputs averaged", output="direct"),
}
METRICS = {
    "map": Metric("mAP", "%", digits=1),
    "easy": Metric("Easy", "%", digits=1),
    "medium": Metric("Medium", "%", digits=1),
    "hard": Metric("Hard", "%", digits=1),
    **{f"map_{k}": Metric(f"k = {k}", "%", digits=1) for k in KS},
    "dba": Metric("DBA", "%", digits=1),
    "dba_easy": Metric("DBA Easy", "%", digits=1),
    "dba_medium": Metric("DBA Medium", "%", digits=1),
    "dba_hard": Metric("DBA Hard", "%", digits=1),
}

_SCORES = ("medium", "hard", "dba_medium", "dba_hard")
REPORTED = (
    Reported.table("Tables 2 and 3: ROxford", _SCORES, {
        "none": (67.3, 44.3), "aqe": (72.3, 49.0, 71.9, 53.6), "aqewd": (72.0, 48.7, 73.2, 53.2),
        "dqe": (72.7, 48.8, 72.0, 50.7), "alpha": (69.3, 44.5, 71.7, 50.7), "lattqe": (73.4, 49.6, 74.0, 54.1),
        "no-attention": (66.0, 41.5), "no-position": (58.6, 33.2), "no-content": (67.1, 42.9),
        "no-auxiliary": (71.8, 47.0)}),
    Reported.table("Table 3: ROxford + R1M", _SCORES, {
        "none": (49.5, 25.7), "aqe": (57.3, 30.5, 55.3, 32.8), "aqewd": (56.9, 30.0, 57.9, 34.0),
        "dqe": (54.5, 26.3, 56.9, 32.9), "alpha": (52.5, 26.1, 56.0, 31.5), "lattqe": (58.3, 31.0, 60.0, 36.3)}),
    Reported.table("Tables 2 and 3: RParis", _SCORES, {
        "none": (80.6, 61.5), "aqe": (82.7, 65.1, 83.9, 68.0), "aqewd": (83.3, 65.9, 84.3, 68.7),
        "dqe": (83.7, 66.5, 83.2, 66.7), "alpha": (86.9, 71.7, 87.5, 73.5), "lattqe": (86.3, 70.6, 87.8, 74.1),
        "no-attention": (86.1, 70.2), "no-position": (87.8, 73.4), "no-content": (83.8, 66.7),
        "no-auxiliary": (85.8, 69.4)}),
    Reported.table("Table 3: RParis + R1M", _SCORES, {
        "none": (57.3, 29.8), "aqe": (62.3, 36.5, 65.0, 39.6), "aqewd": (63.0, 37.1, 65.6, 40.8),
        "dqe": (64.2, 38.0, 65.4, 39.1), "alpha": (66.5, 41.6, 70.6, 48.5), "lattqe": (67.3, 42.4, 70.5, 48.3)}),
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
        "Embedded: generated descriptors. Content tells classes apart, scenes that all classes share make strangers "
        "look alike, and one rotation hides which direction is which. The classes of the test were not trained on."
    ),
    reported=REPORTED,
    published={
        "tiny": Published({"dimension": 64}, (1, 64), parameters=79_873),
        "paper": Published({"dimension": 2048}, (1, 2048), parameters=75_694_081),
    },
    learns=Learns(
        "auxiliary",
        steps=24,
        share=0.88,
        changes={
            "data.classes": 12,
            "data.pool": 100,
            "data.updates": 10,
            "data.least": 12,
            "data.most": 24,
            "train.batch": 32,
            "temper.batch": 32,
            "train.optimiser.lr": 0.002,
            "train.optimiser.schedule.warmup": 2,
        },
    ),
    minutes=1.5,
)
