"""Comparison of a user's two maps, written as tables, drawings, an interactive map and GeoJSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.files import write_json, write_table
from vergence.data.images import SUFFIXES
from vergence.maps import overlay as drawing
from vergence.maps.data import Pair, in_pixels, read_map
from vergence.maps.metrics import compare
from vergence.maps.overlay import Overlay
from vergence.maps.roadmetrics.pictures import conversion_picture
from vergence.maps.roadmetrics.settings import METRICS, Config, Inputs
from vergence.maps.settings import NAMES, Measures

Ctx = Context[Config, NoFacts]
BYTES_PER_PIXEL = 400
"""Memory of the metrics for a pixel of road, as measured."""


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """A predicted map against the true one."""

    scores: Mapping[str, float]
    """All eight scores with their parts, by name: ``opt_p``, ``opt_p_precision``, ``tlts_too_long``."""
    overlay: Overlay
    """Lines of road in both maps, missed and invented ones, and junctions that differ, in pixels."""

    def lengths(self) -> dict[str, float]:
        """Length of missed and invented roads, in pixels."""
        return {f"{name}, pixels": drawing.length(self.overlay.lines[name]) for name in ("missed", "invented")}

    def summary(self) -> Mapping[str, Any]:
        return {label: self.scores[name] for name, label in NAMES.items()} | self.lengths()


def comparison(ctx: Ctx, inputs: Inputs) -> Comparison:
    """All eight metrics of a user's maps."""
    pair = Pair(inputs.truth.stem, read_map(inputs.truth), read_map(inputs.prediction))
    pair = in_pixels(pair, inputs.unit, inputs.metres_a_pixel)
    total = sum(float(graph.lengths.sum()) for graph in (pair.truth, pair.prediction) if graph is not None)
    ctx.need(BYTES_PER_PIXEL * total, f"comparing maps with {total:,.0f} pixels of road")
    scores = compare(pair.truth, pair.prediction, Measures(), ctx.config.seed)
    return Comparison(scores.values, drawing.overlay(scores))


def render(ctx: Ctx, inputs: Inputs, result: Comparison) -> Sequence[Artifact]:
    """Writes the scores as a table; the overlay as drawings, page and GeoJSON; and the tracing of masks."""
    title = f"{inputs.prediction.name} against {inputs.truth.name}"
    png, svg = drawing.save_pictures(result.overlay, ctx.folder / "overlay", title, inputs.image)
    rows = [(METRICS[name].label, f"{value:.3f}") for name, value in result.scores.items()]
    rows += [(label, f"{length:.0f}") for label, length in result.lengths().items()]
    page = drawing.save_page(result.overlay, ctx.folder / "map.html", title, rows)
    table = write_table(ctx.folder / "scores.csv", ("score", "value"), rows)
    mistakes = ctx.folder / "mistakes.geojson"
    write_json(mistakes, drawing.geojson(result.overlay))
    artifacts = [
        Artifact("table", table, "The eight scores with their parts."),
        Artifact("image", png, "Roads in both maps, missed and invented ones, and junctions that differ."),
        Artifact("image", svg, "The same as a vector drawing."),
        Artifact("html", page, "The same as an interactive map."),
        Artifact("json", mistakes, "Missed and invented roads and junctions that differ, as GeoJSON in pixels."),
    ]
    for role, path in (("truth", inputs.truth), ("prediction", inputs.prediction)):
        if path.suffix.lower() in SUFFIXES:
            picture = conversion_picture(path, ctx.folder / f"{role}-conversion.png")
            caption = f"{path.name}: the mask, and the roads that were traced in it."
            artifacts.append(Artifact("image", picture, caption))
    return artifacts
