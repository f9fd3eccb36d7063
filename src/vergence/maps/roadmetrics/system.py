"""The eight measures as a system: maps are judged, mistakes are drawn, and measures are put to the test."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import tyro
from torch import nn

from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.inputs import Artifact, Graph, Image
from vergence.contract.settings import Metric, NoFacts, Variant
from vergence.contract.system import System
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import replacing, write_json
from vergence.core.seeding import derive
from vergence.data.images import SUFFIXES
from vergence.data.layouts import find
from vergence.maps import overlay as drawing
from vergence.maps.data import LAYOUTS, Pair, Unit, in_pixels, matched, read_map
from vergence.maps.metrics import NAMES, PARITY, Scores, Settings, aggregate, compare
from vergence.maps.roadmetrics import ABOUT
from vergence.maps.roadmetrics.claims import CLAIMS
from vergence.maps.roadmetrics.pictures import (
    conversion_picture,
    examples_picture,
    ranking_picture,
    sensitivity_picture,
)  # fmt: skip
from vergence.maps.roadmetrics.study import Errors, consistency_study, sensitivity
from vergence.maps.synth import FEW_AND_MANY, MISTAKES, city, crops

Window = tuple[float, float, float, float]


@dataclass(frozen=True)
class Maps:
    """What is compared."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = "embedded"
    """embedded, roadtracer:PATH (CITY.graph with CITY.METHOD.graph), maps:PATH (maps to put mistakes into), or a PATH
    to a folder with truth/ and prediction/."""
    truth: Annotated[str, tyro.conf.arg(aliases=["--truth"])] = ""
    """The true map, or a folder of them: .graph, .geojson, .graphml or a mask (.png)."""
    prediction: Annotated[str, tyro.conf.arg(aliases=["--prediction"])] = ""
    """The predicted map, or a folder of them with the same names."""
    method: str = ""
    """roadtracer: judge what this method predicted (if none is given, all of them)."""
    unit: Unit = "pixels"
    """What the files are in. Degrees are longitude and latitude."""
    metres_a_pixel: float = 0.6
    """metres, degrees: the size of a pixel. Published tolerances are for 60 cm."""
    window: Window | None = None
    """Compare only what is inside left, top, right, bottom, in pixels."""
    cities: int = 2
    """embedded and maps: how many cities (or crops of each map) to put mistakes into."""
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
        if self.window is not None and not (self.window[0] < self.window[2] and self.window[1] < self.window[3]):
            raise VergenceError(f"a window is left, top, right, bottom, got {self.window}")


@dataclass(frozen=True)
class Config:
    """Maps, measures and mistakes."""

    data: Maps = Maps()
    measures: Settings = Settings()
    choices: Literal["own", "parity"] = "own"
    """Where the paper leaves something open or its public code differs: what `measures` says, or as the public code."""
    errors: Errors = Errors()
    seed: int = 0
    """Decides everything random."""

    @property
    def settings(self) -> Settings:
        """Of the measures."""
        return parity(self.measures) if self.choices == "parity" else self.measures


Ctx = Context[Config, NoFacts]


@dataclass(frozen=True)
class Inputs:
    """Two maps of one place."""

    truth: Graph
    """The true map: .graph, .geojson, .graphml or a mask (.png)."""
    prediction: Graph
    """The predicted map."""
    image: Image | None = None
    """A picture to draw over; its pixels are the maps' units."""
    unit: Literal["pixels", "metres", "degrees"] = "pixels"
    """What the files are in."""
    metres_a_pixel: float = 0.6
    """metres, degrees: the size of a pixel."""


@dataclass(frozen=True)
class Prepared:
    """Pairs in pixels, cropped; or whole maps to put mistakes into."""

    data: Any
    settings: Maps
    seed: int

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Pair:
        pair = in_pixels(self.data[index], self.settings.unit, self.settings.metres_a_pixel)
        if self.settings.window is not None:
            inside = [g.inside(*self.settings.window) if g is not None else None for g in (pair.truth, pair.prediction)]
            pair = Pair(pair.name, cast(Any, inside[0]), inside[1], pair.method)
        return pair

    def study_maps(self) -> list[Pair]:
        """What to put mistakes into: cities as they are, crops of real maps."""
        found = []
        for index in range(len(self)):
            pair = self[index]
            if self.settings.source == "embedded":
                found.append(pair)
            else:
                parts = crops(pair.truth, self.settings.cities, self.settings.crop, self.seed)
                found += [Pair(f"{pair.name} {n}", part) for n, part in enumerate(parts, 1)]
        if not found:
            raise VergenceError("the maps hold no roads to put mistakes into")
        return found


def _metrics() -> dict[str, Metric]:
    found = {name: Metric(label, digits=3) for name, label in NAMES.items()}
    for name, label in NAMES.items():
        parts = ("too_long", "too_short", "infeasible") if name == "tlts" else ("precision", "recall")
        for part in () if name == "apls" else parts:
            better = part in ("precision", "recall")
            found[f"{name}_{part}"] = Metric(f"{label} {part.replace('_', ' ')}", digits=3, higher_is_better=better)
        found[f"{name}_spread"] = Metric(f"{label} deviation", digits=3, higher_is_better=False)
    found["consistency"] = Metric("mean correlation of OPT-P, OPT-J, OPT-G", digits=3)
    found["consistency_old"] = Metric("mean correlation of the best three others", digits=3)
    found["tracks"] = Metric("least correlation of OPT-P, OPT-J, OPT-G with the number of mistakes", digits=3)
    found["tracks_old"] = Metric("greatest of the others'", digits=3)
    return found


PRESETS = {
    "tiny": Config(),
    # Windows of 8192 pixels around the origin without a border of 260; 15 cities.
    "paper": Config(Maps("roadtracer:data", window=(-3836.0, -3836.0, 3836.0, 3836.0)), Settings()),
}


class RoadMetrics(System[Config, NoFacts]):
    about = ABOUT
    config_type, inputs_type = Config, Inputs
    presets = PRESETS
    variants = {
        "interruptions": Variant("interruptions", {"errors.kind": "interruptions"}),
        "overconnections": Variant("over-connections", {"errors.kind": "overconnections"}),
        "perturbations": Variant("perturbations", {"errors.kind": "perturbations"}),
        "doubled": Variant("doubled roads", {"errors.kind": "doubled"}),
        "doubled-truth": Variant("doubled roads in the truth", {"errors.kind": "doubled-truth"}),
        "far": Variant("far false roads", {"errors.kind": "far"}),
        "mixed": Variant("random mixtures", {"errors.kind": "mixed"}, headline=False),
        "given": Variant("maps as they are", {"errors.kind": "given"}, headline=False),
    }
    metrics = _metrics()
    embedded = (
        "Embedded: generated cities of 6 x 6 crossings with bent roads, and copies of them with many mistakes of one "
        "kind at a time. A score that stays near 1 in a row does not see that kind."
    )
    layouts = LAYOUTS
    claims = CLAIMS
    tiny_minutes = 0.2

    def data(self, ctx: Ctx, split: str) -> Prepared:
        settings = ctx.config.data
        if settings.truth:
            pairs: Any = matched(Path(settings.truth).expanduser(), Path(settings.prediction).expanduser())
            return Prepared(pairs, settings, ctx.config.seed)
        found = find(settings.source, self.layouts)
        if found is not None:
            pairs = found[0].read(found[1], split)
            return Prepared(pairs.of(settings.method) if settings.method else pairs, settings, ctx.config.seed)
        return Prepared(
            [_generated(ctx.config, number) for number in range(settings.cities)], settings, ctx.config.seed
        )

    def evaluate(self, ctx: Ctx, model: nn.Module | None, data: Data) -> Mapping[str, float]:
        config, maps = ctx.config, cast(Prepared, data)
        if config.errors.kind == "given":
            return aggregate([score for scores in _as_given(ctx, maps).values() for score in scores]).values
        graphs = [pair.truth for pair in maps.study_maps()]
        if config.errors.kind == "mixed":
            return consistency_study(graphs, config.errors, config.settings, config.seed, ctx.progress)
        return sensitivity(graphs, config.errors, config.settings, config.seed, ctx.progress)

    def predict(self, ctx: Ctx, model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        pair = Pair(inputs.truth.stem, read_map(inputs.truth), read_map(inputs.prediction))
        pair = in_pixels(pair, inputs.unit, inputs.metres_a_pixel)
        scores = compare(pair.truth, pair.prediction, Settings(), ctx.config.seed)
        found = drawing.overlay(scores)
        title = f"{inputs.prediction.name} against {inputs.truth.name}"
        png, svg = drawing.save_pictures(found, ctx.folder / "overlay", title, inputs.image)
        rows = [(self.metrics[name].label, f"{value:.3f}") for name, value in scores.values.items()]
        missed, invented = (drawing.length(found.lines[name]) for name in ("missed", "invented"))
        rows += [("missed, pixels", f"{missed:.0f}"), ("invented, pixels", f"{invented:.0f}")]
        page = drawing.save_page(found, ctx.folder / "map.html", title, rows)
        mistakes = ctx.folder / "mistakes.geojson"
        write_json(mistakes, drawing.geojson(found))
        made = [
            Artifact("table", _table(ctx.folder / "scores.csv", rows), "The eight scores with their parts."),
            Artifact("image", png, "Roads in both maps, missed and invented ones, and junctions that differ."),
            Artifact("image", svg, "The same as a drawing that can be scaled."),
            Artifact("html", page, "The same as a map to move about in."),
            Artifact("json", mistakes, "Missed and invented roads and junctions that differ, as GeoJSON in pixels."),
        ]
        for role in ("truth", "prediction"):
            path = getattr(inputs, role)
            if path.suffix.lower() in SUFFIXES:
                picture = conversion_picture(path, ctx.folder / f"{role}-conversion.png")
                made.append(Artifact("image", picture, f"{path.name}: the mask, and the roads that were traced in it."))
        return made

    def pictures(self, ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        """What the mistakes look like, and how every score answers to them."""
        maps = cast(Prepared, data)
        if ctx.config.errors.kind == "given" and maps[0].prediction is not None:
            return self._pictures_of_given(ctx, maps)
        graph = maps.study_maps()[0].truth
        examples = examples_picture(graph, ctx.config.errors, ctx.config.settings, ctx.config.seed, ctx.folder)
        curves = sensitivity_picture(graph, ctx.config.errors, ctx.config.settings, ctx.config.seed, ctx.folder)
        return [
            Artifact("image", curves, "Every score against the number of mistakes of one kind (far false roads: their "
                     "share). A flat line does not see them; lines of the three new scores are thick."),
            Artifact("image", examples, "Mistakes of each kind as OPT-P and OPT-J see them: missed roads orange, "
                     "invented ones blue, circles where a junction or dead end differs."),
        ]  # fmt: skip

    def _pictures_of_given(self, ctx: Ctx, maps: Prepared) -> Sequence[Artifact]:
        results = _as_given(ctx, maps)
        found = drawing.overlay(next(iter(results.values()))[0])
        pair = maps[0]
        png, _ = drawing.save_pictures(found, ctx.folder / "overlay", f"{pair.name} {pair.method}".strip())
        made = [Artifact("image", png, f"{pair.name}: roads found, missed and invented, and junctions that differ.")]
        if len(results) > 1:
            ranking = ranking_picture(results, ctx.folder)
            made.append(Artifact("image", ranking, "Methods by every score with their ranks, and how scores correlate "
                                 "over maps and methods."))  # fmt: skip
        return made


def parity(settings: Settings) -> Settings:
    """The public code's choices, with the number of draws kept."""
    return replace(
        PARITY,
        subgraphs=replace(PARITY.subgraphs, starts=settings.subgraphs.starts),
        trips=replace(PARITY.trips, pairs=settings.trips.pairs),
        repeats=settings.repeats,
    )


def _generated(config: Config, number: int) -> Pair:
    """A city; where a prediction is to be judged, one with a few mistakes of every kind."""
    seed = derive("city", config.seed, number)
    graph = city(seed, config.data.blocks)
    if config.errors.kind != "given":
        return Pair(f"city {number}", graph)
    return Pair(f"city {number}", *config.errors.mixed(graph, {m: FEW_AND_MANY[m][0] for m in MISTAKES}, seed))


def _as_given(ctx: Ctx, maps: Prepared) -> dict[str, list[Scores]]:
    """Scores by method, map by map."""
    found: dict[str, list[Scores]] = {}
    for index in ctx.progress.track(range(len(maps)), "maps"):
        if ctx.cancelled():
            raise Cancelled("cancelled")
        pair = maps[index]
        if pair.prediction is None:
            raise VergenceError(
                f"the map {pair.name!r} has no prediction to judge; --errors.kind puts mistakes into it"
            )
        scores = compare(pair.truth, pair.prediction, ctx.config.settings, ctx.config.seed)
        found.setdefault(pair.method, []).append(scores)
        if len(maps) > 1:
            ctx.progress.say(f"{pair.name} {pair.method}: {_told(scores)}")
    if len(found) > 1:
        for method, scores_of in found.items():
            ctx.progress.say(f"{method}, {len(scores_of)} maps: {_told(aggregate(scores_of))}")
    return found


def _told(scores: Scores) -> str:
    return ", ".join(f"{NAMES[name]} {value:.3f}" for name, value in scores.headline.items())


def _table(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("score", "value"), *rows])
    return path


SYSTEM = RoadMetrics()
