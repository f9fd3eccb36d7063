"""ddn's settings: measurement, networks, data, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Image
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.generation.ddn import ABOUT
from vergence.generation.measuring import Measure

Task = Literal["auto", "sr2", "sr4", "inpaint", "deblur"]


@dataclass(frozen=True)
class ModelConfig:
    """The two networks, and how they are put together."""

    method: Literal["ddn", "resunet", "nsn", "npgd"] = "ddn"
    """Decomposition, residual U-Net (no physics), null-space network, or unrolled proximal gradients."""
    connection: Literal["cascade", "independent"] = "cascade"
    """ddn: G sees the denoised picture (Eq. 8), or the measured one as F does (Eq. 7)."""
    projected: bool = True
    """ddn: project onto range and null space."""
    use_range: bool = True
    """ddn: have F at all."""
    use_null: bool = True
    """ddn: have G at all."""
    decoupled: bool = False
    """ddn: no gradient of G's loss reaches F."""
    steps: int = 3
    """npgd: the number of steps."""
    residual: bool = True
    """npgd: the chain G∘F adds to a picture instead of giving a new one."""
    family: Literal["published", "shuffled"] = "published"
    """A denoiser and a U-Net; or two small networks that work on blocks of pixels, for photographs."""
    channels: int = 1
    """Channels of a picture."""
    range_width: int = 64
    """F: channels."""
    range_depth: int = 4
    """F: convolutions (published), or residual blocks (shuffled)."""
    null_widths: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """G: channels of each level of the U-Net; shuffled: a single number."""
    null_depth: int = 4
    """G, shuffled: residual blocks."""
    block: int = 2
    """shuffled: the side of a block of pixels that becomes channels."""
    momentum: float = 0.95
    """F: momentum of batch norm; 0.95 as published makes its statistics almost those of the last batch."""

    def __post_init__(self) -> None:
        if not (1 <= self.channels <= 256 and 1 <= self.range_width <= 2048 and 1 <= self.block <= 8):
            raise VergenceError(
                f"networks have 1 to 256 channels, a range_width of 1 to 2048 and a block of 1 to 8, got "
                f"{self.channels}, {self.range_width} and {self.block}"
            )
        if not 1 <= len(self.null_widths) <= 6 or not all(1 <= width <= 2048 for width in self.null_widths):
            raise VergenceError(f"null_widths are one to six numbers from 1 to 2048, got {self.null_widths}")
        if not (2 <= self.range_depth <= 64 and 1 <= self.null_depth <= 64 and 1 <= self.steps <= 20):
            raise VergenceError(
                f"range_depth is from 2 to 64, null_depth from 1 to 64 and steps from 1 to 20, got "
                f"{self.range_depth}, {self.null_depth} and {self.steps}"
            )
        if not 0 <= self.momentum <= 1:
            raise VergenceError(f"momentum is from 0 to 1, got {self.momentum:g}")
        if not (self.use_range or self.use_null) or (self.method != "ddn" and not (self.use_range and self.use_null)):
            raise VergenceError("ddn has F, G or both, and the other methods have both")


@dataclass(frozen=True)
class Pictures:
    """The pictures that are measured."""

    source: Source = EMBEDDED
    """embedded, bsds:PATH, benchmark:PATH, fastmri:PATH, arrays:PATH, or a PATH to a folder of pictures."""
    scene: Literal["photographs", "phantoms"] = "photographs"
    """embedded: crops of photographs, or drawn sections of heads."""
    pictures: int = 400
    """embedded: crops to train on; 0: a new one anywhere in the photographs every time."""
    held_out: int = 64
    """embedded: crops for validation, and for test."""
    side: int = 48
    """embedded: sides of crops; otherwise sides of training crops."""

    def __post_init__(self) -> None:
        if not (0 <= self.pictures <= 100_000 and 1 <= self.held_out <= 10_000 and 16 <= self.side <= 512):
            raise VergenceError(
                f"data has 0 to 100000 pictures, 1 to 10000 held_out and sides from 16 to 512, got {self.pictures}, "
                f"{self.held_out} and {self.side}"
            )


@dataclass(frozen=True)
class Config:
    """Measurement, networks, pictures, training."""

    measure: Measure = Measure()
    model: ModelConfig = ModelConfig()
    data: Pictures = Pictures()
    noise_weight: float = 1e-6
    """Weight λ1 of |HF(z) - e|² (Eq. 9)."""
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        if not 0 <= self.noise_weight <= 1e6:
            raise VergenceError(f"noise_weight is from 0 to 1000000, got {self.noise_weight:g}")


@dataclass(frozen=True)
class Inputs:
    """A photograph, and what was done to it."""

    photo: Image
    """The picture to restore: any size, grey or colour, 8 or 16 bits, with or without transparency."""
    task: Task = "auto"
    """Enlarge by 2 or by 4, fill holes, or remove a blur; auto: what the weights were trained for."""
    mask: Image | None = None
    """inpaint: a picture of the same size that is white where the photograph is to be filled."""
    sigma: float = 1.5
    """deblur: standard deviation of the Gaussian blur, in pixels."""
    kernel: Image | None = None
    """deblur: a small picture of the blur kernel, instead of a Gaussian."""

    def __post_init__(self) -> None:
        if not 0.3 <= self.sigma <= 6:
            raise VergenceError(f"sigma is from 0.3 to 6 pixels, got {self.sigma:g}")


def _published(epochs: int, batch: int) -> Training:
    """Adam with weight decay for G alone; the learning rate falls to a tenth half-way."""
    schedule = Schedule("multistep", unit="epoch", milestones=(epochs // 2,), gamma=0.1)
    optimiser = Optimiser("adam", lr=1e-3, weight_decay=1e-8, decays={"noise.*": 0.0}, schedule=schedule)
    return Training(epochs=epochs, batch=batch, optimiser=optimiser)


def _short(steps: int, batch: int, lr: float) -> Training:
    optimiser = Optimiser("adam", lr=lr, clip=1.0, weight_decay=1e-8, decays={"noise.*": 0.0},
                          schedule=Schedule("cosine", warmup=20, floor=0.02))  # fmt: skip
    return Training(steps=steps, batch=batch, evaluate_every=0, log_every=10, optimiser=optimiser)


TINY = ModelConfig(range_width=24, null_widths=(16, 32, 64), momentum=0.1)
PAPER = Config(
    Measure(inverse="approx"), ModelConfig(range_depth=17), Pictures("bsds:data", side=160), train=_published(400, 20)
)
SMALL = ModelConfig(family="shuffled", range_width=16, range_depth=2, null_widths=(32,), null_depth=4)
ANYWHERE = Pictures(pictures=0, held_out=32, side=64)
STEPS = {"sr2": 1500, "sr4": 1200, "inpaint": 2400, "deblur": 1500}
"""Of the starter weights: about eight minutes of one core altogether."""


def _starter(task: str, measure: Measure, side: int = 64, range_width: int = 16) -> Config:
    networks = replace(SMALL, block=4 if task == "sr4" else 2, range_width=range_width)
    return Config(measure, networks, replace(ANYWHERE, side=side), train=_short(STEPS[task], 8, 2e-3))


PRESETS = {
    "tiny": Config(Measure("average"), TINY, Pictures(side=32), train=_short(160, 8, 3e-3)),
    "tiny-mri": Config(
        Measure("fourier", noise=0.02), TINY, Pictures(scene="phantoms", side=64), train=_short(300, 8, 3e-3)
    ),
    "paper": PAPER,
    "paper-exact": replace(PAPER, measure=Measure()),
    "paper-4layers": replace(PAPER, model=ModelConfig()),
    "paper-compact": replace(PAPER, model=ModelConfig(null_widths=(64, 128, 256))),
    "paper-mrf": Config(
        Measure("fourier", acceleration=40.0, noise=0.01), ModelConfig(channels=10),
        Pictures("arrays:data", side=200), train=_published(400, 4),
    ),
    "fastmri": Config(
        Measure("fourier", acceleration=4.0, noise=0.0), ModelConfig(channels=2), Pictures("fastmri:data", side=320),
        train=_published(50, 4),
    ),
    "starter-sr2": _starter("sr2", Measure("bicubic", 2, noise=0.01, varied=True)),
    "starter-sr4": _starter("sr4", Measure("bicubic", 4, noise=0.01, varied=True), side=128),
    "starter-inpaint": _starter("inpaint", Measure("mask", noise=0.01, varied=True, holes=0.5)),
    "starter-deblur": _starter(
        "deblur", Measure("blur", blur=(0.7, 2.5), motion=0.25, cutoff=0.1, noise=0.01, varied=True), range_width=24
    ),
}  # fmt: skip
TASKS: dict[str, str] = {task: f"starter-{task}" for task in ("sr2", "sr4", "inpaint", "deblur")}

_PLAIN: dict[str, Any] = {
    "model.method": "ddn", "model.connection": "cascade", "model.projected": True, "model.use_range": True,
    "model.use_null": True, "model.decoupled": False,
}  # fmt: skip
VARIANTS = {
    "ddn": Variant("DDN: cascade, joint (DDN4)", _PLAIN),
    "independent": Variant("DDN: independent", _PLAIN | {"model.connection": "independent"}),
    "decoupled": Variant("DDN: cascade, decoupled", _PLAIN | {"model.decoupled": True}),
    "ddn1": Variant("DDN1: no projections", _PLAIN | {"model.projected": False}),
    "ddn2": Variant(
        "DDN2: null space only", _PLAIN | {"model.use_range": False, "train.optimiser.decays": {}}
    ),
    "ddn3": Variant("DDN3: range only", _PLAIN | {"model.use_null": False}),
    "resunet": Variant("ResUNet", _PLAIN | {"model.method": "resunet"}),
    "nsn": Variant("null-space network", _PLAIN | {"model.method": "nsn"}),
    "npgd": Variant("NPGD, 3 steps", _PLAIN | {"model.method": "npgd"}),
    "npgd-plain": Variant(
        "NPGD without skips", _PLAIN | {"model.method": "npgd", "model.residual": False}, headline=False
    ),
    "independent-decoupled": Variant(
        "DDN: independent, decoupled", _PLAIN | {"model.connection": "independent", "model.decoupled": True},
        headline=False,
    ),
}  # fmt: skip
METRICS = {
    "psnr": Metric("PSNR", "dB"),
    "ssim": Metric("SSIM", digits=4),
    "nmse": Metric("NMSE", "%", higher_is_better=False),
    "mse": Metric("MSE, thousandths", higher_is_better=False, digits=3),
    "gap": Metric("generalisation error, thousandths", higher_is_better=False, digits=3),
    "floor": Metric("noise floor, thousandths", higher_is_better=False, digits=3),
    "misfit": Metric("|Hx - y|, rms", higher_is_better=False, digits=4),
    "psnr_pinv": Metric("PSNR of the pseudo-inverse", "dB"),
    "psnr_landweber": Metric("PSNR of Landweber", "dB"),
    "psnr_tv": Metric("PSNR of total variation", "dB"),
}
REPORTED = (
    Reported.table(
        "Table 3: Set5, trained on BSDS300, × 2, noise 0.1 (generalisation error in thousandths)", ("psnr", "gap"),
        {"ddn": (26.30, 1.26), "independent": (26.15, 1.24), "decoupled": (26.38, 1.24), "ddn1": (22.31, 1.75),
         "ddn2": (20.95, 1.41), "ddn3": (25.82, 1.83)},
        ("tiny", "paper", "paper-exact"),
    ),
    Reported.table(
        "Table 2: magnetic resonance fingerprints, 100 slices", ("nmse",),
        {"ddn": (0.51,), "resunet": (0.62,), "npgd": (0.58,), "nsn": (0.57,)}, ("tiny-mri", "paper-mrf"),
    ),
)  # fmt: skip

UNET, COMPACT, DNCNN, FOUR, FOUR_10 = 34_525_889, 2_069_441, 556_096, 75_200, 85_568
"""Counted by hand. Denoiser: c·64·9 + 64 for the first convolution, 64·64·9 + 128 for each with a norm, 64·9·c for the
last: 75,200 with four at c = 1, 85,568 at c = 10, 556,096 with seventeen. A block of the U-Net from a to b channels has
9ab + 9b² + 6b, a step up 9ab + 3b, and the last 1x1 convolution 65."""
UNET_10 = UNET + 9 * 9 * 64 + 9 * 65
"""Ten channels in and out instead of one: nine more inputs of the first 3x3, nine more outputs of the last 1x1."""
UNET_2, FOUR_2 = UNET + 9 * 64 + 65, FOUR + 2 * 9 * 64

DATA = (
    "crops of 13 photographs of scikit-image and scikit-learn at three sizes, luminance, with noise of up to 0.01 "
    "(2.5 grey values)"
)
NOTES = {
    "sr2": "photographs enlarged by 2",
    "sr4": "photographs enlarged by 4",
    "inpaint": "holes and scratches of photographs filled",
    "deblur": "photographs sharpened after a known blur",
}
TRIED = (
    "chelsea, rocket, flower and motorcycle, photographs that no training saw: the README has PSNR and SSIM beside "
    "those of other methods"
)


def _shapes(channels: int, side: int) -> list[tuple[int, ...]]:
    return [(1, channels, side, side)] * 4


SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: luminance of photographs that come with scikit-image and scikit-learn, in crops, measured as block "
        "means of 2 x 2 pixels with noise of 0.1. Test crops are from photographs that no training saw."
    ),
    reported=REPORTED,
    published={
        "paper": Published({}, _shapes(1, 160), DNCNN + UNET),
        "paper-exact": Published({}, _shapes(1, 160), DNCNN + UNET),
        "paper-4layers": Published({}, _shapes(1, 160), FOUR + UNET),
        "paper-compact": Published({}, _shapes(1, 160), FOUR + COMPACT),
        "paper-mrf": Published({}, _shapes(10, 200), FOUR_10 + UNET_10),
        "fastmri": Published({}, _shapes(2, 320), FOUR_2 + UNET_2),
    },
    learns=Learns(
        "restored", steps=14, share=0.9, changes={"data.pictures": 16, "data.held_out": 4, "data.side": 24},
    ),
    starters={
        task: Starter(f"{note}, trained on photographs", preset=TASKS[task], variant="ddn", data=DATA, tried=TRIED)
        for task, note in NOTES.items()
    },
    minutes=0.5,
)  # fmt: skip
