"""The settings of the road measures: configs, inputs, presets, variants and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from vergence.contract.data import EMBEDDED, Source
from vergence.contract.inputs import Graph, Image
from vergence.contract.settings import Metric, Settings, Variant
from vergence.core.errors import VergenceError, did_you_mean
from vergence.maps.roadmetrics import ABOUT
from vergence.maps.settings import NAMES, Errors, Measures, Unit, parity

Window = tuple[float, float, float, float]

SIDE, BORDER = 8192.0, 260.0
"""The published protocol, in pixels: the side of a city's window, and the border that is left out of it."""
CORNERS = dict.fromkeys(
    ("amsterdam", "denver", "kansas city", "la", "montreal", "new york", "paris", "pittsburgh", "saltlakecity",
     "san diego", "tokyo", "toronto", "vancouver"),
    (-4096.0, -4096.0),
) | {"boston": (4096.0, -4096.0), "chicago": (-4096.0, -8192.0)}  # fmt: skip
"""Left and top of the windows of the 15 cities, by the names of their files."""


def published_window(city: str) -> Window:
    """The part of a city that the paper's scores are of: left, top, right, bottom, in pixels. Case, spaces and
    underscores of the name do not matter."""
    corners = {_letters(name): corner for name, corner in CORNERS.items()}
    if _letters(city) not in corners:
        known = did_you_mean(city, CORNERS)
        raise VergenceError(f"no window is published for the map {city!r}{known}; --data.window takes its own")
    left, top = corners[_letters(city)]
    return left + BORDER, top + BORDER, left + SIDE - BORDER, top + SIDE - BORDER


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name.lower()))


@dataclass(frozen=True)
class Maps:
    """Source and units of the maps."""

    source: Source = EMBEDDED
    """embedded, roadtracer:PATH (CITY.graph with CITY.METHOD.graph), maps:PATH (maps to inject mistakes into), or a
    PATH to a folder with truth/ and prediction/."""
    truth: Annotated[str, tyro.conf.arg(aliases=["--truth"])] = ""
    """The true map, or a folder of them: .graph, .geojson, .graphml or a mask (.png)."""
    prediction: Annotated[str, tyro.conf.arg(aliases=["--prediction"])] = ""
    """The predicted map, or a folder of them with the same names."""
    method: str = ""
    """roadtracer: evaluate this method (default: all of them)."""
    unit: Unit = "pixels"
    """Unit of the files. Degrees are longitude and latitude."""
    metres_a_pixel: float = 0.6
    """metres, degrees: the size of a pixel. Published tolerances are for 60 cm."""
    window: Window | Literal["published"] | None = None
    """Compare only inside this window: left, top, right, bottom, in pixels. published: that of each of the paper's 15
    cities, by name."""
    cities: int = 2
    """embedded and maps: number of cities (or crops of each map) to inject mistakes into."""
    blocks: int = 6
    """embedded: crossings along a side of a city."""
    crop: float = 1000.0
    """maps: the side of a crop, in pixels."""

    def __post_init__(self) -> None:
        if bool(self.truth) != bool(self.prediction):
            raise VergenceError("give both --truth and --prediction, or neither")
        if not self.metres_a_pixel > 0 or not self.crop > 0:
            raise VergenceError(f"metres_a_pixel and crop are above 0, got {self.metres_a_pixel} and {self.crop}")
        if self.cities < 1 or self.blocks < 4:
            raise VergenceError(f"there are cities >= 1 with blocks >= 4, got {self.cities} and {self.blocks}")
        if isinstance(self.window, tuple) and not (self.window[0] < self.window[2] and self.window[1] < self.window[3]):
            raise VergenceError(f"a window is left, top, right, bottom, got {self.window}")

    def window_of(self, name: str) -> Window | None:
        """The window of the map with this name."""
        return published_window(name) if self.window == "published" else self.window


@dataclass(frozen=True)
class Config:
    """Maps, measures and mistakes."""

    data: Maps = Maps()
    measures: Measures = Measures()
    choices: Literal["own", "parity"] = "own"
    """Where the paper is open or its public code differs: own follows `measures`, parity the public code."""
    errors: Errors = Errors()
    seed: int = 0
    """Random seed of everything."""

    @property
    def chosen_measures(self) -> Measures:
        """The metrics' settings, with the public code's choices for parity."""
        return parity(self.measures) if self.choices == "parity" else self.measures


@dataclass(frozen=True)
class Inputs:
    """Two maps of one place."""

    truth: Graph
    """The true map: .graph, .geojson, .graphml or a mask (.png)."""
    prediction: Graph
    """The predicted map."""
    image: Image | None = None
    """A picture to draw over; its pixels are the maps' units."""
    unit: Unit = "pixels"
    """Unit of the files."""
    metres_a_pixel: float = 0.6
    """metres, degrees: the size of a pixel."""


PRESETS = {
    "tiny": Config(),
    "paper": Config(Maps("roadtracer:data", window="published")),
}
VARIANTS = {
    "interruptions": Variant("interruptions", {"errors.kind": "interruptions"}),
    "overconnections": Variant("over-connections", {"errors.kind": "overconnections"}),
    "perturbations": Variant("perturbations", {"errors.kind": "perturbations"}),
    "doubled": Variant("doubled roads", {"errors.kind": "doubled"}),
    "doubled-truth": Variant("doubled roads in the truth", {"errors.kind": "doubled-truth"}),
    "far": Variant("far false roads", {"errors.kind": "far"}),
    "mixed": Variant("random mixtures", {"errors.kind": "mixed"}, headline=False),
    "given": Variant("maps as they are", {"errors.kind": "given"}, headline=False),
}


def _metrics() -> dict[str, Metric]:
    metrics = {name: Metric(label, digits=3) for name, label in NAMES.items()}
    for name, label in NAMES.items():
        parts = ("too_long", "too_short", "infeasible") if name == "tlts" else ("precision", "recall")
        for part in () if name == "apls" else parts:
            better = part in ("precision", "recall")
            metrics[f"{name}_{part}"] = Metric(f"{label} {part.replace('_', ' ')}", digits=3, higher_is_better=better)
        metrics[f"{name}_spread"] = Metric(f"{label} deviation", digits=3, higher_is_better=False)
    metrics["consistency"] = Metric("mean correlation of OPT-P, OPT-J, OPT-G", digits=3)
    metrics["consistency_old"] = Metric("mean correlation of the best three others", digits=3)
    metrics["tracks"] = Metric("least correlation of OPT-P, OPT-J, OPT-G with the number of mistakes", digits=3)
    metrics["tracks_old"] = Metric("greatest of the others'", digits=3)
    return metrics


METRICS = _metrics()

SETTINGS = Settings(
    ABOUT,
    Config,
    PRESETS,
    VARIANTS,
    METRICS,
    inputs=Inputs,
    embedded=(
        "Embedded: generated cities of 6 x 6 crossings with bent roads, and copies of them with many mistakes of one "
        "kind at a time. A score that stays near 1 in a row is not sensitive to that kind."
    ),
    minutes=0.2,
)
