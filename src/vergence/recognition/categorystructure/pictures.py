"""Pictures of embeddings: samples and class centres of teacher and student in planes that can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Spread
from vergence.contract.inputs import Artifact
from vergence.drawing.figure import figure, saved
from vergence.ops.category_structure import centre_cosines, class_centres
from vergence.recognition.categorystructure.model import Pair, SmallResNet
from vergence.recognition.categorystructure.settings import SETTINGS, Config
from vergence.recognition.data import Viewed
from vergence.recognition.settings import Facts

Ctx = Context[Config, Facts]
SAMPLES = 480
"""Held-out samples that are drawn."""
NAMED = 24
"""Largest number of classes whose names are written."""


@dataclass(frozen=True)
class Plane:
    """A projection to two dimensions."""

    origin: Tensor
    basis: Tensor
    """(2, C)."""

    def __call__(self, points: Tensor) -> Tensor:
        """Points (N, C) in the plane, (N, 2)."""
        return (points - self.origin) @ self.basis.mT


def plane(centres: Tensor) -> Plane:
    """The plane in which class centres (K, C) differ most."""
    origin = centres.mean(0)
    axes = torch.linalg.svd((centres - origin).double(), full_matrices=False).Vh[:2].to(centres)
    axes = F.pad(axes, (0, 0, 0, 2 - len(axes)))
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    return Plane(origin, torch.where(largest < 0, -axes, axes))


def aligned(other: Plane, centres: Tensor, target: Tensor) -> Plane:
    """A plane, turned and mirrored and scaled so that class centres (K, C) come as near as they can to ``target``
    (K, 2)."""
    own = other(centres)
    product = torch.linalg.svd((own.mT @ target).double())
    turn = (product.U @ product.Vh).to(own)
    scale = target.norm() / own.norm().clamp(min=1e-12)
    return Plane(other.origin, scale * (turn.mT @ other.basis))


@dataclass(frozen=True)
class Panel:
    """One embedding to draw."""

    title: str
    places: Tensor
    """(N, 2)."""
    centres: Tensor
    """(classes, 2)."""
    pictures: Sequence[Tensor] = ()
    """Drawn at the first places instead of dots, (3, h, w) from 0 to 1."""
    labels: Tensor | None = None
    """(N,), the class of each place, by which it is coloured."""


def draw_embeddings(path: Path, rows: Sequence[Sequence[Panel]], names: Sequence[str]) -> Path:
    """Draws embeddings side by side; every class has one colour."""
    columns = max(map(len, rows))
    drawn = figure(4.4 * columns, 4.3 * len(rows))
    axes = drawn.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for axis in line[len(row) :]:
            axis.set_axis_off()
        for axis, panel in zip(line, row, strict=False):
            draw_panel(axis, panel, names)
            axis.set_title(panel.title, fontsize=10)
    return saved(drawn, path)


def draw_panel(axis: Any, panel: Panel, names: Sequence[str], size: float = 8.0) -> None:
    """Draws one embedding: pictures or dots, crosses for the class centres, and the names of the classes."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    shades = class_colours(len(names))
    count = len(panel.pictures)
    dots = panel.places[count:]
    if len(dots):
        of = None if panel.labels is None else panel.labels[count:].tolist()
        colours = "0.4" if of is None else [shades[k] for k in of]
        axis.scatter(dots[:, 0], dots[:, 1], s=size, c=colours, alpha=0.55, linewidths=0)
    for picture, place in zip(panel.pictures, panel.places[:count].tolist(), strict=True):
        image = OffsetImage(picture.permute(1, 2, 0).numpy(), zoom=26 / max(picture.shape[-2:]))
        axis.add_artist(AnnotationBbox(image, place, frameon=True, pad=0.1, bboxprops={"linewidth": 0.5}))
    centres = panel.centres
    axis.scatter(centres[:, 0], centres[:, 1], s=9 * size, c=shades, marker="X", edgecolors="black", linewidths=0.8,
                 zorder=5)  # fmt: skip
    everything = torch.cat([panel.places, centres])
    room = 0.12 * (everything.amax(0) - everything.amin(0)).clamp(min=1e-6)
    low, high = (everything.amin(0) - room).tolist(), (everything.amax(0) + room).tolist()
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    if len(names) <= NAMED:
        for name, (x, y) in zip(names, centres.tolist(), strict=True):
            text = axis.annotate(name, (x, y), (0, 6), textcoords="offset points", ha="center", fontsize=size,
                                 zorder=6)  # fmt: skip
            text.set_path_effects(_outline())
    axis.set_xticks([])
    axis.set_yticks([])


def _outline() -> list[Any]:
    from matplotlib.patheffects import Normal, Stroke

    return [Stroke(linewidth=2.5, foreground="white"), Normal()]


def class_colours(count: int) -> list[tuple[float, ...]]:
    """One colour per class; neighbours of a hierarchy that is listed in order have similar hues."""
    from matplotlib import colormaps

    return [colormaps["turbo"](0.04 + 0.92 * k / max(count - 1, 1)) for k in range(count)]


def of_variants(ctx: Ctx, models: Mapping[str, Pair], data: Viewed) -> list[Artifact]:
    """Draws the embeddings of held-out pictures by the teacher and by each student, and the cosines of their class
    centres."""
    some = Spread(data, SAMPLES)
    taught = next((model.teacher for model in models.values() if model.teacher is not None), None)
    networks: dict[str, SmallResNet] = {"teacher": taught} if taught is not None else {}
    networks |= {SETTINGS.label(name): model.student for name, model in models.items()}
    seen = {name: _features(ctx, network, some) for name, network in networks.items()}
    target: Tensor | None = None
    panels, matrices = [], {}
    for name, (pooled, flat, labels) in seen.items():
        present = labels.unique()
        units = F.normalize(pooled, dim=1)
        centres = class_centres(units, labels)
        flattened = plane(centres)
        target = flattened(centres) if target is None else target
        turned = aligned(flattened, centres, target)
        panels.append(Panel(name, turned(units), turned(centres), labels=_numbered(labels, present)))
        matrices[name] = centre_cosines(class_centres(flat, labels))
    names = [ctx.facts.name(k) for k in present.tolist()]
    rows = [panels[i : i + 3] for i in range(0, len(panels), 3)]
    shown = draw_embeddings(ctx.folder / "embeddings.png", rows, names)
    return [
        Artifact(
            "image",
            shown,
            f"{len(some)} held-out pictures by teacher and students, with class centres (crosses). Each panel is the "
            "plane in which its centres differ most, turned to the first one.",
        ),
        Artifact("image", draw_cosines(ctx.folder / "cosines.png", matrices, names),
                 "Cosines between class centres (Eq. 8). Students of CSKD are trained towards the teacher's."),
    ]  # fmt: skip


def draw_cosines(path: Path, matrices: Mapping[str, Tensor], names: Sequence[str]) -> Path:
    """Draws cosines between class centres, (K, K) each."""
    columns = min(len(matrices), 4)
    lines = -(-len(matrices) // columns)
    drawn = figure(3.1 * columns + 0.9, 3.2 * lines)
    axes = drawn.subplots(lines, columns, squeeze=False)
    low = min(float(matrix.min()) for matrix in matrices.values())
    for axis in axes.flat[len(matrices) :]:
        axis.set_axis_off()
    for number, (axis, (name, matrix)) in enumerate(zip(axes.flat, matrices.items(), strict=False)):
        drawing = axis.imshow(matrix.numpy(), vmin=low, vmax=1, cmap="viridis")
        axis.set_title(name, fontsize=9)
        axis.set_xticks([])
        named = number % columns == 0 and len(names) <= NAMED
        axis.set_yticks(range(len(names)) if named else [], names if named else [], fontsize=6)
    bar = drawn.colorbar(drawing, ax=axes, shrink=0.8)
    bar.ax.tick_params(labelsize=7)
    return saved(drawn, path)


def _features(ctx: Ctx, network: SmallResNet, data: Spread) -> tuple[Tensor, Tensor, Tensor]:
    """Pooled features (N, C), features as they are (N, C h w), and labels (N,), on the CPU."""
    parts = []
    for images, labels in ctx.batches(data, 64):
        features = network.told(images).features.float().cpu()
        parts.append((features.mean((2, 3)), features.flatten(1), labels.cpu()))
    pooled, flat, labels = (torch.cat(part) for part in zip(*parts, strict=True))
    return pooled, flat, labels


def _numbered(labels: Tensor, present: Tensor) -> Tensor:
    return torch.searchsorted(present, labels)
