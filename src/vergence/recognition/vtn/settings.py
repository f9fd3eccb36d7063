"""VTN's settings: configs of two tasks, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import tyro

from vergence.contract.data import EMBEDDED, Missing, Source
from vergence.contract.inputs import Images
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.assets import RESNET50
from vergence.recognition.settings import Facts, PictureView
from vergence.recognition.vtn import ABOUT

STRIDES = {"small": 4, "resnet50": 32, "vgg19": 16, "efficientnet-lite0": 32}
CHANNELS = {"small": 32, "resnet50": 2048, "vgg19": 512, "efficientnet-lite0": 1280}
"""Of a backbone's last map."""


@dataclass(frozen=True)
class ModelConfig:
    """Backbone, warp of its last map, and head."""

    backbone: Literal["small", "resnet50", "vgg19", "efficientnet-lite0"] = "resnet50"
    """small has three convolutions, for embedded pictures; vgg19 ends with conv5_4, before the last pooling."""
    warp: Literal["none", "vtn", "stn", "saliency", "deform"] = "vtn"
    """vtn; stn: one affine map; saliency: a saliency sampler; deform: the last 3x3 convolution becomes deformable."""
    groups: int = 32
    """vtn: groups of channels with a field of their own (1: one field for all; 0: one for each channel)."""
    window: int = 11
    """vtn: side of the square of candidates of a position, in pixels of the map."""
    beta: float = 10.0
    """vtn: divides the logits of candidates; it has to fit the scale of the responses."""
    widths: tuple[int, ...] = (16, 32, 64, 64)
    """vtn: channels of the encoder's convolutions; the decoder has them in reverse."""
    mixing: bool = True
    """vtn: squeeze and expand groups (W_cs, W_ce); without, every group is estimated alone."""
    probability: bool = True
    """vtn: fields are means over candidates; without, they are regressed directly."""
    head: Literal["own", "flatten", "gem"] = "own"
    """own: the backbone's pooling and classifier; flatten: one linear layer on the whole map, for embedded pictures;
    gem: a descriptor by generalised mean, without classifier."""

    def __post_init__(self) -> None:
        if self.window < 1 or self.window % 2 == 0 or not self.beta > 0:
            raise VergenceError(f"a window has an odd side and beta is above 0, got {self.window} and {self.beta}")
        if not 1 <= len(self.widths) <= 4 or min(self.widths) < 1:
            raise VergenceError(f"an encoder has 1 to 4 widths above 0, got {self.widths}")
        if self.warp == "vtn" and (self.groups < 0 or (self.groups and self.channels % self.groups)):
            raise VergenceError(
                f"the {self.channels} channels of {self.backbone} cannot be cut into {self.groups} equal groups"
            )

    @property
    def channels(self) -> int:
        return CHANNELS[self.backbone]


@dataclass(frozen=True)
class Pictures(PictureView):
    """Labelled pictures, their crops and augmentation, for classification."""

    source: Source = EMBEDDED
    """embedded, cub:PATH, cars:PATH, aircraft:PATH, inaturalist:PATH, list:PATH, folder:PATH, or a plain PATH to class
    folders."""
    missing: Missing = "refuse"
    """cub, list: what to do with a listed picture that is missing: raise an error, or leave it out and report it."""
    square: bool = True
    """Resize to `resize` along both sides before cropping, as published, whatever the shape of a picture."""
    rotate: float = 0.0
    """Training: turn by a random angle up to this many degrees. The paper gives no range."""
    each: int = 2
    """Pictures of a class in a batch: the consistency loss compares them."""
    count: int = 960
    """embedded: number of training pictures; half as many for validation and test."""
    pose: float = 1.0
    """embedded: how far birds and their parts move and turn; 0: all stand at the same place in the same pose."""
    marks: Literal["own", "shared"] = "own"
    """embedded: heads have marks of their own, or the plumages of wings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self)


@dataclass(frozen=True)
class Landmarks(PictureView):
    """Pictures in clusters, for retrieval."""

    source: Source = EMBEDDED
    """embedded, sfm120k:PATH (training), roxford5k:PATH, rparis6k:PATH (evaluation), or pictures:PATH, a folder of
    pictures for each cluster."""
    longest: int = 1024
    """Evaluation and prediction: longer side of a picture in pixels; larger ones are reduced."""
    rotate: float = 0.0
    """Training: turn by a random angle up to this many degrees."""
    each: int = 2
    """Pictures of a cluster in a batch."""
    count: int = 960
    """embedded: number of training pictures, of 12 kinds of birds; half as many, of the 4 other kinds, for test."""
    pose: float = 1.0
    """embedded: how far birds and their parts move and turn."""
    marks: Literal["own", "shared"] = "own"
    """embedded: heads have marks of their own, or the plumages of wings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self)
        if not 32 <= self.longest <= 8192:
            raise VergenceError(f"longest is from 32 to 8192 pixels, got {self.longest}")


def _check(data: Pictures | Landmarks) -> None:
    if not 0 <= data.rotate <= 180 or data.each < 1 or not data.pose >= 0:
        raise VergenceError(
            f"data has rotate from 0 to 180, each >= 1 and pose >= 0, got {data.rotate}, {data.each} and {data.pose}"
        )
    if not 32 <= data.count <= 1_000_000:
        raise VergenceError(f"embedded data has a count from 32 to 1000000, got {data.count}")


@dataclass(frozen=True)
class Objective:
    """The losses."""

    consistency: float = 1.0
    """Weight λ of the consistency loss (Eq. 4)."""
    margin: float = 30.0
    """α of the consistency loss, on the scale of squared feature distances: 30 for ResNet, 20 for VGG."""
    apart: float = 0.7
    """Retrieval: distance from which descriptors of different clusters cost nothing (contrastive loss)."""

    def __post_init__(self) -> None:
        if not (self.consistency >= 0 and self.margin >= 0 and self.apart >= 0):
            raise VergenceError(
                f"an objective's consistency, margin and apart are at least 0, got {self.consistency}, {self.margin} "
                f"and {self.apart}"
            )


@dataclass(frozen=True)
class Config:
    """VTN: network, data, training."""

    model: ModelConfig = ModelConfig()
    data: tyro.conf.AvoidSubcommands[Pictures | Landmarks] = Pictures()
    """Classification or retrieval: the preset decides which."""
    objective: Objective = Objective()
    pretrained: str = ""
    """Initial weights of the backbone: resnet50 (ImageNet), or a .safetensors or .pth file with torchvision's names."""
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        if isinstance(self.data, Landmarks) != (self.model.head == "gem"):
            raise VergenceError(
                f"the head {self.model.head} does not fit {type(self.data).__name__}: gem is for Landmarks, and only it"
            )


@dataclass(frozen=True)
class Inputs:
    """Photographs to classify or to describe."""

    images: Images
    """Picture files; without weights, for a network trained on ImageNet (the extra `pretrained`)."""
    groups: int = 6
    """Number of groups of channels whose fields are drawn: those that lead to places far apart."""
    beta: float = 1.0
    """Without weights: divides the logits of candidates; the smaller, the further fields reach for strong responses."""

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= 64 or not 0 < self.beta <= 1e6:
            raise VergenceError(f"1 to 64 groups are drawn, with beta above 0; got {self.groups} and {self.beta}")


_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_GREY, _EVEN = (0.45, 0.45, 0.45), (0.25, 0.25, 0.25)


def _fine_tuning(batch: int, epochs: int = 90) -> Training:
    """The paper gives none of it: a tenth of the learning rate for the pretrained backbone."""
    optimiser = Optimiser("sgd", lr=1e-2, weight_decay=1e-4, rates={"backbone.*": 0.1}, schedule=Schedule("cosine"))
    return Training(epochs=epochs, batch=batch, evaluate_every=5, optimiser=optimiser)


def _published(source: str) -> Config:
    view = Pictures(448, 512, "crop-flip", mean=_MEAN, std=_STD, source=source, rotate=15.0)
    return Config(ModelConfig(), view, pretrained="resnet50", train=_fine_tuning(32))


_SMALL = ModelConfig("small", groups=8, window=7, beta=1.0, widths=(8, 16), head="flatten")
_QUICK = Training(
    steps=320,
    batch=32,
    evaluate_every=0,
    optimiser=Optimiser("adamw", lr=3e-3, weight_decay=1e-3, schedule=Schedule("cosine", warmup=32)),
)
PRESETS = {
    "tiny": Config(_SMALL, Pictures(48, 48, "none", mean=_GREY, std=_EVEN), Objective(0.002, 5.0), train=_QUICK),
    "tiny-retrieval": Config(
        replace(_SMALL, head="gem"),
        Landmarks(48, 48, "none", mean=_GREY, std=_EVEN),
        Objective(0.002, 5.0),
        train=_QUICK,
    ),
    "paper": _published("cub:CUB_200_2011"),
    "paper-vgg": replace(
        _published("cub:CUB_200_2011"),
        model=ModelConfig("vgg19"),
        objective=Objective(margin=20.0),
        pretrained="vgg19.pth",
    ),
    "paper-cars": _published("cars:stanford_cars"),
    "paper-aircraft": _published("aircraft:fgvc-aircraft-2013b"),
    "paper-inaturalist": _published("inaturalist:inat2017"),
    "paper-retrieval": Config(
        ModelConfig(head="gem"),
        Landmarks(448, 512, "crop-flip", mean=_MEAN, std=_STD, source="sfm120k:retrieval-SfM-120k", rotate=15.0),
        pretrained="resnet50",
        train=_fine_tuning(32, epochs=30),
    ),
}  # fmt: skip


def _baseline(label: str, warp: str, headline: bool = True) -> Variant:
    return Variant(label, {"model.warp": warp, "objective.consistency": 0.0}, headline)


VARIANTS = {
    "vtn": Variant("VTN"),
    "none": _baseline("no warp", "none"),
    "stn": _baseline("STN, affine", "stn"),
    "shared": Variant("VTN, one field for all channels", {"model.groups": 1}),
    "no-consistency": Variant("VTN without L_cons", {"objective.consistency": 0.0}),
    "deform": _baseline("deformable convolution", "deform"),
    "saliency": _baseline("saliency sampler", "saliency", headline=False),
    "no-mixing": Variant("VTN without W_cs, W_ce", {"model.mixing": False}, headline=False),
    "no-groups": Variant("VTN, one field per channel", {"model.groups": 0}, headline=False),
    "no-probability": Variant("VTN, fields regressed", {"model.probability": False}, headline=False),
}
METRICS = {
    "top1": Metric("Top-1", "%"),
    "top5": Metric("Top-5", "%"),
    "loc1": Metric("localisation error, top-1", "%", higher_is_better=False),
    "loc5": Metric("localisation error, top-5", "%", higher_is_better=False),
    "map": Metric("mAP", "%"),
    "easy": Metric("mAP, Easy", "%"),
    "medium": Metric("mAP, Medium", "%"),
    "hard": Metric("mAP, Hard", "%"),
    "spread": Metric("spread of centroids, after / before", higher_is_better=False, digits=3),
    "shift": Metric("mean shift", "pixels of the map", digits=2),
}

_RECOGNITION = ("tiny", "paper", "paper-vgg", "paper-cars", "paper-aircraft", "paper-inaturalist")
REPORTED = (
    Reported.table(
        "Table 1: CUB-200, ResNet-50", ("top1",),
        {"none": (74.6,), "deform": (76.7,), "stn": (76.5,), "saliency": (77.7,), "no-mixing": (80.1,),
         "no-groups": (77.2,), "no-probability": (79.0,), "no-consistency": (82.4,), "vtn": (83.1,)}, _RECOGNITION,
    ),
    Reported.table(
        "Table 1: CUB-200, VGG-19", ("top1",),
        {"none": (71.4,), "deform": (74.2,), "stn": (72.1,), "saliency": (75.1,), "no-mixing": (77.8,),
         "no-groups": (76.3,), "no-probability": (78.1,), "no-consistency": (79.2,), "vtn": (80.4,)}, ("paper-vgg",),
    ),
    Reported.table(
        "Table 1: Stanford Cars, ResNet-50", ("top1",),
        {"none": (70.4,), "deform": (72.1,), "stn": (71.0,), "saliency": (74.8,), "no-mixing": (81.4,),
         "no-groups": (79.1,), "no-probability": (80.4,), "no-consistency": (82.1,), "vtn": (82.7,)}, ("paper-cars",),
    ),
    Reported.table(
        "Table 1: FGVC-Aircraft, ResNet-50", ("top1",),
        {"none": (82.1,), "deform": (83.7,), "stn": (81.2,), "saliency": (83.1,), "no-mixing": (86.9,),
         "no-groups": (82.4,), "no-probability": (85.1,), "no-consistency": (84.9,), "vtn": (89.2,)},
        ("paper-aircraft",),
    ),
    Reported.table(
        "Table 5: CUB-200, ResNet-50, localisation by Grad-CAM", ("loc1", "loc5"),
        {"none": (53.42, 43.12), "stn": (54.21, 43.33), "vtn": (52.18, 41.76)}, ("tiny", "paper"),
    ),
    Reported.table("Table 6: ROxford5k, [47] + GeM", ("medium", "hard"), {"none": (64.7, 38.5), "vtn": (67.4, 45.5)},
                   ("tiny-retrieval", "paper-retrieval")),
    Reported.table("Table 6: RParis6k, [47] + GeM", ("medium", "hard"), {"none": (77.2, 56.3), "vtn": (80.5, 57.1)},
                   ("tiny-retrieval", "paper-retrieval")),
)  # fmt: skip

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    assets={"resnet50": RESNET50},
    reported=REPORTED,
    # ResNet-50 without its classifier has 23,508,032 parameters, the estimator 178,089 (60,544 in the encoder's
    # convolutions, 97,120 in the decoder's, 2,880 in the mixes, 17,545 in the last one).
    published={
        "paper": Published({"classes": 200}, (1, 200), 23_508_032 + 178_089 + 2049 * 200),
        "paper-vgg": Published({"classes": 200}, (1, 200), 143_667_240 - 4097 * 800 + 178_089),
        "paper-cars": Published({"classes": 196}, (1, 196), 23_508_032 + 178_089 + 2049 * 196),
        "paper-aircraft": Published({"classes": 100}, (1, 100), 23_508_032 + 178_089 + 2049 * 100),
        "paper-inaturalist": Published({"classes": 5089}, (1, 5089), 23_508_032 + 178_089 + 2049 * 5089),
        "paper-retrieval": Published({}, (1, 2048), 23_508_032 + 178_089 + 1),
    },
    learns=Learns(
        "cross_entropy", steps=24, share=0.75, changes={"data.count": 32, "train.batch": 16, "model.groups": 4}
    ),
    minutes=0.4,
)
