"""ADTC's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.assets import RESNET50
from vergence.reid.adtc import ABOUT
from vergence.reid.settings import RANKING, UNMATCHED, People, Protocol, Search


@dataclass(frozen=True)
class ModelConfig:
    """Backbone and attention."""

    backbone: Literal["resnet-tiny", "resnet50"] = "resnet50"
    """The residual network."""
    last_stride: int = 2
    """Stride of its last stage, 1 or 2; the paper does not say."""
    attention: Literal["voxel", "spatial", "channel", "cbam", "none"] = "voxel"
    """Over places and channels (voxel), one of both, CBAM instead, or none."""
    inner: int = 800
    """voxel, channel: width of the bottleneck."""

    def __post_init__(self) -> None:
        if self.last_stride not in (1, 2) or not 1 <= self.inner <= 65536:
            raise VergenceError(
                "a model has a last_stride of 1 or 2 and inner from 1 to 65536, "
                f"got {self.last_stride} and {self.inner}"
            )


@dataclass(frozen=True)
class Pictures(People):
    """The pictures to adapt to, and the labelled ones to begin with."""

    source: Source = EMBEDDED
    """Pictures to adapt to; their identities are only for evaluation. embedded, unlabelled:PATH, market1501:PATH,
    dukemtmc:PATH, cuhk03-detected:PATH, cuhk03-labelled:PATH, msmt17:PATH, occluded-reid:PATH, folder:PATH, or a plain
    PATH to pictures with any names."""
    labelled: str = EMBEDDED
    """Pictures with identities to pre-train on, of other people by other cameras: embedded, or a layout as above."""
    people: int = 40
    """embedded: number of people to adapt to, and of others to test on."""
    known: int = 80
    """embedded: number of people to pre-train on, by as many other cameras."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.known <= 10_000 or self.each < 2:
            raise VergenceError(
                f"embedded data has 2 to 10000 people to pre-train on, and a batch at least 2 pictures each; got "
                f"{self.known} and {self.each}"
            )


@dataclass(frozen=True)
class Labelling:
    """Rounds of pseudo-labels."""

    way: Literal["two-stage", "kmeans", "euclidean", "dbscan"] = "two-stage"
    """two-stage: centres claim by k-reciprocal neighbourhoods; euclidean: by distance; kmeans: every picture joins its
    nearest centre; dbscan: dense regions of the Jaccard distance."""
    rounds: int = 20
    """Number of rounds (0: direct transfer)."""
    clusters: int = 1000
    """Number of centres; with fewer than `each` pictures per centre there are fewer."""
    top: int = 20
    """two-stage, euclidean: pictures that a centre claims."""
    k: int = 20
    """two-stage, dbscan: size of the neighbourhoods."""
    mode: Literal["plain", "zhong"] = "plain"
    """two-stage: neighbourhoods as sets (Eq. 5), or widened and weighted as in re-ranking."""
    density: float = 1.6e-3
    """dbscan: the share of all pairs whose mean distance is the radius."""

    def __post_init__(self) -> None:
        least = {"rounds": 0, "clusters": 2, "top": 2, "k": 1}
        for name, bound in least.items():
            if not bound <= getattr(self, name) <= 1_000_000:
                raise VergenceError(f"labelling has {name} from {bound} to 1000000, got {getattr(self, name)}")
        if not 0 < self.density <= 1:
            raise VergenceError(f"labelling has a density above 0 and up to 1, got {self.density}")


@dataclass(frozen=True)
class Triplets:
    """The loss of the clusters."""

    margin: float = 0.3
    """How much farther a stranger must be."""
    squared: bool = True
    """Squared Euclidean distances, as printed (Eq. 6); most public code takes plain ones."""


@dataclass(frozen=True)
class Config:
    """ADTC: network, pictures, labels, loss, protocol, training."""

    model: ModelConfig = ModelConfig()
    data: Pictures = Pictures()
    labels: Labelling = Labelling()
    triplets: Triplets = Triplets()
    protocol: Protocol = Protocol()
    pretrained: str = ""
    """ImageNet weights for the backbone: resnet50 (an asset), or a file with torchvision's names (.safetensors, or .pth
    of plain tensors)."""
    pretrain: Training = Training()
    """First, training on labelled pictures (0 epochs: without)."""
    adapt: Training = Training()
    """Each round of training on clusters; its optimiser and schedule begin anew."""
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        begins = self.pretrain.epochs or self.pretrain.steps
        if not begins and not (self.labels.rounds and (self.adapt.epochs or self.adapt.steps)):
            raise VergenceError("there is nothing to train: no pre-training (pretrain.epochs) and no rounds")


@dataclass(frozen=True)
class Facts:
    """What the data determines, and the state of training."""

    classes: int
    """Identities of the labelled pictures, while their classifier exists."""
    pictures: int
    """Pictures to adapt to, whose labels the weights hold."""

    def __post_init__(self) -> None:
        if not 0 <= self.classes <= 10_000_000 or not 0 <= self.pictures <= 10_000_000:
            raise VergenceError(
                f"{self.classes} identities and {self.pictures} pictures cannot be trained on: expected 0 to 10000000"
            )


@dataclass(frozen=True)
class Inputs(Search):
    """Query pictures and the gallery to search."""


def _hermans(lr: float, epochs: int, full: int, weight_decay: float = 5e-4) -> Training:
    """Adam at a constant rate for ``full`` epochs, then falling to a thousandth until the last."""
    schedule = Schedule("exponential", "epoch", full, 1.0, gamma=0.001 ** (1 / max(epochs - full, 1)))
    return Training(
        epochs=epochs, batch=128, evaluate_every=0,
        optimiser=Optimiser("adam", lr=lr, weight_decay=weight_decay, schedule=schedule),
    )  # fmt: skip


def _published(labelled: str, source: str) -> Config:
    return Config(
        ModelConfig(),
        Pictures(height=256, width=128, source=source, labelled=labelled),
        pretrained="resnet50",
        pretrain=_hermans(3e-4, 60, 30),
        adapt=_hermans(1e-4, 10, 5),
    )


_ROUND = Training(epochs=6, batch=80, evaluate_every=0, optimiser=Optimiser("adam", lr=5e-5, weight_decay=5e-4))
_SMALL = Pictures(height=96, width=48, pad=4, mean=(0.4, 0.4, 0.4), std=(0.25, 0.25, 0.25))


def _tiny_training(epochs: int) -> Training:
    optimiser = Optimiser("adam", lr=3e-3, weight_decay=5e-4, schedule=Schedule("cosine", warmup=10))
    return Training(epochs=epochs, batch=80, evaluate_every=0, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        ModelConfig("resnet-tiny", last_stride=1, inner=32),
        _SMALL,
        Labelling(rounds=6, clusters=60, top=8, k=8, density=0.01),
        pretrain=_tiny_training(55),
        adapt=_ROUND,
    ),
    "starter": Config(
        ModelConfig("resnet-tiny", last_stride=1, inner=32),
        replace(_SMALL, known=240, people=60, shots=2),
        Labelling(rounds=6, clusters=90, top=8, k=8),
        pretrain=_tiny_training(100),
        adapt=_ROUND,
    ),
    "paper": _published("dukemtmc:data/duke", "market1501:data/market"),
    "paper-market-to-duke": _published("market1501:data/market", "dukemtmc:data/duke"),
}

VARIANTS = {
    "adtc": Variant("ADTC", {}),
    "direct": Variant("direct transfer", {"labels.rounds": 0}),
    "kmeans": Variant("only voxel attention (k-means for all)", {"labels.way": "kmeans"}),
    "euclidean": Variant("Euclidean top-p", {"labels.way": "euclidean"}),
    "no-attention": Variant("only two-stage clustering", {"model.attention": "none"}),
    "dbscan": Variant("Jaccard + DBSCAN", {"labels.way": "dbscan", "model.attention": "none"}, headline=False),
    "spatial": Variant("spatial attention", {"model.attention": "spatial"}, headline=False),
    "channel": Variant("channel attention", {"model.attention": "channel"}, headline=False),
    "cbam": Variant("CBAM", {"model.attention": "cbam"}, headline=False),
    "without-da": Variant("ADTC without pre-training", {"pretrain.epochs": 0}, headline=False),
    "zhong": Variant("ADTC, widened neighbourhoods", {"labels.mode": "zhong"}, headline=False),
    "unsquared": Variant("ADTC, plain distances in triplets", {"triplets.squared": False}, headline=False),
}

METRICS = {
    **RANKING,
    "ice": Metric("in-camera errors", "queries", higher_is_better=False, digits=0),
    "cce": Metric("cross-camera errors", "queries", higher_is_better=False, digits=0),
    "margin": Metric("relative margin of triplets", digits=3),
    "separated": Metric("triplets with the stranger farther away", "%"),
    "nmi": Metric("NMI of the last round's labels", digits=3),
    "nmi_gain": Metric("NMI gained since the first round", digits=3),
    "kept": Metric("share of pictures with a label", digits=3),
    "clusters": Metric("clusters of the last round", digits=0),
    **UNMATCHED,
}

REPORTED = (
    Reported.table(
        "Tables 1 and 2: DukeMTMC-reID to Market-1501",
        tuple(RANKING),
        {
            "adtc": (59.7, 79.3, 90.8, 94.1),
            "direct": (18.8, 44.0, 62.1, 69.4),
            "dbscan": (53.7, 75.8, 89.5, 93.2),
            "without-da": (38.8, 59.5, 71.6, 76.9),
            "no-attention": (41.1, 66.2),
            "kmeans": (35.5, 61.7),
            "channel": (42.8, 68.9),
            "spatial": (41.3, 66.6),
            "cbam": (55.2, 77.3),
        },
    ),
    Reported.table(
        "Tables 1 and 2: Market-1501 to DukeMTMC-reID",
        tuple(RANKING),
        {
            "adtc": (52.5, 71.9, 84.1, 87.5),
            "direct": (18.2, 34.0, 49.1, 55.9),
            "dbscan": (49.0, 68.4, 80.1, 83.5),
            "without-da": (37.9, 59.4, 70.0, 74.1),
            "no-attention": (28.2, 49.8),
            "kmeans": (32.6, 52.0),
            "channel": (30.1, 52.2),
            "spatial": (28.8, 50.7),
            "cbam": (49.1, 69.8),
        },
    ),
)

_PARAMETERS = 23_508_032 + 2 * 2048 * 800 + 2 * 2048
"""ResNet-50 without its classifier, voxel attention, batch normalisation."""
SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    assets={"resnet50": RESNET50},
    embedded=(
        "Embedded: rendered people, 80 to pre-train on under 4 cameras, 40 others to adapt to under 4 other cameras, "
        "and 40 more for the test under these. Cameras differ in light, white balance, sharpness and surroundings; "
        "every fifth picture is partly hidden."
    ),
    reported=REPORTED,
    published={
        "paper": Published({"classes": 0, "pictures": 12_936}, (1, 2048), parameters=_PARAMETERS),
        "paper-market-to-duke": Published({"classes": 0, "pictures": 16_522}, (1, 2048), parameters=_PARAMETERS),
    },
    learns=Learns(
        "identity",
        steps=40,
        share=0.9,
        changes={
            "data.people": 3, "data.known": 3, "data.shots": 2, "data.height": 32, "data.width": 16, "labels.rounds": 2,
            "labels.clusters": 6, "labels.top": 3, "labels.k": 4, "pretrain.batch": 12, "adapt.batch": 16,
            "pretrain.optimiser.schedule.warmup": 2,
        },
    ),
    starters={
        "rendered": Starter(
            "search of people by their clothes, trained on rendered people only",
            data="1,920 pictures of 240 rendered people by 4 cameras with identities, then 480 of 60 others by 4 other "
            "cameras without; tested on 60 more by these",
            tried="50 other rendered people by 4 cameras that it was not trained on: mAP 60.2 %, rank-1 69.0 % (mean "
            "colours of stripes: 28.5 and 36.5 %); not tried on photographs of people",
        ),
    },
    minutes=0.5,
)  # fmt: skip
