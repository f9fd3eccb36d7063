"""Pictures of explanations: heat maps, sufficient sets, curves, and methods compared."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vergence.contract.config import override
from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.core.seeding import generator
from vergence.data.images import scaled
from vergence.drawing.figure import colours, figure, saved
from vergence.drawing.grid import Panel, grid
from vergence.drawing.maps import coloured
from vergence.robustness.blackbox import BlackBox, Subject, shade
from vergence.robustness.classifiers import Classifier
from vergence.robustness.deepcover.model import explained
from vergence.robustness.deepcover.settings import SETTINGS, VARIANTS, Config, Facts
from vergence.robustness.options import LABELS, Background
from vergence.robustness.planted import Planted

Ctx = Context[Config, Facts]
ACROSS = 6
"""Panels in a row of the report's pictures."""


@dataclass(frozen=True)
class Shown:
    """A picture with its explanations by several methods."""

    name: str
    picture: Tensor
    answer: str
    chance: float
    methods: tuple[str, ...]
    scores: Tensor
    masks: Tensor
    sizes: Sequence[float]
    seen: Sequence[float]


def heat(picture: Tensor, scores: Tensor) -> Tensor:
    """A picture (3, H, W) in grey under its importance, by rank: (3, H, W) in [0, 1]. Ranks, unlike values, mean the
    same for every method; the less important half stays clear."""
    grey = 0.75 * scaled(picture).mean(0, keepdim=True) + 0.1
    values = scores.double().flatten()
    order = values.sort().values
    share = (torch.searchsorted(order, values, right=True).double() / len(values)).view(scores.shape).float()
    share = torch.where(scores > order[0], share, 0)  # what has the lowest score is not important
    cover = ((share - 0.5) / 0.5).clamp(0, 1).unsqueeze(0)
    return grey * (1 - 0.8 * cover) + 0.8 * cover * scaled(coloured(share, 0.4, 1.0, "inferno"))


def explained_grid(path: Path, shown: Sequence[Shown], background: Background) -> Path:
    """For each picture a row of heat maps, and below it the pixels that are enough, as the classifier sees them."""
    columns = 1 + len(shown[0].methods)
    drawn = figure(2.6 * columns, 5.9 * len(shown), dpi=100)
    axes = drawn.subplots(2 * len(shown), columns, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for number, each in enumerate(shown):
        above, below = axes[2 * number], axes[2 * number + 1]
        _panel(above[0], each.picture, f"{_folded(each.answer)}, {each.chance:.0%}", bold=True)
        canvas = shade(scaled(each.picture), background)
        note = f"{each.name[-24:]}\n\nbelow each map: pixels that\nare enough for the answer,\nall others hidden"
        below[0].text(0.5, 0.6, note, ha="center", va="center", fontsize=9, transform=below[0].transAxes)
        for index, method in enumerate(each.methods):
            _panel(above[1 + index], heat(each.picture, each.scores[index]), LABELS[method])
            visible = torch.where(each.masks[index], scaled(each.picture), canvas)
            title = f"{100 * each.sizes[index]:.1f} % of the pixels:\n{_folded(each.answer)}, {each.seen[index]:.0%}"
            _panel(below[1 + index], visible, title)
    return saved(drawn, path)


def _panel(axis: object, picture: Tensor, title: str, bold: bool = False) -> None:
    pixels = scaled(picture).clamp(0, 1).permute(1, 2, 0).cpu().numpy()
    axis.imshow(pixels, interpolation="nearest")  # type: ignore[attr-defined]
    weight = "bold" if bold else "normal"
    axis.set_title(title, fontsize=10, fontweight=weight)  # type: ignore[attr-defined]


def _folded(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 24)[:2]) or text


def curve_figure(path: Path, methods: Sequence[str], inserted: Tensor, deleted: Tensor) -> Path:
    """Mean insertion and deletion curves, one line per method, from (N, M, points)."""
    drawn = figure(8.4, 3.4)
    shares = torch.linspace(0, 100, inserted.shape[-1])
    titles = ("insertion: pixels appear", "deletion: pixels are hidden")
    for axis, title, curves in zip(drawn.subplots(1, 2), titles, (inserted, deleted), strict=True):
        for colour, method, line in zip(colours(len(methods)), methods, curves.mean(0), strict=True):
            axis.plot(shares, line, color=colour, label=LABELS[method])
        axis.set(xlabel="% of the pixels, most important first", ylabel="probability of the answer", ylim=(0, 1.02))
        axis.set_title(title, fontsize=10)
    axis.legend(frameon=False, fontsize=8)
    return saved(drawn, path)


# Pictures of a report -------------------------------------------------------------------------------------------------


def draw(ctx: Ctx, models: Mapping[str, Classifier], data: Planted) -> list[Artifact]:
    """Draws heat maps of two held-out pictures by every variant, and how small and how well placed they are."""
    artifacts = []
    if models:
        path = grid(ctx.folder / "explanations.png", _rows(ctx, models, data), side=1.7)
        caption = (
            "Held-out pictures and what each variant says the answer rests on (the brighter, the more important; the "
            "frame is what was pasted)."
        )
        artifacts.append(Artifact("image", path, caption))
    measured = {name: row for name, row in ctx.measured.items() if {"iou", "size"} <= set(row)}
    if measured:
        path = _compared(ctx.folder / "methods.png", measured)
        artifacts.append(Artifact("image", path, "Placement and size of the explanations; the upper left is best."))
    return artifacts


def _rows(ctx: Ctx, models: Mapping[str, Classifier], data: Planted) -> list[list[Panel]]:
    first = next(iter(models.values()))
    rows: list[list[Panel]] = []
    for index in _chosen(ctx, first, data):
        image, label, region = data[index]
        name = data.classes[label] if 0 <= label < len(data.classes) else "picture"
        panels = [Panel(_framed(image, region), name)]
        for variant, model in models.items():
            changes = VARIANTS[variant].changes if variant in VARIANTS else {}
            settings = override(ctx.config, changes).explain
            subject = Subject.of(BlackBox(model, ctx.config.batch), image.to(ctx.device), settings.background)
            source = generator("pictures", index, device=ctx.device)
            scores = explained(subject, settings, source).scores.cpu()
            label_text = "\n".join(textwrap.wrap(SETTINGS.label(variant), 18))
            panels.append(Panel(_framed(heat(image, scores), region), label_text))
        rows += [panels[start : start + ACROSS] for start in range(0, len(panels), ACROSS)]
    return rows


def _chosen(ctx: Ctx, model: Classifier, data: Planted) -> list[int]:
    """Two pictures that the classifier gets right and whose region is known; the first two if there are none."""
    good = []
    for index in range(len(data)):
        image, label, region = data[index]
        if region.any() and int(model(image[None].to(ctx.device)).argmax()) == label:
            good.append(index)
        if len(good) == 2:
            break
    return good or list(range(min(2, len(data))))


def _framed(picture: Tensor, region: Tensor) -> Tensor:
    """A picture enlarged to four times its side (if it is small), with a frame around its region."""
    factor = 4 if picture.shape[-1] < 100 else 1
    large = scaled(picture).repeat_interleave(factor, -1).repeat_interleave(factor, -2).clone()
    if region.any():
        rows, columns = (region.any(axis).nonzero().flatten() for axis in (1, 0))
        top, bottom = factor * int(rows[0]), factor * (int(rows[-1]) + 1)
        left, right = factor * int(columns[0]), factor * (int(columns[-1]) + 1)
        inside = torch.zeros(large.shape[-2:], dtype=torch.bool)
        inside[max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2] = True
        inside[top:bottom, left:right] = False
        large[:, inside] = torch.tensor([0.2, 1.0, 0.4])[:, None]
    return large


def _compared(path: Path, measured: Mapping[str, Mapping[str, float]]) -> Path:
    drawn = figure(7.5, 5.0)
    axis = drawn.subplots()
    for colour, (name, row) in zip(colours(len(measured)), measured.items(), strict=True):
        axis.plot(row["size"], row["iou"], "o", color=colour)
        axis.annotate(SETTINGS.label(name), (row["size"], row["iou"]), (5, 3), textcoords="offset points", fontsize=8)
    axis.set_xscale("log")
    axis.set(xlabel="size of the sufficient set, % of the pixels", ylabel="IoU with what was pasted")
    return saved(drawn, path)
