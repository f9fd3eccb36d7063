"""SNL's settings: configs of four tasks, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import tyro

from vergence.contract.data import EMBEDDED, Missing, Source
from vergence.contract.inputs import Folder, Images, Points, Videos
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.assets import RESNET50
from vergence.recognition.settings import LEAST, Facts, PictureView, Tokens
from vergence.recognition.snl import ABOUT
from vergence.reid.settings import PersonView
from vergence.video.settings import ClipView, Scene

Block = Literal[
    "none", "nl", "nl-gaussian", "nl-dot", "nl-concatenation", "ns", "a2", "cgnl", "cgnl-dot", "cc", "cc-twice", "snl",
    "snl-softmax", "gsnl", "chebysnl", "cayleysnl", "cayleysnl-relu", "cayleyexact",
]  # fmt: skip

ForPictures = Literal[
    "preresnet-tiny", "preresnet20", "preresnet56-bottleneck", "preresnet56-basic", "resnet18", "resnet50"
]
ForClips = Literal[
    "i3d-tiny", "i3d50", "resnext3d-tiny", "resnext3d101", "p3d-tiny", "p3d63", "p3d199", "vtn-tiny", "vtn"
]
ForTracklets = Literal["resnet-tp-tiny", "resnet50-tp"]
Backbone = Literal[ForPictures, ForClips, ForTracklets, "tokens"]


@dataclass(frozen=True)
class ModelConfig:
    """Backbone, nonlocal block and its place."""

    backbone: Backbone = "preresnet56-bottleneck"
    """The network: for pictures, clips (i3d, resnext3d, p3d, vtn) or tracklets (tp); tokens is a block alone."""
    block: Block = "snl"
    """The nonlocal block; in a video transformer it replaces the attention (none: keep the attention)."""
    at: tuple[str, ...] = ("layer1.1",)
    """Residual blocks that it follows: layer1.1 is the second of the first stage. Not used in a video transformer."""
    inner: int = 0
    """Width of the block's embeddings (0: half its channels; for criss-cross an eighth)."""
    units: int = 1
    """Consecutive blocks at each place, sharing one affinity."""
    over: Literal["clip", "frame"] = "clip"
    """tp: the graph of a block spans all frames of a clip, or each frame by itself."""
    dropout: float = 0.5
    """Dropout rate before the classifier; plain ResNets have none."""

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise VergenceError(f"dropout is from 0 to below 1, got {self.dropout}")
        if not 0 <= self.inner <= 65_536:
            raise VergenceError(f"inner is a number of channels (0: half of the block's), got {self.inner}")
        if not 1 <= self.units <= 1000:
            raise VergenceError(f"units is a number of blocks, at least 1, got {self.units}")


@dataclass(frozen=True)
class Pictures(PictureView):
    """Source of the pictures, and their crops and augmentation."""

    source: Source = EMBEDDED
    """embedded, cifar10:PATH, cifar100:PATH, cub:PATH, list:PATH, folder:PATH, or a plain PATH to class folders."""
    missing: Missing = "refuse"
    """cub, list: what to do with a listed picture that is missing: raise an error, or leave it out and report it."""
    scene: Literal["relation", "sizes"] = "relation"
    """embedded: marks of one size, or small marks in one half of the pictures and large ones in the other."""
    count: int = 4800
    """embedded: number of training pictures; a quarter as many for validation and test."""
    noise: float = 0.15
    """embedded: standard deviation of the noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 24 or not self.noise >= 0:
            raise VergenceError(f"embedded data has count >= 24 and noise >= 0, got {self.count} and {self.noise}")
        if self.source == EMBEDDED and self.size < (LEAST if self.scene == "relation" else 41):
            raise VergenceError(f"embedded pictures have a size of at least {LEAST} (41 for sizes), got {self.size}")


@dataclass(frozen=True)
class Footage(ClipView):
    """Source of the videos, and sampling of clips."""

    source: Source = EMBEDDED
    """embedded, ucf101:PATH, hmdb51:PATH, videos:PATH, or a plain PATH to class folders of videos or of folders of
    frames."""
    fold: Literal[1, 2, 3] = 1
    """ucf101, hmdb51: which of the three splits."""
    damaged: Literal["refuse", "skip-training", "skip"] = "refuse"
    """A video that is missing or cannot be read: raise an error, take another one in training (it is reported), or
    leave it out of evaluation too (the number left out is reported)."""
    count: int = 1600
    """embedded: number of training clips; a quarter as many for validation and test."""
    clip: Scene = Scene()
    """embedded: appearance and motion of the clips."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 16:
            raise VergenceError(f"embedded data has a count of at least 16, got {self.count}")
        if self.source == EMBEDDED:
            self.clip.check(self.frames, self.size)


@dataclass(frozen=True)
class Tracklets(PersonView):
    """Source of the tracklets, and sampling of clips."""

    source: Source = EMBEDDED
    """embedded, mars:PATH, ilids-vid:PATH, prid2011:PATH, tracklets:PATH, or a plain PATH to folders of tracklets."""
    frames: int = 4
    """Frames per clip."""
    most: int = 0
    """Testing: at most this many clips per tracklet, evenly spread (0: all, as published)."""
    fold: int = 1
    """ilids-vid, prid2011: which of the ten splits."""
    missing: Missing = "refuse"
    """What to do with a listed tracklet that is missing: raise an error, or leave it out and report it."""
    each: int = 4
    """Tracklets per identity in a batch."""
    people: int = 128
    """embedded: number of training identities; half as many for validation and test."""
    length: int = 8
    """embedded: frames per tracklet."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.people <= 10_000 or not 1 <= self.length <= 1000:
            raise VergenceError(
                f"embedded data has 2 to 10000 people in tracklets of 1 to 1000 frames, got {self.people} and "
                f"{self.length}"
            )
        if not 1 <= self.frames <= 1024 or self.most < 0 or self.each < 1:
            raise VergenceError(
                f"clips have 1 to 1024 frames, tracklets 0 (all) or more clips, and batches at least 1 tracklet of an "
                f"identity; got {self.frames}, {self.most} and {self.each}"
            )


@dataclass(frozen=True)
class Objective:
    """The loss: cross-entropy, with label smoothing and a triplet loss."""

    smoothing: float = 0.0
    """Label smoothing."""
    margin: float = 0.0
    """tracklets: margin of the batch-hard triplet loss (0: none)."""

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1 or not self.margin >= 0:
            raise VergenceError(
                f"an objective's smoothing is from 0 to below 1 and its margin at least 0, got {self.smoothing} and "
                f"{self.margin}"
            )


_BACKBONES = {
    Pictures: ("pictures", get_args(ForPictures)),
    Footage: ("clips", get_args(ForClips)),
    Tracklets: ("tracklets", get_args(ForTracklets)),
    Tokens: ("tokens", ("tokens",)),
}


@dataclass(frozen=True)
class Config:
    """SNL: network, data, training."""

    model: ModelConfig = ModelConfig()
    data: tyro.conf.AvoidSubcommands[Pictures | Footage | Tracklets | Tokens] = Pictures()
    """Pictures, videos, tracklets or tokens: the preset decides which."""
    objective: Objective = Objective()
    pretrained: str = ""
    """Initial weights of the backbone: resnet50 (ImageNet), or a .safetensors or .pth file with the usual names."""
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        what, names = _BACKBONES[type(self.data)]
        if self.model.backbone not in names:
            raise VergenceError(f"{self.model.backbone} does not take {what}: expected {', '.join(names)}")


@dataclass(frozen=True)
class Inputs:
    """Pictures or videos to classify, or a query tracklet; and points whose attention is drawn."""

    images: Images
    """Picture files, for weights of a picture classifier; without weights, for a network trained on ImageNet (the extra
    `pretrained`)."""
    videos: Videos = ()
    """Video files or folders of frames, for weights of a video classifier."""
    query: Folder | None = None
    """A tracklet (a folder of pictures of one person), for weights of a re-identification network."""
    gallery: Folder | None = None
    """A folder of tracklets to search, each a folder of pictures."""
    top: int = 10
    """Number of matches shown."""
    points: Points = ()
    """Points whose attention is drawn, as x,y in pixels of the picture or frame; by default three."""

    def __post_init__(self) -> None:
        if self.top < 1:
            raise VergenceError(f"at least one match is shown, got --top {self.top}")


_Channels = tuple[float, float, float]
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_ACTIVITYNET, _BYTES = (0.4501, 0.4225, 0.3901), (1 / 255, 1 / 255, 1 / 255)
"""Input of the public 3D ResNets: pixels from 0 to 255, minus the mean of ActivityNet."""


def _dropping(lr: float, epochs: int, batch: int, milestones: tuple[int, ...], every: int = 1) -> Training:
    """SGD with 10 epochs of warm-up (the tenth has the full learning rate), then a tenth of it at each milestone."""
    at = tuple(10 + milestone for milestone in milestones)
    schedule = Schedule("multistep", unit="epoch", warmup=9, warmup_from=0.01, milestones=at)
    optimiser = Optimiser("sgd", lr=lr, momentum=0.9, weight_decay=1e-4, schedule=schedule)
    return Training(epochs=10 + epochs, batch=batch, evaluate_every=every, optimiser=optimiser)


def _cifar(model: ModelConfig, source: str) -> Config:
    view = Pictures(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010), source=source)
    return Config(model, view, train=_dropping(0.1, 300, 128, (150, 250), every=5))


def _resnet50(view: Pictures, batch: int, pretrained: str = "") -> Config:
    training, view = _dropping(0.01, 100, batch, (31, 61, 81)), replace(view, mean=_MEAN, std=_STD)
    return Config(ModelConfig("resnet50", at=("layer3.4",)), view, pretrained=pretrained, train=training)


def _ucf101(model: ModelConfig, mean: _Channels = _MEAN, std: _Channels = _STD) -> Config:
    """The paper gives no schedule; this is a short one that suits weights trained on Kinetics."""
    optimiser = Optimiser("sgd", lr=0.01, momentum=0.9, weight_decay=1e-4,
                          schedule=Schedule("multistep", unit="epoch", milestones=(15, 25)))  # fmt: skip
    view = Footage(frames=16, stride=1, rate=0, clips=10, crops=1, size=112, resize=128, jitter=(128, 160), mean=mean,
                   std=std, source="ucf101:UCF-101")  # fmt: skip
    return Config(model, view, pretrained="kinetics.pth", train=Training(epochs=30, batch=16, optimiser=optimiser))


def _temporal_pooling(source: str) -> Config:
    """As in the public code of temporal pooling: batches of 8 identities with 4 tracklets of 4 frames."""
    schedule = Schedule("step", unit="epoch", period=200)
    optimiser = Optimiser("adam", lr=3e-4, weight_decay=5e-4, schedule=schedule)
    return Config(
        ModelConfig("resnet50-tp", at=("layer3.4",)),
        Tracklets(source=source, frames=4, height=224, width=112, each=4),
        Objective(smoothing=0.1, margin=0.3),
        pretrained="resnet50",
        train=Training(epochs=800, batch=32, evaluate_every=100, optimiser=optimiser),
    )


def _quick(lr: float, epochs: int, batch: int, warmup: int, every: int = 0) -> Training:
    optimiser = Optimiser("adamw", lr=lr, weight_decay=0.01, schedule=Schedule("cosine", warmup=warmup))
    return Training(epochs=epochs, batch=batch, evaluate_every=every, optimiser=optimiser)


def _tiny_pictures(view: Pictures, every: int = 0) -> Config:
    model = ModelConfig("preresnet-tiny", at=("layer3.0",), dropout=0.0)
    return Config(model, view, train=_quick(0.01, epochs=8, batch=48, warmup=80, every=every))


def _tiny_clips(model: ModelConfig, lr: float, epochs: int, scene: Scene = Scene()) -> Config:
    # No flips: mirroring changes the class.
    view = Footage(frames=4, stride=1, rate=0, crops=1, size=40, resize=40, jitter=(40, 40), flip=False,
                   std=(0.16, 0.16, 0.16), clip=scene)  # fmt: skip
    return Config(model, view, train=_quick(lr, epochs, batch=32, warmup=60))


def _tokens(view: Tokens) -> Config:
    optimiser = Optimiser("adam", lr=0.03, schedule=Schedule("cosine", warmup=60))
    return Config(ModelConfig("tokens", inner=16), view, train=Training(epochs=8, batch=32, optimiser=optimiser))


PRESETS = {
    "tiny": _tiny_pictures(Pictures(56, 56, "flip"), every=1),
    "tiny-sizes": _tiny_pictures(Pictures(56, 56, "flip", scene="sizes", count=4224)),
    "tiny-video": _tiny_clips(ModelConfig("p3d-tiny", at=("layer2.0",), dropout=0.0), 0.01, epochs=8),
    # The transformer learns more slowly, so objects do not move and have stronger shading.
    "tiny-vtn": _tiny_clips(ModelConfig("vtn-tiny", dropout=0.0), 0.003, epochs=12, scene=Scene(moving=0.0, shade=2.0)),
    "tiny-reid": Config(
        ModelConfig("resnet-tp-tiny", at=("layer2.0",)),
        Tracklets(height=64, width=32, mean=(0.4, 0.4, 0.4), std=(0.25, 0.25, 0.25)),
        Objective(smoothing=0.1, margin=0.3),
        train=_quick(0.003, epochs=30, batch=32, warmup=30),
    ),
    "tiny-clean": _tokens(Tokens("clean")),
    "tiny-noise": _tokens(Tokens("noise")),
    "paper": _cifar(ModelConfig("preresnet56-bottleneck", at=("layer1.1",)), "cifar100:data"),
    "paper-cifar10": _cifar(ModelConfig("preresnet20", at=("layer1.1",)), "cifar10:data"),
    "paper-imagenet": _resnet50(Pictures(224, 256, "area-flip", (0.08, 1.25), source="folder:imagenet"), 100),
    "paper-cub": _resnet50(Pictures(448, 512, "crop-flip", source="cub:CUB_200_2011"), 48, pretrained="resnet50"),
    "paper-ucf101": _ucf101(ModelConfig("i3d50", at=("layer3.4",))),
    "paper-ucf101-p3d": _ucf101(ModelConfig("p3d63", at=("layer2.2",))),
    "paper-ucf101-mars": _ucf101(ModelConfig("resnext3d101", at=("layer2.2",), dropout=0.0), _ACTIVITYNET, _BYTES),
    "paper-ucf101-vtn": _ucf101(ModelConfig("vtn", dropout=0.0)),
    "paper-mars": _temporal_pooling("mars:MARS"),
    "paper-ilids-vid": _temporal_pooling("ilids-vid:iLIDS-VID"),
    "paper-prid2011": _temporal_pooling("prid2011:PRID-2011"),
}

VARIANTS = {
    "none": Variant("no block", {"model.block": "none"}),
    "nl": Variant("NL, embedded Gaussian", {"model.block": "nl"}),
    "ns": Variant("NS", {"model.block": "ns"}),
    "snl": Variant("SNL", {"model.block": "snl"}),
    "nl-gaussian": Variant("NL, Gaussian", {"model.block": "nl-gaussian"}, headline=False),
    "nl-dot": Variant("NL, dot product", {"model.block": "nl-dot"}, headline=False),
    "nl-concatenation": Variant("NL, concatenation", {"model.block": "nl-concatenation"}, headline=False),
    "a2": Variant("A2", {"model.block": "a2"}, headline=False),
    "cgnl": Variant("CGNL, RBF", {"model.block": "cgnl"}, headline=False),
    "cgnl-dot": Variant("CGNL, dot product", {"model.block": "cgnl-dot"}, headline=False),
    "cc": Variant("CC", {"model.block": "cc"}, headline=False),
    "cc-twice": Variant("CC, twice", {"model.block": "cc-twice"}, headline=False),
    "snl-softmax": Variant("SNL, softmax affinity", {"model.block": "snl-softmax"}, headline=False),
    "gsnl": Variant("gSNL", {"model.block": "gsnl"}, headline=False),
    "chebysnl": Variant("ChebySNL, order 2", {"model.block": "chebysnl"}, headline=False),
    "cayleysnl": Variant("CayleySNL (Eq. 22)", {"model.block": "cayleysnl"}, headline=False),
    "cayleysnl-relu": Variant("CayleySNL (Eq. 22), ReLU affinity", {"model.block": "cayleysnl-relu"}, headline=False),
    "cayleyexact": Variant("CayleyExact (Eq. 20)", {"model.block": "cayleyexact"}, headline=False),
}
METRICS = {
    "top1": Metric("Top-1", "%"),
    "top5": Metric("Top-5", "%"),
    "large": Metric("Top-1, large marks", "%"),
    "small": Metric("Top-1, small marks", "%"),
    "rank1": Metric("Rank-1", "%"),
    "rank5": Metric("Rank-5", "%"),
    "rank10": Metric("Rank-10", "%"),
    "map": Metric("mAP", "%"),
    "mse": Metric("squared error", higher_is_better=False, digits=3),
    "skipped": Metric("skipped", "videos", higher_is_better=False, digits=0),
    "unmatched": Metric("queries without a match", higher_is_better=False, digits=0),
}

_IMAGES = ("tiny", "paper", "paper-cifar10", "paper-imagenet", "paper-cub")
_TOP, _RANKED = ("top1", "top5"), ("rank1", "map")
REPORTED = (
    Reported.table(
        "Table 1: CIFAR-100, PreResNet-56 (bottlenecks)", _TOP,
        dict(none=(75.33, 93.97), nl=(75.29, 94.07), ns=(75.39, 93.00), a2=(75.51, 92.90), cgnl=(74.71, 93.60),
             snl=(76.41, 94.38), cayleysnl=(76.72, 94.54)), _IMAGES,
    ),
    Reported.table(
        "Table 4: CUB-200-2011, ResNet-50", _TOP,
        dict(none=(85.43, 96.70), nl=(85.34, 96.77), ns=(85.54, 96.56), a2=(85.91, 96.56), cgnl=(86.14, 96.34),
             snl=(86.02, 96.65)), _IMAGES,
    ),
    Reported.table("Table 3: UCF-101, P3D", _TOP, dict(none=(81.23,), snl=(82.65,)),
                   ("tiny-video", "paper-ucf101", "paper-ucf101-p3d")),
    Reported.table("Table 3: UCF-101, VTN", _TOP, dict(none=(90.06,), snl=(90.34,)), ("tiny-vtn", "paper-ucf101-vtn")),
    Reported.table("Table 3: UCF-101, MARS", _TOP, dict(none=(92.29,), snl=(92.79,)), ("paper-ucf101-mars",)),
    Reported.table("Table 2: MARS", _RANKED, dict(none=(82.30, 75.70), nl=(83.21, 76.54), snl=(83.40, 76.80)),
                   ("tiny-reid", "paper-mars")),
    Reported.table("Table 2: iLIDS-VID", _RANKED, dict(none=(74.70, 81.60), nl=(75.30, 83.00), snl=(76.30, 84.80)),
                   ("tiny-reid", "paper-ilids-vid")),
    Reported.table("Table 2: PRID-2011", _RANKED, dict(none=(86.50, 90.50), nl=(85.40, 89.70), snl=(88.80, 92.40)),
                   ("tiny-reid", "paper-prid2011")),
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
    published={
        "paper": Published({"classes": 100}, (1, 100), 969_076),
        "paper-cifar10": Published({"classes": 10}, (1, 10), 277_370),
        "paper-imagenet": Published({"classes": 1000}, (1, 1000), 28_180_520),
        "paper-cub": Published({"classes": 200}, (1, 200), 26_541_320),
        "paper-ucf101": Published({"classes": 101}, (1, 101), 49_029_413),
        "paper-ucf101-p3d": Published({"classes": 101}, (1, 101), 25_788_965),
        "paper-ucf101-mars": Published({"classes": 101}, (1, 101), 48_384_549),
        "paper-ucf101-vtn": Published({"classes": 101}, (1, 101), 32_369_061),
        "paper-mars": Published({"classes": 625}, (1, 625), 27_412_145),
        "paper-ilids-vid": Published({"classes": 150}, (1, 150), 26_438_870),
        "paper-prid2011": Published({"classes": 89}, (1, 89), 26_313_881),
    },
    learns=Learns(
        "cross_entropy",
        steps=20,
        share=0.75,
        # Learning the relation takes hundreds of steps; memorising a few pictures takes tens.
        changes={"data.count": 30, "train.batch": 15, "train.optimiser.schedule.warmup": 2},
    ),
    minutes=2.0,
)
