"""What can be chosen: networks, pictures, attack and training, with the attacks of the paper by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from vergence.contract.data import EMBEDDED
from vergence.contract.settings import Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.robustness.attacks import Diversity, SignAttack
from vergence.robustness.patchwise.model import Projection
from vergence.robustness.patchwise.networks import Model

Part = Literal["di", "ti", "mi", "pi"]


@dataclass(frozen=True)
class Attack:
    """How pictures are changed."""

    eps: float = 16.0
    """The budget, in 1/255."""
    steps: int = 10
    """Iterations; 1 is FGSM."""
    parts: tuple[Part, ...] = ("pi",)
    """What joins the loop: input diversity, translation invariance, momentum, patch-wise projection."""
    beta: float = 10.0
    """Amplification: how many times eps / steps a step is."""
    gamma: float | None = None
    """pi: how far cut noise is projected, as a share of eps (none: a step; the paper's 2 of 255 is 0.125)."""
    kernel: int = 3
    """pi: side of the project kernel."""
    remember: Literal["all", "steps"] = "all"
    """pi: what the cumulative noise holds, steps and projections or steps alone."""
    momentum: float = 1.0
    """mi: decay."""
    smoothing: int = 15
    """ti: side of the Gaussian kernel."""
    chance: float = 0.7
    """di: how often the input is changed."""
    grow: float = 330 / 299
    """di: what it is enlarged to at most."""
    resize: Literal["nearest", "bilinear"] = "nearest"
    """di: how it is enlarged."""
    substitutes: Literal["each", "others"] = "each"
    """Each network attacks alone; or all but one attack together, by the mean of their logits, for each that is left
    out."""

    def __post_init__(self) -> None:
        self.made()

    def made(self) -> SignAttack:
        """The attack itself."""
        eps = self.eps / 255
        share = None if self.gamma is None else self.gamma * eps
        return SignAttack(
            eps,
            self.steps,
            self.beta,
            Diversity(self.chance, self.grow, self.resize) if "di" in self.parts else None,
            self.smoothing if "ti" in self.parts else 0,
            self.momentum if "mi" in self.parts else None,
            Projection(self.kernel, share, self.remember) if "pi" in self.parts else None,
        )


@dataclass(frozen=True)
class Pictures:
    """What is attacked."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = "embedded"
    """embedded, nips2017:PATH, folder:PATH, or a plain PATH to class folders."""
    side: int = 20
    """What pictures are resized to before they are attacked."""
    channels: Literal[1, 3] = 3
    """Grey or colour."""
    noise: float = 0.05
    """Training: deviation of the noise that is added."""
    limit: int = 0
    """Judge so many pictures at most (0: all)."""

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

    model: Model = Model()
    attack: Attack = Attack()
    data: Pictures = Pictures(source="nips2017:data", side=299)
    train: Training = Training()
    batch: int = 10
    """Pictures that are attacked at a time."""
    seed: int = 0
    """Decides everything random."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise VergenceError(f"a batch has at least one picture, got {self.batch}")


@dataclass(frozen=True)
class Facts:
    """What the data decides."""

    classes: int = 1000
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 2 <= self.classes <= 1_000_000 or (self.labels and len(self.labels) != self.classes):
            raise VergenceError(f"{self.classes} classes with {len(self.labels)} names are no facts of classifiers")


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
    """All that attacks differ in, so that one can take another's place in a config."""
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
        Model(("conv", "strided", "dense", "wide"), "trained"),
        # A kernel of 15 is three quarters of these pictures; 3 is to 20 as 15 is to 100.
        Attack(eps=25.5, smoothing=3),
        Pictures(side=20, channels=1),
        _tiny_training(),
        batch=200,
    ),
    "paper": Config(train=Training(epochs=0, batch=20, evaluate_every=0)),
}
