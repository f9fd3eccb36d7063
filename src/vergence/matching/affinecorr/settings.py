"""Settings of affine correspondences: methods, patches, scenes, inputs and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Images, Text
from vergence.contract.settings import Metric, Settings, Variant
from vergence.core.errors import VergenceError
from vergence.matching.affinecorr import ABOUT

Method = Literal["raw", "pairwise", "corrected", "ref4", "ref4-corrected", "ref2", "ref3", "track3", "track6"]
TRACKERS = ("track3", "track6")
BARE = ("raw", "pairwise", "corrected")
"""Methods that need no pictures."""
Frames = Literal["noisy", "sift", "affine"]
Scene = Literal["still", "film", "wall", "sphere", "motorcycle"]


@dataclass(frozen=True)
class Patch:
    """Patches that are aligned."""

    side: int = 21
    """Points along a side of a patch."""
    scale: float = 3.0
    """Half the side of a patch, in scales of its feature."""
    least: float = 10.0
    """The least half side, in pixels."""
    most: float = 30.0
    """The largest half side, in pixels."""
    blur: float = 0.8
    """Deviation of the Gaussian that pictures are smoothed with, in pixels."""
    coarse: int = 1
    """Begin with pictures reduced by 2 to this power."""
    steps: int = 40
    """The most Gauss-Newton steps at each size of the pictures."""
    tolerance: float = 0.005
    """Pixels: a patch is finished when no point of it moves by more."""
    gain: bool = True
    """Compare patches of mean 0 and norm 1, so that brightness and contrast do not matter."""

    def __post_init__(self) -> None:
        if self.side < 3 or self.steps < 0 or self.coarse < 0:
            raise VergenceError(
                f"a patch has side >= 3, steps >= 0 and coarse >= 0, got {self.side}, {self.steps} and {self.coarse}"
            )
        if not (self.scale > 0 and 0 < self.least <= self.most and self.tolerance > 0 and self.blur >= 0):
            raise VergenceError(
                "a patch has scale, least and tolerance above 0, least <= most and blur >= 0, got "
                f"{self.scale:g}, {self.least:g}, {self.tolerance:g}, {self.most:g} and {self.blur:g}"
            )


@dataclass(frozen=True)
class ModelConfig:
    """How planes are found."""

    method: Method = "ref2"
    """raw: from the affinities as they are; pairwise, corrected: after correction of each pair, or of all views of a
    track; ref4, ref4-corrected: after alignment of each affinity; ref2, ref3: planes aligned in all views, at the
    triangulated depth or at any; track3, track6: patches of the first picture followed with 3 or 6 degrees of
    freedom."""
    patch: Patch = Patch()


@dataclass(frozen=True)
class Shots:
    """Pictures, cameras and tracks."""

    source: Source = EMBEDDED
    """embedded, strecha:PATH, tum:PATH, or a PATH to a folder with pictures, cameras and perhaps a .ply."""
    scene: Scene = "still"
    """embedded: rendered still lifes; films of faint ones, or of a faint wall; the paper's geometry without pictures
    (sphere); or scikit-image's motorcycle pair, which is real."""
    frames: Frames = "noisy"
    """Correspondences: noisy ones of true planes (of real pictures, as sift); found by SIFT; or found by SIFT with
    affine simulation. The last two need the extra opencv."""
    count: int = 6
    """The most scenes, or windows of a sequence; of `sphere`, thousands of trials."""
    views: int = 4
    """Pictures of a track."""
    stride: int = 1
    """From a sequence: take every nth picture."""
    points: int = 150
    """noisy: patches of each scene."""
    features: int = 4000
    """sift, affine: the most frames of each picture."""
    noise: float = 0.15
    """noisy: deviation of the noise on the entries of affinities."""
    point_noise: float = 0.5
    """noisy: deviation of the noise on points, in pixels."""
    contrast: float = 0.06
    """film, wall: contrast of textures in relation to those of still lifes."""
    pixel_noise: float = 0.02
    """Rendered: the largest deviation of the noise of pixels, from 0 to 1."""

    def __post_init__(self) -> None:
        if self.views < 2 or min(self.count, self.points, self.features, self.stride) < 1:
            raise VergenceError(
                "there are views >= 2, and count, points, features and stride >= 1, got "
                f"{self.views}, {self.count}, {self.points}, {self.features} and {self.stride}"
            )
        if not all(0 <= v < 1e3 for v in (self.noise, self.point_noise, self.contrast, self.pixel_noise)):
            raise VergenceError("noise, point_noise, contrast and pixel_noise are at least 0")


@dataclass(frozen=True)
class Config:
    """Method and data."""

    model: ModelConfig = ModelConfig()
    data: Shots = Shots()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Photographs with cameras."""

    images: Images
    """Two or more photographs of a static scene."""
    cameras: Text = ""
    """File or folder with their cameras: COLMAP's text model, Strecha's .camera files, or JSON."""
    intrinsics: Text = ""
    """Two photographs: f,cx,cy or fx,fy,cx,cy in pixels, for both or, with a semicolon, for each."""
    pose: Text = ""
    """Two photographs: what takes points of the first camera to the second: t, or rotation vector and t, or R and t."""
    correspondences: Text = ""
    """File of matched local frames instead of SIFT's, a csv with track, image, x, y, a11, a12, a21, a22."""
    method: Method = "ref2"
    """How planes are found: raw, corrected, or aligned (ref2; ref3 moves points too, ref4 is the paper's baseline); or
    patches of the first photograph tracked through the others (track3, track6)."""
    frames: Literal["sift", "affine"] = "sift"
    """Local frames by SIFT, or for wide baselines also in simulated views."""
    points: int = 4000
    """The most local frames of a photograph."""
    views: int = 5
    """The most photographs of a track."""
    correlation: float = 0.8
    """Patches that look less alike than this after alignment are left out."""

    def __post_init__(self) -> None:
        if self.points < 1 or self.views < 2 or not -1 <= self.correlation <= 1:
            raise VergenceError(
                "there are points >= 1, views >= 2 and a correlation from -1 to 1, got "
                f"{self.points}, {self.views} and {self.correlation:g}"
            )


_FILM = {"data.scene": "film", "data.views": 10, "data.count": 3, "model.patch.least": 12.0, "model.patch.coarse": 2}
PRESETS = {
    "tiny": Config(),
    "sphere": Config(ModelConfig("corrected"), Shots(scene="sphere", count=1, views=5, noise=1.0, point_noise=0.0)),
    "detected": Config(data=Shots(frames="sift", features=1500)),
    "motorcycle": Config(data=Shots(scene="motorcycle", frames="sift", count=1, views=2, features=8000)),
    # Fountain-P11 and Herz-Jesu-P8, five views of a track; and the sequence without texture, ten frames.
    "paper": Config(data=Shots("strecha:data", frames="affine", count=1000, views=5, features=8000)),
    "paper-tracking": Config(
        ModelConfig("track3", Patch(least=12.0, coarse=2)),
        Shots("tum:data", frames="sift", count=1000, views=10, features=1000),
    ),
}
VARIANTS = {
    "raw": Variant("(1) affinities as they are", {"model.method": "raw"}),
    "corrected": Variant("(2) corrected", {"model.method": "corrected"}),
    "ref4": Variant("(3) Ref4DoF", {"model.method": "ref4"}),
    "ref4-corrected": Variant("(4) Ref4DoF, corrected", {"model.method": "ref4-corrected"}),
    "ref2": Variant("(5) Ref2DoF", {"model.method": "ref2"}),
    "ref3": Variant("planes in all views, 3 DoF", {"model.method": "ref3"}),
    "pairwise": Variant("each pair corrected", {"model.method": "pairwise"}, headline=False),
    "track3": Variant("Track3DoF, faint film", {"model.method": "track3", **_FILM}),
    "track6": Variant("Track6DoF, faint film", {"model.method": "track6", **_FILM}),
}
METRICS = {
    "normal_error": Metric("normal error, median", "°", higher_is_better=False, digits=1),
    "normal_mean": Metric("normal error, mean", "°", higher_is_better=False, digits=1),
    "normal_q3": Metric("normal error, third quartile", "°", higher_is_better=False, digits=1),
    "within_20": Metric("normals within 20°", "%", digits=1),
    "ac_error": Metric("affinity error, median", higher_is_better=False, digits=3),
    "kept": Metric("tracks kept", "%", digits=1),
    "tracked": Metric("tracked, epipolar distance below 5 px", "%", digits=1),
    "truly_tracked": Metric("tracked, within 5 px of the truth", "%", digits=1),
    "epipolar": Metric("symmetric epipolar distance, median", "px", higher_is_better=False, digits=2),
    "normal_q3_all": Metric("normal error of all tracks, third quartile", "°", higher_is_better=False, digits=1),
    "plane_angle_true": Metric("angle to the true plane, median", "°", higher_is_better=False, digits=1),
    "plane_angle_own": Metric("angle to the plane of the points, median", "°", higher_is_better=False, digits=1),
    "plane_distance_true": Metric("distance from the true plane, median", higher_is_better=False, digits=4),
    "plane_distance_own": Metric("distance from the plane of the points, median", higher_is_better=False, digits=4),
}

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: rendered still lifes of planes and curved surfaces with photographs as textures, seen by four "
        "cameras, with noise on the affinities and points of exact correspondences. Trackers follow patches through "
        "ten frames of faint ones."
    ),
    minutes=0.3,
)
