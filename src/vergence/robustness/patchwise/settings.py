"""Patch-wise attacks' settings: networks, pictures, attacks by name, inputs, metrics, and reported numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.config import override
from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Images, Text
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.classes import Classes
from vergence.robustness.patchwise import ABOUT
from vergence.robustness.settings import Resize, check_diversity, check_momentum, check_smoothing, check_steps

Network = Literal["conv", "strided", "dense", "wide", "lite0", "lite1", "lite2", "lite3", "lite4"]
"""Four small networks that are trained here, and EfficientNet-Lite."""
Part = Literal["di", "ti", "mi", "pi"]
Remember = Literal["all", "steps"]
"""What the cumulative noise includes: steps and projections (Alg. 1, line 8), or steps alone, which the authors' code
advises for ensembles of residual networks."""


def check_projection(kernel: int, gamma: float | None) -> None:
    """Raises an error unless the kernel's side is odd and at least 3, and gamma at least 0."""
    if kernel < 3 or kernel % 2 == 0:
        raise VergenceError(f"a project kernel has an odd side of at least 3, got {kernel}")
    if gamma is not None and not 0 <= gamma <= 255:
        raise VergenceError(f"a project factor is at least 0, got {gamma:g}")


@dataclass(frozen=True)
class ModelConfig:
    """The networks and their weights."""

    networks: tuple[Network, ...] = ("lite0", "lite1", "lite2")
    """Each is the substitute in turn, with the others as targets."""
    weights: Literal["train", "imagenet"] = "imagenet"
    """Trained here, or from the packages of the extra `pretrained`."""

    def __post_init__(self) -> None:
        if len(set(self.networks)) != len(self.networks) or len(self.networks) < 2:
            raise VergenceError(f"transfer needs two or more different networks, got {self.networks}")
        small = [name for name in self.networks if not name.startswith("lite")]
        if self.weights == "imagenet" and small:
            raise VergenceError(f"there are no pretrained weights of {small[0]!r}: train it (model.weights train)")


@dataclass(frozen=True)
class Attack:
    """The attack and its parameters."""

    eps: float = 16.0
    """The budget, in 1/255."""
    steps: int = 10
    """Iterations; 1 is FGSM."""
    parts: tuple[Part, ...] = ("pi",)
    """Parts of the attack: input diversity, translation invariance, momentum, patch-wise projection."""
    beta: float = 10.0
    """Amplification: step size as a multiple of eps / steps."""
    gamma: float | None = None
    """pi: size of the projection, as a fraction of eps (none: one step; the paper's 2 of 255 is 0.125)."""
    kernel: int = 3
    """pi: side of the project kernel."""
    remember: Remember = "all"
    """pi: the cumulative noise includes steps and projections, or steps alone."""
    momentum: float = 1.0
    """mi: decay of earlier gradients."""
    smoothing: int = 15
    """ti: side of the Gaussian kernel."""
    chance: float = 0.7
    """di: probability of changing the input."""
    grow: float = 330 / 299
    """di: largest enlargement, as a multiple of the side."""
    resize: Resize = "nearest"
    """di: interpolation."""
    substitutes: Literal["each", "others"] = "each"
    """each: every network is a substitute alone; others: all but one form an ensemble (mean of their logits) that
    attacks the one left out."""

    def __post_init__(self) -> None:
        check_steps(self.eps / 255, self.steps, self.beta)
        if "di" in self.parts:
            check_diversity(self.chance, self.grow)
        if "ti" in self.parts and self.smoothing:
            check_smoothing(self.smoothing)
        if "mi" in self.parts:
            check_momentum(self.momentum)
        if "pi" in self.parts:
            check_projection(self.kernel, self.projected)

    @property
    def projected(self) -> float | None:
        """pi: size of the projection in the range of the pictures, [0, 1]; none: one step."""
        return None if self.gamma is None else self.gamma * (self.eps / 255)


@dataclass(frozen=True)
class Pictures:
    """Source and size of the pictures."""

    source: Source = EMBEDDED
    """embedded, nips2017:PATH, folder:PATH, or a plain PATH to class folders."""
    side: int = 20
    """Side that pictures are resized to before the attack."""
    channels: Literal[1, 3] = 3
    """Grey or colour."""
    noise: float = 0.05
    """Training: standard deviation of added noise."""
    limit: int = 0
    """Largest number of test pictures (0: all)."""

    def __post_init__(self) -> None:
        if not 8 <= self.side <= 4096 or not 0 <= self.noise <= 1 or self.limit < 0:
            raise VergenceError(
                f"pictures have a side from 8 to 4096, noise from 0 to 1 and a limit of at least 0, got {self.side}, "
                f"{self.noise:g} and {self.limit}"
            )
        if self.source == EMBEDDED and self.channels != 1:
            raise VergenceError("the embedded digits are grey: they have 1 channel, not 3")


@dataclass(frozen=True)
class Config:
    """Patch-wise attacks: networks, pictures, attack, and how the small networks are trained."""

    model: ModelConfig = ModelConfig()
    attack: Attack = Attack()
    data: Pictures = Pictures(source="nips2017:data", side=299)
    train: Training = Training()
    batch: int = 10
    """Pictures per batch of an attack."""
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise VergenceError(f"a batch has at least one picture, got {self.batch}")


@dataclass(frozen=True)
class Facts(Classes):
    """The classes of the networks; ImageNet's by default."""

    classes: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 2:
            raise VergenceError(f"attacks need two or more classes, got {self.classes}")

    def refuse_others(self, own: Sequence[str]) -> None:
        super().refuse_others(own)
        if len(own) != self.classes:  # of more than a hundred the names are not kept
            raise VergenceError(f"the weights have {self.classes} classes, the data has {len(own)}")


Named = Literal[
    "pi", "fgsm", "ifgsm", "amplified", "mi", "di", "ti", "ti-bim", "dmi", "dtmi", "mpi", "dpi", "dmpi", "tpi", "dtpi"
]


@dataclass(frozen=True)
class Inputs:
    """Pictures to attack, substitutes and targets."""

    images: Images
    """Pictures to attack."""
    substitutes: Text = ""
    """Networks to attack with, separated by commas (several: the mean of their logits); by default the first of the
    weights, or lite0 without weights. lite0 to lite2 come with the extra `pretrained`."""
    targets: Text = ""
    """Networks to test on; by default the others of the weights, or of lite0 to lite2 without weights."""
    labels: Text = ""
    """A csv with the columns ImageId and TrueLabel, as in the NIPS 2017 set; without it, the substitutes' predictions
    on clean pictures are the labels."""
    attack: Named = "pi"
    """The attack, by the names of the variants."""
    eps: float = 16.0
    """The budget, in 1/255."""
    steps: int = 0
    """Iterations (0: as the attack is published)."""
    beta: float | None = None
    """Amplification; by default as published."""
    gamma: float | None = None
    """Size of the projection, in 1/255; by default as published."""
    kernel: int | None = None
    """Side of the project kernel; by default as published."""

    def __post_init__(self) -> None:
        if not self.images:
            raise VergenceError("no picture given to attack")
        self.chosen()
        if self.eps < 1:
            raise VergenceError(f"a budget below 1/255 cannot change an 8-bit picture, got {self.eps:g}/255")

    def chosen(self) -> Attack:
        """The named attack with the given parameters."""
        attack = override(Config(), VARIANTS[self.attack].changes).attack
        return replace(
            attack,
            eps=self.eps,
            steps=self.steps or attack.steps,
            beta=attack.beta if self.beta is None else self.beta,
            gamma=attack.gamma if self.gamma is None else self.gamma / self.eps if self.eps else None,
            kernel=attack.kernel if self.kernel is None else self.kernel,
        )


def _variant(
    label: str,
    *parts: Part,
    steps: int = 10,
    beta: float = 1.0,
    gamma: float | None = None,
    kernel: int = 3,
    remember: str = "all",
    substitutes: str = "each",
    headline: bool = False,
) -> Variant:
    """A variant that sets every parameter in which attacks differ, so that it can replace any other in a config."""
    changes = {"parts": parts, "steps": steps, "beta": beta, "gamma": gamma, "kernel": kernel}
    changes |= {"remember": remember, "substitutes": substitutes}
    return Variant(label, {f"attack.{name}": value for name, value in changes.items()}, headline)


VARIANTS = {
    "fgsm": _variant("FGSM", steps=1, headline=True),
    "ifgsm": _variant("I-FGSM", headline=True),
    "amplified": _variant("I-FGSM, beta 10", beta=10, headline=True),
    "mi": _variant("MI-FGSM", "mi", headline=True),
    "pi": _variant("PI-FGSM", "pi", beta=10, headline=True),
    "di": _variant("DI-FGSM", "di"),
    "ti": _variant("TI-FGSM", "ti", steps=1),
    "ti-bim": _variant("TI-BIM", "ti"),
    "dmi": _variant("DMI-FGSM", "di", "mi"),
    "dtmi": _variant("DTMI-FGSM", "di", "ti", "mi"),
    "mpi": _variant("MPI-FGSM", "mi", "pi", beta=10),
    "dpi": _variant("DPI-FGSM", "di", "pi", beta=2.5, gamma=0.125),
    "dmpi": _variant("DMPI-FGSM", "di", "mi", "pi", beta=2.5, gamma=0.125),
    "tpi": _variant("TPI-FGSM, kernel 7", "ti", "pi", beta=10, kernel=7),
    "dtpi": _variant("DTPI-FGSM, kernel 7", "di", "ti", "pi", beta=10, kernel=7),
    "pi-beta5": _variant("PI-FGSM, beta 5", "pi", beta=5),
    "pi-kernel7": _variant("PI-FGSM, kernel 7", "pi", beta=10, kernel=7),
    "pi-steps-alone": _variant("PI-FGSM, projections forgotten", "pi", beta=10, remember="steps"),
    "mi-ensemble": _variant("MI-FGSM, ensemble", "mi", substitutes="others"),
    "amplified-ensemble": _variant("I-FGSM, beta 5, ensemble", beta=5, substitutes="others"),
    "pi-ensemble": _variant("PI-FGSM, ensemble", "pi", beta=5, substitutes="others"),
}


def _tiny_training() -> Training:
    optimiser = Optimiser("adam", lr=0.002, schedule=Schedule("cosine"))
    return Training(epochs=15, batch=50, evaluate_every=0, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        ModelConfig(("conv", "strided", "dense", "wide"), "train"),
        # A kernel of 15 would span three quarters of these pictures, so it is scaled down to 3.
        Attack(eps=25.5, smoothing=3),
        Pictures(side=20, channels=1),
        _tiny_training(),
        batch=200,
    ),
    "paper": Config(train=Training(epochs=0, batch=20, evaluate_every=0)),
}
METRICS = {
    "transfer": Metric("transfer", "%", digits=1),
    "whitebox": Metric("white box", "%", digits=1),
    "induced": Metric("transfer above clean error", "%", digits=1),
    "accuracy": Metric("accuracy on clean pictures", "%", digits=1),
}
REPORTED = (
    Reported.table(
        "Table 1: ImageNet, made with Inception-v3; transfer is the mean over four normally trained networks",
        ("transfer", "whitebox"),
        {
            "fgsm": (36.6, 80.9),
            "ifgsm": (22.5, 100.0),
            "mi": (48.575, 100.0),
            "di": (40.075, 99.8),
            "pi": (54.15, 100.0),
            "mpi": (58.15, 100.0),
            "dmi": (69.775, 99.9),
            "dmpi": (71.5, 100.0),
        },
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
        "Embedded: scikit-learn's handwritten digits at 20 x 20 pixels, and four small networks of different shapes "
        "trained on them. Each attacks the others in turn, with a budget of a tenth of the range."
    ),
    reported=REPORTED,
    published={
        "paper": Published(
            {"classes": 1000}, {name: (1, 1000) for name in ("lite0", "lite1", "lite2")}, parameters=16_160_760
        )
    },
    learns=Learns("conv", steps=24, share=0.85, changes={"data.limit": 40}),
    minutes=0.5,
)
