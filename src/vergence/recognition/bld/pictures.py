"""Pictures for reports: the accuracy on every task after every task, what it cost, and the stream itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.drawing.figure import BLUE, GREY, ORANGE, colours, figure, saved
from vergence.drawing.grid import Panel, grid
from vergence.recognition.bld.settings import Config, Facts
from vergence.recognition.streams import ClassStream

Ctx = Context[Config, Facts]
MOST = 12
"""Tasks of a matrix that has numbers in its cells."""


def cells(history: Sequence[Sequence[float]]) -> dict[str, float]:
    """The accuracy on each task after each task as metrics: ``after2_task1``."""
    return {
        f"after{len(row)}_task{task}": value for row in history for task, value in enumerate(row, 1)
    }  # a row is as long as the number of tasks that had begun


def matrix(measured: Mapping[str, float]) -> np.ndarray:
    """The metrics of :func:`cells` as a matrix, one row per task that was learnt; NaN above the diagonal."""
    places = {}
    for name, value in measured.items():
        if name.startswith("after"):
            after, _, task = name.removeprefix("after").partition("_task")
            places[int(after) - 1, int(task) - 1] = value
    rows = sorted({row for row, _ in places})
    whole = np.full((len(rows), 1 + max((column for _, column in places), default=-1)), math.nan)
    for (row, column), value in places.items():
        whole[rows.index(row), column] = value
    return whole


def drawn(ctx: Ctx, labels: Mapping[str, str], data: ClassStream) -> list[Artifact]:
    """Matrices, curves, memory and examples of the stream."""
    matrices = {label: matrix(ctx.measured.get(name, {})) for name, label in labels.items()}
    matrices = {label: values for label, values in matrices.items() if len(values)}
    made = [_stream(ctx.folder / "stream.png", data)]
    if any(len(values) > 1 for values in matrices.values()):
        made = [
            _matrices(ctx.folder / "matrix.png", matrices),
            _over_time(ctx.folder / "tasks.png", matrices),
            *made,
        ]
    if len(labels) > 1:
        made.append(_memory(ctx.folder / "memory.png", {labels[n]: ctx.measured.get(n, {}) for n in labels}))
    return made


def show_matrix(axis: Axes, values: np.ndarray, size: float = 8) -> Any:
    """One matrix of accuracies: tasks learnt so far down, the task tested across."""
    image = axis.imshow(values, vmin=50, vmax=100, cmap="viridis", aspect="equal")
    tasks = values.shape[1]
    axis.set_xticks(range(tasks), [str(task + 1) for task in range(tasks)], fontsize=size)
    axis.set_yticks(
        range(len(values)), [str(tasks - len(values) + row + 1) for row in range(len(values))], fontsize=size
    )
    if tasks <= MOST:
        for (row, column), value in np.ndenumerate(values):
            if not math.isnan(value):
                colour = "black" if value > 80 else "white"
                axis.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=size, color=colour)
    return image


def _matrices(path: Path, matrices: Mapping[str, np.ndarray]) -> Artifact:
    columns = min(len(matrices), 4)
    rows = -(-len(matrices) // columns)
    picture = figure(2.5 * columns + 0.8, 2.7 * rows)
    axes = picture.subplots(rows, columns, squeeze=False)
    for axis in axes.flat[len(matrices) :]:
        axis.set_axis_off()
    for axis, (label, values) in zip(axes.flat, matrices.items(), strict=False):
        image = show_matrix(axis, values)
        axis.set_title(_wrapped(label), fontsize=9)
        axis.set_xlabel("tested on task", fontsize=8)
        axis.set_ylabel("after task", fontsize=8)
    picture.colorbar(image, ax=axes, shrink=0.7).set_label("accuracy, %", fontsize=8)
    return Artifact("image", saved(picture, path), "Accuracy in per cent on every task after each task of the stream.")


def _over_time(path: Path, matrices: Mapping[str, np.ndarray]) -> Artifact:
    tasks = max(values.shape[1] for values in matrices.values())
    several = {label: values for label, values in matrices.items() if len(values) > 1}
    picture = figure(min(2.1 * tasks, 14), 3.0)
    axes = picture.subplots(1, tasks, sharey=True, squeeze=False)[0]
    for task, axis in enumerate(axes):
        for colour, (label, values) in zip(colours(len(several)), several.items(), strict=True):
            times = range(task, len(values))
            axis.plot(
                [t + 1 for t in times], values[task:, task], "o-", color=colour, markersize=3, label=_wrapped(label)
            )
        axis.set_title(f"task {task + 1}", fontsize=9)
        axis.set_xlim(0.7, tasks + 0.3)
        axis.set_xlabel("tasks learnt", fontsize=8)
        axis.tick_params(labelsize=7)
    axes[0].set_ylabel("accuracy, %", fontsize=8)
    picture.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return Artifact("image", saved(picture, path), "Accuracy on each task while the stream goes on.")


def _memory(path: Path, measured: Mapping[str, Mapping[str, float]]) -> Artifact:
    names = list(measured)
    picture = figure(7.5, 0.8 + 0.42 * len(names))
    left, right = picture.subplots(1, 2, sharey=True)
    places = np.arange(len(names))
    for name, colour, shift in (("held", BLUE, -0.2), ("kept", ORANGE, 0.2)):
        values = [measured[label].get(name, 0.0) for label in names]
        left.barh(
            places + shift, values, 0.38, color=colour, label=f"{name} {'in' if name == 'held' else 'between'} batches"
        )
    left.set_xscale("symlog", linthresh=0.1)
    left.set_yticks(places, [_wrapped(name) for name in names], fontsize=8)
    left.invert_yaxis()
    left.set_xlabel("kB beyond the weights", fontsize=8)
    left.legend(fontsize=7, frameon=False)
    right.barh(places, [measured[label].get("forgetting", math.nan) for label in names], 0.6, color=GREY)
    right.set_xlabel("forgetting, % (joint training has none)", fontsize=8)
    for axis in (left, right):
        axis.tick_params(labelsize=8)
    caption = (
        "Memory that each method holds within a batch and keeps between batches, as measured, and what it forgets."
    )
    return Artifact("image", saved(picture, path), caption)


def _stream(path: Path, data: ClassStream, each: int = 8) -> Artifact:
    rows, names = [], []
    for task, classes in enumerate(data.tasks):
        own = [
            index for index in range(len(data)) if data.homes[int(data.data.labels[int(data.places[index])])][0] == task
        ]
        chosen = [own[i * len(own) // each] for i in range(each)] if len(own) >= each else own
        if chosen:
            rows.append([Panel(data[i]["image"], data.data.classes[classes[data[i]["label"]]]) for i in chosen])
            names.append(f"task {task + 1}")
    return Artifact(
        "image", grid(path, rows[:10], 1.0, names[:10]), "Held-out pictures of each task, with their classes."
    )


def _wrapped(label: str) -> str:
    return label.replace(" (", "\n(")
