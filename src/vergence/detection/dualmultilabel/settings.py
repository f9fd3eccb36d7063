"""Settings of dualmultilabel: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.detection.dualmultilabel import ABOUT
from vergence.detection.settings import EMBEDDED_CLASSES, PRECISION, Domains, Search

WATERCOLOR = ("bicycle", "bird", "car", "cat", "dog", "person")
CITYSCAPES = ("person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle")


@dataclass(frozen=True)
class ModelConfig:
    """The detector, and what adapts it."""

    detector: Literal["small", "vgg16", "resnet", "resnet-fpn"] = "resnet"
    """Faster R-CNN on a small network, VGG16, the third stage of a ResNet, or a ResNet with a pyramid."""
    family: Literal["plain", "caffe", "torchvision", "detectron2"] = "caffe"
    """How pixels are normalised and anchors rounded, as weights of that project expect it."""
    depths: tuple[int, int, int, int] = (3, 4, 23, 3)
    """resnet: blocks of its four stages; 3, 4, 23, 3 is ResNet-101, and 3, 4, 6, 3 ResNet-50."""
    multi: bool = True
    """Predict the classes of a picture with a head of its own."""
    adversary: Literal["conditional", "strong-weak", "da-faster", "none"] = "conditional"
    """The paper's discriminator, or those of SW-DA or of DA-Faster."""
    condition: Literal["p", "p+q", "none"] = "p"
    """What the paper's discriminator is told: the multi-label prediction p, softmax(p + q), or nothing."""
    detach: bool = True
    """Whether the discriminator's gradient stops at its condition."""
    separate: bool = False
    """Convolutions of its own for every class of the multi-label head."""
    width: int = 512
    """Channels of the multi-label head and of the discriminators."""
    regions: int = 128
    """Proposals of a target picture that are classified (the code it follows: 128 for ResNet, 256 for VGG16)."""

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 65_536 or not 1 <= self.regions <= 10_000:
            raise VergenceError(
                f"a model has a width from 1 to 65536 and 1 to 10000 regions, got {self.width} and {self.regions}"
            )
        if not all(1 <= depth <= 100 for depth in self.depths):
            raise VergenceError(f"a stage has 1 to 100 blocks, got {self.depths}")
        if self.adversary == "conditional" and self.condition != "none" and not self.multi:
            raise VergenceError("a conditional discriminator needs the multi-label head (--model.multi)")


@dataclass(frozen=True)
class Weights:
    """Factors of the losses (Eq. 7)."""

    adversary: float = 0.5
    """The discriminators' (lambda)."""
    labels: float = 0.01
    """Multi-label prediction (mu)."""
    consistency: float = 0.1
    """Dual prediction (epsilon)."""
    gamma: float = 5.0
    """Exponent of the focal loss; SW-DA has the same."""
    reversal: float = 1.0
    """Factor of the reversed gradient; 0.1 for SW-DA and DA-Faster."""

    def __post_init__(self) -> None:
        for name in ("adversary", "labels", "consistency", "gamma", "reversal"):
            if not 0 <= getattr(self, name) <= 1e6:
                raise VergenceError(f"a weight is from 0 to 1000000, got {name}={getattr(self, name)}")


@dataclass(frozen=True)
class Config:
    """MCAR: detector and adversary, pictures of two domains, losses, training."""

    model: ModelConfig = ModelConfig()
    data: Domains = Domains()
    weights: Weights = Weights()
    pretrained: str = ""
    """ImageNet weights of the backbone: a file with torchvision's names (.safetensors, or .pth of plain tensors). The
    caffe family needs those that were converted from Caffe (resnet101_caffe.pth, vgg16_caffe.pth)."""
    pretrain: Training = Training()
    """First, training without adaptation (0 steps: none, as published; tiny has no ImageNet weights to start from)."""
    train: Training = Training()
    """Training with adaptation."""
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Facts:
    """What the data decides."""

    classes: tuple[str, ...] = EMBEDDED_CLASSES
    """Classes that both domains have."""


@dataclass(frozen=True)
class Inputs(Search):
    """Pictures to find objects in."""


# Presets and variants -------------------------------------------------------------------------------------------------


def _published(biases: bool) -> Training:
    """SGD for 25 epochs of 10,000 steps, as the code it follows: a tenth of the rate every 5 epochs."""
    schedule = Schedule("step", period=50_000)
    rates = {"*.bias": 2.0} if biases else {}
    return Training(
        steps=250_000, batch=1, evaluate_every=0,
        optimiser=Optimiser("sgd", lr=1e-3, weight_decay=5e-4, schedule=schedule, rates=rates,
                            decays={"*.bias": 0.0} if biases else {}),
    )  # fmt: skip


_ADAM = Optimiser("adam", lr=2e-3, weight_decay=1e-5, clip=10.0, schedule=Schedule("cosine", warmup=20, floor=0.5))
_PRETRAINING = Training(steps=300, batch=4, evaluate_every=0, optimiser=_ADAM)
_TRAINING = Training(
    steps=300, batch=4, evaluate_every=0,
    # Without momentum, for with it features and discriminator circle around each other.
    optimiser=replace(_ADAM, lr=1e-3, betas=(0.0, 0.999), schedule=Schedule("cosine"), rates={"adversary.*": 10.0}),
)  # fmt: skip
TINY = Config(
    ModelConfig("small", "plain", width=64, regions=32),
    Domains(shortest=64, longest=128),
    Weights(gamma=1.0, reversal=0.3),
    pretrain=_PRETRAINING,
    train=_TRAINING,
)
_PUBLIC = Domains(source="watercolor:data/watercolor", labelled="voc:data/VOCdevkit", negatives=False)
PRESETS = {
    "tiny": TINY,
    "tiny-painted": replace(TINY, data=replace(TINY.data, style="painted")),
    "tiny-night": replace(TINY, data=replace(TINY.data, style="night")),
    "paper": Config(data=_PUBLIC, pretrained="data/resnet101_caffe.pth", train=_published(False)),
    "paper-foggy": Config(
        ModelConfig("vgg16", condition="p+q", regions=256),
        replace(_PUBLIC, source="foggy:data/cityscapes", labelled="cityscapes:data/cityscapes"),
        pretrained="data/vgg16_caffe.pth",
        train=_published(True),
    ),
}
_NO_ADVERSARY = {"model.adversary": "none", "weights.adversary": 0.0, "train.optimiser.rates": {}}
_ALONE = _NO_ADVERSARY | {"model.multi": False, "weights.labels": 0.0, "weights.consistency": 0.0}  # fmt: skip
_OTHER = {"model.multi": False, "weights.adversary": 1.0, "weights.labels": 0.0, "weights.consistency": 0.0,
          "weights.reversal": 0.1}  # fmt: skip
VARIANTS = {
    "mcar": Variant("MCAR (MC + PR)", {}),
    "mc": Variant("MCAR without consistency (MC)", {"weights.consistency": 0.0}),
    "unconditional": Variant(
        "unconditional adversary",
        {"model.condition": "none", "model.multi": False, "weights.labels": 0.0, "weights.consistency": 0.0},
    ),
    "no-adversary": Variant("without adversary", _NO_ADVERSARY),
    "source-only": Variant("source only", _ALONE),
    "oracle": Variant("trained on the target", _ALONE | {"data.train_on": "target"}),
    "sw-da": Variant("SW-DA", {"model.adversary": "strong-weak"} | _OTHER),
    "da-faster": Variant("DA-Faster", {"model.adversary": "da-faster"} | _OTHER),
    "unconditional-labels": Variant(
        "unconditional, multi-label", {"model.condition": "none", "weights.consistency": 0.0}, headline=False
    ),
    "unconditional-consistent": Variant("unconditional, MP + PR", {"model.condition": "none"}, headline=False),
    "both": Variant("MCAR, condition softmax(p + q)", {"model.condition": "p+q"}, headline=False),
    "attached": Variant("MCAR, gradient through the condition", {"model.detach": False}, headline=False),
    "separate": Variant("MCAR, a trunk for every class", {"model.separate": True}, headline=False),
}
METRICS = {
    **PRECISION,
    "probe": Metric("domain told by a linear probe", "%", higher_is_better=False),
    "labels": Metric("mAP of multi-label prediction", "%"),
}
_MAP = ("map",)
REPORTED = (
    Reported.table(
        "Table 1: PASCAL VOC to Watercolor, ResNet-101",
        _MAP,
        {"source-only": (44.6,), "da-faster": (46.0,), "sw-da": (53.3,), "mc": (54.4,), "mcar": (56.0,),
         "oracle": (58.6,)},
        ("tiny", "tiny-painted", "paper"),
    ),
    Reported.table(
        "Table 2: PASCAL VOC to Comic, ResNet-101",
        _MAP,
        {"source-only": (19.7,), "da-faster": (21.2,), "sw-da": (29.4,), "mc": (32.6,), "mcar": (33.5,)},
        ("paper",),
    ),
    Reported.table(
        "Tables 3 and 4: Cityscapes to Foggy Cityscapes, VGG16",
        _MAP,
        {"source-only": (23.4,), "da-faster": (27.6,), "sw-da": (34.3,), "mc": (36.6,), "mcar": (38.8,),
         "oracle": (40.3,), "no-adversary": (25.1,), "unconditional": (30.5,), "unconditional-labels": (31.0,),
         "unconditional-consistent": (33.7,)},
        ("tiny", "tiny-night", "paper-foggy"),
    ),
)  # fmt: skip

# ResNet-101 without norms and classifier, proposals, K + 1 classes; multi-label head; discriminator.
_RESNET = 42_394_816 + 4_746_806 + 5 * 7 * 2049 + (4_719_104 + 2_359_808 + 513 * 6) + (4_719_104 + 1024 * 6 + 2)
# The convolutions of VGG16, its two layers, proposals, K + 1 classes; the same.
_VGG = 14_714_688 + 119_545_856 + 2_387_510 + 5 * 9 * 4097 + (2 * 2_359_808 + 513 * 8) + (2_359_808 + 1024 * 8 + 2)
SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=Facts,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered streets, rooms and table tops with people, cars, dogs, chairs, plants and cups, by day in "
        "clear air with boxes, and in another look without them: fog by exact depth (tiny), night, or watercolour. "
        "Classes occur at other rates in the target domain: people and cars twice as often as the rest."
    ),
    reported=REPORTED,
    published={
        "paper": Published({"classes": WATERCOLOR}, [(1, 21_546), (1, 21_546, 4), (4, 7), (4, 7, 4), (1, 6)], _RESNET),
        "paper-foggy": Published(
            {"classes": CITYSCAPES}, [(1, 20_646), (1, 20_646, 4), (4, 9), (4, 9, 4), (1, 8)], _VGG
        ),
    },
    learns=Learns("class", steps=14, share=0.8, changes={"data.scenes": 6, "train.batch": 3, "pretrain.batch": 3}),
    minutes=0.8,
)
