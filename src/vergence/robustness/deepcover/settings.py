"""DeepCover's settings: classifiers, pictures, explanations by name, inputs, metrics, and reported numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from vergence.contract.assets import Asset
from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Images, Text
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.assets import LITE
from vergence.data.classes import Classes
from vergence.robustness.deepcover import ABOUT
from vergence.robustness.options import LABELS, Background, Baseline, Method, methods_of

Network = Literal["small", "lite0", "lite1", "lite2", "vgg16"]
Masks = Literal["block", "grid", "pixel"]
"""What a mutant hides: a square window at a random place (as the authors' code does), random cells of a coarse grid, or
pixels at random places (Alg. 2 as printed)."""
Measure = Literal["ochiai", "tarantula", "zoltar", "wong2"]
Executed = Literal["masked", "visible"]
"""The counting rule: a pixel counts as executed in a mutant where it is masked (as the authors' code counts), or where
it is visible (as Sect. 5 prints it, which ranks the important pixels last)."""
VGG16 = Asset(
    what="VGG16 trained on ImageNet",
    source="https://download.pytorch.org/models/vgg16-397923af.pth",
    licence="BSD-3-Clause (torchvision)",
    file="vgg16-397923af.pth",
    sha256="397923af",
)


@dataclass(frozen=True)
class ModelConfig:
    """The classifier that is explained."""

    network: Network = "vgg16"
    """A small network that is trained here, EfficientNet-Lite, or the paper's VGG16."""


@dataclass(frozen=True)
class Explain:
    """The explanation and its parameters."""

    method: Method = "deepcover"
    """DeepCover, or a baseline."""
    queries: int = 2000
    """Pictures that a method may ask the classifier about; a step of extremal masks counts as three."""
    measure: Measure = "ochiai"
    """deepcover: the measure that ranks pixels."""
    masks: Masks = "block"
    """deepcover: mutants hide one square window, cells of a coarse grid, or single pixels."""
    cells: int = 6
    """grid: cells along a side."""
    executed: Executed = "masked"
    """deepcover: the counting rule; visible is the printed one."""
    sigma: float = 1 / 5
    """deepcover: the share of the picture that the first mutants hide."""
    epsilon: float = 1 / 6
    """deepcover: how much the share grows after a mutant that keeps the answer, and shrinks after one that does not."""
    chains: int = 8
    """deepcover: sequences of mutants that adapt their shares independently, so that the classifier gets batches."""
    background: Background = "grey"
    """What hides a pixel."""
    step: float = 0.01
    """The sufficient set is looked for in steps of this share of the pixels, then exactly."""

    def __post_init__(self) -> None:
        if not 1 <= self.queries <= 10**7 or not 1 <= self.chains <= 4096:
            raise VergenceError(
                f"an explanation has 1 to 10 million queries in 1 to 4096 chains, got {self.queries} and {self.chains}"
            )
        if not 1 <= self.cells <= 256:
            raise VergenceError(f"a grid has 1 to 256 cells along a side, got {self.cells}")
        if not (0 < self.sigma <= 1 and 0 < self.epsilon <= 1 and 0 < self.step <= 1):
            raise VergenceError(
                f"sigma, epsilon and step are above 0 and at most 1, got {self.sigma:g}, {self.epsilon:g} and "
                f"{self.step:g}"
            )


@dataclass(frozen=True)
class Pictures:
    """Source and size of the pictures."""

    source: Source = EMBEDDED
    """embedded, ilsvrc:PATH (pictures and their boxes as XML), roaming:PATH (the roaming-panda benchmark), folder:PATH,
    or a plain PATH to class folders."""
    pasted: Literal["things", "photographs"] = "things"
    """embedded: rendered things in photographs, or parts of photographs in others (for ImageNet's classifiers)."""
    side: int = 48
    """Side that pictures are resized to."""
    count: int = 1800
    """embedded: pictures to train on."""
    things: int = 40
    """embedded: rendered things per class."""
    pictures: int = 42
    """Test pictures; those that the classifier gets right are explained."""
    poison: float = 0.0
    """Share of the training pictures with a trigger, labelled as the target; the test then has the trigger in every
    picture, and asks whether explanations find it."""

    def __post_init__(self) -> None:
        if not 16 <= self.side <= 1024 or self.count < 8 or self.things < 1 or self.pictures < 1:
            raise VergenceError(
                "pictures have a side from 16 to 1024; 8 or more are trained on, with 1 or more things per class, and "
                f"1 or more tested, got {self.side}, {self.count}, {self.things} and {self.pictures}"
            )
        if not 0 <= self.poison <= 0.9:
            raise VergenceError(f"the share of poisoned pictures is from 0 to 0.9, got {self.poison:g}")


@dataclass(frozen=True)
class Config:
    """DeepCover: classifier, explanation, pictures, and how the small classifier is trained."""

    model: ModelConfig = ModelConfig()
    explain: Explain = Explain()
    data: Pictures = Pictures("ilsvrc:data", side=224, pictures=1000)
    pretrained: str = "vgg16"
    """Weights to start from: a file, or an asset (vgg16, efficientnet-lite0 to 2)."""
    train: Training = Training(evaluate_every=0)
    batch: int = 4
    """Pictures of one forward pass of an explanation."""
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise VergenceError(f"a batch has at least one picture, got {self.batch}")


@dataclass(frozen=True)
class Facts(Classes):
    """The classes of the classifier; ImageNet's by default."""

    classes: int = 1000

    def refuse_others(self, own: Sequence[str]) -> None:
        super().refuse_others(own)
        if len(own) != self.classes:  # ImageNet's are not named in the weights
            raise VergenceError(f"the weights have {self.classes} classes, the data has {len(own)}")


@dataclass(frozen=True)
class Inputs:
    """Pictures to explain, the classifier, and the methods."""

    images: Images
    """Pictures to explain."""
    method: Text = "deepcover"
    """Methods, separated by commas, drawn side by side: deepcover, rise, occlusion, lime, shap, gradcam, ig, extremal,
    random, centre."""
    classifier: Text = ""
    """lite0, lite1 or lite2 (ImageNet, of the extra `pretrained`), an ONNX file, or a weights file of any Vergence
    classifier; by default the one of --weights, or lite0 without weights."""
    queries: int = 400
    """Pictures that each method may ask the classifier about; the paper asks 2000."""
    measure: Measure = "ochiai"
    """deepcover: the measure that ranks pixels."""
    masks: Masks = "block"
    """deepcover: mutants hide one square window, cells of a coarse grid (for objects that fill the picture; asks for
    more queries), or single pixels."""
    executed: Executed = "masked"
    """deepcover: the counting rule; visible is the printed one, which ranks the important pixels last."""
    background: Background = "grey"
    """What hides a pixel."""
    side: int = 0
    """Resize pictures to this side (0: the classifier's own; without one, at most 256)."""
    curves: int = 0
    """Points of the insertion and deletion curves (0: no curves); each costs two queries per method."""
    mean: Text = ""
    """ONNX: the mean of each channel that the network was trained with, such as 0.485,0.456,0.406."""
    std: Text = ""
    """ONNX: the standard deviation of each channel."""
    names: Text = ""
    """A text file with the names of the classes, one per line; 1000 classes are ImageNet's without it."""
    seed: int = 0
    """Random seed of the mutants."""

    def __post_init__(self) -> None:
        if not self.images:
            raise VergenceError("no picture given to explain")
        self.chosen()
        if self.side and not 16 <= self.side <= 1024:
            raise VergenceError(f"side is from 16 to 1024, or 0 for the classifier's own, got {self.side}")
        if not 0 <= self.curves <= 10_000:
            raise VergenceError(f"curves have 0 to 10,000 points, got {self.curves}")
        if bool(self.mean) != bool(self.std) or len(numbers(self.mean)) != len(numbers(self.std)):
            raise VergenceError(
                f"mean and std are given together, one number per channel, got {self.mean!r}, {self.std!r}"
            )
        if any(value <= 0 for value in numbers(self.std)):
            raise VergenceError(f"a standard deviation is above 0, got {self.std!r}")

    def chosen(self) -> tuple[Explain, ...]:
        """The explanation by each method."""
        first = Explain(
            queries=self.queries, measure=self.measure, masks=self.masks, executed=self.executed,
            background=self.background,
        )  # fmt: skip
        return tuple(replace(first, method=method) for method in methods_of(self.method))


def numbers(text: str) -> tuple[float, ...]:
    """Numbers separated by commas."""
    try:
        return tuple(float(part) for part in text.split(",")) if text.strip() else ()
    except ValueError:
        raise VergenceError(f"expected numbers separated by commas, such as 0.485,0.456,0.406, got {text!r}") from None


# Variants -------------------------------------------------------------------------------------------------------------


def _variant(label: str, headline: bool = True, **changes: Any) -> Variant:
    return Variant(label, {key.replace("__", "."): value for key, value in changes.items()}, headline)


VARIANTS = {
    "deepcover": Variant("DeepCover, Ochiai"),
    "tarantula": _variant("DeepCover, Tarantula", explain__measure="tarantula"),
    "zoltar": _variant("DeepCover, Zoltar", explain__measure="zoltar"),
    "wong2": _variant("DeepCover, Wong-II", explain__measure="wong2"),
    "grid": _variant("DeepCover, cells of a grid hidden", explain__masks="grid"),
    "pixels": _variant("DeepCover, single pixels hidden", explain__masks="pixel"),
    "printed": _variant("DeepCover, counts as printed", explain__executed="visible"),
    **{name: _variant(LABELS[name], explain__method=name) for name in get_args(Baseline)},
    "few": _variant("DeepCover, a tenth of the queries", False, explain__queries=40),
    "rise-few": _variant("RISE, a tenth of the queries", False, explain__method="rise", explain__queries=40),
    "trojan": _variant("DeepCover, backdoored classifier", False, data__poison=0.15),
    "trojan-rise": _variant("RISE, backdoored classifier", False, data__poison=0.15, explain__method="rise"),
    "early": _variant("DeepCover, an eighth of the training", False, train__epochs=1),
}


def _tiny_training() -> Training:
    optimiser = Optimiser("adam", lr=0.004, schedule=Schedule("cosine"))
    return Training(epochs=8, batch=30, evaluate_every=0, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        ModelConfig("small"), Explain(queries=400), Pictures(), pretrained="", train=_tiny_training(), batch=16
    ),
    "lite": Config(
        ModelConfig("lite0"),
        Explain(queries=400),
        Pictures(pasted="photographs", side=224, pictures=24),
        pretrained="efficientnet-lite0",
    ),
    "paper": Config(),
}
METRICS = {
    "iou": Metric("IoU at the object's area", digits=3),
    "best50": Metric("best IoU of 0.5 or more", "%", digits=1),
    "best60": Metric("of 0.6 or more", "%", digits=1),
    "best70": Metric("of 0.7 or more", "%", digits=1),
    "size": Metric("size of the sufficient set", "%", higher_is_better=False, digits=1),
    "small": Metric("sets of at most 10 % of the pixels", "%", digits=1),
    "deletion": Metric("pixels hidden until the answer changes", "%", higher_is_better=False, digits=1),
    "quick": Metric("changed with at most 2 %", "%", digits=1),
    "insertion_area": Metric("area of insertion", digits=3),
    "deletion_area": Metric("area of deletion", higher_is_better=False, digits=3),
    "size_black": Metric("size on a black background", "%", higher_is_better=False, digits=1),
    "iou8": Metric("IoU of the first 8 %", digits=3),
    "located8": Metric("found by the first 8 %", "%", digits=1),
    "passing": Metric("mutants that keep the answer", "%", digits=1),
    "accuracy": Metric("accuracy of the classifier", "%", digits=1),
    "explained": Metric("pictures explained", digits=0),
}
REPORTED = (
    Reported.table(
        "Table 1: 1,000 pictures with a red panda pasted in, VGG16 and MobileNet",
        ("best50", "best60", "best70"),
        {
            "deepcover": (76.7, 54.9, 9.8),
            "extremal": (70.7, 21.5, 2.2),
            "rise": (55.8, 42.9, 25.7),
            "gradcam": (0.0, 0.0, 0.0),
        },
    ),
    Reported(
        "Fig. 3 and 4 as the text reads them, ILSVRC2012 with VGG16; Sect. 6.5, trojaned VGG Face",
        {"deepcover": {"small": 40.0, "quick": 60.0}, "trojan": {"iou8": 0.6, "located8": 80.0}},
    ),
)

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    assets={"vgg16": VGG16, **LITE},
    embedded=(
        "Embedded: rendered things (bicycle, car, chair, mug, person, tree) pasted at random places into photographs "
        "of scikit-image, 48 x 48 pixels, and a small network trained to name them. What the answer must rest on is "
        "known: the box of the thing."
    ),
    reported=REPORTED,
    published={"paper": Published({"classes": 1000}, (1, 1000), parameters=138_357_544)},
    learns=Learns(
        "cross_entropy",
        steps=40,
        share=0.9,
        changes={"data.count": 70, "data.things": 1, "data.pictures": 7, "explain.queries": 30},
    ),
    minutes=0.5,
)
