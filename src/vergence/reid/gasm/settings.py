"""GASM's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.assets import RESNET50
from vergence.reid.gasm import ABOUT
from vergence.reid.settings import RANKING, UNMATCHED, Identities, People, Protocol, Search

Local = Literal["none", "matching", "unweighted", "dsr"]


@dataclass(frozen=True)
class ModelConfig:
    """Backbone and saliency."""

    backbone: Literal["resnet-tiny", "resnet50"] = "resnet50"
    """The residual network without its classifier."""
    last_stride: Literal[1, 2] = 1
    """Stride of the last stage: with 1, a picture of 384 x 128 has a map of 24 x 8, with 2 of 12 x 4."""
    saliency: Literal["none", "mean", "product", "mask", "pose"] = "mean"
    """The saliency map: from mask and pose (their mean or product), from one of them, or none: plain averages."""

    def cells(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the last map of a picture."""
        halvings = (3 if self.backbone == "resnet-tiny" else 4) + self.last_stride - 1
        for _ in range(halvings):
            height, width = -(-height // 2), -(-width // 2)
        return height, width


@dataclass(frozen=True)
class Losses:
    """Weights of the losses (Eq. 3)."""

    mask: float = 0.05
    """Weight of the distance to the teacher's mask (Eq. 1)."""
    pose: float = 0.1
    """Weight of the distance to the teacher's key points (Eq. 2)."""
    margin: float = 0.3
    """Margin of the triplet loss with the hardest examples of a batch."""
    smoothing: float = 0.0
    """Label smoothing of the cross-entropy."""

    def __post_init__(self) -> None:
        if not (self.mask >= 0 and self.pose >= 0 and self.margin >= 0 and 0 <= self.smoothing < 1):
            raise VergenceError(
                "losses have weights and a margin of at least 0 and a smoothing below 1, got "
                f"mask={self.mask}, pose={self.pose}, margin={self.margin} and smoothing={self.smoothing}"
            )


@dataclass(frozen=True)
class Matching:
    """How two pictures are compared."""

    local: Local = "matching"
    """matching: each location of the query searches its nearest, weighted by saliency (Eq. 4); unweighted: all
    locations count the same; dsr: weighted errors of reconstruction; none: the global distance alone."""
    share: float = 0.5
    """Weight of the local distance; the rest is the distance of the pooled features."""
    top: int = 100
    """Large galleries: the number of pictures, nearest by the global distance, whose local distance is computed."""
    full: int = 2000
    """Largest gallery of which every picture is compared locally."""
    compare: bool = False
    """Evaluate the other ways of comparing too, with the same network."""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1 or self.top < 1 or self.full < 0:
            raise VergenceError(
                "matching has a share from 0 to 1, a top of at least 1 and a full gallery of at least 0, got "
                f"share={self.share}, top={self.top} and full={self.full}"
            )


@dataclass(frozen=True)
class Pictures(People):
    """Source and augmentation of the pictures, and their teachers."""

    source: Source = EMBEDDED
    """embedded, market1501:PATH, dukemtmc:PATH, cuhk03-detected:PATH, cuhk03-labelled:PATH, msmt17:PATH,
    occluded-reid:PATH, folder:PATH, or a plain PATH to pictures named ID_CAMERA_anything.jpg."""
    teachers: str = ""
    """Training: folder with a file a.npz for each picture a.jpg: mask (H, W) from 0 to 1 and keypoints (17, 3) in
    COCO's order (x, y, visibility), both in pixels of the picture. Rendered people come with their own."""
    people: int = 64
    shots: int = 2


@dataclass(frozen=True)
class Config:
    """GASM: network, losses, matching, pictures, protocol, training."""

    model: ModelConfig = ModelConfig()
    losses: Losses = Losses()
    matching: Matching = Matching()
    data: Pictures = Pictures()
    protocol: Protocol = Protocol()
    pretrained: str = ""
    """ImageNet weights for the backbone: resnet50 (an asset), or a file with torchvision's names (.safetensors, or .pth
    of plain tensors)."""
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""

    def __post_init__(self) -> None:
        if self.protocol.rerank and self.matching.local != "none":
            raise VergenceError(
                "re-ranking needs distances within the gallery, which local matching does not compute: "
                "use --matching.local none with it"
            )

    @property
    def taught(self) -> bool:
        """Whether training needs teachers."""
        return self.model.saliency != "none" and (self.losses.mask > 0 or self.losses.pose > 0)


@dataclass(frozen=True)
class Facts(Identities):
    """What the data determines."""


@dataclass(frozen=True)
class Inputs(Search):
    """Query pictures and the gallery to search."""

    lines: int = 12
    """Number of lines drawn between the parts of a query and of a match."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.lines <= 200:
            raise VergenceError(f"1 to 200 lines can be drawn for a match, got --lines {self.lines}")


def _published(source: str) -> Config:
    """120 epochs of 16 identities with 4 pictures each; the learning rate falls to a tenth after epochs 40 and 90."""
    schedule = Schedule("multistep", unit="epoch", milestones=(40, 90))
    optimiser = Optimiser("adam", lr=1e-4, weight_decay=5e-4, schedule=schedule)
    data = Pictures(source=source, teachers="data/teachers", pad=10)
    return Config(
        data=data, pretrained="resnet50", train=Training(epochs=120, batch=64, evaluate_every=0, optimiser=optimiser)
    )


def _tiny_training(steps: int) -> Training:
    optimiser = Optimiser("adamw", lr=3e-3, weight_decay=0.05, schedule=Schedule("cosine", warmup=20))
    return Training(steps=steps, batch=64, evaluate_every=0, optimiser=optimiser)


_SMALL = Pictures(height=96, width=48, pad=4, mean=(0.4, 0.4, 0.4), std=(0.25, 0.25, 0.25))
PRESETS = {
    "tiny": Config(ModelConfig("resnet-tiny"), matching=Matching(compare=True), data=_SMALL, train=_tiny_training(180)),
    "starter": Config(
        ModelConfig("resnet-tiny"),
        data=replace(_SMALL, people=300, cameras=8, shots=1),
        train=_tiny_training(1600),
    ),
    "paper": _published("market1501:data"),
    "paper-duke": _published("dukemtmc:data"),
    "paper-msmt17": _published("msmt17:data"),
}

_ALONE = {"matching.local": "none"}
_OTHER = {"matching.compare": False}
VARIANTS = {
    "gasm": Variant("GASM"),
    "baseline": Variant("Baseline: averages", {"model.saliency": "none", **_ALONE}),
    "mask": Variant("GASM, mask only", {"model.saliency": "mask", "losses.pose": 0.0, **_OTHER}),
    "pose": Variant("GASM, pose only", {"model.saliency": "pose", "losses.mask": 0.0, **_OTHER}),
    "self-attention": Variant("saliency without teachers", {"losses.mask": 0.0, "losses.pose": 0.0, **_OTHER}),
    "product": Variant("GASM, product of mask and pose", {"model.saliency": "product", **_OTHER}, headline=False),
    "global": Variant("saliency-pooled features alone", _ALONE, headline=False),
    "unweighted": Variant("matching without saliency", {"matching.local": "unweighted"}, headline=False),
    "local": Variant("GASM without the global distance", {"matching.share": 1.0}, headline=False),
    "dsr": Variant("DSR", {"matching.local": "dsr"}, headline=False),
}
COMPARED = ("global", "unweighted", "local", "dsr")
"""Variants that differ from GASM in their distance only: one network serves all of them."""


def compared_by(variant: str, matching: Matching) -> Matching:
    """How a variant compares pictures, with the limits of ``matching``."""
    changes = {key.removeprefix("matching."): value for key, value in VARIANTS[variant].changes.items()
               if key.startswith("matching.")}  # fmt: skip
    return replace(matching, **{"local": "matching", "share": 0.5, **changes})


METRICS = {
    **RANKING,
    "map_little": Metric("mAP, queries hidden less", "%"),
    "map_much": Metric("mAP, queries hidden more", "%"),
    **{f"map_{name}": Metric(f"mAP, {VARIANTS[name].label}", "%") for name in COMPARED},
    **{f"rank1_{name}": Metric(f"Rank-1, {VARIANTS[name].label}", "%") for name in COMPARED},
    **UNMATCHED,
}

_RANKING = ("rank1", "map")


def _reported(where: str, preset: str, baseline: tuple[float, float], gasm: tuple[float, float]) -> Reported:
    return Reported.table(where, _RANKING, {"baseline": baseline, "gasm": gasm}, (preset, "tiny"))


REPORTED = (
    Reported.table(
        "Table 4: trained on MSMT17, tested on Occluded-REID",
        _RANKING,
        {"baseline": (74.6, 69.2), "mask": (78.9, 72.0), "pose": (78.4, 72.9), "gasm": (80.3, 73.1)},
        ("tiny", "paper-msmt17"),
    ),
    Reported.table(
        "Trained on Market-1501, tested on Occluded-REID",
        _RANKING,
        {"baseline": (60.2, 57.0), "gasm": (74.5, 65.6), "dsr": (72.8, 62.8), "self-attention": (67.4, 55.8)},
        ("tiny", "paper"),
    ),
    _reported("Trained on DukeMTMC-reID, tested on Occluded-REID", "paper-duke", (66.1, 60.2), (76.5, 67.8)),
    _reported("Market-1501", "paper", (94.8, 83.4), (95.3, 84.7)),
    _reported("DukeMTMC-reID", "paper-duke", (87.3, 73.7), (88.3, 74.4)),
    _reported("MSMT17", "paper-msmt17", (77.3, 49.4), (79.5, 52.5)),
)

_BACKBONE = 25_557_032 - 2_049_000
"""ResNet-50 without its classifier of 1,000 classes."""
SALIENCY = 2048 * 14 + 14
"""Two 1 x 1 convolutions: 1 map of the mask and 13 of the joints."""


def counted(classes: int, saliency: bool = True) -> int:
    """Parameters at the published size: backbone, normalisation, classifier without bias, saliency."""
    return _BACKBONE + 2 * 2048 + 2048 * classes + (SALIENCY if saliency else 0)


_OUTPUT = [(1, 2048), (1, 192, 2048), (1, 192)]
SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    assets={"resnet50": RESNET50},
    embedded=(
        "Embedded: rendered people before 4 cameras, with masks and key points. In training every fifth picture is "
        "partly hidden; in the test every query is, by people or things, and no picture of the gallery. Test "
        "identities are not in the training set."
    ),
    reported=REPORTED,
    published={
        "paper": Published({"classes": 751}, _OUTPUT, counted(751)),
        "paper-duke": Published({"classes": 702}, _OUTPUT, counted(702)),
        "paper-msmt17": Published({"classes": 1041}, _OUTPUT, counted(1041)),
    },
    learns=Learns(
        "identity",
        steps=12,
        share=0.7,
        changes={
            "data.people": 4,
            "data.shots": 1,
            "data.cameras": 2,
            "data.height": 40,
            "data.width": 16,
            "data.each": 2,
            "train.batch": 8,
            "train.optimiser.schedule.warmup": 2,
        },
    ),
    starters={
        "rendered": Starter(
            "search of people who are partly hidden, trained on rendered people only",
            data="2,400 pictures of 300 rendered people by 8 cameras; tested on 150 other people by the same cameras, "
            "hidden in every query",
            tried="50 other rendered people by 4 cameras that it was not trained on, hidden in all queries: mAP 69.2, "
            "rank-1 70.0 % (mean colours of stripes: 25.6 and 30.0 %); not tried on photographs of people",
        ),
    },
    minutes=0.6,
)
