"""CSALR's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Points
from vergence.contract.settings import Learns, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.data.assets import RESNET50
from vergence.reid.csalr import ABOUT
from vergence.reid.settings import RANKING, UNMATCHED, Identities, People, Protocol, Sampler, Search

Attention = Literal["none", "sa", "csa", "csalr", "csalr-plain", "nearest"]


@dataclass(frozen=True)
class ModelConfig:
    """Backbone, kind and place of attention, and part pooling."""

    backbone: Literal["resnet-tiny", "resnet18", "resnet50"] = "resnet50"
    """The residual network; its last stage has stride 1."""
    attention: Attention = "csalr"
    """none, sa (full), csa, csalr, csalr-plain (without the patch indicator) or nearest (the control)."""
    stages: tuple[int, ...] = (1, 2, 3)
    """Stages followed by attention."""
    grid: tuple[int, int] = (24, 4)
    """Landmarks of compressed attention, rows and columns."""
    landmarks: Literal["quarter", "half", "full", "double"] = "full"
    """full: the grid as it is; half: half the rows; quarter: also half the columns; double: twice the columns (one more
    with the tiny backbone, whose last map has three)."""
    groups: int = 2
    """Channel groups, each with its own attention map; sa always has one."""
    inner: int = 0
    """Width of queries and keys in each group (0: an eighth of its channels, at least 16)."""
    temperature: float = 1.0
    """Softmax temperature. The paper uses 1; scaled dot-product attention uses sqrt(inner)."""
    supervision: float = 1.0
    """Weight of the deep-supervision loss of each module (0: none)."""
    parts: int = 6
    """Horizontal parts of the descriptor."""
    pooling: Literal["stripes", "refined"] = "stripes"
    """stripes (PCB), or refined: soft parts (PCB-RPP), learned from the stripes in a second training phase."""
    embedding: int = 256
    """Channels of a part before its classifier."""
    dropout: float = 0.5
    """Dropout rate of the pooled parts, in training."""

    def __post_init__(self) -> None:
        if not set(self.stages) <= {1, 2, 3, 4} or len(set(self.stages)) < len(self.stages):
            raise VergenceError(f"attention comes after stages from 1 to 4, each once, got {self.stages}")
        for name, most in (("groups", 4096), ("parts", 64), ("embedding", 65536)):
            if not 1 <= getattr(self, name) <= most:
                raise VergenceError(f"a model's {name} is from 1 to {most}, got {getattr(self, name)}")
        if not self.temperature > 0:
            raise VergenceError(f"a model's temperature is above 0, got {self.temperature}")
        if min(self.grid) < 1 or self.inner < 0 or not self.supervision >= 0 or not 0 <= self.dropout < 1:
            raise VergenceError(
                "a model has a grid of at least 1 x 1, inner and supervision of at least 0 and a dropout below 1, got "
                f"{self.grid}, {self.inner}, {self.supervision} and {self.dropout}"
            )

    @property
    def landmark_grid(self) -> tuple[int, int]:
        """Rows and columns of landmarks, with ``landmarks`` applied."""
        rows, columns = self.grid
        if self.landmarks == "double":
            return rows, columns + 1 if self.backbone == "resnet-tiny" else 2 * columns
        return (
            max(rows // 2, 1) if self.landmarks in ("quarter", "half") else rows,
            max(columns // 2, 1) if self.landmarks == "quarter" else columns,
        )


@dataclass(frozen=True)
class Pictures(People):
    """Source, augmentation and sampling of the pictures."""

    source: Source = EMBEDDED
    """embedded, market1501:PATH, dukemtmc:PATH, cuhk03-detected:PATH, cuhk03-labelled:PATH, msmt17:PATH,
    occluded-reid:PATH, folder:PATH, or a plain PATH to pictures named ID_CAMERA_anything.jpg."""
    sampler: Sampler = "plain"
    """Batches in random order (plain), or with the same number of pictures per identity (balanced)."""


@dataclass(frozen=True)
class Config:
    """CSALR: network, pictures, protocol, training."""

    model: ModelConfig = ModelConfig()
    data: Pictures = Pictures()
    protocol: Protocol = Protocol()
    pretrained: str = ""
    """ImageNet weights for the backbone: resnet50 (an asset), or a file with torchvision's names (.safetensors, or .pth
    of plain tensors)."""
    train: Training = Training()
    """Training with stripes (PCB)."""
    stripes: Training = Training()
    """Refined parts (PCB-RPP), first phase: with stripes."""
    refine: Training = Training()
    """Refined parts (PCB-RPP), second phase: with the part classifier."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Facts(Identities):
    """What the data determines, and the state of training."""

    refined: bool | None = None
    """Whether the parts are refined already (null: as the config says)."""


@dataclass(frozen=True)
class Inputs(Search):
    """Query pictures, the gallery to search, and points whose attention is drawn."""

    points: Points = ()
    """Points whose attention is drawn, as x,y in pixels of the query; by default three down its middle."""


def _training(epochs: int, lr: float, period: int = 40) -> Training:
    schedule = Schedule("step", unit="epoch", period=period)
    optimiser = Optimiser("sgd", lr=lr, momentum=0.9, weight_decay=1e-4, rates={"backbone.*": 0.1}, schedule=schedule)
    return Training(epochs=epochs, batch=64, evaluate_every=0, optimiser=optimiser)


def _tiny_training(epochs: int, lr: float = 0.004) -> Training:
    schedule = Schedule("cosine", warmup=30)
    optimiser = Optimiser("adamw", lr=lr, weight_decay=0.05, clip=5.0, schedule=schedule)
    return Training(epochs=epochs, batch=48, evaluate_every=0, optimiser=optimiser)


_TINY = ModelConfig("resnet-tiny", grid=(6, 2), temperature=4.0, embedding=48, dropout=0.2)
_SMALL = Pictures(height=96, width=48, shots=2, mean=(0.4, 0.4, 0.4), std=(0.25, 0.25, 0.25))
PRESETS = {
    "tiny": Config(
        _TINY,
        _SMALL,
        train=_tiny_training(16),
        stripes=_tiny_training(8),
        refine=_tiny_training(8, 0.002),
    ),
    "starter": Config(
        _TINY,
        replace(_SMALL, people=300, cameras=8, shots=1, pad=4, erase=0.3),
        train=_tiny_training(60),
    ),
    "paper": Config(
        ModelConfig(),
        Pictures(source="market1501:data"),
        pretrained="resnet50",
        train=_training(100, 0.1),
        stripes=_training(40, 0.1),
        refine=_training(60, 0.01),
    ),
}

_REFINED = {"model.pooling": "refined"}
VARIANTS = {
    "none": Variant("PCB", {"model.attention": "none"}),
    "sa": Variant("PCB + SA", {"model.attention": "sa"}),
    "csa": Variant("PCB + CSA", {"model.attention": "csa"}),
    "csalr": Variant("PCB + CSALR", {"model.attention": "csalr"}),
    "nearest": Variant("PCB + nearest landmark", {"model.attention": "nearest"}, headline=False),
    "csalr-plain": Variant("PCB + CSALR without indicator", {"model.attention": "csalr-plain"}, headline=False),
    "csalr-unsupervised": Variant("PCB + CSALR, no deep supervision", {"model.supervision": 0.0}, headline=False),
    "csalr-quarter": Variant("PCB + CSALR, 1/4 of the landmarks", {"model.landmarks": "quarter"}, headline=False),
    "csalr-half": Variant("PCB + CSALR, 1/2 of the landmarks", {"model.landmarks": "half"}, headline=False),
    "csalr-double": Variant("PCB + CSALR, twice the landmarks", {"model.landmarks": "double"}, headline=False),
    "csalr-1-group": Variant("PCB + CSALR, 1 group", {"model.groups": 1}, headline=False),
    "csalr-4-groups": Variant("PCB + CSALR, 4 groups", {"model.groups": 4}, headline=False),
    "csalr-8-groups": Variant("PCB + CSALR, 8 groups", {"model.groups": 8}, headline=False),
    "csalr-shallow": Variant("PCB + CSALR, stage 1", {"model.stages": (1,)}, headline=False),
    "csalr-deep": Variant("PCB + CSALR, stages 2 and 3", {"model.stages": (2, 3)}, headline=False),
    "rpp-none": Variant("PCB-RPP", {"model.attention": "none", **_REFINED}, headline=False),
    "rpp-sa": Variant("PCB-RPP + SA", {"model.attention": "sa", **_REFINED}, headline=False),
    "rpp-csa": Variant("PCB-RPP + CSA", {"model.attention": "csa", **_REFINED}, headline=False),
    "rpp-csalr": Variant("PCB-RPP + CSALR", {"model.attention": "csalr", **_REFINED}, headline=False),
}


METRICS = {**RANKING, **UNMATCHED}

REPORTED = (
    Reported.table(
        "Tables 1 to 4: Market-1501",
        tuple(RANKING),
        {
            "none": (77.4, 92.3, 97.2, 98.2),
            "sa": (82.2, 93.8, 97.7, 98.5),
            "csa": (82.3, 93.7, 98.2, 98.8),
            "csalr": (82.4, 93.9, 97.8, 98.6),
            "rpp-none": (81.6, 93.8, 97.5, 98.5),
            "rpp-sa": (83.2, 93.3, 97.5, 98.7),
            "rpp-csa": (83.5, 93.9, 97.8, 98.8),
            "rpp-csalr": (83.8, 94.0, 98.1, 98.8),
            # Tables 2 to 4 have rank 1 and mAP only.
            "csalr-quarter": (82.1, 93.6),
            "csalr-half": (82.3, 93.8),
            "csalr-double": (82.6, 93.9),
            "csalr-1-group": (82.0, 93.6),
            "csalr-4-groups": (82.3, 93.7),
            "csalr-8-groups": (82.1, 93.6),
            "csalr-shallow": (81.4, 93.3),
            "csalr-deep": (80.9, 92.9),
        },
    ),
    Reported.table(
        "Table 1: DukeMTMC-reID",
        tuple(RANKING),
        {
            "none": (66.1, 81.7),
            "sa": (73.4, 85.3),
            "csa": (73.5, 85.5),
            "csalr": (74.0, 86.1),
            "rpp-none": (69.2, 83.3),
            "rpp-sa": (72.9, 84.9),
            "rpp-csa": (73.1, 85.4),
            "rpp-csalr": (73.8, 85.4),
        },
    ),
    Reported.table(
        "Table 1: CUHK03-NP, detected",
        tuple(RANKING),
        {
            "none": (53.2, 59.7),
            "sa": (62.7, 65.9),
            "csa": (63.7, 67.2),
            "csalr": (64.0, 67.6),
            "rpp-none": (56.7, 62.8),
            "rpp-sa": (64.6, 66.1),
            "rpp-csa": (65.0, 67.4),
            "rpp-csalr": (65.3, 68.8),
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
    assets={"resnet50": RESNET50},
    embedded=(
        "Embedded: rendered people. They share garments, so that only the combination identifies a person; 4 cameras "
        "differ in light, white balance, sharpness and surroundings, and every fifth picture is partly hidden. Test "
        "identities are not in the training set."
    ),
    reported=REPORTED,
    published={"paper": Published({"classes": 751}, (1, 12288), parameters=28_779_370)},
    learns=Learns(
        "parts",
        steps=24,
        share=0.8,
        changes={
            "data.people": 4, "data.width": 32, "data.cameras": 2, "data.shots": 2, "train.batch": 16,
            "train.optimiser.schedule.warmup": 2,
        },
    ),
    starters={
        "rendered": Starter(
            "search of people by their clothes, trained on rendered people only",
            data="2,400 pictures of 300 rendered people by 8 cameras; tested on 150 other people by the same cameras",
            tried="50 other rendered people by 4 cameras that it was not trained on: mAP 71.7 %, rank-1 84.5 % (mean "
            "colours of stripes: 28.5 and 36.5 %); not tried on photographs of people",
        ),
    },
    minutes=0.4,
)  # fmt: skip
