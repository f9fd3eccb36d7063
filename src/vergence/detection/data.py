"""Pictures with objects as data of detectors: samples, batches of pictures of any sizes, and pairs of two domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from vergence.core.seeding import generator as seeded
from vergence.data.images import read_image, resized, scaled
from vergence.detection.scenes import CLASSES, Domain, pictures
from vergence.detection.styles import STYLES, Style
from vergence.nn.rcnn import batched
from vergence.nn.rpn import Target


class Sample(NamedTuple):
    """A picture with its objects."""

    picture: Tensor
    """(3, H, W): bytes, or floats from 0 to 1."""
    boxes: Tensor
    """(n, 4): left, top, right, bottom in its pixels."""
    labels: Tensor
    """(n,), from 1."""
    aside: Tensor
    """(n,), true for objects that need not be found: difficult ones, crowds."""
    name: str
    scale: float = 1.0
    """Pixels of this picture per pixel of its file."""


class Batch(NamedTuple):
    """Pictures of any sizes together."""

    pictures: Tensor
    """(B, 3, H, W), from 0 to 1, padded with zeros."""
    sizes: Tensor
    """(B, 2): heights and widths."""
    targets: list[Target]
    """Objects to train on, without those aside."""
    truth: list[Sample]
    """The samples, without their pictures."""


class Pair(NamedTuple):
    """A batch of each domain."""

    source: Batch
    target: Batch | None


class Pictures(Protocol):
    """Annotated pictures."""

    classes: tuple[str, ...]

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...


# Annotated files ------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A picture's file and its objects."""

    path: Path
    boxes: Tensor
    labels: Tensor
    """From 1."""
    aside: Tensor


@dataclass(frozen=True)
class Collection:
    """Pictures of a data set."""

    entries: Sequence[Entry]
    classes: tuple[str, ...]
    """Empty if nothing is annotated."""
    note: str = ""
    """What was left out or cut, by count."""

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> Sample:
        own = self.entries[index]
        return Sample(read_image(own.path), own.boxes, own.labels, own.aside, str(own.path))

    def labels(self, index: int) -> Tensor:
        """The classes of a picture, without reading it."""
        return self.entries[index].labels


@dataclass(frozen=True)
class Rendered:
    """Rendered pictures of a domain in a style."""

    domain: Domain
    split: str
    count: int
    style: Style = "photographic"
    classes: tuple[str, ...] = CLASSES
    _tensors: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        own = self._all()
        index = range(self.count)[index]
        image = scaled(own["images"][index])
        if self.style != "photographic":
            depth = 1 / own["nearness"][index].float()
            image = STYLES[self.style](image, depth, seeded("style", self.style, self.domain, self.split, index))
        boxes, labels = own["boxes"][index], own["labels"][index]
        aside = torch.zeros(len(labels), dtype=torch.bool)
        return Sample(image, boxes, labels, aside, f"{self.domain}-{self.split}-{index:04d}")

    def labels(self, index: int) -> Tensor:
        labels: Tensor = self._all()["labels"][index]
        return labels

    def _all(self) -> dict[str, Any]:
        if not self._tensors:
            drawn = pictures(self.domain, self.split, self.count)
            counts = drawn["counts"].tolist()
            self._tensors.update(drawn, boxes=drawn["boxes"].split(counts), labels=drawn["labels"].split(counts))
        return self._tensors


# Views of data --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """The objects of some classes, numbered anew; pictures are resized, and collated to batches.

    ``negatives`` = False leaves out pictures without any of their objects.
    """

    data: Any
    classes: tuple[str, ...]
    shortest: int = 0
    longest: int = 0
    multiple: int = 1
    flip: bool = False
    negatives: bool = True
    kept: tuple[int, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        number = [self.classes.index(name) + 1 if name in self.classes else 0 for name in self.data.classes]
        table = torch.tensor([0, *number])
        object.__setattr__(self, "table", table)
        if not self.negatives:
            kept = (n for n in range(len(self.data)) if bool(table[self.data.labels(n)].any()))
            object.__setattr__(self, "kept", tuple(kept))

    def __len__(self) -> int:
        return len(self.data) if self.negatives else len(self.kept)

    def __getitem__(self, index: int) -> Sample:
        sample = self.data[index if self.negatives else self.kept[index]]
        labels = self.table[sample.labels]  # type: ignore[attr-defined]
        known = labels > 0
        sample = sample._replace(boxes=sample.boxes[known], labels=labels[known], aside=sample.aside[known])
        return fitted(sample, self.shortest, self.longest)

    def draw(self, index: int, generator: torch.Generator) -> Sample:
        sample = self[index]
        return mirrored(sample) if self.flip and float(torch.rand((), generator=generator)) < 0.5 else sample

    def collate(self, samples: Sequence[Sample]) -> Batch:
        return collated(samples, self.multiple)


@dataclass(frozen=True)
class Paired:
    """Labelled pictures, each with a random one of the other domain to train on."""

    source: Chosen
    target: Chosen | None

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Sample, Sample | None]:
        return self.source[index], None if self.target is None else self.target[index % len(self.target)]

    def draw(self, index: int, generator: torch.Generator) -> tuple[Sample, Sample | None]:
        first = self.source.draw(index, generator)
        if self.target is None:
            return first, None
        other = int(torch.randint(len(self.target), (), generator=generator))
        return first, self.target.draw(other, generator)

    def collate(self, samples: Sequence[tuple[Sample, Sample | None]]) -> Pair:
        targets = [other for _, other in samples if other is not None]
        source = self.source.collate([own for own, _ in samples])
        return Pair(source, self.target.collate(targets) if self.target is not None and targets else None)


def fitted(sample: Sample, shortest: int, longest: int) -> Sample:
    """The sample with its picture as floats, resized to a shorter side of ``shortest`` (0: as it is) if the longer one
    does not exceed ``longest`` then."""
    picture = scaled(sample.picture)
    height, width = picture.shape[-2:]
    if not shortest:
        return sample._replace(picture=picture)
    scale = min(shortest / min(height, width), longest / max(height, width))
    picture = resized(picture, max(round(height * scale), 1), max(round(width * scale), 1))
    sides = torch.tensor([picture.shape[-1] / width, picture.shape[-2] / height] * 2)
    return sample._replace(picture=picture, boxes=sample.boxes * sides, scale=sample.scale * scale)


def mirrored(sample: Sample) -> Sample:
    """The sample seen in a mirror."""
    width = sample.picture.shape[-1]
    left, top, right, bottom = sample.boxes.unbind(1)
    return sample._replace(
        picture=sample.picture.flip(-1), boxes=torch.stack([width - right, top, width - left, bottom], 1)
    )


def collated(samples: Sequence[Sample], multiple: int = 1) -> Batch:
    """Samples as a batch."""
    pictures, sizes = batched([sample.picture for sample in samples], multiple)
    targets = [Target(s.boxes[~s.aside], s.labels[~s.aside]) for s in samples]
    return Batch(pictures, sizes, targets, [s._replace(picture=s.picture[:0]) for s in samples])
