"""Relations drawn as arrows between boxes, and what each rests on as bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vergence.agents.explaining import Ranked
from vergence.agents.graphs import Batch
from vergence.contract.inputs import Artifact
from vergence.drawing.figure import GREY, colours, figure, saved

SHOWN = 3
"""Pictures in a report."""


class Arrow(NamedTuple):
    """A relation to draw."""

    subject: int
    predicate: str
    object: int
    colour: str


def anchor(box: Sequence[float], span: float) -> tuple[float, float]:
    """Where arrows of a box begin and end: at its name, for middles of boxes in boxes coincide."""
    near = 0.035 * span
    return min(box[0] + 1.6 * near, (box[0] + box[2]) / 2), min(box[1] + 1.2 * near, (box[1] + box[3]) / 2)


def draw_boxes(axes: Any, boxes: Sequence[Sequence[float]], names: Sequence[str], size: float = 8) -> None:
    """Boxes with the names of their classes in the upper left corner."""
    from matplotlib.patches import Rectangle

    for (left, top, right, bottom), name in zip(boxes, names, strict=True):
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor="white", linewidth=1.6))
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor="black", linewidth=0.6))
        axes.text(left, top, name, fontsize=size, color="white", va="top", ha="left", clip_on=True,
                  bbox={"facecolor": "black", "alpha": 0.55, "pad": 1.2, "edgecolor": "none"})  # fmt: skip


def draw_arrows(axes: Any, boxes: Sequence[Sequence[float]], arrows: Sequence[Arrow], size: float = 9) -> None:
    """Arrows from subjects to objects, each with its rank; several between the same two boxes bend apart."""
    from matplotlib.patches import FancyArrowPatch

    between: dict[tuple[int, int], int] = {}
    span = max(abs(b - a) for a, b in (axes.get_xlim(), axes.get_ylim()))
    for number, arrow in enumerate(arrows, 1):
        ends = tuple(sorted((arrow.subject, arrow.object)))
        bend = 0.18 + 0.22 * between.setdefault((ends[0], ends[1]), 0)
        between[ends[0], ends[1]] += 1
        start, end = anchor(boxes[arrow.subject], span), anchor(boxes[arrow.object], span)
        if start == end:
            end = (end[0] + 1, end[1] + 1)
        for colour, width in (("white", 4.5), (arrow.colour, 2.4)):
            axes.add_patch(
                FancyArrowPatch(
                    start, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=14, color=colour,
                    linewidth=width, shrinkA=2, shrinkB=2,
                )
            )  # fmt: skip
        # The middle of a quadratic curve whose control point lies beside the middle of its ends.
        x = (start[0] + end[0]) / 2 - bend / 2 * (end[1] - start[1])
        y = (start[1] + end[1]) / 2 + bend / 2 * (end[0] - start[0])
        axes.text(x, y, str(number), fontsize=size, color="white", ha="center", va="center", fontweight="bold",
                  bbox={"facecolor": arrow.colour, "edgecolor": "white", "boxstyle": "circle,pad=0.2"})  # fmt: skip


def show(axes: Any, picture: Tensor) -> None:
    """A picture (3, H, W) of bytes without axes."""
    axes.imshow(picture.permute(1, 2, 0).cpu().numpy())
    axes.set_axis_off()
    axes.autoscale(False)


def _shades(parts: Sequence[str]) -> list[Any]:
    """Blue for parts of the subject, orange for the object's, green for those of the pair."""
    from matplotlib import colormaps

    maps = {"subject": "Blues", "object": "Oranges", "pair": "Greens"}
    kinds = [part.partition(":")[0] for part in parts]
    place = [kinds[:number].count(kind) for number, kind in enumerate(kinds)]
    return [colormaps[maps[kind]](0.4 + 0.17 * at) for kind, at in zip(kinds, place, strict=True)]


def draw_result(
    path: Path, picture: Tensor, boxes: Sequence[Sequence[float]], names: Sequence[str], arrows: Sequence[Arrow],
    scores: Sequence[float], rests: Sequence[Mapping[str, float]],
) -> Path:  # fmt: skip
    """The picture with its best relations as arrows, and beside it the shares of what each rests on."""
    height, width = picture.shape[-2:]
    tall = 5.2
    wide = min(max(tall * width / height, 3.5), 9.0)
    drawn = figure(wide + 5.4, tall)
    left, right = drawn.subplots(1, 2, gridspec_kw={"width_ratios": [wide, 5.4]})
    show(left, picture)
    draw_boxes(left, boxes, names)
    draw_arrows(left, boxes, arrows)
    parts = list(dict.fromkeys(part for row in rests for part in row))
    for part, colour in zip(parts, _shades(parts), strict=True):
        start = [sum(row[p] for p in parts[: parts.index(part)]) for row in rests]
        right.barh(range(len(rests)), [row[part] for row in rests], left=start, color=colour, label=part, height=0.45)
    for number, (arrow, score) in enumerate(zip(arrows, scores, strict=True)):
        text = f"{number + 1}  {names[arrow.subject]} {arrow.predicate} {names[arrow.object]}   {score:.3g}"
        right.text(0, number - 0.32, text, fontsize=9, color=arrow.colour, fontweight="bold", va="bottom")
    right.set_xlim(0, 1)
    right.set_ylim(max(len(rests), 1) - 0.5, -0.9)
    right.set_yticks([])
    right.set_xlabel("share of the relevance")
    right.spines[["top", "right", "left"]].set_visible(False)
    right.legend(fontsize=7.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    return saved(drawn, path)


def draw_scenes(
    ctx: Any, models: Mapping[str, Any], data: Any,
    found: Callable[[Any, Batch], tuple[Tensor, dict[str, Ranked]]],
) -> Artifact:  # fmt: skip
    """Held-out pictures with the annotated relations and, for each variant, as many of its best triplets."""
    count = min(SHOWN, len(data))
    drawn = figure(3.4 * (1 + len(models)), 2.9 * count)
    grid = drawn.subplots(count, 1 + len(models), squeeze=False)
    tints = dict(zip(data.predicates, colours(len(data.predicates)), strict=True))
    for row in range(count):
        sample = data[row]
        batch = ctx.to_device(data.collate([sample]))
        image = (
            sample.image if sample.image.numel() else torch.full((3, sample.objects.height, sample.objects.width), 90)
        )
        truth = [
            Arrow(s, data.predicates[k], o, tints[data.predicates[k]]) for s, k, o in sample.truth.triplets.tolist()
        ]
        names = [data.classes[label] for label in sample.truth.labels.tolist()]
        panels = [("annotated", sample.truth.boxes.tolist(), names, truth)]
        for variant, model in models.items():
            best = found(model, batch)[1]["own"]
            arrows = []
            for edge, predicate in zip(best.edge[: len(truth)].tolist(), best.predicate.tolist(), strict=False):
                start, end = batch.graphs.ends[:, edge].tolist()
                word = data.predicates[predicate]
                arrows.append(Arrow(start, word, end, tints[word]))
            labels = [data.classes[label] for label in sample.objects.labels.tolist()]
            panels.append((variant, sample.objects.boxes.tolist(), labels, arrows))
        for axes, (title, boxes, labels, arrows) in zip(grid[row], panels, strict=True):
            show(axes, image.to(torch.uint8))
            draw_boxes(axes, boxes, labels, 5.5)
            draw_arrows(axes, boxes, arrows, 6)
            words = ", ".join(f"{n} {a.predicate}" for n, a in enumerate(arrows[:4], 1))
            axes.set_title(f"{title}: {words}" if row or title else title, fontsize=7, color=GREY)
    caption = "Held-out pictures: annotated relations, and as many of the best triplets of each variant."
    return Artifact("image", saved(drawn, ctx.folder / "relations.png"), caption)
