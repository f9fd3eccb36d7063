"""Noisy clouds of four objects, and the classes and parts that the starter weights see in them."""

from __future__ import annotations

from pathlib import Path

import torch

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas, badge
from vergence import catalogue
from vergence.core.seeding import generator
from vergence.points.labelled import seen_from_the_side
from vergence.points.objects import make_object

NAMES = ("aeroplane", "chair", "person", "car")
SIGMA = 0.02
CAPTION = (
    "Clouds of four objects that were not in training, with normal noise of 2 % of their radius: as they come in, and "
    "with the class (below) and the parts (colours) that the starter weights give them. Training saw clean clouds only."
)
GROUND, PLAIN = "#0d1420", (0.62, 0.7, 0.8)
COLOURS = torch.tensor([[77, 166, 255], [255, 166, 61], [95, 224, 138], [255, 105, 120]]) / 255
SEEDS = {"aeroplane": 4, "chair": 3, "person": 1, "car": 5}
REACH = 1.02
"""Half the width of the view of one object, in radii."""


def draw(path: Path) -> Path:
    weights = catalogue.starters("orderlydisorder")
    classifier, segmenter = (vergence.load(weights[key]) for key in ("objects", "parts"))
    canvas, height = Canvas("#ffffff"), (HEIGHT - GAP) / 2
    rows = [canvas.axes(0, y, WIDTH, height) for y in (0, height + GAP)]
    for axes in rows:
        axes.set_facecolor(GROUND)
        tall = 4 * REACH * height / WIDTH
        axes.set(xlim=(0, 8 * REACH), ylim=(-tall, tall), xticks=[], yticks=[])
    for number, name in enumerate(NAMES):
        source = generator("title", name, SEEDS[name])
        cloud, _ = make_object(name, 4096, False, source)
        cloud = cloud + SIGMA * torch.randn(cloud.shape, generator=source)
        seen, depth = seen_from_the_side(cloud)
        order = depth.argsort()
        x, y = seen[order].T.numpy()
        label = classifier.predict(cloud=cloud.numpy()).label
        parts = segmenter.predict(cloud=cloud.numpy(), category=name).parts
        for axes, shades in ((rows[0], [PLAIN]), (rows[1], COLOURS[parts[order]].numpy())):
            axes.scatter(x + (2 * number + 1) * REACH, y + 0.06, s=4, c=shades, linewidths=0)
        rows[1].text((2 * number + 1) * REACH, -1.16, label, color="white", fontsize=22, ha="center", va="center")
    badge(rows[0], "noisy point clouds", "#23415f")
    badge(rows[1], "class and parts", "#23415f")
    return canvas.save(path)
