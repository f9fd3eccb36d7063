"""CSKD's settings: networks, losses, data, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Images
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.recognition.categorystructure import ABOUT
from vergence.recognition.settings import Facts, PictureView


@dataclass(frozen=True)
class Network:
    """A ResNet for small pictures."""

    depth: Literal[10, 18, 34, 50, 101, 152] = 18
    """Layers; basic blocks up to 34, bottlenecks from 50 on."""
    width: float = 0.25
    """Multiple of the usual widths 64, 128, 256, 512."""
    pool: Literal[1, 2] = 1
    """Stride of the max-pooling after the first convolution."""

    def __post_init__(self) -> None:
        if not 1 / 64 <= self.width <= 8:
            raise VergenceError(f"a network's width is from 1/64 to 8, got {self.width}")


@dataclass(frozen=True)
class ModelConfig:
    """The two networks."""

    student: Network = Network()
    """The network that is trained for use."""
    teacher: Network = Network(101, 0.5)
    """The network that it learns from."""


@dataclass(frozen=True)
class Objective:
    """Losses of the student (Eqs. 9 and 10)."""

    alpha: float = 0.1
    """Weight of the labels' cross-entropy; the teacher's answers have the rest. At 1, with the others at 0, there is
    no teacher."""
    answers: Literal["logits", "hinton"] = "logits"
    """Distance to the teacher's answers: mean squared difference of logits, or Hinton's divergence."""
    temperature: float = 4.0
    """hinton: temperature of both softmaxes."""
    beta: float = 0.01
    """Weight of the intra-category structure."""
    gamma: float = 0.2
    """Weight of the inter-category structure."""
    norm: Literal["fro", "mse"] = "fro"
    """Norm of both: unsquared Frobenius, as in Eq. 9, or mean of squares, as in the public code."""
    hint: float = 0.0
    """Weight of FitNet's regression of the teacher's features."""
    congruence: float = 0.0
    """Weight of CCKD's similarities between samples."""
    distance: float = 0.0
    """Weight of RKD's distances between samples."""
    angle: float = 0.0
    """Weight of RKD's angles between samples."""

    def __post_init__(self) -> None:
        if not (0 <= self.alpha <= 1 and self.temperature > 0):
            raise VergenceError(
                f"an objective has alpha from 0 to 1 and a temperature above 0, got {self.alpha} and {self.temperature}"
            )
        for name in ("beta", "gamma", "hint", "congruence", "distance", "angle"):
            if not getattr(self, name) >= 0:
                raise VergenceError(f"an objective's {name} is at least 0, got {getattr(self, name)}")

    @property
    def taught(self) -> bool:
        """Whether there is a teacher."""
        extra = (self.beta, self.gamma, self.hint, self.congruence, self.distance, self.angle)
        return self.alpha < 1 or any(weight > 0 for weight in extra)


@dataclass(frozen=True)
class Pictures(PictureView):
    """Source and augmentation of the pictures."""

    source: Source = EMBEDDED
    """embedded, cifar10:PATH, cifar100:PATH, tiny-imagenet:PATH, folder:PATH, or a plain PATH to class folders."""
    each: int = 0
    """Pictures per class in a batch (0: batches are random, as published)."""
    count: int = 1600
    """embedded: number of training pictures; half as many for the test, an eighth for validation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 16 <= self.count <= 1_000_000 or self.each < 0:
            raise VergenceError(
                f"data has 16 to 1000000 embedded pictures and 0 or more of each class in a batch, got {self.count} "
                f"and {self.each}"
            )


@dataclass(frozen=True)
class Config:
    """CSKD: networks, losses, pictures, and the trainings of teacher and student."""

    model: ModelConfig = ModelConfig()
    objective: Objective = Objective()
    data: Pictures = Pictures()
    pretrained: str = ""
    """A trained teacher: the weights of another run of this system, or of a ResNet under torchvision's names. The
    training of the teacher is left out then."""
    teacher: Training = Training()
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Pictures to classify, and to place among the classes."""

    images: Images
    """Pictures of any size; the network sees the middle square."""


def _published(
    source: str, student: Network, teacher: Network, milestones: tuple[int, ...], batch: int, decay: float
) -> Config:
    schedule = Schedule("multistep", unit="epoch", milestones=milestones)
    training = Training(epochs=200, batch=batch, optimiser=Optimiser(lr=0.1, weight_decay=decay, schedule=schedule))
    if source.startswith("tiny-imagenet"):
        data = Pictures(size=64, resize=72, augment="crop-flip", source=source)
    else:
        data = Pictures(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010), source=source)
    return Config(ModelConfig(student, teacher), data=data, teacher=training, train=training)


def _cifar(source: str, student: Network, teacher: Network) -> Config:
    return _published(source, student, teacher, (80, 120, 160), 128, 1e-4)


R18, R50 = Network(18, 0.25), Network(50, 0.25)
R101, R152 = Network(101, 0.5), Network(152, 0.5)
CIFAR10, CIFAR100 = "cifar10:data", "cifar100:data"


def _short(steps: int, lr: float) -> Training:
    optimiser = Optimiser(lr=lr, weight_decay=1e-3, nesterov=True, schedule=Schedule("cosine", warmup=10))
    return Training(steps=steps, batch=64, evaluate_every=0, log_every=20, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        ModelConfig(Network(10, 0.0625, 2), Network(10, 0.25, 2)),
        data=Pictures(augment="flip"),
        teacher=_short(200, 0.1),
        train=_short(200, 0.1),
    ),
    "starter": Config(
        ModelConfig(Network(10, 0.125, 2), Network(10, 0.25, 2)),
        data=Pictures(augment="flip"),
        teacher=_short(600, 0.1),
        train=_short(600, 0.1),
    ),
    "paper": _cifar(CIFAR100, R18, R101),
    "paper-50": _cifar(CIFAR100, R50, R152),
    "paper-cifar10": _cifar(CIFAR10, R18, R101),
    "paper-tiny-imagenet": _published("tiny-imagenet:data", R18, Network(152, 1.0), (50, 100, 150), 200, 5e-4),
}

_NONE = {"objective.beta": 0.0, "objective.gamma": 0.0}
VARIANTS = {
    "cskd": Variant("CSKD"),
    "kd": Variant("KD, logits", _NONE),
    "intra": Variant("KD, logits + intra", {"objective.gamma": 0.0}),
    "inter": Variant("KD, logits + inter", {"objective.beta": 0.0}),
    "ce": Variant("labels alone", {**_NONE, "objective.alpha": 1.0}),
    "hinton": Variant("KD, Hinton", {**_NONE, "objective.answers": "hinton"}),
    "fitnet": Variant("FitNet", {**_NONE, "objective.hint": 1.0}, headline=False),
    "cckd": Variant("CCKD", {**_NONE, "objective.congruence": 100.0}, headline=False),
    "rkd": Variant("RKD", {**_NONE, "objective.distance": 25.0, "objective.angle": 50.0}, headline=False),
    "mse": Variant(
        "CSKD, mean of squares",
        {"objective.norm": "mse", "objective.beta": 0.002, "objective.gamma": 0.04},
        headline=False,
    ),
    "balanced": Variant("CSKD, balanced batches", {"data.each": 4}, headline=False),
}
METRICS = {
    "top1": Metric("Top-1", "%"),
    "top5": Metric("Top-5", "%"),
    "tightness": Metric("spread / separation", higher_is_better=False, digits=3),
    "structure": Metric("inter structure, difference", higher_is_better=False, digits=3),
    "agreement": Metric("same answer as the teacher", "%"),
    "teacher": Metric("Top-1 of the teacher", "%"),
}


def _row(ce: float, kd: float, fitnet: float, cckd: float, cskd: float) -> dict[str, tuple[float, ...]]:
    return {"cskd": (cskd,), "kd": (kd,), "ce": (ce,), "fitnet": (fitnet,), "cckd": (cckd,)}


REPORTED = (
    Reported.table(
        "CIFAR-10, ResNet-101_0.5 to ResNet-18_0.25 (teacher 92.91)",
        ("top1",),
        _row(90.14, 91.01, 91.05, 91.07, 91.99),
        ("tiny", "paper-cifar10"),
    ),
    Reported.table(
        "CIFAR-10, ResNet-101_0.5 to ResNet-50_0.25 (teacher 92.91)",
        ("top1",),
        _row(92.16, 92.18, 92.37, 92.34, 93.20),
        ("paper-cifar10",),
    ),
    Reported.table(
        "CIFAR-10, ResNet-152_0.5 to ResNet-18_0.25 (teacher 93.22)",
        ("top1",),
        _row(90.14, 91.11, 91.37, 91.56, 92.27),
        ("paper-cifar10",),
    ),
    Reported.table(
        "CIFAR-100, ResNet-101_0.5 to ResNet-18_0.25 (teacher 71.77)",
        ("top1",),
        _row(65.64, 67.43, 68.04, 68.96, 69.14),
        ("tiny", "paper"),
    ),
    Reported.table(
        "CIFAR-100, ResNet-152_0.5 to ResNet-50_0.25 (teacher 72.15)",
        ("top1",),
        _row(68.79, 71.24, 71.92, 72.19, 72.60),
        ("paper-50",),
    ),
    Reported.table(
        "Tiny-ImageNet, ResNet-152 to ResNet-18_0.25 (teacher 60.70 and 81.87)",
        ("top1", "top5"),
        {
            "cskd": (53.66, 78.75),
            "kd": (49.53, 74.90),
            "intra": (52.51, 78.36),
            "inter": (52.48, 78.45),
            "ce": (45.21, 71.03),
            "fitnet": (50.12, 75.41),
            "cckd": (53.14, 78.14),
        },
        ("tiny", "paper-tiny-imagenet"),
    ),
)

PARAMETERS = {
    (18, 0.25, 10): 701_466,
    (18, 0.25, 100): 713_076,
    (18, 0.25, 200): 725_976,
    (34, 0.25, 10): 1_334_618,
    (34, 0.25, 100): 1_346_228,
    (50, 0.25, 10): 1_484_186,
    (50, 0.25, 100): 1_530_356,
    (101, 0.5, 10): 10_660_138,
    (101, 0.5, 100): 10_660_138 + 90 * 1025,
    (152, 0.5, 10): 14_582_570,
    (152, 0.5, 100): 14_582_570 + 90 * 1025,
    (152, 1.0, 200): 58_545_928,
}
"""Counted by hand: depth, width and classes to parameters; another class has a row of weights and a bias."""


def _pair(student: tuple[int, float], teacher: tuple[int, float], classes: int, projector: int) -> Published:
    count = PARAMETERS[(*student, classes)] + PARAMETERS[(*teacher, classes)] + projector
    return Published({"classes": classes}, (1, classes), count)


SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered pictures of 16 kinds of things in four groups (furniture, tableware, street, living "
        "things), with textures and grounds from photographs; those of the test set are not in the training set."
    ),
    reported=REPORTED,
    published={
        "paper": _pair((18, 0.25), (101, 0.5), 100, 128 * 1024),
        "paper-50": _pair((50, 0.25), (152, 0.5), 100, 512 * 1024),
        "paper-cifar10": _pair((18, 0.25), (101, 0.5), 10, 128 * 1024),
        "paper-tiny-imagenet": _pair((18, 0.25), (152, 1.0), 200, 128 * 2048),
    },
    learns=Learns(
        "answers",
        steps=12,
        share=0.9,
        changes={"data.count": 32, "teacher.batch": 16, "train.batch": 16},
    ),
    starters={
        "things": Starter(
            "classes of rendered things, by a student of 78,000 parameters and its teacher of 310,000",
            tried=(
                "photographs of scikit-image and scikit-learn that show one of the classes: not reliable (see README)"
            ),
        ),
    },
    minutes=0.4,
)
