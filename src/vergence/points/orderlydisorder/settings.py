"""Pattern-Net's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.inputs import Axes, Cloud, Text
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.points.orderlydisorder import ABOUT
from vergence.points.shapes import Objects, ShapeFacts


@dataclass(frozen=True)
class ModelConfig:
    """The network: Pattern-Net, or one of the baselines that it is compared with."""

    network: Literal["pattern", "dgcnn", "pointnet"] = "pattern"
    """Pattern-Net (with one clone and Euclidean neighbours it is the twin of DGCNN), or DGCNN or PointNet as
    published."""
    width: int = 64
    """Channels of each of the four edge MLPs; all other widths follow from it as in the papers."""
    neighbours: int = 30
    """K, the number of neighbours of a point, itself included."""
    clones: int = 4
    """pattern: L, the number of disjoint random subsets of the cloud."""
    alone: bool = False
    """pattern: use only one of the clones, which tells cloning from mere sub-sampling (our control)."""
    distance: Literal["hilbert", "euclidean"] = "hilbert"
    """pattern: distance of neighbours: the angle between feature vectors (Eq. 8), or Euclidean (Eq. 7)."""
    first: Literal["same", "euclidean"] = "same"
    """pattern: distance in the first layer, on coordinates: the same, or always Euclidean. Eq. 8 compares directions
    seen from the origin there."""
    dropout: float = 0.5
    """Dropout of the last layers but one."""
    category: bool = True
    """Part segmentation: append the object's category to the features of each point."""

    def __post_init__(self) -> None:
        if self.width < 1 or self.neighbours < 1 or not 1 <= self.clones <= 64 or not 0 <= self.dropout < 1:
            raise VergenceError(
                f"a model has width >= 1, neighbours >= 1, 1 to 64 clones and 0 <= dropout < 1, got {self.width}, "
                f"{self.neighbours}, {self.clones} and {self.dropout}"
            )


@dataclass(frozen=True)
class Loss:
    """Cross-entropy and the linear-mapping loss (Eq. 9)."""

    smoothing: float = 0.1
    """Label smoothing."""
    mapping: float = 0.1
    """λ: weight of the deviation of the clones' contributions. The paper sets it by the label smoothing's value."""
    ridge: float = 1e-3
    """Ridge of the least squares, as a share of the mean square length of the clones' descriptors."""

    def __post_init__(self) -> None:
        if not (0 <= self.smoothing < 1 and self.mapping >= 0 and self.ridge >= 0):
            raise VergenceError(
                f"a loss has 0 <= smoothing < 1, mapping >= 0 and ridge >= 0, got {self.smoothing}, {self.mapping} and "
                f"{self.ridge}"
            )


@dataclass(frozen=True)
class Config:
    """Pattern-Net: network, clouds, loss, training."""

    model: ModelConfig = ModelConfig()
    data: Objects = Objects()
    loss: Loss = Loss()
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """A cloud or mesh of one object."""

    cloud: Cloud
    """The object: .ply, .obj, .off, .xyz, .txt, .pts, .pcd, .npy or .npz. Meshes are sampled on their faces."""
    axes: Axes = "camera"
    """Axes of the coordinates: camera has up as its second axis, lidar as its third."""
    category: Text = ""
    """Part segmentation: what the object is; if not given, the category whose parts fit best."""
    votes: int = 4
    """Number of random decompositions whose scores are averaged; the paper uses one."""

    def __post_init__(self) -> None:
        if not 1 <= self.votes <= 1000:
            raise VergenceError(f"votes are from 1 to 1000, got {self.votes}")


def _published(points: int, source: str, batch: int = 32) -> Config:
    # The paper names no optimiser, rate or length: these are DGCNN's.
    sgd = Optimiser("sgd", lr=0.1, momentum=0.9, weight_decay=1e-4, schedule=Schedule("cosine", floor=0.01))
    training = Training(epochs=250, batch=batch, evaluate_every=10, optimiser=sgd)
    return Config(ModelConfig(), Objects(source, points=points), Loss(), training)


def _quick(steps: int, lr: float = 3e-3) -> Training:
    adam = Optimiser("adam", lr=lr, schedule=Schedule("cosine", floor=0.02))
    return Training(steps=steps, batch=16, evaluate_every=0, log_every=20, optimiser=adam)


TINY = Config(ModelConfig(width=32, neighbours=12, dropout=0.3), Objects(points=256, objects=1200), Loss(), _quick(200))
STARTER = Config(
    ModelConfig(width=40, neighbours=20, first="euclidean", dropout=0.3),
    Objects(points=512, objects=3200, pool=2048),
    Loss(),
    _quick(800, 2e-3),
)
PRESETS = {
    "tiny": TINY,
    "tiny-parts": replace(TINY, data=replace(TINY.data, task="parts", points=128)),
    "paper": _published(1024, "modelnet40:data"),
    "paper-2k": _published(2048, "modelnet40:data"),
    "paper-4k": _published(4096, "modelnet40:data", batch=16),
    "paper-parts": replace(
        _published(2048, "shapenetpart:data"), data=Objects("shapenetpart:data", task="parts", points=2048)
    ),
    "starter": STARTER,
    "starter-parts": replace(
        STARTER,
        model=replace(STARTER.model, width=32),
        data=replace(STARTER.data, task="parts", points=384),
        train=_quick(700, 2e-3),
    ),
}
_TWIN = {"model.clones": 1, "model.distance": "euclidean"}
VARIANTS = {
    "pattern": Variant("Pattern-Net"),
    "euclidean": Variant("L = 4, Euclidean neighbours", {"model.distance": "euclidean"}),
    "twin": Variant("L = 1, Euclidean (twin of DGCNN)", _TWIN),
    "alone": Variant("L = 1, Euclidean, a quarter of the points", {"model.alone": True, "model.distance": "euclidean"}),
    "hilbert1": Variant("L = 1, Eq. 8", {"model.clones": 1}, headline=False),
    "unmapped": Variant("without the mapping loss", {"loss.mapping": 0.0}),
    "dgcnn": Variant("DGCNN", {"model.network": "dgcnn"}),
    "pointnet": Variant("PointNet", {"model.network": "pointnet"}),
}
NOISE = (0.02, 0.05, 0.08, 0.1, 0.15)
"""Standard deviations of the noise of Table 2, in radii of the cloud."""
METRICS = {
    "accuracy": Metric("acc.", "%", digits=1),
    "class_accuracy": Metric("class acc.", "%", digits=1),
    **{f"noise_{round(100 * sigma):02d}": Metric(f"σ {sigma:g}", "%", digits=1) for sigma in NOISE},
    "missing": Metric("¼ of points", "%", digits=1),
    "density": Metric("density", "%", digits=1),
    "turned": Metric("any rotation", "%", digits=1),
    "instance_iou": Metric("part IoU", "%", digits=1),
    "category_iou": Metric("part IoU by category", "%", digits=1),
    "instance_iou_noise": Metric("part IoU, σ 0.05", "%", digits=1),
    "spread": Metric("ω spread", higher_is_better=False, digits=4),
}
_NOISY = ("noise_02", "noise_05", "noise_08", "noise_10", "noise_15")
REPORTED = (
    Reported.table(
        "Table 1: ModelNet40 (Pattern-Net 1k points, DGCNN 2k, PointNet 1k)",
        ("class_accuracy", "accuracy"),
        {"pattern": (90.3, 92.9), "dgcnn": (90.7, 93.5), "pointnet": (86.0, 89.2)},
    ),
    Reported.table(
        "Table 2: ModelNet40 with noise, 2k points, trained on clean clouds",
        _NOISY,
        {"pattern": (93.5, 92.4, 89.1, 84.2, 32.6), "dgcnn": (92.9, 69.1, 29.9, 11.4, 4.2)},
    ),
    Reported.table(
        "Table 3: ShapeNetPart, mean over shapes",
        ("instance_iou",),
        {"pattern": (86.4,), "dgcnn": (85.2,), "pointnet": (83.7,)},
    ),
)
_SIZES = (4, 2, 2, 4, 4, 3, 3, 2, 4, 2, 6, 2, 3, 3, 3, 3)
_SHAPENET = {"classes": 16, "parts": _SIZES}


def _output(points: int) -> Published:
    del points  # the number of points changes nothing
    return Published({"classes": 40}, {"logits": (1, 40), "clones": (1, 256, 4), "linkage": (1, 256)}, 366_760)


SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    facts=ShapeFacts,
    inputs=Inputs,
    embedded=(
        "Embedded: clouds sampled on the surfaces of rendered objects of 16 classes (chairs, tables, lamps, cars, "
        "aeroplanes, people, animals, ...) with random proportions, turned about the vertical; nine classes have "
        "labelled parts. Noise, missing points, uneven density and rotation are added at test time only."
    ),
    reported=REPORTED,
    published={
        "paper": _output(1024),
        "paper-2k": _output(2048),
        "paper-4k": _output(4096),
        "paper-parts": Published(
            _SHAPENET, {"logits": (1, 2048, 50), "clones": (1, 256, 4), "linkage": (1, 256)}, 452_210
        ),
    },
    learns=Learns(
        "cross_entropy",
        steps=30,
        share=0.8,
        changes={
            "data.objects": 64,
            "data.points": 96,
            "data.pool": 128,
            "model.neighbours": 8,
            "model.width": 16,
            "model.dropout": 0.0,
        },
    ),
    starters={
        "objects": Starter(
            "classes of single objects (16: chairs, cars, people, ...), trained on clean clouds of rendered ones",
            tried="meshes that others modelled, and objects cut from LiDAR scans: see the README",
            data="3,200 rendered objects of 16 classes, 512 points of each (vergence.points.objects)",
        ),
        "parts": Starter(
            "parts of nine kinds of objects (chair legs, wings, wheels, ...), trained on clean clouds of rendered ones",
            preset="starter-parts",
            tried="meshes that others modelled: see the README",
            data="3,200 rendered objects of nine classes with 28 parts, 384 points of each (vergence.points.objects)",
        ),
    },
    minutes=0.4,
)
