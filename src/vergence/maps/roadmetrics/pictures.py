"""Pictures of the study: what mistakes look like, how scores answer, and how masks become maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vergence.core.files import replacing
from vergence.core.seeding import derive
from vergence.maps import overlay
from vergence.maps.data import read_mask
from vergence.maps.graph import Floats, RoadGraph
from vergence.maps.metrics import NAMES, NEW, Scores, Settings, aggregate, compare, correlation_matrix, rank_methods
from vergence.maps.raster import graph_of_mask
from vergence.maps.roadmetrics.study import Errors
from vergence.maps.synth import MISTAKES, Mistake

TITLES: dict[Mistake, str] = {
    "interruptions": "interruptions", "overconnections": "over-connections", "perturbations": "perturbations",
    "doubled": "doubled roads", "doubled-truth": "doubled roads in the truth", "far": "far false roads",
}  # fmt: skip
_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#888888", "#cc79a7", "#56b4e9", "#e69f00", "#333333")
_DASHES = ("-", "-", "-", "-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def _save(figure: Any, path: Path, dpi: int = 130) -> Path:
    with replacing(path) as partial:
        figure.savefig(partial, format="png", dpi=dpi)
    return path


def sensitivity_picture(graph: RoadGraph, errors: Errors, settings: Settings, seed: int, folder: Path) -> Path:
    """A panel a kind of mistake, a line a score."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), layout="constrained")
    panels = figure.subplots(2, 3, sharey=True).ravel()
    for axes, kind in zip(panels, MISTAKES, strict=True):
        many = errors.amounts(kind)[1]
        amounts = [share * many for share in (0.25, 0.5, 1.0)]
        amounts = [0.0, *(a if kind == "far" else float(round(a)) for a in amounts)]
        rows = [dict.fromkeys(NAMES, 1.0)]  # without mistakes every score is 1
        for amount in amounts[1:]:
            pair = errors.inject(kind, graph, amount, derive("mistakes", seed, 0))
            rows.append(compare(*pair, errors.quick(settings), seed).headline)
        for name, colour, dash in zip(NAMES, _COLOURS, _DASHES, strict=True):
            wide = 2.6 if name in NEW else 1.3
            axes.plot(amounts, [r[name] for r in rows], color=colour, ls=dash, lw=wide, label=NAMES[name])
        axes.set_title(TITLES[kind], fontsize=11)
        axes.set_ylim(0, 1.03)
        axes.grid(alpha=0.25)
        axes.set_xlabel("share of the roads" if kind == "far" else "how many")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncol=8, frameon=False)
    return _save(figure, folder / "sensitivity.png")


def examples_picture(graph: RoadGraph, errors: Errors, settings: Settings, seed: int, folder: Path) -> Path:
    """A panel a kind of mistake: the two maps laid over one another."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8.4), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    for axes, kind in zip(panels, MISTAKES, strict=True):
        truth, prediction = errors.inject(kind, graph, errors.amounts(kind)[0], derive("mistakes", seed, 0))
        scores = compare(truth, prediction, errors.quick(settings), seed)
        overlay.draw(overlay.overlay(scores), axes, legend=False)
        line = ", ".join(f"{NAMES[m]} {scores.headline[m]:.2f}" for m in NEW)
        axes.set_title(f"{TITLES[kind]}\n{line}", fontsize=10)
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncol=4, frameon=False)
    return _save(figure, folder / "mistakes.png")


def ranking_picture(results: Mapping[str, Sequence[Scores]], folder: Path) -> Path:
    """Methods and scores as a table with ranks, and the correlations of scores over all maps and methods."""
    from matplotlib.figure import Figure

    totals = {method: aggregate(scores).headline for method, scores in results.items()}
    ranks = rank_methods(results)
    table: dict[str, list[float]] = {
        name: [s.headline[name] for scores in results.values() for s in scores] for name in NAMES
    }
    figure = Figure(figsize=(14, 1.6 + max(4.2, 0.5 * len(totals))), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
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
    return _save(figure, folder / "ranking.png")


def _annotate(axes: Any, values: Floats, rows: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    axes.set_xticks(range(values.shape[1]), list(NAMES.values()), fontsize=8)
    axes.set_yticks(range(values.shape[0]), rows, fontsize=8)
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            axes.text(j, i, text, ha="center", va="center", fontsize=7.5)


def conversion_picture(mask_path: Path, path: Path) -> Path:
    """A mask, and the roads traced in it over the mask."""
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    mask = read_mask(mask_path)
    graph = graph_of_mask(mask)
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
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
    return _save(figure, path)
