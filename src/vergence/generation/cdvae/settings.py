"""CDVAE's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.assets import Asset
from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Image
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Optimiser, Phase, Schedule
from vergence.core.errors import VergenceError
from vergence.generation.cdvae import ABOUT

KINDS = ("chair", "car", "animal", "sofa", "mug")
"""Kinds of rendered objects."""


@dataclass(frozen=True)
class ModelConfig:
    """The network; the defaults are those of the public code with the paper's modules."""

    channels: int = 32
    """Channels of the first layer; the deformed map has four times as many."""
    critic: int = 32
    """The same of the discriminator, whose stages have 4, 8 and 8 times as many."""
    kernel: int = 7
    """Side of the kernels of the encoder's first and the decoder's last convolution."""
    latent: int = 256
    """Length of the code Z."""
    hidden: int = 1024
    """Units of the encoder's fully connected layer."""
    halvings: int = 3
    """How often a picture is halved before it meets the view: 128 pixels become a map of 16."""
    blocks: int = 3
    """Residual blocks after the deformation, in encoder and decoder."""
    filters: int = 25
    """Length of the filters W of a view: a ninth of the channels that they convolve."""
    condition: Literal["deform", "concat"] = "deform"
    """How the view enters: by filters of a flow that deforms the features (CDM), or as channels beside them."""
    norm: Literal["dfnm", "plain"] = "dfnm"
    """Normalise the residual blocks by the deformed features (DFNM), or hand the deformed features on directly."""
    encoder_norm: Literal["instance", "layer"] = "instance"
    """Other normalisation of the encoder: of each channel by itself, which removes the colour of an object before a
    plain ground, or of all channels of a picture together."""
    one_filter: bool = False
    """One filter for both directions of the flow (half as long, on 18 groups) instead of two."""
    shared: bool = False
    """The same filters in encoder and decoder."""
    features: Literal["none", "small", "vgg16"] = "vgg16"
    """Frozen network of the content and style losses: none, a small one with random weights, or VGG-16."""

    def __post_init__(self) -> None:
        least = min(self.channels, self.critic, self.latent, self.hidden, self.halvings, self.blocks)
        if least < 1 or self.filters < 2 or self.kernel % 2 == 0 or self.kernel < 1:
            raise VergenceError(
                f"a model has sizes of at least 1, filters of at least 2 and kernels of an odd side, got {self}"
            )

    @property
    def axes(self) -> int:
        """Filters of a view: for y and x, or one for both."""
        return 1 if self.one_filter else 2

    @property
    def filter_size(self) -> int:
        """Length of a filter: C' / 9, or C' / 18."""
        return self.filters // 2 if self.one_filter else self.filters


@dataclass(frozen=True)
class LossConfig:
    """Weights of the losses (Eq. 9); the defaults are the paper's."""

    kl: float = 1.0
    """Of the divergence from N(0, I), a mean over the dimensions of Z."""
    pixel: float = 100.0
    """α3, of the L1 difference of reconstructed pictures from -1 to 1."""
    content: float = 10.0
    """α2, of the L1 difference of features."""
    style: float = 0.001
    """α1, of the L1 difference of Gram matrices."""
    dac: float = 1.0
    """Of the cross-entropy between the latent classifier and equal shares; 0: the code may keep the view."""
    code: float = 1.0
    """Of the L1 difference between a drawn code and the code of its picture."""
    adversarial: float = 1.0
    """Of the discriminator's three terms; each has a third of it, as in the public code."""
    generator: Literal["minus", "printed"] = "minus"
    """-D, as in the public code, or max(0, 1 - D), as Eq. 8 is printed."""

    def __post_init__(self) -> None:
        for name in ("kl", "pixel", "content", "style", "dac", "code", "adversarial"):
            if not getattr(self, name) >= 0:
                raise VergenceError(f"the weight of a loss is at least 0, got {name} {getattr(self, name)}")


@dataclass(frozen=True)
class Pictures:
    """Pictures with labels of views."""

    source: Source = EMBEDDED
    """embedded, chairs:PATH, multipie:PATH, folder:PATH, or a plain PATH to a folder with one folder per view."""
    size: int = 128
    """Pictures are resized to this many pixels along each side."""
    objects: int = 3000
    """embedded: objects of training, each seen from one view."""
    held_out: int = 100
    """embedded: objects for validation, and for test, seen from all views."""
    views: int = 8
    """embedded: views, at equal yaws."""
    kinds: tuple[str, ...] = KINDS
    """embedded: kinds of objects: chair, car, animal, sofa, mug."""

    def __post_init__(self) -> None:
        if min(self.objects, self.held_out) < 1 or self.views < 2:
            raise VergenceError(
                f"data has 1 or more objects and 2 or more views, got {self.objects}, {self.held_out} and {self.views}"
            )
        wrong = [kind for kind in self.kinds if kind not in KINDS]
        if wrong or not self.kinds:
            raise VergenceError(f"kinds of objects are {', '.join(KINDS)}, got {', '.join(wrong) or 'none'}")
        if self.size < 16 or self.size > 1024:
            raise VergenceError(f"pictures have 16 to 1024 pixels along each side, got {self.size}")


def _adam(rate: float = 2e-4, schedule: Schedule = Schedule()) -> Optimiser:
    return Optimiser("adam", lr=rate, betas=(0.0, 0.9), schedule=schedule)


@dataclass(frozen=True)
class Game(Phase):
    """One step of each player in turn: discriminator, latent classifier, then encoder and decoder together."""

    discriminator: Optimiser = _adam()
    dac: Optimiser = _adam()
    translator: Optimiser = _adam()


@dataclass(frozen=True)
class Config:
    """CDVAE: network, losses, pictures, training."""

    model: ModelConfig = ModelConfig()
    loss: LossConfig = LossConfig()
    data: Pictures = Pictures()
    train: Game = Game()
    pretrained: str = ""
    """Weights of VGG-16 for the content and style losses: a file with torchvision's names, or the asset vgg16."""
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        step = 1 << (self.model.halvings + 2)
        if self.data.size % step or self.data.size < 2 * step:
            raise VergenceError(
                f"pictures halved {self.model.halvings} times before the deformation have a size that is a multiple of "
                f"{step} from {2 * step} on, got {self.data.size}"
            )


@dataclass(frozen=True)
class Facts:
    """Views of the training data."""

    views: tuple[str, ...] = ()
    """Their names, in the order of the labels."""
    rings: tuple[tuple[int, ...], ...] = ()
    """Views in the order in which the camera moves: one row per elevation."""
    closed: bool = False
    """Whether the last view of a row is next to its first."""
    fill: float = 0.0
    """Share of a picture's side that the objects take, if they stand before a plain ground; 0 if they do not."""


@dataclass(frozen=True)
class Inputs:
    """A picture of one object, as in the training data."""

    picture: Image
    """The picture; transparent pixels become white."""
    view: str = ""
    """The view to show: its name or number (by default all views)."""
    source: str = ""
    """The view that the picture shows, by name or number (by default the one whose reconstruction is best)."""
    between: int = 3
    """Pictures between two neighbouring views in the turntable, by filters between theirs."""
    frame: Literal["object", "whole"] = "object"
    """Cut the picture so that its object is as large as those of training, if its ground is plain; or take it whole."""

    def __post_init__(self) -> None:
        if not 0 <= self.between <= 30:
            raise VergenceError(f"between is from 0 to 30, got {self.between}")


SMALL = ModelConfig(
    channels=8, critic=2, kernel=3, latent=32, hidden=128, halvings=2, blocks=1, filters=16, features="none",
    encoder_norm="layer",
)  # fmt: skip


def _short(steps: int, rate: float) -> Game:
    """Learning rates that fall along a cosine, the translator's from ``rate``."""
    fall = Schedule("cosine", floor=0.05)
    return Game(
        steps=steps, batch=16, evaluate_every=0, log_every=20, discriminator=_adam(1e-3, fall), dac=_adam(1e-3, fall),
        translator=_adam(rate, fall),
    )  # fmt: skip


CHAIRS = Pictures(size=32, objects=2000, held_out=60, kinds=("chair",))
PRESETS = {
    "tiny": Config(SMALL, data=CHAIRS, train=_short(300, 4e-3)),
    "paper": Config(data=Pictures("chairs:data"), train=Game(steps=100_000, batch=32, evaluate_every=0),
                    pretrained="vgg16"),
    "long": Config(SMALL, LossConfig(kl=0.5), replace(CHAIRS, objects=3000), _short(1500, 3e-3)),
}  # fmt: skip
_PLAIN = {"loss.dac": 0.0}
VARIANTS = {
    "cdvae": Variant("D: CDM, DFNM, DAC", {}),
    "no-dac": Variant("C: without DAC", dict(_PLAIN)),
    "cdm": Variant("B: CDM alone", {**_PLAIN, "model.norm": "plain"}),
    "baseline": Variant("A: label beside features", {**_PLAIN, "model.norm": "plain", "model.condition": "concat"}),
    "one-filter": Variant("E: one filter for x and y", {"model.one_filter": True}),
    "shared": Variant("F: the same filters in E and G", {"model.shared": True}),
    "printed": Variant("generator's loss as printed", {"loss.generator": "printed"}, headline=False),
}
METRICS = {
    "l1": Metric("L1", "", higher_is_better=False),
    "ssim": Metric("SSIM", "", digits=3),
    "view": Metric("right view", "%"),
    "identity": Metric("right object", "%"),
    "probe": Metric("view from Z", "%", higher_is_better=False),
    "reconstruction": Metric("L1, same view", "", higher_is_better=False),
    "copied": Metric("L1 of the source", "", higher_is_better=False),
    "average": Metric("L1 of the mean", "", higher_is_better=False),
}
REPORTED = (
    Reported.table(
        "Table 1: 3D chairs, 128 x 128",
        ("l1", "ssim"),
        {
            "baseline": (8.39, 0.86), "cdm": (7.88, 0.87), "no-dac": (6.68, 0.88), "cdvae": (6.37, 0.89),
            "one-filter": (7.18, 0.88), "shared": (6.94, 0.88),
        },
    ),
    Reported.table(
        "Table 1: MultiPIE, 128 x 128",
        ("l1", "ssim"),
        {
            "baseline": (31.37, 0.49), "cdm": (23.43, 0.55), "no-dac": (21.53, 0.56), "cdvae": (21.90, 0.57),
            "one-filter": (24.48, 0.54), "shared": (23.59, 0.54),
        },
        ("paper",),
    ),
)  # fmt: skip
CHAIR_VIEWS = 62

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    assets={
        "vgg16": Asset(
            "VGG-16 trained on ImageNet",
            "https://download.pytorch.org/models/vgg16-397923af.pth",
            "BSD-3-Clause",
            "vgg16-397923af.pth",
            sha256="397923af",
        )
    },
    embedded=(
        "Embedded: rendered chairs (or cars, animals, sofas, mugs) on a turntable before a white ground, seen from 8 "
        "yaws; training shows one view of each object, test all views of others, with textures from other photographs."
    ),
    reported=REPORTED,
    published={
        "paper": Published({"views": tuple(map(str, range(CHAIR_VIEWS)))}, (1, 3, 128, 128), 33_849_512),
    },
    learns=Learns(
        "pixel",
        steps=10,
        share=0.85,
        changes={"data.objects": 16, "data.held_out": 2, "data.views": 4, "train.batch": 4, "model.channels": 4},
    ),
    minutes=1.0,
)
