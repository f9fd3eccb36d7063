"""The embeddings of a teacher and of its student: held-out pictures as dots, each class shown at its centre."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from torch import Tensor

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge, pixels
from vergence.core.seeding import generator
from vergence.drawing.figure import BLUE, GREEN, ORANGE, PURPLE
from vergence.ops import class_centres
from vergence.recognition.categorystructure.model import SmallResNet
from vergence.recognition.categorystructure.pictures import aligned, plane
from vergence.recognition.data import middle
from vergence.recognition.objects import CLASSES, GROUPS, objects, picture

CAPTION = (
    "What a student learns beside the answers: 480 held-out rendered pictures in the embedding of a teacher (310,000 "
    "parameters) and of its student (78,000), trained by CSKD, each class shown at its centre. Colours are the four "
    "groups of classes."
)
SAMPLES, SIDE = 480, 96
COLOURS = (BLUE, ORANGE, PURPLE, GREEN)
SHADES = {name: shade for shade, names in zip(COLOURS, GROUPS.values(), strict=True) for name in names}


def embedded(network: SmallResNet, seen: Tensor) -> Tensor:
    with torch.no_grad():
        return F.normalize(network.told(seen).features.mean((2, 3)), dim=1)


def panel(axes: Axes, places: Tensor, centres: Tensor, labels: Tensor) -> None:
    axes.scatter(*places.T, s=26, c=[SHADES[CLASSES[k]] for k in labels], alpha=0.45, linewidths=0)
    everything = torch.cat([places, centres])
    low, high = everything.quantile(0.005, dim=0), everything.quantile(0.995, dim=0)
    edge = 0.08 * (high - low)
    for k, (x, y) in enumerate(centres.tolist()):
        shown = picture(CLASSES[k], SIDE, "test", generator("title", "categorystructure", k))
        image = OffsetImage(pixels(shown), zoom=0.4)
        frame = {"edgecolor": SHADES[CLASSES[k]], "linewidth": 3, "boxstyle": "square,pad=0"}
        axes.add_artist(AnnotationBbox(image, (x, y), pad=0, bboxprops=frame))
    axes.set(xlim=(low[0] - edge[0], high[0] + edge[0]), ylim=(low[1] - edge[1], high[1] + 3 * edge[1]))
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_color("#c9d1da")


def draw(path: Path) -> Path:
    model, data = vergence.load("categorystructure"), objects(800, 32, "test")
    chosen = torch.arange(SAMPLES)
    seen = torch.stack([middle(model.identity.config.data, data.images[n]) for n in chosen])
    labels = data.labels[chosen]
    canvas, target = Canvas(), None
    width = (WIDTH - GAP) / 2
    for number, name in enumerate(("teacher", "student")):
        units = embedded(getattr(model.module, name), seen)
        centres = class_centres(units, labels)
        flat = plane(centres)
        target = flat(centres) if target is None else target
        turned = aligned(flat, centres, target)
        axes = canvas.axes(number * (width + GAP) + 1, 1, width - 2, HEIGHT - 2)
        panel(axes, turned(units), turned(centres), labels)
        badge(axes, f"its {name}" if number else f"a {name}")
    return canvas.save(path)
