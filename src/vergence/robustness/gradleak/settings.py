"""Gradient leaking's settings: networks, the transform, defences, attacks, inputs, metrics, and reported numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Folder, Images, Text
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.classes import Classes
from vergence.robustness.gradleak import ABOUT
from vergence.robustness.protocols import BUDGETS, Defence, Protocol

Mode = Literal["ord", "pca", "noise", "isotropic"]
"""Training pictures as they are; projected; projected with noise in the next components; or with isotropic noise."""


@dataclass(frozen=True)
class ModelConfig:
    """The classifier."""

    network: Literal["densenet", "wrn", "resnet32", "small", "mlp"] = "densenet"
    """DenseNet-BC-100-12, WRN-28-10, a pre-activation ResNet-32, four convolutions, or two hidden layers."""
    width: int = 12
    """small: channels of the first convolution; mlp: hidden units."""
    head: Literal["linear", "mahalanobis"] = "linear"
    """A linear classifier, or distances to fixed Max-Mahalanobis centres, trained by the distance to the right one."""
    features: int = 64
    """mahalanobis: dimensions of the centres."""
    length: float = 10.0
    """mahalanobis: length of the centres."""

    def __post_init__(self) -> None:
        if self.width < 1 or self.features < 1 or not self.length > 0:
            raise VergenceError(
                f"a classifier has a width and features of at least 1 and a length above 0, got {self.width}, "
                f"{self.features} and {self.length:g}"
            )


@dataclass(frozen=True)
class Transform:
    """What is done to training pictures (Alg. 1), after the usual crops and flips and before normalisation."""

    mode: Mode = "noise"
    """ord, pca, noise, or isotropic."""
    use: Literal["narrow", "wide"] = "narrow"
    """Which number of components is kept."""
    narrow: int = 300
    """d: components kept, the smaller number; ᾱ is measured here."""
    wide: int = 800
    """d: components kept, the larger number; ᾱ is measured here too."""
    noisy: int = 10
    """m: components after these that get noise."""
    scale: float = 10.0
    """c: standard deviation of the noise, relative to that of the data in each component."""
    test: bool = False
    """The control: pictures are projected at test time instead, within the network that is attacked."""

    def __post_init__(self) -> None:
        if not 1 <= self.narrow <= self.wide or self.noisy < 0 or not self.scale >= 0:
            raise VergenceError(
                "a transform keeps 1 <= narrow <= wide components, with noisy >= 0 and scale >= 0, got "
                f"{self.narrow}, {self.wide}, {self.noisy} and {self.scale:g}"
            )

    @property
    def kept(self) -> int:
        return self.narrow if self.use == "narrow" else self.wide

    @property
    def rank(self) -> int:
        """Components that are computed and stored."""
        return self.wide + self.noisy


@dataclass(frozen=True)
class Pictures:
    """Training and test pictures."""

    source: Source = EMBEDDED
    """embedded, cifar10:PATH, mnist:PATH, folder:PATH, or a plain PATH to class folders."""
    scene: Literal["things", "curve"] = "things"
    """embedded: eight kinds of rendered things, or a curve in 20 dimensions (`tiny-curve`)."""
    side: int = 32
    """Side that pictures are resized to."""
    channels: Literal[1, 3] = 3
    """Grey or colour."""
    count: int = 1600
    """embedded: training pictures."""
    tests: int = 400
    """embedded: test pictures."""
    most: int = 0
    """Largest number of training pictures, the first ones (0: all)."""
    shift: int = 4
    """Training: largest shift in pixels, as of a crop after padding."""
    mirror: bool = True
    """Training: mirror every second picture; not for digits."""
    mean: float = 0.5
    """Subtracted from all channels, inside the network."""
    std: float = 0.25
    """Divided by, inside the network."""

    def __post_init__(self) -> None:
        if not 8 <= self.side <= 1024 or min(self.count, self.tests) < 8 or self.shift < 0 or self.most < 0:
            raise VergenceError(
                "pictures have a side from 8 to 1024, count and tests of at least 8, and shift and most of at least "
                f"0, got {self.side}, {self.count}, {self.tests}, {self.shift} and {self.most}"
            )
        if not self.std > 0:
            raise VergenceError(f"std is above 0, got {self.std:g}")

    @property
    def pictures(self) -> bool:
        """Whether these are pictures from 0 to 1, not points of the curve."""
        return self.source != EMBEDDED or self.scene == "things"

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.channels, self.side, self.side) if self.pictures else (1, 1, 20)


@dataclass(frozen=True)
class Config:
    """Gradient leaking: classifier, transform, defence, pictures, training, and how robustness is measured."""

    model: ModelConfig = ModelConfig()
    transform: Transform = Transform()
    defence: Defence = Defence()
    data: Pictures = Pictures("cifar10:data")
    train: Training = Training()
    protocol: Protocol = Protocol()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Facts(Classes):
    """The classes, and ᾱ before training and after each epoch (Fig. 4)."""

    classes: int = 10
    history: tuple[float, ...] = ()

    def refuse_others(self, own: Sequence[str]) -> None:
        super().refuse_others(own)
        if len(own) != self.classes:
            raise VergenceError(f"the weights have {self.classes} classes, the data has {len(own)}")


@dataclass(frozen=True)
class Inputs:
    """Pictures to diagnose classifiers on."""

    images: Images
    """Pictures, of any size; or use data."""
    data: Folder | None = None
    """A folder of pictures."""
    model: Text = ""
    """Classifiers, separated by commas, drawn side by side: lite0, lite1, lite2 (ImageNet, of the extra `pretrained`)
    or weights files of Vergence classifiers; by default the one of --weights, or lite0."""
    basis: Folder | None = None
    """A folder of other photographs, of which crops make the principal components; by default those stored with the
    weights, or photographs of scikit-image."""
    crops: int = 2000
    """Random crops that the components are made from."""
    rank: int = 200
    """Number of components, for a classifier that has none stored."""
    attack: Literal["deepfool", "bim", "cw", "none"] = "deepfool"
    """How small perturbations are found; none: the leak curve alone."""
    most: int = 24
    """Pictures used, spread over those given."""
    labels: Text = ""
    """A csv with the columns ImageId and TrueLabel, as in the NIPS 2017 set; without it, a classifier's own answers are
    the labels."""
    seed: int = 0
    """Random seed of the crops."""

    def __post_init__(self) -> None:
        if bool(self.images) == (self.data is not None):
            raise VergenceError("give pictures, or a folder of them with --data DIR, one of the two")
        if not 2 <= self.crops <= 1_000_000 or not 1 <= self.rank < self.crops or self.most < 1:
            raise VergenceError(
                "a basis of rank 1 or more needs more crops than its rank, at most a million, and most is at least 1; "
                f"got {self.rank}, {self.crops} and {self.most}"
            )

    @property
    def classifiers(self) -> tuple[str, ...]:
        """The names given, in order."""
        return tuple(name.strip() for name in self.model.split(",") if name.strip())


# Variants -------------------------------------------------------------------------------------------------------------


def _variant(label: str, mode: Mode = "ord", headline: bool = True, **changes: Any) -> Variant:
    """A variant that sets every field in which variants differ, so that it can replace any other in a config."""
    usual = {"transform__use": "narrow", "transform__test": False, "model__head": "linear", "defence__kind": "none"}
    named = {key.replace("__", "."): value for key, value in (usual | changes).items()}
    return Variant(label, {"transform.mode": mode, **named}, headline)


VARIANTS = {
    "noise": _variant("noise, narrow", "noise"),
    "ord": _variant("ordinary training"),
    "pca": _variant("pca, narrow", "pca"),
    "noise-wide": _variant("noise, wide", "noise", transform__use="wide"),
    "pca-wide": _variant("pca, wide", "pca", transform__use="wide"),
    "isotropic": _variant("isotropic noise of the same energy", "isotropic"),
    "test-time": _variant("projection at test time", transform__test=True, headline=False),
    "trades": _variant("TRADES", defence__kind="trades"),
    "at": _variant("adversarial training", defence__kind="at", headline=False),
    "mmc": _variant("MMC", model__head="mahalanobis"),
    "mmc-p": _variant("MMC-P, narrow", "pca", model__head="mahalanobis"),
    "mmc-p-wide": _variant("MMC-P, wide", "pca", False, model__head="mahalanobis", transform__use="wide"),
    "mmc-at": _variant("MMC, adversarial training", headline=False, model__head="mahalanobis", defence__kind="at"),
}


# Presets --------------------------------------------------------------------------------------------------------------


def _tiny_training() -> Training:
    schedule = Schedule("cosine", floor=0.0)
    optimiser = Optimiser("sgd", lr=0.05, nesterov=True, weight_decay=5e-4, schedule=schedule)
    return Training(epochs=16, batch=32, log_every=25, optimiser=optimiser)


def _dropped(lr: float, epochs: int, batch: int, decay: float, milestones: tuple[int, ...], gamma: float) -> Training:
    schedule = Schedule("multistep", unit="epoch", milestones=milestones, gamma=gamma)
    optimiser = Optimiser("sgd", lr=lr, nesterov=True, weight_decay=decay, schedule=schedule)
    return Training(epochs=epochs, batch=batch, optimiser=optimiser)


TINY = Config(
    ModelConfig("small"),
    Transform(wide=500),
    Defence(steps=2, step=6.0),
    Pictures(shift=2),
    _tiny_training(),
    Protocol(pictures=120, batch=120, attack="strongest", searches=2, steps=40, rate=0.02, constant=1.0,
             budgets=(1, 4, 8)),
)  # fmt: skip
_MNIST = Pictures("mnist:data", side=28, channels=1, most=4000, shift=2, mirror=False)
_ADAM = Optimiser("adam", lr=3e-3, weight_decay=1e-4)
_MMC = Optimiser("adam", lr=1e-3, schedule=Schedule("multistep", unit="epoch", milestones=(80, 120)))
PRESETS = {
    "tiny": TINY,
    "tiny-curve": replace(
        TINY,
        model=ModelConfig("mlp", 64),
        transform=Transform(narrow=1, wide=2, noisy=3),
        data=Pictures(scene="curve", count=2000, tests=500, shift=0, mirror=False, mean=0.0, std=1.0),
        train=Training(epochs=60, batch=100, evaluate_every=10, log_every=50, optimiser=_ADAM),
        protocol=Protocol(pictures=500, batch=500, attack="deepfool", budgets=()),
    ),
    "tiny-mnist": replace(TINY, transform=Transform(narrow=50, wide=150), data=_MNIST),
    "paper": Config(train=_dropped(0.1, 300, 64, 1e-4, (150, 225), 0.1)),
    "paper-wrn": Config(ModelConfig("wrn"), train=_dropped(0.1, 200, 128, 5e-4, (60, 120, 160), 0.2)),
    "paper-mmc": Config(
        ModelConfig("resnet32", head="mahalanobis"),
        Transform("pca", wide=500),
        train=Training(epochs=180, batch=50, optimiser=_MMC),
    ),
}
METRICS = {
    "err": Metric("Err", "%", higher_is_better=False, digits=1),
    "grad": Metric("Grad", higher_is_better=False, digits=3),
    "alpha": Metric("ᾱ narrow", digits=3),
    "alpha_wide": Metric("ᾱ wide", digits=3),
    "pert": Metric("Pert mean", digits=3),
    "median": Metric("Pert median", digits=3),
    "pert_all": Metric("Pert mean, errors as 0", digits=3),
    "alpha_pert": Metric("ᾱ of perturbations", digits=3),
    "energy": Metric("energy in narrow", "%", digits=1),
    "alpha_untrained": Metric("ᾱ before training", digits=3),
    "alpha_first": Metric("ᾱ after one epoch", digits=3),
    "alpha_highest": Metric("ᾱ of the best epoch", digits=3),
    **{f"pgd{budget}": Metric(f"PGD-10, {budget}/255", "%", digits=1) for budget in BUDGETS},
    "pgd_long": Metric("PGD-50, first budget", "%", digits=1),
    "pgd_targeted": Metric("PGD-10 targeted, first budget", "%", digits=1),
    "missed": Metric("pictures without a perturbation", digits=0, higher_is_better=False),
}
_TABLE2 = ("err", "grad", "alpha", "alpha_wide", "pert", "median")
_TABLE3 = ("err", "pgd8", "pgd16", "pgd24", "pgd32", "pgd_long")
REPORTED = (
    Reported.table(
        "Table 2: CIFAR-10, DenseNet; narrow is 300, wide 800",
        _TABLE2,
        {
            "ord": (5.92, 0.248, 0.040, 0.273, 0.090, 0.085),
            "pca-wide": (6.97, 0.123, 0.244, 0.817, 0.160, 0.155),
            "noise-wide": (8.82, 0.140, 0.460, 0.988, 0.208, 0.192),
            "pca": (11.71, 0.075, 0.713, 0.973, 0.256, 0.240),
            "noise": (16.53, 0.060, 0.942, 0.988, 0.308, 0.265),
            "trades": (21.22, 0.009, 0.416, 0.639, 0.664, 0.579),
        },
        ("tiny", "paper"),
    ),
    Reported.table(
        "Table 2: CIFAR-10, Wide-ResNet; narrow is 300, wide 800",
        _TABLE2,
        {
            "ord": (9.08, 0.195, 0.056, 0.352, 0.113, 0.100),
            "pca-wide": (9.70, 0.091, 0.253, 0.845, 0.193, 0.178),
            "noise-wide": (10.49, 0.076, 0.512, 0.978, 0.251, 0.233),
            "pca": (13.75, 0.050, 0.667, 0.910, 0.308, 0.283),
            "noise": (19.09, 0.027, 0.843, 0.881, 0.320, 0.299),
            "trades": (19.37, 0.008, 0.446, 0.673, 0.725, 0.639),
        },
        ("paper-wrn",),
    ),
    Reported.table(
        "Table 3: CIFAR-10, robust accuracy; narrow is 300, wide 500; PGD-50 at 8/255",
        _TABLE3,
        {
            "ord": (6.5, 3.9, 2.9, 2.2, 1.9, 3.8),
            "mmc": (7.5, 25.6, 11.7, 5.9, 3.7, 9.2),
            "mmc-p-wide": (9.7, 42.5, 30.6, 21.4, 15.9, 24.9),
            "mmc-p": (12.1, 43.9, 33.4, 25.5, 20.6, 29.2),
            "at": (16.0, 50.5, 20.9, 11.2, 8.7, 48.9),
            "mmc-at": (16.7, 54.2, 40.1, 35.1, 30.8, 51.1),
        },
        ("paper-mmc",),
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
    embedded=(
        "Embedded: 1,600 rendered pictures of eight kinds of things before photographs, 32 x 32 pixels; 300 components "
        "keep 98.4 % of the variance, 500 keep 99.4 %. Test pictures have textures and grounds that training never "
        "sees. Preset tiny-curve: a curve in 20 dimensions."
    ),
    reported=REPORTED,
    published={
        "paper": Published({"classes": 10}, (1, 10), parameters=769_162),
        "paper-wrn": Published({"classes": 10}, (1, 10), parameters=36_479_194),
        "paper-mmc": Published({"classes": 10}, (1, 10), parameters=470_416),
    },
    learns=Learns(
        "cross_entropy",
        steps=24,
        share=0.95,
        changes={
            "data.count": 40,
            "data.tests": 16,
            "data.side": 16,
            "model.width": 4,
            "transform.narrow": 8,
            "transform.wide": 16,
            "transform.scale": 1.0,
            "protocol.pictures": 8,
            "protocol.steps": 2,
            "protocol.budgets": (8,),
            "train.batch": 16,
        },
    ),
    minutes=0.6,
)
