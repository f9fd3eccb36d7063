"""Settings of the line integral transform: configs, inputs, presets, variants, metrics, and the paper's numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Folder, Images, Text
from vergence.contract.settings import Metric, Reported, Settings, Variant
from vergence.core.errors import VergenceError
from vergence.retrieval.lineintegral import ABOUT

Method = Literal["lit", "ami", "msa", "r-transform", "trace"]
METHODS: dict[Method, str] = {
    "lit": "line integral transform",
    "ami": "affine moment invariants",
    "msa": "multi-scale autoconvolution",
    "r-transform": "R-transform",
    "trace": "trace transform",
}
"""Descriptors, with their names."""
KINDS = 14
"""The number of kinds of embedded silhouettes."""
RECALLS = (25, 50, 75, 100)
"""Recalls at which the mean precision is reported, in per cent."""


@dataclass(frozen=True)
class ModelConfig:
    """The descriptor and its parameters."""

    method: Method = "lit"
    """lit: the line integral transform; or a baseline: affine moment invariants, multi-scale autoconvolution,
    the R-transform, or triple features of the trace transform."""
    rows: int = 18
    """lit: the number of ratios μ between centre line and binding line (K)."""
    angles: int = 180
    """lit: the number of angles over the full circle (N); even."""
    size: int = 256
    """Shapes are cropped and resized to this longer side, in pixels."""
    lines: Literal["binding", "fixed"] = "binding"
    """lit: lines between binding lines, or at fixed distances from the centroid, as in a Radon transform."""
    normalisation: Literal["rows", "whole", "none"] = "rows"
    """lit: moments of each row (Eq. 24), one matrix from all rows together, or none."""
    power: Literal[4, 2] = 4
    """lit: the power of chord lengths in the moments: 4 are the second moments of Eq. 17; 2 is an ablation."""
    grid: Literal["centres", "edges"] = "centres"
    """lit: ratios (i + 1/2) / K, or i / K from the centre line on."""

    def __post_init__(self) -> None:
        for name, least, most in (("rows", 1, 1000), ("angles", 8, 7200), ("size", 16, 2048)):
            if not least <= getattr(self, name) <= most:
                raise VergenceError(f"a descriptor's {name} is {least} to {most}, got {getattr(self, name)}")
        if self.angles % 2:
            raise VergenceError(f"angles come in opposite pairs: expected an even number, got {self.angles}")


@dataclass(frozen=True)
class ShapeData:
    """Source of the shapes, and the views made of them."""

    source: Source = EMBEDDED
    """embedded, mpeg7:PATH (class-n.gif or .png), mcd:PATH, or a PATH to class folders of pictures; archives too."""
    copies: Annotated[int, tyro.conf.arg(aliases=["--copies"])] = 0
    """files: views made of each shape by random cameras; each shape is then a class of its own, as in the Multiview
    Curve Database (0: shapes and classes as they are)."""
    shapes: int = 0
    """Use at most this many shapes, spread evenly over the data (0: all)."""
    stretch: float = 2.5
    """views and copies: the largest ratio of the two scales of a view."""
    tilt: float = 0.1
    """views and copies: perspective, how much nearer one side of a shape may be, as a share of its distance (0: affine
    views)."""
    side: int = 192
    """views and copies: the side of a view, in pixels."""
    views: int = 6
    """embedded: views of each silhouette by random cameras (0: silhouettes as they are, a class for each kind)."""
    kinds: int = KINDS
    """embedded: number of kinds of silhouettes (fish, key, tree, ...)."""
    individuals: int = 3
    """embedded: silhouettes of each kind, with proportions and joints of their own."""

    def __post_init__(self) -> None:
        if not (0 <= self.views <= 1000 and 0 <= self.copies <= 1000 and self.shapes >= 0):
            raise VergenceError(
                f"there are 0 to 1000 views or copies of 0 or more shapes, got {self.views}, {self.copies} and "
                f"{self.shapes}"
            )
        if not (1 <= self.kinds <= KINDS and 1 <= self.individuals <= 1000):
            raise VergenceError(
                f"embedded silhouettes are of 1 to {KINDS} kinds with 1 to 1000 individuals, got {self.kinds} and "
                f"{self.individuals}"
            )
        if not (1 <= self.stretch <= 20 and 0 <= self.tilt <= 0.6 and 16 <= self.side <= 4096):
            raise VergenceError(
                f"views have a stretch of 1 to 20, a tilt of 0 to 0.6 and a side of 16 to 4096, got {self.stretch}, "
                f"{self.tilt} and {self.side}"
            )


@dataclass(frozen=True)
class Config:
    """The line integral transform: descriptor and shapes."""

    model: ModelConfig = ModelConfig()
    data: ShapeData = ShapeData()
    seed: int = 0
    """Random seed of everything."""


@dataclass(frozen=True)
class Inputs:
    """Query shapes, and the gallery to search."""

    query: Images = ()
    """Masks, or photographs of a shape before a plain background."""
    gallery: Folder | None = None
    """A folder of masks or photographs to search."""
    index: Text = ""
    """A file that stores the descriptors of the gallery; without --gallery it is read."""
    method: Method = "lit"
    """Descriptor: the line integral transform, or a baseline."""
    foreground: Literal["auto", "bright", "dark"] = "auto"
    """Which pixels are the shape; auto: those that hold less of the picture's border."""
    top: int = 10
    """Number of results shown per query."""

    def __post_init__(self) -> None:
        if not self.query:
            raise VergenceError("there is no query: give --query FILE...")
        if self.gallery is None and not self.index:
            raise VergenceError("there is no gallery: give --gallery DIR, or --index FILE of an earlier call")
        if self.top < 1:
            raise VergenceError(f"at least one result is shown, got --top {self.top}")


PRESETS = {
    "tiny": Config(ModelConfig(size=128), ShapeData()),
    # The paper gives 18 rows and 180 angles; sizes are ours.
    "paper": Config(data=ShapeData(source="mcd:data")),
}


def _ablation(label: str, headline: bool = False, **changes: Any) -> Variant:
    return Variant(label, {f"model.{name}": value for name, value in changes.items()}, headline=headline)


VARIANTS = {
    "lit": Variant("line integral transform"),
    **{str(name): Variant(label, {"model.method": name}) for name, label in METHODS.items() if name != "lit"},
    "no-normalisation": _ablation("without moments (Eq. 24)", True, normalisation="none"),
    "fixed-lines": _ablation("Radon, fixed distances", True, lines="fixed"),
    "one-root": _ablation("one matrix for all rows", normalisation="whole"),
    "second-power": _ablation("moments of Ψ²", power=2),
    "edges": _ablation("ratios i / K", grid="edges"),
}
METRICS = {
    "knee": Metric("knee", "%", digits=1),
    "knee_others": Metric("others", "%", digits=1),
    "bullseye": Metric("bull's eye", "%", digits=1),
    "first": Metric("first", "%", digits=1),
    **{f"precision_{recall}": Metric(f"P@{recall}", "%", digits=1) for recall in RECALLS},
}
REPORTED = (
    Reported.table("Table 1: MCD", ("knee",), {
        "lit": (97.07,), "trace": (80.08,), "msa": (71.84,), "ami": (66.01,)}),
    Reported.table("Table 2: MPEG-7 CE-2, perspective test", ("knee",), {
        "lit": (97.49,), "trace": (95.01,), "msa": (62.09,), "ami": (42.53,)}),
)  # fmt: skip

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: silhouettes of 14 kinds (fish, key, tree, ...), three individuals of each, seen by six random "
        "cameras with stretch, mirror and mild perspective. Each individual is a class; others of its kind resemble it."
    ),
    reported=REPORTED,
    minutes=0.2,
)
