"""Pictures of attacks: what they leave, what they changed, and who is fooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vergence.core.files import replacing
from vergence.data.images import fitted
from vergence.drawing.grid import Panel, grid
from vergence.robustness.patchwise.model import patch_map


@dataclass(frozen=True)
class Shown:
    """Pictures (N, C, H, W) before and after an attack, and by network its answers and whether they are right."""

    label: str
    images: Tensor
    changed: Tensor
    eps: float
    said: Mapping[str, Sequence[str]]
    right: Mapping[str, Sequence[bool]]

    def panels(self) -> list[Panel]:
        """For each picture: adversarial, change, patch map."""
        made = []
        for index, (image, changed) in enumerate(zip(self.images, self.changed, strict=True)):
            noise = changed - image
            answers = [
                f"{name}: {found[index]}{'' if self.right[name][index] else ' ×'}" for name, found in self.said.items()
            ]
            half = -(-len(answers) // 2)
            title = "\n".join([self.label, ", ".join(answers[:half]), ", ".join(answers[half:])])
            made += [
                Panel(fitted(_coloured(changed)), title),
                Panel(fitted(_coloured(0.5 + 0.5 * noise / self.eps)), "change"),
                Panel(fitted(_coloured(patch_map(noise, self.eps, full="white"))), "patch map"),
            ]
        return made


def attacked_grid(path: Path, shown: Sequence[Shown]) -> Path:
    """One row an attack (or a picture)."""
    return grid(path, [row.panels() for row in shown], side=2.3)


def _coloured(picture: Tensor) -> Tensor:
    """Three channels, in [0, 1] if it is a float."""
    picture = picture.expand(3, -1, -1)
    return picture if picture.dtype == torch.uint8 else picture.clamp(0, 1)


def transfer_grid(path: Path, found: Mapping[str, Mapping[str, float]]) -> Path:
    """By attack, cells named ``substitute > target`` with their success in per cent: a square of numbers each."""
    from matplotlib.figure import Figure

    columns = min(len(found), 3)
    rows = -(-len(found) // columns)
    tables = {label: _square(cells) for label, cells in found.items()}
    groups, targets, _ = next(iter(tables.values()))
    width, height = 1.1 + 0.62 * len(targets), 0.9 + 0.42 * len(groups)
    figure = Figure(figsize=(width * columns, height * rows), dpi=120, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for axis, (label, (groups, targets, values)) in zip(axes.flat, tables.items(), strict=False):
        axis.set_axis_on()
        axis.imshow(values, vmin=0, vmax=100, cmap="magma_r", aspect="auto")
        axis.set_xticks(range(len(targets)), targets, fontsize=7)
        axis.set_yticks(range(len(groups)), groups, fontsize=7)
        axis.set_title(label, fontsize=9)
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                axis.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=7,
                          color="white" if value > 40 else "black")  # fmt: skip
    with replacing(path) as partial:
        figure.savefig(partial, format="png")
    return path


def _square(cells: Mapping[str, float]) -> tuple[list[str], list[str], list[list[float]]]:
    pairs = {tuple(name.split(" > ")): value for name, value in cells.items() if " > " in name}
    groups = list(dict.fromkeys(group for group, _ in pairs))
    targets = list(dict.fromkeys(target for _, target in pairs))
    return groups, targets, [[pairs[group, target] for target in targets] for group in groups]
