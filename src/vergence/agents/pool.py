"""Rendered pictures in relations as data: annotated objects to train on, and detections as a detector makes them.

Training sees the annotated objects, as in the paper. Validation and test see simulated detections: boxes that are a
little off, objects that are missed, classes that are confused, and boxes with nothing in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from vergence.agents.features import Backbone, region_features
from vergence.agents.graphs import Batch, Objects, Sample, Truth, Wiring, collated
from vergence.agents.scenes import CLASSES, PREDICATES, Rendered, scene
from vergence.core.seeding import generator
from vergence.data.rendered import rendered
from vergence.ops.boxes import clipped

HEIGHT, WIDTH = 96, 128
SURE, UNSURE = 5.0, 1.2
"""Lead of the right class in a detector's logits, and the noise on all of them."""
MISSED, EMPTY, SHIFT = 0.04, 0.25, 0.04
"""Chances that an object is missed and that a picture has a box of nothing; noise of a box in sizes of the object."""
LEAST = 0.3
"""Detections below this score are left out."""
CODE = ("vergence.agents.pool", "vergence.agents.scenes", "vergence.agents.features", "vergence.rendering",
        "vergence.reid.people")  # fmt: skip


def detected(boxes: Tensor, labels: Tensor, source: torch.Generator, noisy: bool) -> tuple[Tensor, Tensor]:
    """Boxes (n, 4) and class probabilities (n, C) that a detector would give; without noise the boxes are exact and
    all of them are there."""
    logits = UNSURE * torch.randn(len(labels), len(CLASSES), generator=source)
    logits[torch.arange(len(labels)), labels] += SURE
    if noisy:
        sides = (boxes[:, 2:] - boxes[:, :2]).repeat(1, 2)
        boxes = boxes + SHIFT * sides * torch.randn(boxes.shape, generator=source)
        kept = torch.rand(len(boxes), generator=source) >= MISSED
        boxes, logits = boxes[kept], logits[kept]
        if torch.rand((), generator=source) < EMPTY:
            corner = torch.rand(2, generator=source) * torch.tensor([0.8 * WIDTH, 0.8 * HEIGHT])
            side = 6 + 30 * torch.rand(2, generator=source)
            nothing = torch.randn(1, len(CLASSES), generator=source)
            nothing[0, torch.randint(len(CLASSES), (), generator=source)] += 2.5
            boxes = torch.cat([boxes, torch.cat([corner, corner + side])[None]])
            logits = torch.cat([logits, nothing])
    boxes = clipped(boxes, HEIGHT, WIDTH)
    chances = logits.softmax(1)
    kept = (chances.amax(1) >= (LEAST if noisy else 0)) & (boxes[:, 2:] - boxes[:, :2] >= 1).all(1)
    return boxes[kept], chances[kept]


@cache
def _tensors(split: str, count: int, backbone: Backbone, noisy: bool) -> dict[str, Tensor]:
    """Pictures, objects, detections and relations of a split, each in one tensor, with their numbers per picture."""

    def render() -> dict[str, Tensor]:
        parts: dict[str, list[Tensor]] = {}
        for number in range(count):
            source = generator("relations", split, number)
            picture: Rendered = scene(source, HEIGHT, WIDTH)
            boxes, chances = detected(picture.boxes, picture.labels, source, noisy)
            features = region_features(picture.image, boxes, backbone).half()
            for name, value in {"images": picture.image[None], "truth": picture.boxes, "labels": picture.labels,
                                "triplets": picture.triplets, "boxes": boxes, "chances": chances,
                                "features": features}.items():  # fmt: skip
                parts.setdefault(name, []).append(value)
        lengths = {f"{name}_count": torch.tensor([len(v) for v in values]) for name, values in parts.items()}
        return {name: torch.cat(values) for name, values in parts.items()} | lengths

    asked = {"split": split, "count": count, "backbone": backbone, "noisy": noisy, "size": (HEIGHT, WIDTH)}
    return rendered("relations", asked, CODE, render)


@dataclass(frozen=True)
class Pool:
    """Rendered pictures of a split."""

    split: str
    count: int
    wiring: Wiring
    backbone: Backbone = "channels"
    noisy: bool = False
    """Whether objects are simulated detections, instead of the annotated ones."""
    classes: tuple[str, ...] = CLASSES
    predicates: tuple[str, ...] = PREDICATES

    def __post_init__(self) -> None:
        tensors = _tensors(self.split, self.count, self.backbone, self.noisy)
        names = ("images", "truth", "labels", "triplets", "boxes", "chances", "features")
        pieces = {name: tensors[name].split(tensors[f"{name}_count"].tolist()) for name in names}
        object.__setattr__(self, "pieces", pieces)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        own = {name: values[index] for name, values in self.pieces.items()}  # type: ignore[attr-defined]
        chances = own["chances"]
        objects = Objects(own["boxes"], chances.argmax(1), chances.amax(1), chances, own["features"].float(),
                          HEIGHT, WIDTH)  # fmt: skip
        known = torch.zeros(len(self.predicates)).index_fill(0, own["triplets"][:, 1], 1.0)
        pairs = own["triplets"][:0] if self.noisy else own["triplets"]
        truth = Truth(own["truth"], own["labels"], own["triplets"])
        return Sample(objects, truth, known, pairs, own["images"][0])

    def collate(self, samples: list[Sample]) -> Batch:
        return collated(samples, self.wiring)

    @property
    def channels(self) -> int:
        return int(self[0].objects.features.shape[1])

    def truths(self) -> Iterator[Truth]:
        for index in range(self.count):
            yield self[index].truth

    def seen(self) -> dict[tuple[int, int, int], int]:
        """How often each triplet of classes occurs in training; empty: all count as seen."""
        return {}
