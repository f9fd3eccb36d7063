"""Pictures for reports: accuracy of the trained networks as clouds get worse, and part labels side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Spread
from vergence.contract.inputs import Artifact
from vergence.core.seeding import generator
from vergence.drawing.figure import colours, figure, saved
from vergence.points.labelled import objects_picture
from vergence.points.orderlydisorder.model import Network
from vergence.points.orderlydisorder.predict import COLOURS, decomposed
from vergence.points.orderlydisorder.settings import Config
from vergence.points.shapedata import Disturb, Disturbed, noisy, thinned, tilted, uneven
from vergence.points.shapes import ShapeFacts

Ctx = Context[Config, ShapeFacts]
Classify = Callable[[Any, Any, Any], tuple[Tensor, Tensor, float | None]]
SHAPES = 160
"""Objects that a point of a curve is measured on, at most."""
CURVES: dict[str, tuple[Callable[[float], Disturb], Sequence[float]]] = {
    "noise σ, radii": (noisy, (0.0, 0.02, 0.05, 0.08, 0.1, 0.15)),
    "share of points kept": (thinned, (1.0, 0.5, 0.25, 0.125, 0.0625)),
    "uneven density, exp(s x)": (uneven, (0.0, 2.0, 4.0, 6.0)),
    "tilt, degrees": (tilted, (0.0, 15.0, 30.0, 60.0, 90.0)),
}


def robustness(ctx: Ctx, models: Mapping[str, Network], data: Any, classify: Classify) -> Sequence[Artifact]:
    """Accuracy of each network over the strength of each disturbance, and three objects under all of them."""
    some = Spread(data, SHAPES)
    drawn = figure(12.0, 3.8)
    for axis, (title, (kind, strengths)) in zip(drawn.subplots(1, 4, sharey=True), CURVES.items(), strict=True):
        shades = colours(len(models))
        for number, (name, model) in enumerate(models.items()):
            worse = [Disturbed(some, kind(strength), f"{title} {strength}") for strength in strengths]
            scores = [100 * float(classify(ctx, model, clouds)[0].mean()) for clouds in worse]
            style = "-" if number < 6 else "--"  # colours repeat
            width = 2.2 if number == 0 else 1.2
            axis.plot(strengths, scores, f"o{style}", color=shades[number], label=name, markersize=3, linewidth=width)
        axis.set(xlabel=title, ylim=(0, 103))
        if title.startswith("share"):
            axis.set_xscale("log", base=2)
            axis.set_xticks(strengths, ["1", "½", "¼", "⅛", "1/16"])
            axis.invert_xaxis()
        axis.grid(alpha=0.25)
    drawn.axes[0].set_ylabel("accuracy, %")
    lines = drawn.axes[0].get_legend_handles_labels()
    drawn.legend(*lines, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    curves = saved(drawn, ctx.folder / "robustness.png")
    return [
        Artifact("image", curves, f"Accuracy on {len(some)} disturbed test objects; training was on clean ones."),
        Artifact("image", _disturbed(ctx, data), "Test objects, clean and disturbed as in the tables."),
    ]


def _disturbed(ctx: Ctx, data: Any) -> Any:
    kinds = {"clean": noisy(0.0), "σ = 0.05": noisy(0.05), "σ = 0.1": noisy(0.1), "¼ of points": thinned(0.25),
             "density": uneven(4.0), "any rotation": tilted(180)}  # fmt: skip
    rows = []
    for index in (7, 0, 6):
        points = data[index % len(data)]["points"]
        clouds = {name: disturb(points, generator("shown", index, name)) for name, disturb in kinds.items()}
        views = [(name, cloud, torch.zeros(len(cloud), dtype=torch.long)) for name, cloud in clouds.items()]
        rows.append((views, ()))
    return objects_picture(ctx.folder / "disturbed.png", rows, COLOURS)


def parts(ctx: Ctx, models: Mapping[str, Network], data: Any) -> Sequence[Artifact]:
    """Parts of three objects: ground truth, and each network's."""
    rows = []
    for index in (4, 7, 0):
        sample = data[index % len(data)]
        points, label = sample["points"], int(sample["label"])
        first, count = ctx.facts.first_parts[label], ctx.facts.parts[label]
        names = [ctx.facts.part_name(first + number) for number in range(count)]
        row = [("ground truth", points, sample["parts"] - first)]
        for name, model in models.items():
            category = torch.tensor([label], device=ctx.device)
            out = decomposed(model, ctx.to_device(points[None]), category, ctx.generator)["logits"]
            row.append((name, points, out[0, :, first : first + count].argmax(1).cpu()))
        rows.append((row, names))
    shown = objects_picture(ctx.folder / "parts.png", rows, COLOURS)
    return [Artifact("image", shown, "Parts of held-out objects: ground truth, and as each network labels them.")]
