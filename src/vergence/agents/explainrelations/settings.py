"""Settings of explainrelations: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.agents.explainrelations import ABOUT
from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Boxes, Image, Text
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError

Mode = Literal["paper", "normalised", "logit"]


@dataclass(frozen=True)
class ModelConfig:
    """The classifier of predicates."""

    network: Literal["graph", "supervised", "cnn"] = "graph"
    """A graph network trained on labels of pictures; the same one trained on labels of every pair; or a convolutional
    network on pixels."""
    width: int = 1024
    """graph, supervised: width of nodes, edges and relations."""
    kernels: int = 0
    """graph, supervised: kernels of the two convolutions on region features (0: as many as the features have
    channels)."""
    edges: Literal["paper", "log", "code"] = "paper"
    """Numbers of an edge: the five of Eq. 16, the same with the logarithm of the ratio of areas, or the ten of the
    authors' code."""
    body: Literal["small", "resnext50"] = "resnext50"
    """cnn: a small network, or ResNeXt-50 32x4d."""

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 65_536 or not 0 <= self.kernels <= 65_536:
            raise VergenceError(
                f"a model has a width from 1 and kernels from 0 to 65,536, got {self.width} and {self.kernels}"
            )


@dataclass(frozen=True)
class Explain:
    """From the classifier to ranked triplets."""

    mode: Mode = "paper"
    """Scores of pairs: gradients of the probability as printed, divided by their sum over pairs (normalised), or
    gradients of the logit."""
    rests: Literal["pair", "nodes", "edges", "random"] = "pair"
    """What ranks pairs: relevances of both nodes and the edge, of nodes alone, of edges alone, or chance."""
    prior: Literal["uniform", "frequency"] = "uniform"
    """Whether scores are multiplied by how often a predicate relates two classes in the validation pictures."""
    predicates: int = 10
    """The most likely predicates of a picture, which are explained."""
    keep: int = 100
    """Triplets per picture."""

    def __post_init__(self) -> None:
        if self.predicates < 1 or self.keep < 1:
            raise VergenceError(
                f"an explanation has 1 or more predicates and triplets, got {self.predicates} and {self.keep}"
            )


@dataclass(frozen=True)
class Pictures:
    """Pictures with their objects."""

    source: Source = EMBEDDED
    """embedded, hico:PATH, vrd:PATH, unrel:PATH, folder:PATH, or a plain PATH to a folder with train.json and
    test.json."""
    scenes: int = 1500
    """embedded: pictures to train on; a quarter as many for validation and test."""
    features: Literal["channels", "lite0", "file"] = "channels"
    """Region features: RoIAlign on colour and gradients, or on EfficientNet-Lite0 (extra `pretrained`), or read from
    .npz files beside the data."""
    objects: Literal["truth", "detected"] = "detected"
    """Test on annotated objects (predicate detection) or on detections; training always has annotated ones."""
    graph: Literal["all", "human"] = "all"
    """Edges between all objects, or only from people (HICO-DET's human-object graph)."""
    side: tuple[int, int] = (96, 128)
    """cnn: height and width that pictures are resized to."""
    overlap: float = 0.5
    """Intersection over union above which a box is right; UnRel's protocol has 0.3."""
    at: tuple[int, int] = (50, 100)
    """Ranks of the two recalls."""

    def __post_init__(self) -> None:
        if self.scenes < 4 or not 0 <= self.overlap < 1 or min(self.side) < 32 or max(self.side) > 2048:
            raise VergenceError(
                "data has 4 or more scenes, an overlap from 0 to below 1 and sides from 32 to 2048, got "
                f"{self.scenes}, {self.overlap:g} and {self.side}"
            )
        if min(self.at) < 1:
            raise VergenceError(f"a recall has a rank of at least 1, got {self.at}")


@dataclass(frozen=True)
class Config:
    """Relations by explanation: classifier, explanation, pictures, training."""

    model: ModelConfig = ModelConfig()
    explain: Explain = Explain()
    data: Pictures = Pictures()
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Facts:
    """Names and sizes that the data decides."""

    classes: tuple[str, ...] = ()
    """Classes of objects."""
    predicates: tuple[str, ...] = ()
    channels: int = 256
    """Channels of the region features."""


@dataclass(frozen=True)
class Inputs:
    """A picture and the objects in it: from a file of detections, or as boxes with the names of their classes."""

    image: Image
    """The picture."""
    detections: Text = ""
    """A file of detections: COCO results or annotations (.json), or boxes, scores and classes as detectron2 names them
    (.json, or .npz with region features)."""
    boxes: Boxes = ()
    """Without such a file: the objects, one box each."""
    classes: Text = ""
    """The class of each box, separated by commas, as in: cup, plate, dining table."""
    score: float = 0.3
    """Detections below this score are left out."""
    mode: Mode = "normalised"
    """Scores of pairs: normalised over the pairs of a picture, as printed in the paper, or by gradients of the
    logit."""
    prior: Literal["uniform", "frequency"] = "frequency"
    """frequency multiplies scores by how often a predicate related two classes in the validation pictures."""
    predicates: int = 10
    """The most likely predicates, which are explained."""
    triplets: int = 8
    """Triplets to list and draw."""
    unknown: Literal["refuse", "skip"] = "refuse"
    """Detections of classes that the weights do not know: an error, or left out."""

    def __post_init__(self) -> None:
        if bool(self.detections.strip()) == bool(self.boxes):
            raise VergenceError("objects come from --detections FILE or from --boxes with --classes: give one of them")
        if self.boxes and len(self.names()) != len(self.boxes):
            raise VergenceError(
                f"every box has a class: got {len(self.boxes)} boxes and {len(self.names())} classes ({self.classes!r})"
            )
        if not 0 <= self.score <= 1 or self.predicates < 1 or not 1 <= self.triplets <= 1000:
            raise VergenceError(
                "score is from 0 to 1, predicates at least 1 and triplets from 1 to 1000, got "
                f"{self.score:g}, {self.predicates} and {self.triplets}"
            )

    def names(self) -> list[str]:
        """The classes of the boxes."""
        return [name.strip() for name in self.classes.split(",") if name.strip()]


# Presets and variants -------------------------------------------------------------------------------------------------

_PUBLISHED = Training(epochs=18, batch=128, keep="best", optimiser=Optimiser("adam", lr=1e-3, weight_decay=1e-5))
_HICO = Pictures("hico:data", features="file", graph="human")
_VRD = Pictures("vrd:data", features="file")


def _tiny_training(epochs: int) -> Training:
    optimiser = Optimiser("adam", lr=2e-3, weight_decay=1e-5, schedule=Schedule("cosine", floor=0.02))
    return Training(epochs=epochs, batch=32, evaluate_every=0, optimiser=optimiser)


TINY = Config(
    ModelConfig(width=64, kernels=8, body="small"),
    Explain("normalised", predicates=5, keep=500),
    Pictures(side=(48, 64), at=(5, 10)),
    _tiny_training(25),
)
PRESETS = {
    "tiny": TINY,
    "paper": Config(data=_HICO, train=_PUBLISHED),
    "paper-vrd": Config(data=_VRD, train=_PUBLISHED),
    "paper-unrel": Config(explain=Explain(predicates=50, keep=500), data=replace(_VRD, overlap=0.3), train=_PUBLISHED),
    "starter": replace(
        TINY,
        model=replace(TINY.model, width=128, edges="log"),
        explain=replace(TINY.explain, prior="frequency"),
        data=replace(TINY.data, scenes=3000),
    ),
}
VARIANTS = {
    "explained": Variant("explained, normalised", {"explain.mode": "normalised"}),
    "log-ratio": Variant("explained, log of the area ratio", {"explain.mode": "normalised", "model.edges": "log"}),
    "supervised": Variant("supervised by pairs", {"model.network": "supervised"}),
    "gradcam": Variant("CNN and Grad-CAM", {"model.network": "cnn", "train.epochs": 12}),
    "paper-score": Variant("explained, score as printed", {"explain.mode": "paper"}, headline=False),
    "logit-score": Variant("explained, gradients of logits", {"explain.mode": "logit"}, headline=False),
    "frequency": Variant(
        "explained, frequency prior", {"explain.mode": "normalised", "explain.prior": "frequency"}, headline=False
    ),
    "node-only": Variant("nodes alone", {"explain.mode": "normalised", "explain.rests": "nodes"}, headline=False),
    "edge-only": Variant("edges alone", {"explain.mode": "normalised", "explain.rests": "edges"}, headline=False),
    "random": Variant("random pairs", {"explain.rests": "random"}, headline=False),
    "code-edges": Variant("edges of the authors' code", {"model.edges": "code"}, headline=False),
    "human": Variant("human-object graph", {"data.graph": "human"}, headline=False),
}
METRICS = {
    "recall": Metric("R@x", "%"),
    "recall_more": Metric("R@2x", "%"),
    "unordered": Metric("R@x unordered", "%"),
    "best": Metric("best pair", "%"),
    "best_unordered": Metric("best pair unordered", "%"),
    "direction": Metric("direction right", "%"),
    "phrase": Metric("phrase R@x", "%"),
    "map": Metric("mAP", "%"),
    "rare": Metric("mAP rare", "%"),
    "nonrare": Metric("mAP non-rare", "%"),
    "zero": Metric("R@x zero-shot", "%"),
    "zero_more": Metric("R@2x zero-shot", "%"),
    "phrase_more": Metric("phrase R@2x", "%"),
    "map_phrase": Metric("mAP phrase", "%"),
    "map_subject": Metric("mAP subject", "%"),
    "lenient": Metric("R@x lenient", "%"),
    "map_lenient": Metric("mAP lenient", "%"),
    "paper": Metric("R@x printed", "%"),
    "logit": Metric("R@x logit", "%"),
    "normalised": Metric("R@x normalised", "%"),
    "frequency": Metric("R@x prior", "%"),
    "random": Metric("R@x random", "%"),
    "pair_nodes": Metric("best pair unordered, nodes", "%"),
    "pair_edges": Metric("best pair unordered, edges", "%"),
    "pair_random": Metric("best pair unordered, random", "%"),
    "predicates": Metric("predicates in top 5", "%"),
    "accuracy": Metric("label accuracy", "%"),
}

_RECALLS = ("recall", "recall_more")
REPORTED = (
    Reported.table(
        "Table 1: HICO-DET, human-object graph",
        ("map", "rare", "nonrare"),
        {"human": (28.04, 24.63, 29.06)},
        ("paper",),
    ),
    Reported.table(
        "Table 1: HICO-DET, all pairs", ("map", "rare", "nonrare"), {"explained": (24.25, 20.23, 25.45)}, ("paper",)
    ),
    Reported.table(
        "Table 2: VRD, predicate detection (annotated boxes), R@50 and R@100",
        _RECALLS,
        {"explained": (27.3, 47.1), "frequency": (43.0, 57.4)},
        ("paper-vrd",),
    ),
    Reported.table(
        "Table 2: VRD, phrase detection, R@50 and R@100",
        ("phrase", "phrase_more"),
        {"explained": (6.8, 13.0), "frequency": (14.8, 20.2)},
        ("paper-vrd",),
    ),
    Reported.table(
        "Table 2: VRD, relationship detection, R@50 and R@100",
        _RECALLS,
        {"explained": (5.3, 8.4), "frequency": (10.6, 13.2)},
        ("paper-vrd",),
    ),
    Reported.table(
        "Table 3: VRD zero-shot, predicate detection",
        ("zero", "zero_more"),
        {"explained": (13.7, 29.2), "frequency": (13.5, 28.2)},
        ("paper-vrd",),
    ),
    Reported.table(
        "Table 4: UnRel, phrase, subject and relationship",
        ("map_phrase", "map_subject", "map"),
        {"explained": (19.8, 18.1, 14.9), "frequency": (20.0, 18.3, 15.1)},
        ("paper-unrel",),
    ),
)


def _names(word: str, count: int) -> list[str]:
    return [f"{word} {number}" for number in range(count)]


_HICO_FACTS = {"classes": _names("class", 80), "predicates": _names("predicate", 117), "channels": 256}
_VRD_FACTS = {"classes": _names("class", 100), "predicates": _names("predicate", 70), "channels": 256}
SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered rooms and table tops with people and things of 14 classes in relations (on, under, beside, "
        "inside, holding) and others in none. Training knows which predicates occur in a picture; tests have simulated "
        "detections, with boxes that are off, objects that are missed and classes that are confused."
    ),
    reported=REPORTED,
    published={
        "paper": Published(_HICO_FACTS, (1, 117), 18_433_653),
        "paper-vrd": Published(_VRD_FACTS, (1, 70), 18_405_958),
        "paper-unrel": Published(_VRD_FACTS, (1, 70), 18_405_958),
    },
    learns=Learns("bce", steps=40, share=0.85, changes={"data.scenes": 24, "train.batch": 12}),
    starters={
        "rooms": Starter(
            "on, under, beside, inside and holding between people, furniture and tableware",
            variant="log-ratio",
            tried="the photographs coffee and astronaut of scikit-image, with boxes drawn by hand: see the README",
            data="3,000 rendered rooms and table tops (vergence.agents.scenes), labels of whole pictures",
        ),
    },
    minutes=0.5,
)
