"""Pictures of attacks: adversarial pictures, their changes, and transfer tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.config import override
from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.core.files import write_json
from vergence.data.images import fitted
from vergence.drawing.figure import figure, saved
from vergence.drawing.grid import Panel, grid
from vergence.robustness.attacks import logits_of
from vergence.robustness.classifiers import Zoo
from vergence.robustness.data import Squares
from vergence.robustness.patchwise.model import attack_of, patch_map
from vergence.robustness.patchwise.settings import SETTINGS, VARIANTS, Config, Facts

Ctx = Context[Config, Facts]


@dataclass(frozen=True)
class Shown:
    """Pictures (N, C, H, W) before and after an attack, and by network its predictions and whether they are right."""

    label: str
    images: Tensor
    changed: Tensor
    eps: float
    answers: Mapping[str, Sequence[str]]
    right: Mapping[str, Sequence[bool]]

    def panels(self) -> list[Panel]:
        """For each picture: adversarial, change, patch map."""
        panels = []
        for index, (image, changed) in enumerate(zip(self.images, self.changed, strict=True)):
            noise = changed - image
            answers = [
                f"{name}: {answer[index]}{'' if self.right[name][index] else ' ×'}"
                for name, answer in self.answers.items()
            ]
            title = "\n".join([self.label, *answers])
            panels += [
                Panel(fitted(_coloured(changed)), title),
                Panel(fitted(_coloured(0.5 + 0.5 * noise / self.eps)), "change"),
                Panel(fitted(_coloured(patch_map(noise, self.eps, full="white"))), "patch map"),
            ]
        return panels


def attacked_grid(path: Path, shown: Sequence[Shown]) -> Path:
    """Draws one row per attack (or per picture)."""
    return grid(path, [row.panels() for row in shown], side=2.3)


def _coloured(picture: Tensor) -> Tensor:
    """Three channels, in [0, 1] if it is a float."""
    picture = picture.expand(3, -1, -1)
    return picture if picture.dtype == torch.uint8 else picture.clamp(0, 1)


def transfer_grid(path: Path, by_attack: Mapping[str, Mapping[str, float]]) -> Path:
    """Draws one matrix per attack from cells named ``substitute > target`` with their success in per cent."""
    columns = min(len(by_attack), 3)
    rows = -(-len(by_attack) // columns)
    tables = {label: _square(cells) for label, cells in by_attack.items()}
    groups, targets, _ = next(iter(tables.values()))
    width, height = 1.1 + 0.62 * len(targets), 0.9 + 0.42 * len(groups)
    drawn = figure(width * columns, height * rows, dpi=120)
    axes = drawn.subplots(rows, columns, squeeze=False)
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
    return saved(drawn, path)


def _square(cells: Mapping[str, float]) -> tuple[list[str], list[str], list[list[float]]]:
    pairs = {tuple(name.split(" > ")): value for name, value in cells.items() if " > " in name}
    groups = list(dict.fromkeys(group for group, _ in pairs))
    targets = list(dict.fromkeys(target for _, target in pairs))
    return groups, targets, [[pairs[group, target] for target in targets] for group in groups]


# Pictures of a report -------------------------------------------------------------------------------------------------


def draw(ctx: Ctx, models: Mapping[str, Zoo], data: Squares) -> list[Artifact]:
    """Draws the whole transfer table, and the attacks on two held-out pictures."""
    artifacts: list[Artifact] = []
    measured = {v: cells for v, cells in ctx.measured.items() if any(" > " in cell for cell in cells)}
    if measured:
        squares = {SETTINGS.label(v): cells for v, cells in measured.items()}
        caption = (
            "Success (%) of an attack made with the network of a row on the network of a column, over all held-out "
            "pictures; the diagonal is white-box."
        )
        artifacts.append(Artifact("image", transfer_grid(ctx.folder / "transfer.png", squares), caption))
        write_json(ctx.folder / "transfer.json", _table(ctx, measured))
        artifacts.append(Artifact("json", ctx.folder / "transfer.json", "The same as a table."))
    if models:
        first = next(iter(models))
        truth = [data.data.classes[data[i][1]] for i in range(min(2, len(data)))]
        rows = [_shown(ctx, first, models[first], f"clean, truth: {' and '.join(truth)}", data, attacked=False)]
        rows += [_shown(ctx, variant, zoo, SETTINGS.label(variant), data) for variant, zoo in models.items()]
        caption = (
            "Two held-out pictures, clean and after each attack, the change (grey: none) and its patch map (Eq. 7; "
            "white: the whole budget), with the prediction of each network (×: wrong). The substitute is the network "
            "named first."
        )
        artifacts.append(Artifact("image", attacked_grid(ctx.folder / "attacked.png", rows), caption))
    return artifacts


def _shown(ctx: Ctx, variant: str, zoo: Zoo, label: str, data: Squares, attacked: bool = True) -> Shown:
    changes = VARIANTS[variant].changes if variant in VARIANTS else {}
    attack = attack_of(override(ctx.config, changes).attack)
    pairs = [data[i] for i in range(min(2, len(data)))]
    images = torch.stack([image for image, _ in pairs]).to(ctx.device)
    truth = torch.tensor([y for _, y in pairs], device=ctx.device)
    changed = attack(next(iter(zoo.values())), images, truth, ctx.generator) if attacked else images
    numbers = {name: logits_of(c, changed).argmax(1).tolist() for name, c in zoo.items()}
    answers = {name: [data.data.classes[i] for i in row] for name, row in numbers.items()}
    right = {name: [i == t for i, t in zip(row, truth.tolist(), strict=True)] for name, row in numbers.items()}
    return Shown(label, images.cpu(), changed.cpu(), attack.eps, answers, right)


def _table(ctx: Ctx, measured: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Rows of attack and substitute, one column per target."""
    cells = [name.split(" > ") for name in next(iter(measured.values())) if " > " in name]
    targets = list(dict.fromkeys(target for _, target in cells))
    rows = []
    for variant, by_cell in measured.items():
        for group in dict.fromkeys(name.split(" > ")[0] for name in by_cell if " > " in name):
            values = [by_cell.get(f"{group} > {target}") for target in targets]
            rows.append([SETTINGS.label(variant), group, *values])
    data, attack = ctx.config.data, ctx.config.attack
    title = (
        f"Success in % with a budget of {attack.eps:g}/255, on {data.source.partition(':')[0]} at {data.side} pixels"
    )
    return {"title": title, "columns": ["attack", "made with", *targets], "rows": rows}
