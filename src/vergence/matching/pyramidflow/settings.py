"""pyramidflow's settings: network, data, losses, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Images
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.matching.pyramidflow import ABOUT

DLA = (16, 32, 64, 128, 256, 512, 512)
VGG = (16, 32, 64, 96, 128, 196)


@dataclass(frozen=True)
class ModelConfig:
    """The pyramid network."""

    encoder: Literal["dlaup", "vgg"] = "dlaup"
    """DLA-34 with DLA-Up, or plain convolutions."""
    channels: tuple[int, ...] = DLA
    """Channels of the encoder's levels, each half as large as the one before (dlaup: seven, the first at full size)."""
    convs: int = 3
    """vgg: convolutions of a level."""
    levels: int = 5
    """Levels of the search, from the coarsest map on."""
    reach: int = 4
    """Displacements of a cost volume, in pixels of its level, to each side."""
    width: int = 128
    """Channels of the decoders."""
    carried: int = 0
    """Features that a decoder passes to the next; 0: as many as there are displacements, as published."""
    block: Literal["hda", "resnet"] = "hda"
    """Decoders with or without aggregation."""
    context: bool = True
    """Decode the finest level by dilated convolutions."""
    head: Literal["density", "regression"] = "density"
    """Decode densities over displacements (HD³), or residual flow (PWC-Net)."""
    volume: Literal["sampled", "warped"] = "sampled"
    """Cost volume: sampled around each pixel's own flow (Eq. 2), or of warped features (Eq. 1)."""
    metric: Literal["corr", "sad"] = "sad"
    """Cost: mean product, or mean absolute difference (Eq. 3)."""
    stop: bool = True
    """Stop the gradient at the flow that enters a level."""
    cues: bool = True
    """Show decoders what forward and backward flow say about each other."""
    corners: bool = True
    """Enlarge flow with aligned corners as HD³ does; otherwise with aligned pixels, which small maps need."""

    def __post_init__(self) -> None:
        if self.encoder == "dlaup" and len(self.channels) != len(DLA):
            raise VergenceError(f"dlaup has {len(DLA)} channels, got {self.channels}")
        depth = len(self.channels) - (self.encoder == "dlaup")
        if min(*self.channels, self.convs, self.width, self.reach, 99) < 1 or not 1 <= self.levels < depth + 1:
            raise VergenceError(
                f"a network has channels, convs, width and reach of at least 1, and 1 to {depth} levels; got "
                f"{self.channels}, {self.convs}, {self.width}, {self.reach} and {self.levels}"
            )


@dataclass(frozen=True)
class Frames:
    """Pairs of frames, and how they are cut for training."""

    source: Source = EMBEDDED
    """embedded, chairs2:PATH, things:PATH, sintel:PATH, kitti:PATH, middlebury:PATH, or a PATH to frames with .flo."""
    scene: Literal["rendered", "flying", "mixed"] = "rendered"
    """embedded: rendered places in motion, photographs that fly over photographs, or both."""
    pairs: int = 480
    """embedded: pairs to train on (mixed: of each kind); a twelfth as many, rendered ones, for validation and test."""
    size: tuple[int, int] = (160, 224)
    """embedded: height and width."""
    most: float = 32.0
    """embedded: the largest motion of a thing, about, in pixels."""
    crop: tuple[int, int] = (384, 512)
    """Height and width of training crops."""
    scales: tuple[float, float] = (1.0, 2.0)
    """Least and greatest enlargement of training pairs."""
    flips: Literal["none", "h", "hv"] = "hv"
    """Axes along which training pairs are mirrored at random."""
    photometric: bool = False
    """Change contrast, brightness, colours and gamma of training pairs."""
    teacher: str = ""
    """Weights file of a network whose flow is learnt too, where it can be believed (distillation, Eq. 7)."""

    def __post_init__(self) -> None:
        if self.pairs < 12 or min(self.size) < 16 or not self.most > 0:
            raise VergenceError(
                f"data has pairs >= 12, a size of at least 16 and most > 0, got {self.pairs}, {self.size}, {self.most}"
            )
        if min(self.crop) < 1 or not 0 < self.scales[0] <= self.scales[1]:
            raise VergenceError(f"crops are at least 1 and scales above 0, got {self.crop} and {self.scales}")


@dataclass(frozen=True)
class LossConfig:
    """The loss over pixels."""

    share: float = 0.5
    """The share of hardest pixels whose loss is averaged (Eq. 4); 1: all of them."""
    in_reach: bool = True
    """Leave pixels alone whose residual is beyond the reach of a level."""
    supervised: float = 0.9
    """Distillation: weight of the supervised loss; the taught one has the rest (Eq. 7)."""

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and 0 <= self.supervised <= 1):
            raise VergenceError(
                f"a loss has a share above 0 and at most 1 and supervised from 0 to 1, got {self.share} and "
                f"{self.supervised}"
            )


@dataclass(frozen=True)
class Config:
    """Network, frames, loss, training."""

    model: ModelConfig = ModelConfig()
    data: Frames = Frames()
    loss: LossConfig = LossConfig()
    train: Training = Training()
    pretrained: str = ""
    """File with weights to start from: of another network of this system, or of DLA-34 for the encoder."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Two frames, or a video."""

    images: Images
    """Two pictures of the same size; or one video, or one folder of frames."""
    scale: float = 1.0
    """Compute on frames resized by this factor: 0.5 reaches farther and takes a quarter of the time."""
    frames: int = 0
    """video: the most frames; 0: all."""
    every: int = 1
    """video: motion to the nth frame after each."""

    def __post_init__(self) -> None:
        if not 0.05 <= self.scale <= 4:
            raise VergenceError(f"scale is from 0.05 to 4, got {self.scale:g}")
        if self.frames < 0 or self.frames == 1 or self.every < 1:
            raise VergenceError(f"frames is 0 or at least 2, and every at least 1; got {self.frames} and {self.every}")


def _published(epochs: int, milestones: tuple[int, ...], batch: int = 64) -> Training:
    schedule = Schedule("multistep", unit="epoch", milestones=milestones, gamma=0.5)
    return Training(
        epochs=epochs, batch=batch, optimiser=Optimiser("adam", lr=1e-4, weight_decay=4e-4, schedule=schedule)
    )


def _short(steps: int, batch: int, lr: float) -> Training:
    schedule = Schedule("cosine", warmup=20, floor=0.02)
    return Training(
        steps=steps,
        batch=batch,
        evaluate_every=0,
        log_every=10,
        optimiser=Optimiser("adam", lr=lr, clip=1.0, schedule=schedule),
    )


CHAIRS = _published(200, (70, 100, 130, 160))
PAPER = Config(ModelConfig(), Frames("chairs2:data"), LossConfig(), CHAIRS)
KITTI = Frames("kitti:data", crop=(320, 896), scales=(0.5, 1.15), flips="h", photometric=True)
SMALL = ModelConfig(
    "vgg", (16, 24, 32, 48), convs=2, levels=3, reach=3, width=32, carried=16, block="resnet", context=False,
    corners=False,
)  # fmt: skip
PRESETS = {
    "tiny": Config(
        replace(SMALL, cues=False), Frames(crop=(80, 112), scales=(1.0, 1.0)), LossConfig(1.0, in_reach=False),
        _short(300, 4, 4e-3),
    ),
    "paper": PAPER,
    "paper-cvr8": replace(PAPER, model=ModelConfig(reach=8)),
    "paper-vgg": replace(PAPER, model=ModelConfig("vgg", VGG)),
    "paper-things": replace(PAPER, data=Frames("things:data", crop=(384, 832), scales=(1.0, 1.0))),
    "paper-sintel": replace(
        PAPER, data=Frames("sintel:data", crop=(384, 768), scales=(0.5, 1.13), flips="h", photometric=True),
        train=_published(1200, (600, 900)),
    ),
    "paper-kitti": replace(PAPER, data=KITTI, loss=LossConfig(share=0.9), train=_published(1600, (1000, 1500))),
    "starter": Config(
        replace(SMALL, channels=(16, 24, 32, 48, 64), levels=4, width=36),
        Frames(scene="mixed", crop=(96, 128), scales=(0.7, 1.4), photometric=True),
        LossConfig(share=1.0, in_reach=False), _short(2800, 4, 3e-3),
    ),
}  # fmt: skip
WARP, SAMPLE = {"model.volume": "warped"}, {"model.volume": "sampled"}
FLOW, STOP = {"model.stop": False}, {"model.stop": True}
MEAN = {"loss.share": 1.0, "loss.in_reach": False}
HARD = {"loss.share": 0.5, "loss.in_reach": True}
CORR, SAD = {"model.metric": "corr"}, {"model.metric": "sad"}
CUED, PLAIN = {"model.cues": True}, {"model.cues": False}
DENSITY, DIRECT = {"model.head": "density"}, {"model.head": "regression"}
_BASE = PLAIN | SAD | MEAN | DENSITY
_HD3 = PLAIN | CORR | MEAN | DENSITY
VARIANTS = {
    "sample-stop": Variant("sampled, gradient stopped", _BASE | SAMPLE | STOP),
    "sample": Variant("sampled, full gradient", _BASE | SAMPLE | FLOW),
    "warp-stop": Variant("warped, gradient stopped", _BASE | WARP | STOP),
    "warp": Variant("warped, full gradient", _BASE | WARP | FLOW),
    "hd3": Variant("HD³: correlation, warped", _HD3 | WARP | FLOW, headline=False),
    "hd3-stop": Variant("HD³, stopped", _HD3 | WARP | STOP, headline=False),
    "hd3-sample": Variant("HD³, stopped, sampled", _HD3 | SAMPLE | STOP, headline=False),
    "cues": Variant("HD³, stopped, sampled, cues", _HD3 | SAMPLE | STOP | CUED, headline=False),
    "cues-sad": Variant("sampled, stopped, cues", _BASE | SAMPLE | STOP | CUED, headline=False),
    "lmp": Variant("HD³, stopped, LMP", _HD3 | WARP | STOP | HARD, headline=False),
    "all": Variant("all: sampled, stopped, cues, LMP", _BASE | SAMPLE | STOP | CUED | HARD, headline=False),
    "pwc": Variant("regression head, warped", _HD3 | WARP | FLOW | DIRECT, headline=False),
    "pwc-sample-stop": Variant("regression head, sampled, stopped", _HD3 | SAMPLE | STOP | DIRECT, headline=False),
    "wide": Variant("sampled, stopped, reach 8", _BASE | SAMPLE | STOP | {"model.reach": 8}, headline=False),
}
METRICS = {
    "epe": Metric("EPE", "px", higher_is_better=False),
    "fl": Metric("Fl-all", "%", higher_is_better=False),
    "epe_small": Metric("EPE small things", "px", higher_is_better=False),
    "epe_seen": Metric("EPE not occluded", "px", higher_is_better=False),
    "fl_seen": Metric("Fl-noc", "%", higher_is_better=False),
    "epe_zero": Metric("EPE of zero motion", "px", higher_is_better=False),
    "epe_small_zero": Metric("EPE of zero motion, small things", "px", higher_is_better=False),
    "occlusion": Metric("occlusion, F1", "%"),
}

_SCORES = ("epe", "fl")


_TABLE = {
    "hd3": (1.422, 6.99, 17.74, 26.7, 6.273, 15.2, 8.73, 34.7, 20.98, 50.3),
    "hd3-stop": (1.215, 6.23, 19.09, 26.8, 5.774, 15.9, 9.47, 44.6, 19.07, 53.7),
    "hd3-sample": (1.208, 6.19, 17.16, 24.8, 6.074, 15.6, 8.67, 45.3, 17.42, 51.2),
    "cues": (1.186, 6.16, 19.62, 28.5, 7.420, 16.0, 6.67, 32.6, 16.23, 47.6),
    "cues-sad": (1.184, 6.15, 15.14, 25.0, 5.625, 16.4, 8.14, 41.6, 17.13, 52.5),
    "lmp": (1.193, 6.02, 44.07, 40.4, 12.53, 17.9, 8.78, 42.4, 19.08, 51.1),
    "all": (1.168, 5.97, 14.46, 23.0, 5.560, 15.9, 6.85, 35.5, 16.87, 49.9),
}
"""EPE and Fl-all on each data set."""
REPORTED = tuple(
    Reported.table(
        f"Table 1: {where}, trained on Chairs2", _SCORES,
        {name: row[2 * number : 2 * number + 2] for name, row in _TABLE.items()},
    )
    for number, where in enumerate(("Chairs2", "Things", "Sintel final", "KITTI 2012", "KITTI 2015"))
)  # fmt: skip

DLA_COUNT = 39_982_583
"""Counted by hand from the layers of Sec. 3 and HD³: the encoder has 34,288,176 (DLA-34 with a seventh level
25,499,568, DLA-Up 8,788,608), the norms of cost volumes 5 x 162, the decoders 757,107, 1,528,947, 1,201,267 and
1,037,427, and the context module 1,168,849. Without cues it is HD³'s 39,942,647."""


def _shapes(height: int, width: int) -> dict[str, tuple[int, ...]]:
    return {"flow": (1, 2, height, width), "backward": (1, 2, height, width)}


SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered rooms and streets with photographic textures, seen by a moving camera, in which things "
        "move by themselves, some of them small. Test pairs have textures from photographs that no training saw."
    ),
    reported=REPORTED,
    published={
        "paper": Published({}, _shapes(384, 512), DLA_COUNT),
        "paper-cvr8": Published({}, _shapes(384, 512), 44_167_335),
        "paper-vgg": Published({}, _shapes(384, 512), 6_546_703),
        "paper-things": Published({}, _shapes(384, 832), DLA_COUNT),
        "paper-sintel": Published({}, _shapes(384, 768), DLA_COUNT),
        "paper-kitti": Published({}, _shapes(320, 896), DLA_COUNT),
    },
    learns=Learns(
        "density", steps=16, share=0.95,
        changes={"data.scene": "flying", "data.pairs": 12, "data.size": (64, 80), "data.crop": (48, 64),
                 "data.most": 12.0},
    ),
    starters={
        "rendered": Starter(
            "optical flow of photographs and videos, trained on rendered places and flying photographs",
            variant="cues-sad",
            tried=(
                "photographs of scikit-image that no training saw, moved smoothly by 8 px: EPE 0.53 px (OpenCV DIS "
                "0.19, Farnebäck 2.89); two frames of MPI-Sintel: difference after warping 3.51 of 11.32 grey values "
                "(DIS 2.39, Farnebäck 2.70); the motorcycle pair at half size, motions of 34 px: EPE 7.5 px (DIS 3.2)"
            ),
            data="480 pairs of rendered places and 480 of photographs flying over photographs "
            "(vergence.rendering.pairs, vergence.matching.flying), 160 x 224 pixels",
        ),
    },
    minutes=0.7,
)  # fmt: skip
