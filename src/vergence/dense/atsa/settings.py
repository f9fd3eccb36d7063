"""ATSA's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Image
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.dense.atsa import ABOUT

Nearest = Literal["found", "bright", "dark"]
STEP = 32


@dataclass(frozen=True)
class ModelConfig:
    """The network; the defaults are the published one, without what the public code builds and never uses."""

    trunk: tuple[int, ...] = (64, 128, 256, 512, 512)
    """Channels of the five stages of a VGG trunk."""
    trunk_depths: tuple[int, ...] = (2, 2, 4, 4, 4)
    """Convolutions of each stage."""
    branches: tuple[int, ...] = (32, 64, 128, 256)
    """Channels of the ladder's branches, at strides 4, 8, 16 and 32."""
    blocks: int = 4
    """Residual blocks in a row, in the ladder and in the depth network."""
    depth_stem: tuple[int, int] = (64, 128)
    """Channels of the first two stages of the light depth network."""
    colour: Literal["ladder", "plain"] = "ladder"
    """Colour stream: with the flow ladder, or with the upsampled features of VGG alone."""
    depth: Literal["depthnet", "plain", "ladder", "none"] = "depthnet"
    """Depth stream: the light network, a VGG without or with a ladder, or none."""
    fuse: Literal["attention", "sum"] = "attention"
    """Fusion of the streams."""
    inner_sigmoid: bool = True
    """A sigmoid of the channel weights before they multiply the depth features, as in the public code; Eq. 5 has
    none."""
    outputs: Literal["logits", "sigmoid"] = "logits"
    """Output: logits, or their sigmoids, which the public code feeds to the softmax."""
    unused: bool = False
    """Build what the public code builds and never uses: blocks of the branches that have just entered, and two side
    heads."""
    init: Literal["published", "kaiming"] = "published"
    """Normal kernels of small deviation, meant for a pretrained trunk; or He's, for training from scratch."""

    def __post_init__(self) -> None:
        lengths = (len(self.trunk), len(self.trunk_depths), len(self.branches))
        sizes = (*self.trunk, *self.trunk_depths, *self.branches, *self.depth_stem, self.blocks)
        if lengths != (5, 5, 4) or min(sizes) < 1:
            raise VergenceError(
                "a model has five trunk widths and depths, four branches and sizes of at least 1, got trunk "
                f"{self.trunk}, trunk_depths {self.trunk_depths}, branches {self.branches} and {self.blocks} blocks"
            )
        if self.branches != tuple(self.branches[0] * 2**n for n in range(4)):
            raise VergenceError(f"each branch has twice the channels of the one before, got {self.branches}")


@dataclass(frozen=True)
class Pictures:
    """Photographs with depth maps and masks."""

    source: Source = EMBEDDED
    """embedded, njud:PATH, nlpr:PATH, dut-rgbd:PATH, stereo:PATH, rgbd135:PATH, lfsd:PATH, ssd:PATH, folder:PATH, or a
    plain PATH to such a folder."""
    size: int = 256
    """Pictures are resized to this many pixels along each side, a multiple of 32."""
    nearest: Nearest = "found"
    """What is near in the depth maps of files: bright or dark; by default it is found by comparing depth inside and
    outside the masks."""
    augment: bool = True
    """Flip, crop and rotate at random while training."""
    jitter: bool = False
    """Change colours, and the contrast and sharpness of depth, at random while training."""
    pictures: int = 600
    """embedded: rendered training pictures."""
    held_out: int = 120
    """embedded: rendered pictures for validation, and for test."""
    alike: float = 0.45
    """embedded: share of pictures with several things of one look, of which the nearest is salient: colour is
    ambiguous."""
    useless: float = 0.15
    """embedded: share of pictures whose depth map is flat or noise, and in which one thing has another colour."""

    def __post_init__(self) -> None:
        if self.size < STEP or self.size % STEP:
            raise VergenceError(f"size is a multiple of {STEP}, got {self.size}")
        if min(self.pictures, self.held_out) < 1 or min(self.alike, self.useless) < 0 or self.alike + self.useless > 1:
            raise VergenceError(
                "data has 1 or more pictures of each kind, and shares from 0 to 1 in all, got "
                f"{self.pictures}, {self.held_out}, {self.alike} and {self.useless}"
            )


@dataclass(frozen=True)
class Config:
    """ATSA: network, pictures, training."""

    model: ModelConfig = ModelConfig()
    data: Pictures = Pictures()
    loss: Literal["mean", "sum"] = "mean"
    """Cross entropy: the mean over pixels, or their sum, for which the published learning rate is meant."""
    train: Training = Training()
    pretrained: str = ""
    """File with ImageNet weights of VGG-19 with batch norms (torchvision's vgg19_bn) for the trunks."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """A photograph with its depth map."""

    image: Image
    """The photograph."""
    depth: Image
    """Its depth or disparity map: PNG of 8 or 16 bits, another picture, .npy or .pfm; of the same view, of any size."""
    nearest: Nearest = "found"
    """What is near in the map: bright (large values, as in disparity) or dark (as in depth); by default it is guessed
    from the map."""
    edges: Literal["sharp", "soft"] = "sharp"
    """Sharp: the map, which is computed at the network's size, is made to follow the edges of photograph and depth map
    by a guided filter; soft: it is only enlarged."""
    threshold: float = 0.0
    """The mask has the pixels whose saliency is at least this much, from 0 to 1; 0: twice the mean saliency, but
    neither below 0.3 nor above 0.7."""

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise VergenceError(f"threshold is from 0 to 1, got {self.threshold}")


SMALL = ModelConfig(
    trunk=(8, 16, 32, 64, 64), trunk_depths=(1, 1, 2, 2, 2), branches=(8, 16, 32, 64), blocks=1, depth_stem=(8, 16),
    init="kaiming",
)  # fmt: skip
MIDDLE = replace(SMALL, trunk=(12, 24, 48, 64, 64))


def _sgd(momentum: float) -> Optimiser:
    return Optimiser("sgd", lr=1e-10, momentum=momentum, weight_decay=5e-4)


PRESETS = {
    "tiny": Config(
        SMALL,
        Pictures(size=64),
        train=Training(steps=650, batch=4, evaluate_every=0, log_every=10,
                       optimiser=Optimiser("adam", lr=4e-3, schedule=Schedule("cosine", warmup=20, floor=0.02))),
    ),
    "paper": Config(
        ModelConfig(unused=True), Pictures("folder:data"), "sum",
        Training(epochs=60, batch=2, optimiser=_sgd(0.9)),
    ),
    "paper-code": Config(
        ModelConfig(unused=True, outputs="sigmoid"), Pictures("folder:data", augment=False), "sum",
        Training(steps=1_000_000, batch=2, optimiser=_sgd(0.99)),
    ),
    "practical": Config(
        ModelConfig(init="kaiming"), Pictures("folder:data"), "mean",
        Training(epochs=60, batch=8, optimiser=Optimiser("adam", lr=1e-4, schedule=Schedule("polynomial", power=0.9))),
    ),
    "starter": Config(
        MIDDLE,
        Pictures(size=96, jitter=True, pictures=500, held_out=60),
        train=Training(steps=1600, batch=8, evaluate_every=0, log_every=20,
                       optimiser=Optimiser("adam", lr=3e-3, schedule=Schedule("cosine", warmup=50, floor=0.02))),
    ),
}  # fmt: skip
_TWO = {"model.depth": "ladder"}
_PLAIN = {"model.colour": "plain", "model.depth": "plain"}
VARIANTS = {
    "atsa": Variant("ATSA (e)", {}),
    "sum": Variant("sum of the streams (d)", {"model.fuse": "sum"}),
    "rgb": Variant("colour alone", {"model.depth": "none"}),
    "plain": Variant("without the ladder", {"model.colour": "plain"}),
    "symmetric": Variant("two equal streams (f)", {**_TWO}, headline=False),
    "symmetric-sum": Variant("two equal streams, sum (b)", {**_TWO, "model.fuse": "sum"}, headline=False),
    "two-vgg": Variant("two VGGs, sum (a)", {**_PLAIN, "model.fuse": "sum"}, headline=False),
    "two-vgg-attention": Variant("two VGGs, attention (c)", {**_PLAIN}, headline=False),
    "printed-gate": Variant("Eq. 5 as printed", {"model.inner_sigmoid": False}, headline=False),
    "sigmoid-outputs": Variant("sigmoids as logits", {"model.outputs": "sigmoid"}, headline=False),
}
METRICS = {
    "f": Metric("F", digits=3),
    "mae": Metric("MAE", higher_is_better=False, digits=3),
    "s": Metric("S", digits=3),
    "e": Metric("E", digits=3),
    "f_max": Metric("max F", digits=3),
    "f_mean": Metric("mean F", digits=3),
    "f_boundary": Metric("boundary F", digits=3),
    "f_alike": Metric("F, things alike", digits=3),
    "f_useless": Metric("F, depth useless", digits=3),
    "f_both": Metric("F, other pictures", digits=3),
    "f_depth": Metric("F of the depth map", digits=3),
}
REPORTED = (
    Reported.table(
        "Tables 2 to 4: DUT-RGBD", ("f", "mae", "s", "e"),
        {
            "atsa": (0.920, 0.032, 0.918, 0.948), "sum": (0.909, 0.034), "symmetric": (0.920, 0.033),
            "symmetric-sum": (0.911, 0.035), "two-vgg": (0.822, 0.068), "two-vgg-attention": (0.839, 0.059),
        },
    ),
    Reported.table(
        "Tables 2 to 4: NLPR", ("f", "mae", "s", "e"),
        {
            "atsa": (0.876, 0.028, 0.907, 0.945), "sum": (0.870, 0.029), "symmetric": (0.890, 0.025),
            "symmetric-sum": (0.872, 0.029), "two-vgg": (0.766, 0.050), "two-vgg-attention": (0.799, 0.041),
        },
        ("paper", "paper-code"),
    ),
    *(
        Reported.table(f"Tables 2 and 3: {name}", ("f", "mae", "s", "e"), {"atsa": row}, ("paper", "paper-code"))
        for name, row in {
            "NJUD": (0.893, 0.040, 0.901, 0.921), "SSD": (0.827, 0.050, 0.860, 0.901),
            "STEREO": (0.884, 0.039, 0.897, 0.921), "LFSD": (0.862, 0.064, 0.865, 0.905),
            "RGBD135": (0.885, 0.024, 0.907, 0.952),
        }.items()
    ),
)  # fmt: skip

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered desks, rooms and exhibits with textures from photographs, a depth map and the mask of one "
        "thing. In 45 % of the pictures several things look alike and the nearest is salient; in 15 % the depth map is "
        "flat or noise, and one thing has another colour. Test pictures have textures from other photographs."
    ),
    reported=REPORTED,
    published={
        "paper": Published({}, (1, 2, 256, 256), 32_156_742),
        "paper-code": Published({}, (1, 2, 256, 256), 32_156_742),
        "practical": Published({}, (1, 2, 256, 256), 25_928_386),
    },
    learns=Learns(
        "entropy", steps=16, share=0.8,
        changes={"data.size": 32, "data.pictures": 4, "data.held_out": 3, "train.batch": 4},
    ),
    starters={
        "rendered": Starter(
            "salient objects of photographs with depth, trained on rendered pictures",
            tried="scikit-image's motorcycle (Middlebury 2014) with its measured disparity: see the page",
            data="500 rendered pictures of 96 x 96 pixels, flipped, cropped, turned and in other light",
        ),
    },
    minutes=1.0,
)  # fmt: skip
