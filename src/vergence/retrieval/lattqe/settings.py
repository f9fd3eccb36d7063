"""LAttQE's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

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
"""Numbers of neighbours in the results table."""


@dataclass(frozen=True)
class ModelConfig:
    """The expansion method and its parameters."""

    method: Literal["lattqe", "none", "aqe", "aqewd", "alpha", "dqe"] = "lattqe"
    """LAttQE, or a baseline without training."""
    layers: int = 3
    """Number of encoder layers."""
    heads: int = 64
    """Attention heads; their number divides the descriptor's dimension."""
    width: int = 2048
    """Hidden width of an encoder's feed-forward part (0: the descriptor's dimension)."""
    ranks: int = 64
    """Neighbours with their own rank embedding; those further down share the last one."""
    dropout: float = 0.1
    """Dropout rate in the encoders."""
    mixing: Literal["attention", "dense"] = "attention"
    """attention, or dense: encoders without self-attention, which process each neighbour alone."""
    position: Literal["learned", "none"] = "learned"
    """Positional embedding of ranks; none: neighbours are an unordered set."""
    content: Literal["descriptors", "none"] = "descriptors"
    """none: only ranks are used, and every query gets the same weights."""
    output: Literal["weights", "direct"] = "weights"
    """direct: average the outputs of the encoders instead of the descriptors."""
    negative: Literal["keep", "clamp"] = "keep"
    """Negative cosines: keep (the neighbour is subtracted) or clamp to 0."""
    auxiliary: float = 1.0
    """Weight of the auxiliary loss, which classifies neighbours as relevant or not (0: no classifier)."""
    margin: float = 0.1
    """Margin of the contrastive loss: negatives farther away have no effect."""
    alpha: float = 3.0
    """alpha: exponent of the similarity."""
    svm_negatives: int = 5
    """dqe: number of lowest-ranked items used as negatives."""
    svm_c: float = 0.1
    """dqe: cost C of margin violations."""

    def __post_init__(self) -> None:
        for name, least in {"layers": 1, "heads": 1, "width": 0, "ranks": 1, "svm_negatives": 0}.items():
            if getattr(self, name) < least:
                raise VergenceError(f"a model's {name} is at least {least}, got {getattr(self, name)}")
        if self.layers > 100:
            raise VergenceError(f"a model has at most 100 layers, got {self.layers}")
        if self.position == "none" and self.content == "none":
            raise VergenceError("a model without ranks and without descriptors has no input")
        if not (0 <= self.dropout < 1 and self.auxiliary >= 0 and self.margin >= 0 and self.svm_c > 0):
            raise VergenceError(
                f"dropout is in [0, 1), auxiliary and margin at least 0, svm_c above 0; got {self.dropout}, "
                f"{self.auxiliary}, {self.margin}, {self.svm_c}"
            )


@dataclass(frozen=True)
class Descriptors:
    """Source of the descriptors, and sampling of the training tuples."""

    source: Source = EMBEDDED
    """embedded, sfm120k:PATH, roxford5k:PATH, rparis6k:PATH, pictures:PATH, or a PATH to descriptors with labels."""
    test: str = ""
    """Source of the test set, if it differs from the training source, e.g. roxford5k:PATH."""
    distractors: str = ""
    """A file of descriptors ('descriptors', N x D) to add to the gallery of a revisited benchmark."""
    least: int = 32
    """Training: smallest number of neighbours drawn per query."""
    most: int = 64
    """Training: largest number of neighbours drawn per query."""
    drop: float = 0.6
    """Training: the fraction of neighbours to drop is drawn per query between 0 and this."""
    ranks: Ranks = "renumbered"
    """Training: after dropping, neighbours move up (renumbered) or keep their ranks (original)."""
    negatives: int = 5
    """Training: mined negatives per query."""
    pool: int = 20_000
    """Training: size of the pool in which negatives are mined."""
    updates: int = 2000
    """Training: steps per epoch; each epoch draws a new pool."""
    classes: int = 100
    """embedded: number of training classes; half as many for validation and test."""

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most or not 0 <= self.drop <= 1:
            raise VergenceError(
                f"training draws neighbours from least to most and drops a fraction of 0 to 1, got least={self.least}, "
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
    """Neighbours of a query in the expansion."""
    database: int = 48
    """Neighbours of each item in database augmentation (0: none)."""
    augmented: int = 64
    """Neighbours of a query in the augmented database."""

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
    """Training of the encoders."""
    temper: Training = Training()
    """Training of the temperature for databases, with everything else frozen."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Facts:
    """What the data determines, and the state of training."""

    dimension: int = 1
    """Dimension of the descriptors; any for methods without training."""
    tempered: bool = False
    """Whether the model already has its temperature."""

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= 1_000_000:
            raise VergenceError(f"descriptors have 1 to 1000000 numbers, not {self.dimension}")


@dataclass(frozen=True)
class Inputs:
    """Query pictures, the gallery to search, and the expansion method."""

    query: Images = ()
    """Query pictures."""
    gallery: Folder | None = None
    """A folder of pictures to search."""
    index: Text = ""
    """A file that stores the descriptors of the gallery; without --gallery it is read. A name that ends with a slash is
    a folder of files, for galleries that do not fit into memory."""
    descriptors: Text = ""
    """Instead of pictures: an .npz or .safetensors file with 'gallery' (N, D) and 'queries' (Q, D)."""
    method: Literal["auto", "weights", "none", "aqe", "aqewd", "alpha", "dqe"] = "auto"
    """Expansion method: that of --weights, or one that needs no training; auto is weights if they are given, else
    alpha."""
    neighbours: int = 0
    """Number of neighbours in the expansion (0: as many as the weights were trained for)."""
    top: int = 10
    """Number of results shown per query."""
    kind: Literal["flat", "ivf", "hnsw", "ivfpq"] = "flat"
    """Kind of index: flat is exact, the others are approximate."""
    backbone: Text = ""
    """Network that computes descriptors; by default the one that the weights were trained with."""
    backbone_weights: Text = ""
    """Weights file of the backbone."""

    def __post_init__(self) -> None:
        if not (self.query or self.descriptors):
            raise VergenceError("there is no query: give --query FILE..., or --descriptors FILE")
        if not (self.descriptors or self.index or self.gallery is not None):
            raise VergenceError("there is no gallery: give --gallery DIR, or --index FILE of an earlier call")
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
        "Embedded: generated descriptors. Some directions separate the classes, others hold scenes that all classes "
        "share, and a rotation hides which is which. Test classes are not in the training set."
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
