"""Pictures of gradient leaking: curves, gradients and their parts, components, and the trained variants together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import First
from vergence.contract.inputs import Artifact
from vergence.drawing.figure import GREY, colours, figure, saved
from vergence.drawing.grid import Panel, grid
from vergence.robustness.gradleak.model import Network, diagnose
from vergence.robustness.gradleak.settings import SETTINGS, Config, Facts
from vergence.robustness.minimal import DeepFool
from vergence.robustness.whitebox import UNIT

if TYPE_CHECKING:
    from vergence.robustness.gradleak.predict import Diagnosis

Ctx = Context[Config, Facts]
LITTLE = 0.1
"""Shares below this are drawn on a logarithmic axis."""
EXAMPLES = 60
"""Held-out pictures behind the curves of a report."""


@dataclass(frozen=True)
class Line:
    """Curves of one classifier over the number of components, (rank,) each."""

    name: str
    gradients: Tensor
    changes: Tensor
    images: Tensor
    dimensions: int


def leak_figure(path: Path, lines: Sequence[Line], sizes: Sequence[Tensor] = ()) -> Path:
    """Draws the curves of all classifiers, and if known the sizes of their perturbations beside them."""
    known = [each[each.isfinite() & (each > 0)] for each in sizes]
    both = any(len(each) for each in known)
    drawn = figure(9.6 if both else 5.6, 3.9)
    axes = drawn.subplots(1, 2, squeeze=False, width_ratios=(1.5, 1))[0] if both else [drawn.subplots()]
    curves = axes[0]
    for line, colour in zip(lines, colours(len(lines)), strict=True):
        d = torch.arange(1, len(line.gradients) + 1)
        curves.plot(d, line.gradients, color=colour, label=line.name)
        if not line.changes.isnan().all():
            curves.plot(d, line.changes, color=colour, linestyle="--", linewidth=1)
    seen: set[int] = set()
    for line in lines:
        if line.dimensions not in seen:
            d = torch.arange(1, len(line.gradients) + 1)
            first = not seen
            curves.plot(d, line.images, color=GREY, linewidth=1, label="pictures" if first else None)
            curves.plot(d, d / line.dimensions, color=GREY, linestyle=":", label="by chance" if first else None)
            seen.add(line.dimensions)
    little = max(float(line.gradients[-1]) for line in lines) < LITTLE
    _logarithmic(curves.xaxis, 1, max(len(line.gradients) for line in lines))
    if little:
        least = min(float(values[values > 0].min()) for line in lines for values in (line.gradients, line.images))
        _logarithmic(curves.yaxis, max(least, 1e-9), 1)
        curves.set_ylim(max(least, 1e-9) / 2, 2)
    else:
        curves.set_ylim(0, 1.02)
    curves.set_xlabel("d, principal components")
    curves.set_ylabel("share inside them")
    curves.set_title("gradients (solid), perturbations (dashed)", fontsize=9)
    curves.legend(fontsize=8, loc="center left" if little else "best")
    if both:
        _dots(axes[1], [line.name for line in lines], known)
    return saved(drawn, path)


def _logarithmic(axis: Any, low: float, high: float) -> None:
    """Powers of ten as plain numbers: Matplotlib's own formatter takes longer than the rest of the figure."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(max(high, 10 * low))) + 1)
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_ticks([10.0**power for power in powers], [f"{10.0**power:g}" for power in powers])
    axis.set_ticks([], minor=True)


def _dots(axis: Any, names: Sequence[str], sizes: Sequence[Tensor]) -> None:
    filled = [(name, each, colour) for name, each, colour in zip(names, sizes, colours(len(names)), strict=True)
              if len(each)]  # fmt: skip
    for place, (_, each, colour) in enumerate(filled, 1):
        # Side by side in the order of their size, so that equal ones stay apart.
        across = place + torch.linspace(-0.3, 0.3, len(each)) if len(each) > 1 else torch.tensor([float(place)])
        axis.scatter(across, each.sort().values, s=14, color=colour, alpha=0.7, linewidths=0)
        axis.hlines(each.median(), place - 0.4, place + 0.4, color="black", linewidth=1.5)
    axis.set_xlim(0.4, len(filled) + 0.6)
    axis.set_xticks(range(1, len(filled) + 1), [name for name, _, _ in filled], fontsize=7, rotation=20, ha="right")
    axis.set_ylim(bottom=0)
    axis.set_title("L2 norms of perturbations, and their median", fontsize=9)


def signed(values: Tensor) -> Tensor:
    """A gradient (C, H, W) as a picture around grey, in the range that holds all but its largest values."""
    top = values.abs().flatten().sort().values[int(0.995 * (values.numel() - 1))].clamp(min=1e-30)
    return (0.5 + 0.5 * values / top).clamp(0, 1).expand(3, -1, -1)


def gradient_grid(path: Path, result: Diagnosis) -> Path:
    """One row per classifier and picture: the picture, the gradient, its part in the components, the perturbation."""
    rows, labels = [], []
    each = max(4 // len(result.classifiers), 1)
    for k, name in enumerate(result.classifiers):
        for i in range(min(each, len(result.pictures[k]))):
            alpha, size = float(result.curves[k][i, -1]), float(result.sizes[k][i])
            row = [
                Panel(result.pictures[k][i].expand(3, -1, -1), _short(result.answers[k][i])),
                Panel(signed(result.gradients[k][i]), "gradient"),
                Panel(signed(result.inside[k][i]), f"in the components: {100 * alpha:.2g} %"),
            ]
            if size < float("inf"):
                row.append(Panel(signed(result.changes[k][i]), f"perturbation, L2 {size:.3g}"))
                changed = (result.pictures[k][i] + result.changes[k][i]).clamp(0, 1)
                row.append(Panel(changed.expand(3, -1, -1), _short(result.after[k][i])))
            rows.append(row)
            labels.append(name)
    return grid(path, rows, side=2.1, labels=labels)


def component_grid(path: Path, result: Diagnosis) -> Path:
    """The leading components of each classifier's basis; those of equal size are drawn once."""
    rows, labels, seen = [], [], set()
    for k, name in enumerate(result.classifiers):
        key = (result.bases[k], result.dimensions[k])
        if key in seen:
            continue
        seen.add(key)
        panels = [Panel(signed(part), str(d)) for d, part in enumerate(result.components[k], 1)]
        rows += [panels[start : start + 6] for start in range(0, len(panels), 6)]
        labels += [name] + [""] * ((len(panels) - 1) // 6)
    return grid(path, rows, side=1.5, labels=labels)


def _short(text: str, longest: int = 26) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


# Pictures of a report -------------------------------------------------------------------------------------------------


def draw(ctx: Ctx, models: Mapping[str, Network], data: Any) -> list[Artifact]:
    """Curves of all variants on held-out pictures, their gradients at two pictures, and ᾱ while they were trained."""
    some = First(data, EXAMPLES)
    images = torch.stack([some[i][0] for i in range(len(some))]).to(ctx.device)
    labels = torch.tensor([some[i][1] for i in range(len(some))], device=ctx.device)
    bounds = UNIT if ctx.config.data.pictures else None
    lines, sizes, rows = [], [], []
    names = [SETTINGS.label(variant) for variant in models]
    for name, model in zip(names, models.values(), strict=True):
        basis = model.stored.basis()
        leak = diagnose(model, images, basis, labels, DeepFool(bounds=bounds), bounds=bounds)
        centred = images.flatten(1) - basis.mean
        inside = (centred @ basis.vectors).square().sum(0).cumsum(0) / centred.square().sum()
        lines.append(Line(name, leak.mean_curve.cpu(), leak.mean_change_curve.cpu(), inside.cpu(), basis.dimensions))
        sizes.append(torch.where(leak.right, leak.sizes, torch.nan).cpu())
        rows.append([signed(gradient.cpu()) for gradient in leak.gradients[:5]])
    caption = (
        "Share of gradients, perturbations (DeepFool) and pictures in the first d principal components, mean over "
        f"{len(images)} held-out pictures; and the L2 norms of the perturbations of those classified correctly."
    )
    artifacts = [Artifact("image", leak_figure(ctx.folder / "leak.png", lines, sizes), caption)]
    if ctx.config.data.pictures:
        first = [Panel(image.cpu().expand(3, -1, -1), data.classes[int(label)])
                 for image, label in zip(images[:5], labels[:5], strict=True)]  # fmt: skip
        panels = [first, *([Panel(picture) for picture in row] for row in rows)]
        drawn = grid(ctx.folder / "gradients.png", panels, side=1.5, labels=["", *names])
        artifacts.append(Artifact("image", drawn, "Gradients of the loss at held-out pictures, each in its own range."))
    return artifacts
