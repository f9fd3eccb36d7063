"""Overlays of two maps: roads in both, missed and invented ones, and junctions that differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vergence.core.errors import VergenceError
from vergence.core.files import replacing, write_text
from vergence.data.images import read_image
from vergence.drawing.figure import figure, saved
from vergence.maps.graph import Floats, RoadGraph
from vergence.maps.metrics.scores import Scores
from vergence.maps.page import PAGE
from vergence.maps.roads import roads

# Distinguishable with any kind of colour vision, and in print by their width.
COLOURS = {"found": "#8a8f98", "missed": "#d55e00", "invented": "#0072b2", "junctions": "#a5007f"}
WIDTHS = {"found": 1.1, "missed": 2.2, "invented": 2.2}
LABELS = {
    "found": "in both maps",
    "missed": "missed: in the truth alone",
    "invented": "invented: in the prediction alone",
    "junctions": "junction or dead end that differs",
}


@dataclass(frozen=True, eq=False)
class Overlay:
    """Lines (N, 2) by found, missed and invented, and junctions that differ: x, y, roads in truth and prediction."""

    lines: dict[str, list[Floats]]
    junctions: list[tuple[float, float, int, int]]


def overlay(scores: Scores) -> Overlay:
    """The overlay of one pair by OPT-P and OPT-J. A piece of road is unmatched if it is so in most of the draws."""
    paths, junctions = scores.paths, scores.junctions
    if paths is None or junctions is None:
        raise VergenceError("only the scores of a single pair of maps can be drawn")
    missed, invented = paths.missed > 0.5, paths.invented > 0.5
    lines = {
        "found": strokes(paths.truth, ~missed),
        "missed": strokes(paths.truth, missed),
        "invented": strokes(paths.prediction, invented),
    }
    wrong = [(p.x, p.y, p.truth, p.prediction) for p in junctions.pairs if p.truth != p.prediction]
    return Overlay(lines, wrong)


def strokes(graph: RoadGraph, chosen: NDArray[np.bool_]) -> list[Floats]:
    """The chosen pieces of a graph, joined to long lines."""
    part = graph.without(~chosen).canonical
    return [part.points[nodes] for nodes, _ in roads(part)]


def length(lines: Sequence[Floats]) -> float:
    """Total length of lines."""
    return float(sum(np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in lines))


def draw(overlaid: Overlay, axes: Any, legend: bool = True) -> None:
    """Draws onto matplotlib axes; y grows downwards."""
    from matplotlib.collections import LineCollection

    for name, lines in overlaid.lines.items():
        axes.add_collection(
            LineCollection(lines, colors=COLOURS[name], linewidths=WIDTHS[name], label=LABELS[name], capstyle="round")
        )
    if overlaid.junctions:
        x, y = np.array([(j[0], j[1]) for j in overlaid.junctions]).T
        axes.scatter(x, y, s=16, facecolors="none", edgecolors=COLOURS["junctions"], linewidths=0.9, zorder=3,
                     label=LABELS["junctions"])  # fmt: skip
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.margins(0.02)
    if not axes.yaxis_inverted():
        axes.invert_yaxis()
    axes.set_axis_off()
    if legend:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, frameon=False, fontsize=9)


def save_pictures(overlaid: Overlay, stem: Path, title: str, background: Path | None = None) -> tuple[Path, Path]:
    """Writes ``stem.png`` and ``stem.svg``."""
    drawn = figure(9, 9, dpi=160)
    axes = drawn.subplots()
    if background is not None:
        axes.imshow(read_image(background).permute(1, 2, 0).numpy(), alpha=0.55)
    draw(overlaid, axes)
    axes.set_title(title, fontsize=11)
    png, svg = saved(drawn, stem.with_suffix(".png")), stem.with_suffix(".svg")
    with replacing(svg) as partial:
        drawn.savefig(partial, format="svg", metadata={"Date": None})
    return png, svg


def save_page(overlaid: Overlay, path: Path, title: str, rows: Sequence[tuple[str, str]]) -> Path:
    """Writes an interactive page: pan and zoom, layers to switch, and tooltips of junctions that differ."""
    layers = [
        {"name": name, "label": LABELS[name], "colour": COLOURS[name], "width": WIDTHS[name],
         "lines": [np.round(line, 1).tolist() for line in lines]}
        for name, lines in overlaid.lines.items()
    ]  # fmt: skip
    data = {
        "layers": layers,
        "junctions": [[round(x, 1), round(y, 1), a, b] for x, y, a, b in overlaid.junctions],
        "colour": COLOURS["junctions"],
        "label": LABELS["junctions"],
    }
    table = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    text = PAGE.replace("{{title}}", escape(title)).replace("{{rows}}", table)
    write_text(path, text.replace("{{data}}", json.dumps(data).replace("</", "<\\/")))
    return path


def geojson(overlaid: Overlay) -> dict[str, Any]:
    """Missed and invented roads and wrong junctions as GeoJSON, in pixels."""
    features = [
        {"type": "Feature", "properties": {"mistake": name},
         "geometry": {"type": "LineString", "coordinates": np.round(line, 3).tolist()}}
        for name in ("missed", "invented")
        for line in overlaid.lines[name]
    ]  # fmt: skip
    features += [
        {"type": "Feature", "properties": {"mistake": "junction", "roads_in_truth": a, "roads_in_prediction": b},
         "geometry": {"type": "Point", "coordinates": [round(x, 3), round(y, 3)]}}
        for x, y, a, b in overlaid.junctions
    ]  # fmt: skip
    return {"type": "FeatureCollection", "features": features}
