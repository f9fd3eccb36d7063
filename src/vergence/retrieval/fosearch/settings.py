"""FOSearch's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Boxes, Folder, Image, Text
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.assets import RESNET50
from vergence.retrieval.fos_settings import ForegroundView
from vergence.retrieval.fosearch import ABOUT


@dataclass(frozen=True)
class Network:
    """A ResNet without its classifier."""

    depths: tuple[int, ...] = (3, 4, 6, 3)
    """Blocks of each stage."""
    widths: tuple[int, ...] = (64, 128, 256, 512)
    """Channels of each stage; bottlenecks end with four times as many."""
    block: Literal["basic", "bottleneck"] = "bottleneck"
    """The residual block."""

    def __post_init__(self) -> None:
        if not 2 <= len(self.depths) == len(self.widths) <= 8 or min(*self.depths, *self.widths) < 1:
            raise VergenceError(
                f"a network has as many widths as depths, two to eight and none below 1; got {self.depths} and "
                f"{self.widths}"
            )


@dataclass(frozen=True)
class ModelConfig:
    """The encoders, and how background and box are fused."""

    network: Network = Network()
    """Of both encoders."""
    fusion: Literal["bilinear", "concat", "early"] = "bilinear"
    """Outer product of background features and layout; both in a row; or a picture whose box is filled with the mean
    (Zhao et al., 2018)."""
    hidden: int = 0
    """Width of the first layer of the query head (0: that of the embedding)."""
    rectified: bool = True
    """Whether the query embedding ends with a ReLU."""
    taught: bool = True
    """Whether the foreground encoder learns patterns first and is then frozen; else it learns with the query encoder
    (Zhao et al., 2018)."""
    frozen: bool = True
    """Whether the background encoder stays as it was pre-trained while the query head learns."""
    multitask: bool = False
    """Whether both encoders are fine-tuned with both losses in the end."""
    background: Literal["own", "efficientnet-lite0"] = "own"
    """The background encoder: a network of its own, or EfficientNet-Lite0 as it was trained on ImageNet (extra
    `pretrained`), which stays outside the weights."""

    def __post_init__(self) -> None:
        if self.hidden < 0:
            raise VergenceError(f"a query head's hidden width is at least 0, got {self.hidden}")
        if self.background != "own" and not self.frozen:
            raise VergenceError(
                f"{self.background} is always frozen: give --model.frozen True, or a network of its own"
            )


@dataclass(frozen=True)
class Objective:
    """Losses of both stages."""

    centre: float = 0.005
    """Weight of the centre loss (Eq. 1)."""
    centre_rate: float = 0.5
    """How fast the centres follow the embeddings."""
    margin: float = 0.1
    """Margin of the triplet loss (Eq. 3)."""
    sign: Literal["meant", "printed"] = "meant"
    """Of the triplet loss: meant draws a query to the positive, printed (Eq. 3 as it stands) to the negative."""

    def __post_init__(self) -> None:
        if not (self.centre >= 0 and 0 <= self.centre_rate <= 1 and 0 <= self.margin <= 2):
            raise VergenceError(
                f"the losses have centre >= 0, centre_rate from 0 to 1 and margin from 0 to 2, got {self.centre}, "
                f"{self.centre_rate} and {self.margin}"
            )


@dataclass(frozen=True)
class Pictures(ForegroundView):
    """Source of the pairs, and how pictures are shown to the networks."""

    source: Source = EMBEDDED
    """embedded, coco:PATH, fosd:PATH, folder:PATH, or a plain PATH to a folder of pairs."""
    copies: int = 20
    """Random views of each cut-out and each pair in an epoch."""
    offline: int = 0
    """Training of the query encoder: random views that frozen encoders see once, before it begins; 0 draws and encodes
    new ones in every step."""
    pairs: Literal["pattern", "instance"] = "pattern"
    """Positives are any cut-outs of the query's pattern, or its own alone."""
    pseudo: bool = False
    """Whether the trained teacher gives patterns to the cut-outs that have none."""
    scenes: int = 600
    """embedded: rendered scenes for training, each under two lights and mirrored; a twelfth as many for validation and
    test."""
    each: int = 12
    """embedded: figures of every motion and view for training, each under two lights; 3 for validation and test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.copies < 1 or not 0 <= self.offline <= 1000:
            raise VergenceError(
                f"an epoch has at least one copy of each sample, and 0 to 1000 views are encoded before it; got "
                f"copies={self.copies} and offline={self.offline}"
            )
        if not 5 <= self.scenes <= 1_000_000 or not 1 <= self.each <= 100_000:
            raise VergenceError(
                f"embedded data has 5 to 1000000 scenes and 1 to 100000 figures each, got {self.scenes} and {self.each}"
            )


@dataclass(frozen=True)
class Config:
    """FOSearch: networks, losses, pairs, and the trainings in their order."""

    model: ModelConfig = ModelConfig()
    objective: Objective = Objective()
    data: Pictures = Pictures()
    pretrained: str = ""
    """Weights that both encoders start from: a ResNet under torchvision's names, or another run of this system. The
    background encoder is not pre-trained then."""
    scenes: Training = Training()
    """Pre-training of the background encoder on attributes of scenes, where the data has them: what ImageNet is to the
    paper."""
    teacher: Training = Training()
    """Training of the foreground encoder to classify patterns."""
    train: Training = Training()
    """Training of the query encoder by triplets."""
    joint: Training = Training()
    """Fine-tuning of both encoders with both losses."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Facts:
    """What the data determines."""

    patterns: int = 1
    """The number of patterns."""
    names: tuple[str, ...] = ()
    """Of the patterns."""
    scenes: tuple[int, ...] = ()
    """Numbers of values of the attributes of scenes that the background encoder is pre-trained on, if any."""

    def __post_init__(self) -> None:
        if not 1 <= self.patterns <= 1_000_000 or not all(1 <= size <= 1_000_000 for size in self.scenes):
            raise VergenceError(
                f"a model has 1 to 1000000 patterns, and so many values of each attribute of scenes; got "
                f"{self.patterns} and {self.scenes}"
            )


@dataclass(frozen=True)
class Inputs:
    """A picture, a box in it, and the cut-outs to choose from."""

    background: Image | None = None
    """The picture that a cut-out is to be put into."""
    box: Boxes = ()
    """Where: left, top, width and height in pixels."""
    gallery: Folder | None = None
    """A folder of cut-outs: PNG with transparency, or objects on a plain ground. A file patterns.csv in it, with the
    columns file and pattern, names their patterns; without one the classifier does."""
    index: Text = ""
    """A file that keeps the embeddings of the gallery; without --gallery it is read."""
    top: int = 8
    """Number of results shown."""
    kind: Literal["flat", "ivf", "hnsw", "ivfpq"] = "flat"
    """Kind of index: flat is exact, the others are approximate."""

    def __post_init__(self) -> None:
        if self.background is None:
            raise VergenceError("there is no picture to put a cut-out into: give --background FILE")
        if len(self.box) != 1:
            raise VergenceError(f"one box is needed, --box x,y,width,height; got {len(self.box)}")
        if self.gallery is None and not self.index:
            raise VergenceError("there is no gallery: give --gallery DIR, or --index FILE of an earlier call")
        if not 1 <= self.top <= 1000:
            raise VergenceError(f"1 to 1000 results are shown, got --top {self.top}")


def _short(steps: int, optimiser: Optimiser, batch: int = 32) -> Training:
    return Training(steps=steps, batch=batch, evaluate_every=0, log_every=20, optimiser=optimiser)


def _adam(lr: float) -> Optimiser:
    return Optimiser("adam", lr=lr, betas=(0.5, 0.99), schedule=Schedule("cosine", floor=0.02))


def _sgd(lr: float) -> Optimiser:
    return Optimiser("sgd", lr=lr, weight_decay=1e-4, schedule=Schedule("cosine", warmup=20, floor=0.02))


TINY = Config(
    ModelConfig(Network((1, 1, 1), (16, 32, 64), "basic"), hidden=128),
    data=Pictures(
        size=64,
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
        relax=0.15,
        zoom=0.5,
        padding=0.15,
        jitter=(0.2, 0.2, 0.2, 0.05),
        copies=1,
        offline=4,
    ),
    scenes=_short(500, _adam(2e-3)),
    teacher=_short(250, _sgd(0.05)),
    train=_short(300, _adam(1e-3)),
    joint=_short(150, _adam(3e-4)),
)
STARTER = replace(
    TINY,
    data=replace(TINY.data, scenes=1500, each=24, jitter=(0.4, 0.4, 0.4, 0.1)),
    scenes=_short(2500, _adam(2e-3)),
    teacher=_short(800, _sgd(0.05)),
    train=_short(1500, _adam(1e-3)),
)
_HALVED = Schedule("step", unit="epoch", period=10, gamma=0.5)
PAPER = Config(
    data=Pictures(source="coco:data"),
    pretrained="resnet50",
    teacher=Training(epochs=40, batch=32, optimiser=Optimiser("sgd", lr=0.02, weight_decay=1e-4, schedule=_HALVED)),
    train=Training(steps=250_000, batch=16, optimiser=Optimiser("adam", lr=1e-4, betas=(0.5, 0.99))),
    joint=Training(steps=25_000, batch=16, optimiser=Optimiser("adam", lr=1e-5, betas=(0.5, 0.99))),
)
PRESETS = {"tiny": TINY, "starter": STARTER, "paper": PAPER}


def _variant(label: str, *, headline: bool = True, **changes: Any) -> Variant:
    """Changes are by dotted name, with two underscores for the dot."""
    return Variant(label, {name.replace("__", "."): value for name, value in changes.items()}, headline)


VARIANTS = {
    "fosearch": Variant("FOSearch"),
    "baseline": _variant("early fusion, no patterns (Zhao et al.)", model__fusion="early", model__taught=False,
                         model__frozen=False, data__zoom=0.0, data__pairs="instance"),
    "early": _variant("early fusion", model__fusion="early", model__frozen=False, data__zoom=0.0),
    "no-zoom": _variant("late fusion, no zoom", model__frozen=False, data__zoom=0.0),
    "no-freeze": _variant("background trained", model__frozen=False),
    "multitask": _variant("multi-task", model__multitask=True),
    "concat": _variant("concatenation", headline=False, model__fusion="concat"),
    "untaught": _variant("late fusion, no patterns", headline=False, model__taught=False, data__pairs="instance"),
    "instance": _variant("pairs of instances", headline=False, data__pairs="instance"),
    "no-centre": _variant("no centre loss", headline=False, objective__centre=0.0),
    "printed": _variant("Eq. 3 as printed", headline=False, objective__sign="printed"),
    "blank": _variant("background not pre-trained", headline=False, scenes__steps=0),
}  # fmt: skip
METRICS = {
    "map": Metric("mAP", "%", digits=1),
    "map_inside": Metric("cue in the box", "%", digits=1),
    "map_outside": Metric("cue elsewhere", "%", digits=1),
    "map_patterns": Metric("mAP, patterns", "%", digits=1),
    "chance": Metric("random order", "%", digits=1),
    "top1": Metric("Top-1", "%", digits=1),
    "top5": Metric("Top-5", "%", digits=1),
    "centre1": Metric("Top-1, nearest centre", "%", digits=1),
    "similar": Metric("similar cut-outs", "%", digits=1),
    "similar_plain": Metric("the same, pre-trained alone", "%", digits=1),
    "scene": Metric("scenes", "%", digits=1),
}
REPORTED = (
    Reported.table(
        "Table 2: 100 queries and 345 people cut out of COCO",
        ("map",),
        {
            "baseline": (43.30,),
            "early": (48.98,),
            "no-zoom": (51.91,),
            "no-freeze": (53.61,),
            "fosearch": (53.72,),
            "multitask": (54.48,),
        },
    ),
    Reported.table("Sec. 5.1: 345 people, 699 patterns", ("top1", "top5"), {"fosearch": (53.15, 85.79)}),
)
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
        "Embedded: rendered rooms, streets and parks with a box, and rendered figures in 18 patterns. What stands "
        "there (in half of the scenes inside the box) tells the motion, shading and shadows the side of the light, the "
        "box the view and whether the figure is cut. The background encoder is pre-trained on the first two, for want "
        "of ImageNet."
    ),
    reported=REPORTED,
    published={
        "paper": Published(
            {"patterns": 699}, {"query": (1, 2048), "foreground": (1, 2048), "patterns": (1, 699)}, 69_423_931
        )
    },
    learns=Learns(
        "pattern",
        steps=8,
        share=0.9,
        changes={
            "data.scenes": 5,
            "data.each": 1,
            "data.size": 32,
            "data.offline": 1,
            "scenes.batch": 8,
            "teacher.batch": 10,
            "train.batch": 8,
            "joint.batch": 8,
            "teacher.optimiser.schedule.warmup": 0,
            "teacher.optimiser.lr": 0.1,
        },
    ),
    starters={
        "rendered": Starter(
            "cut-outs of people by view and truncation, trained on rendered scenes and figures only",
            data="6,000 queries in 1,500 rendered scenes and 480 rendered figures of 18 patterns; tested on 500 "
            "queries in other scenes and 120 other figures",
            tried="63 photographs: a large box on the lower edge gets an upper body first in 86 %, one for a standing "
            "figure in 0 to 6 %; a narrow box gets a wide view in 10 %, a wider box in 94 %; motion and light are not "
            "told",
        ),
    },
    minutes=0.7,
)
