"""FLOT's settings: configs, inputs, presets, variants, metrics, and the numbers reported in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Axes, Cloud
from vergence.contract.settings import Learns, Metric, Published, Reported, Settings, Starter, Variant
from vergence.contract.training import Optimiser, Schedule, Training
from vergence.core.errors import VergenceError
from vergence.points.flot import ABOUT
from vergence.points.settings import World

MOST_ITERATIONS = 1000
"""Sinkhorn iterations that a config may ask for; the paper uses up to 5."""


@dataclass(frozen=True)
class ModelConfig:
    """Features, matching and refinement."""

    widths: tuple[int, ...] = (32, 64, 128)
    """Channels of the set convolutions, in the feature network and in the refinement."""
    neighbours: int = 32
    """Neighbours per point in the graph of the convolutions."""
    matching: Literal["transport", "nearest", "zero"] = "transport"
    """Flow before refinement: optimal transport, the nearest neighbour, or zero."""
    cost: Literal["features", "distance"] = "features"
    """transport: cost of a match: difference of the features (Eq. 3), or distance of the points."""
    iterations: int = 1
    """transport: K, the number of Sinkhorn iterations; 0 is FLOT₀."""
    reach: float = 10.0
    """transport: points farther apart than this, in metres, never match (Eq. 4)."""
    floor: float = 0.03
    """transport: lower bound of the entropy's weight."""
    start: tuple[float, float] = (0.0, 0.0)
    """transport: initial logarithms of the learnt weights of entropy and mass."""
    average: Literal["exact", "guarded"] = "exact"
    """transport: Eq. 6 as published, or with 1e-8 added to the mass as in the authors' code (which pulls badly matched
    points to the origin)."""

    def __post_init__(self) -> None:
        if not self.widths or min(self.widths) < 1:
            raise VergenceError(f"a model has one or more widths of at least 1, got {self.widths}")
        if self.neighbours < 1 or not 0 <= self.iterations <= MOST_ITERATIONS:
            raise VergenceError(
                f"a model has neighbours >= 1 and 0 to {MOST_ITERATIONS} iterations, got {self.neighbours} and "
                f"{self.iterations}"
            )
        if not (self.reach > 0 and self.floor >= 0):
            raise VergenceError(f"a model has reach > 0 and floor >= 0, got {self.reach} and {self.floor}")


@dataclass(frozen=True)
class Clouds:
    """Pairs of clouds for training and test."""

    source: Source = EMBEDDED
    """embedded, ft3d_s:PATH, ft3d_o:PATH, kitti_s:PATH, kitti_o:PATH, folder:PATH, or a plain PATH to such a folder."""
    points: int = 8192
    """Random points sampled from each cloud."""
    world: World = "resampled"
    """perfect: every point has a match in the second cloud (FT3D_p, needs corresponding rows); resampled: independent
    samples."""
    scene: Literal["rigid", "street"] = "rigid"
    """embedded: boxes and ellipsoids that move rigidly, or rendered street scans from a car."""
    scenes: int = 2400
    """embedded: number of training scenes; a twelfth as many for validation and test."""
    objects: int = 4
    """embedded, rigid: objects per scene."""

    def __post_init__(self) -> None:
        if self.points < 1 or self.scenes < 12 or not 1 <= self.objects <= self.points:
            raise VergenceError(
                f"data has points >= 1, scenes >= 12 and 1 <= objects <= points, got {self.points}, {self.scenes} and "
                f"{self.objects}"
            )


@dataclass(frozen=True)
class Config:
    """FLOT: network, clouds, training."""

    model: ModelConfig = ModelConfig()
    data: Clouds = Clouds()
    train: Training = Training()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Two clouds of one scene, an instant apart."""

    first: Cloud
    """The earlier cloud: .npy, .npz, .ply, .pcd or KITTI's .bin."""
    second: Cloud
    """The later cloud; it may have a different number of points."""
    axes: Axes = "camera"
    """Axes of the coordinates: camera is left, up, forward, as in training; lidar is forward, left, up."""
    points: int | None = None
    """Number of random points whose flow is computed; the others interpolate their three nearest (0: all). By default
    as many as the weights were trained with: neighbours have the right distances then."""

    def __post_init__(self) -> None:
        if self.points is not None and self.points < 0:
            raise VergenceError(f"points is at least 0, got {self.points}")


def _training(epochs: int, milestone: int, batch: int) -> Training:
    schedule = Schedule("multistep", unit="epoch", milestones=(milestone,)) if milestone else Schedule()
    return Training(epochs=epochs, batch=batch, optimiser=Optimiser("adam", lr=1e-3, schedule=schedule))


def _tiny_training() -> Training:
    # Logarithms move by about the learning rate per step, which is too slow for so few steps.
    optimiser = Optimiser("adam", lr=2e-3, rates={"log_*": 5.0}, schedule=Schedule("cosine", floor=0.05))
    return Training(epochs=5, batch=4, evaluate_every=1, log_every=20, optimiser=optimiser)


TINY = Config(
    ModelConfig(widths=(16, 32, 64), neighbours=12, start=(-3.0, -3.0)),
    Clouds(points=96, scenes=2400),
    _tiny_training(),
)
PRESETS = {
    "tiny": TINY,
    "tiny-perfect": replace(TINY, data=replace(TINY.data, world="perfect")),
    "paper": Config(ModelConfig(), Clouds("ft3d_s:data"), _training(60, 50, 1)),
    "paper-occluded": Config(ModelConfig(), Clouds("ft3d_o:data", points=2048), _training(400, 340, 4)),
    "starter": Config(
        ModelConfig(widths=(16, 32, 64), neighbours=16, start=(-3.0, -3.0)),
        Clouds(points=1024, scene="street", scenes=12_000),
        Training(
            steps=3000,
            batch=4,
            evaluate_every=0,
            log_every=20,
            optimiser=Optimiser("adam", lr=2e-3, rates={"log_*": 5.0}, schedule=Schedule("cosine", floor=0.02)),
        ),
    ),
    "paper-study": Config(ModelConfig(), Clouds("ft3d_s:data", points=2048), _training(40, 0, 4)),
}
VARIANTS = {
    "flot": Variant("FLOT, K = 1", {"model.iterations": 1}),
    "flot0": Variant("FLOT₀", {"model.iterations": 0}),
    "flot3": Variant("FLOT, K = 3", {"model.iterations": 3}),
    "nearest": Variant("nearest neighbour", {"model.matching": "nearest", "train.optimiser.rates": {}}),
    "zero": Variant("no flow", {"model.matching": "zero", "train.optimiser.rates": {}}),
    "flot5": Variant("FLOT, K = 5", {"model.iterations": 5}, headline=False),
    "euclidean": Variant("FLOT, K = 1, cost is distance", {"model.cost": "distance"}, headline=False),
}
METRICS = {
    "epe": Metric("EPE", "m", higher_is_better=False, digits=4),
    "strict": Metric("AS", "%"),
    "relaxed": Metric("AR", "%"),
    "outliers": Metric("Out.", "%", higher_is_better=False),
    "epe_before": Metric("EPE ot", "m", higher_is_better=False, digits=4),
    "strict_before": Metric("AS ot", "%"),
    "relaxed_before": Metric("AR ot", "%"),
    "outliers_before": Metric("Out. ot", "%", higher_is_better=False),
    "eps": Metric("eps", higher_is_better=False, digits=3),
    "power": Metric("power", digits=3),
}

_SCORES = ("epe", "strict", "relaxed", "outliers")
_STUDY = ("epe", "epe_before", "eps", "power")
REPORTED = (
    Reported.table("Table 2: FT3D_s, 8192 points", _SCORES, {"flot": (0.052, 73.2, 92.7, 35.7)}),
    Reported.table("Table 2: KITTI_s, 8192 points, trained on FT3D_s", _SCORES, {"flot": (0.056, 75.5, 90.8, 24.2)}),
    Reported.table(
        "Table 3: FT3D_o, 2048 points",
        _SCORES,
        {
            "flot0": (0.160, 33.8, 63.8, 70.5),
            "flot": (0.156, 34.3, 64.3, 70.0),
            "flot3": (0.161, 32.3, 62.7, 71.7),
        },
    ),
    Reported.table(
        "Table 3: KITTI_o, 2048 points, trained on FT3D_o",
        _SCORES,
        {
            "flot0": (0.106, 45.3, 73.7, 46.7),
            "flot": (0.110, 41.9, 72.1, 48.6),
            "flot3": (0.107, 45.1, 74.0, 46.3),
        },
    ),
    Reported.table(
        "Table 1: validation on FT3D_p, the perfect world, 2048 points",
        _STUDY,
        {
            "flot0": (0.0026, 0.0026, 0.03, 0.0),
            "flot": (0.0011, 0.0010, 0.03, 0.70),
            "flot3": (0.0009, 0.0009, 0.03, 0.82),
            "flot5": (0.0009, 0.0010, 0.03, 0.88),
        },
    ),
    Reported.table(
        "Table 1: validation on FT3D_s, 2048 points",
        _STUDY,
        {
            "flot0": (0.0811, 0.1789, 0.03, 0.0),
            "flot": (0.0785, 0.1721, 0.03, 0.64),
            "flot3": (0.0786, 0.1764, 0.03, 0.59),
            "flot5": (0.0798, 0.1761, 0.03, 0.56),
        },
    ),
)

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: generated scenes of boxes and ellipsoids that move rigidly. In the resampled world their surfaces "
        "are sampled again at the second instant; in the perfect world (preset tiny-perfect) every point has an "
        "exact match."
    ),
    reported=REPORTED,
    published={
        "paper": Published({}, {"flow": (1, 8192, 3), "before": (1, 8192, 3)}, 111_109),
        "paper-occluded": Published({}, {"flow": (1, 2048, 3), "before": (1, 2048, 3)}, 111_109),
        "paper-study": Published({}, {"flow": (1, 2048, 3), "before": (1, 2048, 3)}, 111_109),
    },
    learns=Learns("l1", steps=15, share=0.8, changes={"data.scenes": 12, "data.points": 48, "model.neighbours": 8}),
    starters={
        "street": Starter(
            "scene flow of street scans, trained on rendered streets",
            tried=(
                "two scans of SemanticKITTI, 0.68 m of ego-motion: EPE 0.28 m at 2048 points (nearest neighbour 0.60, "
                "the authors' checkpoint 0.25)"
            ),
            data="12,000 pairs of rendered street scans of 1,024 points (vergence.points.streets)",
        ),
    },
    minutes=1.5,
)
