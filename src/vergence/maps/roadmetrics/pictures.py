"""Pictures of the study: examples of mistakes, sensitivity of scores, rankings, and tracing of masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vergence.contract.inputs import Artifact
from vergence.core.seeding import derive
from vergence.drawing.figure import figure, saved
from vergence.maps import overlay
from vergence.maps.data import Pair, read_mask
from vergence.maps.graph import Floats, RoadGraph
from vergence.maps.metrics import Scores, aggregate, compare, correlation_matrix, rank_methods
from vergence.maps.raster import graph_of_mask
from vergence.maps.roadmetrics.settings import VARIANTS
from vergence.maps.settings import MISTAKES, NAMES, NEW, Errors, Measures
from vergence.maps.synth import ErrorInjector

DPI = 130
# Eight lines in one panel: distinguishable with any kind of colour vision, and by their dashes.
_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#888888", "#cc79a7", "#56b4e9", "#e69f00", "#333333")
_DASHES = ("-", "-", "-", "-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def of_study(folder: Path, graph: RoadGraph, errors: Errors, measures: Measures, seed: int) -> list[Artifact]:
    """Draws the sensitivity of every score to injected mistakes, and examples of these."""
    curves = sensitivity_picture(graph, errors, measures, seed, folder)
    examples = examples_picture(graph, errors, measures, seed, folder)
    return [
        Artifact("image", curves, "Every score against the number of mistakes of one kind (far false roads: their "
                 "share). A flat line means no sensitivity; lines of the three new scores are thick."),
        Artifact("image", examples, "Mistakes of each kind as detected by OPT-P and OPT-J: missed roads orange, "
                 "invented ones blue, circles where a junction or dead end differs."),
    ]  # fmt: skip


def of_given(folder: Path, first: Pair, results: Mapping[str, Sequence[Scores]]) -> list[Artifact]:
    """Draws the overlay of the first pair; with several methods, also their ranks."""
    overlaid = overlay.overlay(next(iter(results.values()))[0])
    png, _ = overlay.save_pictures(overlaid, folder / "overlay", f"{first.name} {first.method}".strip())
    artifacts = [Artifact("image", png, f"{first.name}: roads found, missed and invented, and junctions that differ.")]
    if len(results) > 1:
        caption = "Methods by every score with their ranks, and how scores correlate over maps and methods."
        artifacts.append(Artifact("image", ranking_picture(results, folder), caption))
    return artifacts


def sensitivity_picture(graph: RoadGraph, errors: Errors, measures: Measures, seed: int, folder: Path) -> Path:
    """One panel per kind of mistake, one line per score."""
    drawn = figure(12, 7, DPI)
    panels = drawn.subplots(2, 3, sharey=True).ravel()
    for axes, kind in zip(panels, MISTAKES, strict=True):
        many = errors.amounts(kind)[1]
        amounts = [share * many for share in (0.25, 0.5, 1.0)]
        amounts = [0.0, *(a if kind == "far" else float(round(a)) for a in amounts)]
        rows = [dict.fromkeys(NAMES, 1.0)]  # without mistakes every score is 1
        for amount in amounts[1:]:
            pair = ErrorInjector(errors).inject(kind, graph, amount, derive("mistakes", seed, 0))
            rows.append(compare(*pair, errors.quick(measures), seed).headline)
        for name, colour, dash in zip(NAMES, _COLOURS, _DASHES, strict=True):
            wide = 2.6 if name in NEW else 1.3
            axes.plot(amounts, [r[name] for r in rows], color=colour, ls=dash, lw=wide, label=NAMES[name])
        axes.set_title(VARIANTS[kind].label, fontsize=11)
        axes.set_ylim(0, 1.03)
        axes.grid(alpha=0.25)
        axes.set_xlabel("share of the roads" if kind == "far" else "number of mistakes")
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncol=8, frameon=False)
    return saved(drawn, folder / "sensitivity.png")


def examples_picture(graph: RoadGraph, errors: Errors, measures: Measures, seed: int, folder: Path) -> Path:
    """One panel per kind of mistake: the overlay of the two maps."""
    drawn = figure(12, 8.4, DPI)
    panels = drawn.subplots(2, 3).ravel()
    for axes, kind in zip(panels, MISTAKES, strict=True):
        pair = ErrorInjector(errors).inject(kind, graph, errors.amounts(kind)[0], derive("mistakes", seed, 0))
        scores = compare(*pair, errors.quick(measures), seed)
        overlay.draw(overlay.overlay(scores), axes, legend=False)
        line = ", ".join(f"{NAMES[m]} {scores.headline[m]:.2f}" for m in NEW)
        axes.set_title(f"{VARIANTS[kind].label}\n{line}", fontsize=10)
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncol=4, frameon=False)
    return saved(drawn, folder / "mistakes.png")


def ranking_picture(results: Mapping[str, Sequence[Scores]], folder: Path) -> Path:
    """Methods and scores as a table with ranks, and the correlations of scores over all maps and methods."""
    totals = {method: aggregate(scores).headline for method, scores in results.items()}
    ranks = rank_methods(results)
    table: dict[str, list[float]] = {
        name: [s.headline[name] for scores in results.values() for s in scores] for name in NAMES
    }
    drawn = figure(14, 1.6 + max(4.2, 0.5 * len(totals)), DPI)
    left, right = drawn.subplots(1, 2, width_ratios=(1.3, 1))
    values = np.array([[totals[method][name] for name in NAMES] for method in totals])
    place = np.array([[ranks[name].index(method) for name in NAMES] for method in totals])
    left.imshow(-place, cmap="Blues", aspect="auto", vmin=-1.5 * len(totals), vmax=0.7 * len(totals))
    texts = [[f"{v:.3f} ({r + 1})" for v, r in zip(*rows, strict=True)] for rows in zip(values, place, strict=True)]
    _annotate(left, values, list(totals), texts)
    left.set_title("score (rank)", fontsize=11)
    matrix = correlation_matrix(table)
    right.imshow(matrix, cmap="RdBu_r", vmin=-1.4, vmax=1.4)
    _annotate(right, matrix, list(NAMES.values()), [[f"{v:.2f}" for v in row] for row in matrix])
    right.set_title("rank correlation over maps and methods", fontsize=11)
    return saved(drawn, folder / "ranking.png")


def _annotate(axes: Any, values: Floats, rows: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    axes.set_xticks(range(values.shape[1]), list(NAMES.values()), fontsize=8)
    axes.set_yticks(range(values.shape[0]), rows, fontsize=8)
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            axes.text(j, i, text, ha="center", va="center", fontsize=7.5)


def conversion_picture(mask_path: Path, path: Path) -> Path:
    """Draws a mask, and the traced roads over it."""
    from matplotlib.collections import LineCollection

    mask = read_mask(mask_path)
    graph = graph_of_mask(mask)
    drawn = figure(11, 5.6, DPI)
    left, right = drawn.subplots(1, 2, sharex=True, sharey=True)
    left.imshow(mask, cmap="gray", vmin=0, vmax=1)
    left.set_title("mask", fontsize=11)
    right.imshow(mask, cmap="gray", vmin=0, vmax=3)
    right.add_collection(LineCollection(list(graph.points[graph.edges]), colors="#e69f00", linewidths=1.5))
    features = graph.points[graph.degrees != 2]
    if len(features):
        right.scatter(*np.asarray(features).T, s=14, color="#56b4e9", zorder=3)
    right.set_title(f"{len(graph)} edges, {graph.length:.0f} pixels of road", fontsize=11)
    for axes in (left, right):
        axes.set_axis_off()
    return saved(drawn, path)
