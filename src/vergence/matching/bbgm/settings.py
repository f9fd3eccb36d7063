"""BB-GM's settings: network, solver, pictures, inputs, presets, variants, metrics, and the figures of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.assets import Asset
from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Image, Images, Points, Text
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.matching.bbgm import ABOUT

Solver = Literal["auto", "enumerate", "milp", "dual"]


@dataclass(frozen=True)
class ModelConfig:
    """Features, costs and solver."""

    widths: tuple[int, ...] = (64, 128, 256, 512, 512)
    """Channels of the trunk's stages; each ends with a pooling layer."""
    convs: tuple[int, ...] = (2, 2, 3, 3, 3)
    """Convolutions of each stage; these are VGG-16's."""
    taps: tuple[int, int] = (9, 11)
    """Convolutions, counted from 1, after which keypoints read their features: relu4_2 and relu5_1 of VGG-16."""
    spline: bool = True
    """Refine features of keypoints by two SplineConv layers over the graph."""
    knots: int = 5
    """Knots of a spline along each coordinate."""
    share: float = 0.1
    """Weight of what the SplineConv layers add."""
    attention: bool = True
    """Weigh the channels of inner products by the features of both whole pictures."""
    quadratic: bool = True
    """Costs for pairs of edges; without them, matching is linear assignment."""
    matching: Literal["solver", "sinkhorn"] = "solver"
    """Train through the solver with Hamming's loss, or on Sinkhorn's plan with cross-entropy."""
    maximum: bool = False
    """Match as many keypoints as possible, whatever it costs (BB-GM-Max)."""
    solver: Solver = "auto"
    """auto: enumeration up to 6 keypoints, dual ascent for more; milp: integer programming."""
    rounds: int = 40
    """dual: sweeps."""
    seconds: float = 10.0
    """milp: time for each pair."""

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.convs) or min(*self.widths, *self.convs, self.rounds, 9999) < 1:
            raise VergenceError(
                f"a trunk has widths and convs of at least 1 for each stage and rounds >= 1, got {self.widths}, "
                f"{self.convs} and {self.rounds}"
            )
        if not 1 <= self.taps[0] < self.taps[1] <= sum(self.convs):
            raise VergenceError(f"taps are two convolutions from 1 to {sum(self.convs)} in order, got {self.taps}")
        if not self.seconds > 0 or self.knots < 2:
            raise VergenceError(f"a model has seconds > 0 and knots >= 2, got {self.seconds:g} and {self.knots}")


@dataclass(frozen=True)
class LossConfig:
    """The gradient through the solver."""

    strength: float = 80.0
    """λ: how far costs are moved against the gradient (Eq. 2)."""
    margin: float = 1.0
    """α: what true matches cost more in training (Eq. 7)."""
    eps: float = 0.1
    """sinkhorn: weight of the entropy."""
    iterations: int = 20
    """sinkhorn: iterations."""

    def __post_init__(self) -> None:
        if not (self.strength > 0 and self.eps > 0 and self.margin >= 0 and self.iterations >= 1):
            raise VergenceError("a loss has strength and eps > 0, margin >= 0 and iterations >= 1")


@dataclass(frozen=True)
class Pictures:
    """Pictures with keypoints, and the sets that are matched."""

    source: Source = EMBEDDED
    """embedded, voc:PATH, spair:PATH, willow:PATH, or a PATH to train/KIND/NAME.jpg with NAME.csv."""
    filter: Literal["intersection", "inclusion", "unfiltered"] = "unfiltered"
    """Keypoints that both pictures have; pairs of which the second has all of the first's; or all keypoints."""
    side: int = 256
    """Pixels along the sides of what is cut out."""
    views: int = 2
    """Pictures of a set in evaluation; more than two are matched consistently, and the first pair is scored. Training
    is on pairs."""
    most: int = 0
    """The most keypoints of a picture (0: all)."""
    outliers: float = 0.0
    """unfiltered: share of keypoints that are moved to a random place."""
    pairs: int = 1000
    """Test pairs of each kind; a listed data set has its own."""
    pool: int = 64
    """embedded: pictures of each kind to train on; half as many for validation and test."""
    clean: bool = False
    """voc: leave out pictures of 2007 of the two kinds that Willow has, to train for it."""

    def __post_init__(self) -> None:
        if self.side < 16 or self.views < 2 or self.most < 0 or self.pairs < 1 or self.pool < 4:
            raise VergenceError("data has side >= 16, views >= 2, most >= 0, pairs >= 1 and pool >= 4")
        if not 0 <= self.outliers < 1:
            raise VergenceError(f"the share of outliers is from 0 to below 1, got {self.outliers:g}")
        if self.views > 2 and self.filter == "inclusion":
            raise VergenceError(f"inclusion is about pairs, got views={self.views}")


@dataclass(frozen=True)
class Config:
    """Network, pictures, loss, training."""

    model: ModelConfig = ModelConfig()
    data: Pictures = Pictures()
    loss: LossConfig = LossConfig()
    train: Training = Training()
    pretrained: str = ""
    """Weights to start from: those of another run, or of torchvision's vgg16_bn for the trunk."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Two pictures of like things with keypoints; or more, which are matched consistently."""

    first: Image
    """A picture."""
    second: Image
    """Another one of the same kind of thing."""
    points_a: Text = ""
    """Keypoints of the first picture: a file, CSV or JSON, with x and y in pixels and perhaps names."""
    points_b: Text = ""
    """Keypoints of the second picture: a file like that of the first."""
    places_a: Points = ()
    """Keypoints of the first picture as x,y in pixels, instead of a file."""
    places_b: Points = ()
    """Keypoints of the second picture as x,y in pixels, instead of a file."""
    more: Images = ()
    """Further pictures, each with a file of its keypoints beside it: NAME.csv or NAME.json."""
    solver: Solver = "auto"
    """auto: enumeration up to 6 keypoints, dual ascent for more; milp proves that no matching is cheaper, or says how
    far it got in time."""
    seconds: float = 10.0
    """milp: time limit for each pair."""
    maximum: Literal["no", "yes"] = "no"
    """Match as many keypoints as possible instead of leaving doubtful ones alone."""

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise VergenceError(f"seconds is a time above 0, got {self.seconds:g}")


def _training(epochs: int, steps: int) -> Training:
    """Adam; the rate is halved after 2, 4, 6 and 8 of ``epochs`` parts of ``steps`` steps, and a hundredth for VGG."""
    milestones = tuple(epochs * part // 10 * steps for part in (2, 4, 6, 8)) if epochs >= 10 else (steps,)
    schedule = Schedule("multistep", milestones=milestones, gamma=0.5)
    optimiser = Optimiser("adam", lr=2e-3, rates={"trunk.*": 0.01}, schedule=schedule)
    return Training(steps=epochs * steps, batch=8, evaluate_every=0, optimiser=optimiser)


SMALL = ModelConfig(widths=(8, 16, 32, 48), convs=(1, 1, 2, 1), taps=(3, 5))
TINY = Config(
    SMALL,
    Pictures(side=64, most=6, outliers=0.1, pairs=50, pool=64),
    train=Training(
        steps=240, batch=8, evaluate_every=0, log_every=20,
        optimiser=Optimiser("adam", lr=3e-3, schedule=Schedule("cosine", floor=0.05)),
    ),
)  # fmt: skip
PAPER = Config(
    ModelConfig(), Pictures("voc:data", filter="intersection"), train=_training(10, 2000), pretrained="vgg16_bn"
)
PRESETS = {
    "tiny": TINY,
    "tiny-intersection": replace(TINY, data=replace(TINY.data, filter="intersection", outliers=0.0)),
    "starter": replace(TINY, data=replace(TINY.data, most=8, pairs=25), train=replace(TINY.train, steps=400)),
    "paper": PAPER,
    "paper-unfiltered": replace(PAPER, data=replace(PAPER.data, filter="unfiltered")),
    "paper-inclusion": replace(PAPER, data=replace(PAPER.data, filter="inclusion")),
    "paper-spair": replace(PAPER, data=Pictures("spair:data", filter="intersection"), train=_training(10, 400)),
    "paper-willow-pretraining": replace(PAPER, data=replace(PAPER.data, clean=True)),
    "paper-willow": replace(
        PAPER, data=Pictures("willow:data", filter="intersection", pairs=100), train=_training(2, 100)
    ),
}
VARIANTS = {
    "bbgm": Variant("BB-GM"),
    "max": Variant("BB-GM-Max", {"model.maximum": True}),
    "multi": Variant("BB-GM-Multi, five pictures", {"data.views": 5}),
    "unary": Variant("without edge costs", {"model.quadratic": False}),
    "sinkhorn": Variant(
        "Sinkhorn, cross-entropy", {"model.matching": "sinkhorn", "model.quadratic": False}, headline=False
    ),
    "no-spline": Variant("without SplineConv", {"model.spline": False}),
    "no-attention": Variant("without global attention", {"model.attention": False}, headline=False),
}
METRICS = {
    "f1": Metric("F1", "%", digits=1),
    "accuracy": Metric("accuracy", "%", digits=1),
    "unmatched": Metric("keypoints left alone", "%", digits=1),
    "proven": Metric("answers proven optimal", "%", digits=1),
}
REPORTED = (
    Reported.table("VOC with Berkeley keypoints, intersection: accuracy", ("accuracy",), {"bbgm": (80.1,)}),
    Reported.table(
        "VOC with Berkeley keypoints, unfiltered: F1", ("f1",), {"bbgm": (61.4,), "max": (51.9,), "multi": (62.8,)}
    ),
    Reported.table("SPair-71k, all test pairs: accuracy", ("accuracy",), {"bbgm": (78.9,)}),
)
PARAMETERS = 14_723_136 + 2 * (26 * 1024**2 + 1024) + 2 * (1024**2 + 1024)
"""VGG-16's convolutions with batch norm, two SplineConv layers, and two attention layers of 1024 x 1024."""
_OUTPUT = {"nodes": (1, 23, 23), "edges": (1, 126, 126)}

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    assets={
        "vgg16_bn": Asset(
            "VGG-16 with batch norm trained on ImageNet",
            "https://download.pytorch.org/models/vgg16_bn-6c64b313.pth",
            "BSD-3-Clause",
            "vgg16_bn-6c64b313.pth",
            sha256="6c64b313",
        )
    },
    embedded=(
        "Embedded: rendered animals, bicycles, buses and cars of their own shapes and colours, seen from both sides "
        "under changing light among other things; keypoints are those parts that are seen, and some are outliers."
    ),
    reported=REPORTED,
    published={name: Published({}, _OUTPUT, PARAMETERS) for name in PRESETS if name.startswith("paper")},
    learns=Learns(
        "hamming",
        steps=24,
        share=0.85,
        preset="tiny-intersection",
        changes={"data.pool": 4, "data.side": 32, "data.pairs": 2, "data.most": 4, "loss.margin": 0.0},
    ),
    starters={
        "rendered": Starter(
            "matches keypoints of animals and vehicles seen from similar sides, trained on rendered ones",
            tried="see the README: photographs of scikit-image, and photographs of two cars",
            data="256 rendered animals, bicycles, buses and cars, 64 x 64 pixels (vergence.matching.creatures)",
        )
    },
    minutes=0.4,
)
