"""Pictures of classifiers: confusion matrices, and the samples that each one gets most right and most wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.drawing.figure import figure, saved
from vergence.drawing.grid import Panel, grid

SAMPLES = 256
"""Enough held-out samples for these pictures."""
CLASSES, NUMBERED = 20, 10
"""Largest number of classes that a matrix shows, and with numbers in its cells."""
EACH = 4
"""Best and worst samples of each classifier."""


def classified(
    folder: Path,
    scores: Mapping[str, Tensor],
    labels: Tensor,
    name: Callable[[int], str],
    picture: Callable[[int], Tensor],
) -> list[Artifact]:
    """Pictures of classifiers by name, from probabilities (N, K) of samples with ``labels`` (N,); ``picture(n)`` is
    sample n as (3, H, W)."""
    if not scores or not len(labels):
        return []
    return [_confusions(folder / "confusion.png", scores, labels, name),
            _examples(folder / "examples.png", scores, labels, name, picture)]  # fmt: skip


def confusion(answers: Tensor, labels: Tensor, count: int) -> Tensor:
    """How many per cent of each class (row) are taken for each class (column), (K, K); a class without samples has
    zeros."""
    pairs = torch.bincount(labels * count + answers, minlength=count * count).view(count, count).double()
    return 100 * pairs / pairs.sum(1, keepdim=True).clamp(min=1)


def _confusions(path: Path, scores: Mapping[str, Tensor], labels: Tensor, name: Callable[[int], str]) -> Artifact:
    count = next(iter(scores.values())).shape[1]
    matrices = {key: confusion(values.argmax(1), labels, count) for key, values in scores.items()}
    shown = _hardest(list(matrices.values()), labels, count)
    columns = min(len(matrices), 4)
    rows = -(-len(matrices) // columns)
    side = 1.5 + 0.28 * len(shown)
    drawn = figure(side * columns + 1.0, side * rows + 0.2)
    axes = drawn.subplots(rows, columns, squeeze=False)
    names = [_short(name(k)) for k in shown]
    for axis in axes.flat[len(matrices) :]:
        axis.set_axis_off()
    for number, (axis, (key, matrix)) in enumerate(zip(axes.flat, matrices.items(), strict=False)):
        values = matrix[shown][:, shown]
        drawing = axis.imshow(values.numpy(), vmin=0, vmax=100, cmap="Blues")
        axis.set_title(key, fontsize=9)
        axis.set_xticks(range(len(shown)), names, fontsize=7, rotation=45 if max(map(len, names)) > 3 else 0)
        axis.set_yticks(range(len(shown)), names if number % columns == 0 else [], fontsize=7)
        for (i, j), value in zip(torch.cartesian_prod(*[torch.arange(len(shown))] * 2).tolist(), values.flatten(),
                                 strict=True):  # fmt: skip
            if len(shown) <= NUMBERED:
                axis.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=7,
                          color="white" if value > 55 else "black")  # fmt: skip
    bar = drawn.colorbar(drawing, ax=axes, shrink=0.8)
    bar.set_label("% of the true class", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    some = f", for the {CLASSES} classes most often confused" if len(shown) < count else ""
    caption = f"Confusion on {len(labels)} held-out samples{some}: true classes down, answers across."
    return Artifact("image", saved(drawn, path), caption)


def _hardest(matrices: Sequence[Tensor], labels: Tensor, count: int) -> list[int]:
    """The classes to show: all, or those that are least often right."""
    if count <= CLASSES:
        return list(range(count))
    right = torch.stack([matrix.diagonal() for matrix in matrices]).mean(0)
    right[torch.bincount(labels, minlength=count) == 0] = torch.inf
    return sorted(right.argsort(stable=True)[:CLASSES].tolist())


def _examples(
    path: Path,
    scores: Mapping[str, Tensor],
    labels: Tensor,
    name: Callable[[int], str],
    picture: Callable[[int], Tensor],
) -> Artifact:
    rows = []
    each = min(EACH, len(labels) // 2) or 1
    for values in scores.values():
        order = values.gather(1, labels[:, None])[:, 0].argsort(descending=True, stable=True).tolist()
        row = []
        for n in [*order[:each], *order[-each:]]:
            share, answer = values[n].max(0)
            title = f"{_short(name(int(labels[n])))}\n→ {_short(name(int(answer)))} {share:.0%}"
            row.append(Panel(picture(n), title))
        rows.append(row)
    caption = (
        f"One row per variant: its {each} best and its {each} worst of {len(labels)} held-out samples, by the "
        "probability of the true class. Titles give the true class, and the answer with its probability."
    )
    return Artifact("image", grid(path, rows, 1.45, list(scores)), caption)


def _short(text: str, longest: int = 20) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
