"""A photograph with its objects, the relations found between them, and what each rests on."""

from __future__ import annotations

from pathlib import Path

import vergence
from titles.canvas import HEIGHT, WIDTH, Canvas, badge, pixels
from vergence import catalogue
from vergence.agents.explainrelations.pictures import Arrow, draw_arrows, draw_boxes
from vergence.drawing.figure import BLUE, GREEN, ORANGE, PURPLE, RED

CAPTION = (
    "A photograph (scikit-image) with four boxes drawn by hand, and the three best relations. The network learnt from "
    "rendered rooms which predicates a picture shows, and nothing about pairs; its gradients tell which pairs it means."
)
TINTS = {"on": BLUE, "beside": GREEN, "inside": ORANGE, "holding": PURPLE, "under": RED}


def draw(path: Path) -> Path:
    example = catalogue.folder("explainrelations") / "example"
    result = vergence.load("explainrelations").predict(
        image=example / "coffee.jpg", detections=str(example / "coffee.json"), triplets=3
    )
    canvas = Canvas()
    axes = canvas.picture(pixels(result.picture), 0, 0, WIDTH, HEIGHT)
    boxes = result.boxes.tolist()
    draw_boxes(axes, boxes, result.names, 20)
    words = [result.predicates[k] for k in result.triplets[:, 1].tolist()]
    rows = zip(result.triplets.tolist(), words, strict=True)
    draw_arrows(axes, boxes, [Arrow(s, word, o, TINTS[word]) for (s, _, o), word in rows], 22)
    text = "\n".join(f"{n}  {sentence}" for n, sentence in enumerate(result.sentences(), 1))
    badge(axes, text, x=0.02, y=0.24)
    return canvas.save(path)
