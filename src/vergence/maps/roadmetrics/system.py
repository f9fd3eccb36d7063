"""The eight metrics as a system: evaluation of maps, drawings of mistakes, and tests of the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vergence.contract.context import Context
from vergence.contract.data import EMBEDDED
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.seeding import derive
from vergence.data.layouts import read
from vergence.maps.data import LAYOUTS, Pair, Pairs, in_pixels, matched
from vergence.maps.metrics import Scores, aggregate, compare
from vergence.maps.roadmetrics import pictures, predict
from vergence.maps.roadmetrics.claims import CLAIMS
from vergence.maps.roadmetrics.predict import Comparison
from vergence.maps.roadmetrics.settings import SETTINGS, Config, Inputs, Maps
from vergence.maps.settings import FEW_AND_MANY, MISTAKES, NAMES
from vergence.maps.study import agreement_study, sensitivity
from vergence.maps.synth import ErrorInjector, city, crops

Ctx = Context[Config, NoFacts]


@dataclass(frozen=True)
class Prepared:
    """Pairs in pixels, cropped; or whole maps to inject mistakes into."""

    data: Pairs | list[Pair]
    settings: Maps
    seed: int

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Pair:
        pair = in_pixels(self.data[index], self.settings.unit, self.settings.metres_a_pixel)
        window = self.settings.window_of(pair.name)
        if window is None:
            return pair
        truth, prediction = pair.truth.inside(*window), pair.prediction and pair.prediction.inside(*window)
        if not truth and not prediction:
            raise VergenceError(
                f"the window {' '.join(f'{v:g}' for v in window)} holds no road of the map {pair.name!r}"
            )
        return replace(pair, truth=truth, prediction=prediction)

    def study_maps(self) -> list[Pair]:
        """Maps to inject mistakes into: whole cities, or crops of real maps."""
        maps = []
        for index in range(len(self)):
            pair = self[index]
            if self.settings.source == EMBEDDED:
                maps.append(pair)
            else:
                parts = crops(pair.truth, self.settings.cities, self.settings.crop, self.seed)
                maps += [Pair(f"{pair.name} {n}", part) for n, part in enumerate(parts, 1)]
        if not maps:
            raise VergenceError("the maps hold no roads to inject mistakes into")
        return maps


class RoadMetrics(System[Config, NoFacts, None, Prepared, Comparison]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Prepared:
        asked, seed = ctx.config.data, ctx.config.seed
        if asked.truth:
            return Prepared(matched(Path(asked.truth).expanduser(), Path(asked.prediction).expanduser()), asked, seed)
        cities = range(asked.cities)
        pairs = read(asked.source, self.layouts, split, embedded=lambda: [_generated(ctx.config, n) for n in cities])
        return Prepared(pairs.of(asked.method) if asked.method and isinstance(pairs, Pairs) else pairs, asked, seed)

    def evaluate(self, ctx: Ctx, model: None, data: Prepared) -> Mapping[str, float]:
        errors, measures, seed = ctx.config.errors, ctx.config.chosen_measures, ctx.config.seed
        if errors.kind == "given":
            return aggregate([score for scores in _as_given(ctx, data).values() for score in scores]).values
        graphs = [pair.truth for pair in data.study_maps()]
        if errors.kind == "mixed":
            return agreement_study(graphs, errors, measures, seed, ctx.progress)
        return sensitivity(graphs, errors.kind, errors, measures, seed, ctx.progress)

    def infer(self, ctx: Ctx, model: None, inputs: Inputs) -> Comparison:
        return predict.comparison(ctx, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Comparison) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, None], data: Prepared) -> Sequence[Artifact]:
        """Draws examples of mistakes and the sensitivity of every score; for given maps, the overlay."""
        if ctx.config.errors.kind == "given" and data[0].prediction is not None:
            return pictures.of_given(ctx.folder, data[0], _as_given(ctx, data))
        graph = data.study_maps()[0].truth
        return pictures.of_study(ctx.folder, graph, ctx.config.errors, ctx.config.chosen_measures, ctx.config.seed)


def _generated(config: Config, number: int) -> Pair:
    """A city; if predictions are evaluated, with a prediction that has a few mistakes of every kind."""
    seed = derive("city", config.seed, number)
    graph = city(seed, config.data.blocks)
    if config.errors.kind != "given":
        return Pair(f"city {number}", graph)
    counts = {mistake: FEW_AND_MANY[mistake][0] for mistake in MISTAKES}
    return Pair(f"city {number}", *ErrorInjector(config.errors).mixed(graph, counts, seed))


def _as_given(ctx: Ctx, maps: Prepared) -> dict[str, list[Scores]]:
    """Scores by method, one per map."""
    by_method: dict[str, list[Scores]] = {}
    for index in ctx.progress.track(range(len(maps)), "maps"):
        if ctx.cancelled():
            raise Cancelled("cancelled")
        pair = maps[index]
        if pair.prediction is None:
            raise VergenceError(
                f"the map {pair.name!r} has no prediction to evaluate; --errors.kind injects mistakes into it"
            )
        scores = compare(pair.truth, pair.prediction, ctx.config.chosen_measures, ctx.config.seed)
        by_method.setdefault(pair.method, []).append(scores)
        if len(maps) > 1:
            ctx.progress.say(f"{pair.name} {pair.method}: {_headline(scores)}")
    if len(by_method) > 1:
        for method, every in by_method.items():
            ctx.progress.say(f"{method}, {len(every)} maps: {_headline(aggregate(every))}")
    return by_method


def _headline(scores: Scores) -> str:
    return ", ".join(f"{NAMES[name]} {value:.3f}" for name, value in scores.headline.items())


SYSTEM = RoadMetrics()
