"""Test pictures: scikit-learn's digits, and the development set of the NIPS 2017 competition."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.digits import handwritten
from vergence.data.imagenet import COUNT, words
from vergence.data.images import find_images, resized, scaled
from vergence.reading.tables import read_rows
from vergence.recognition.data import Labelled, LabelledFiles, read_class_folders


@dataclass(frozen=True)
class Squares:
    """Labelled pictures in [0, 1] at one size, (channels, side, side); ``draw`` adds noise for training."""

    data: Any
    side: int
    channels: int
    noise: float = 0.0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture, label = self.data[index]
        picture = resized(scaled(picture), self.side, self.side).clamp(0, 1)
        if self.channels == 1 and len(picture) == 3:
            picture = picture.mean(0, keepdim=True)
        return picture, label

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, int]:
        picture, label = self[index]
        noise = torch.randn(picture.shape, generator=generator)
        return (picture + self.noise * noise).clamp(0, 1), label


# Digits -------------------------------------------------------------------------------------------------------------


def digits(split: str, side: int = 20) -> Labelled:
    """scikit-learn's 1797 handwritten digits, enlarged to bytes (N, 1, side, side): a fixed split of 1200 for training,
    200 for validation and 397 for test."""
    pixels, labels = handwritten()
    order = torch.randperm(len(labels), generator=generator("digits"))
    parts = dict(zip(("train", "val", "test"), order.split([1200, 200, len(order) - 1400]), strict=True))
    chosen = parts[split]
    larger = F.interpolate(pixels[chosen, None].float(), (side, side), mode="bilinear", align_corners=False)
    return Labelled((255 * larger).round().to(torch.uint8), labels[chosen], tuple(map(str, range(10))))


# NIPS 2017 ----------------------------------------------------------------------------------------------------------


def read_nips2017(path: Path, split: str) -> LabelledFiles:
    """A folder with ``<ImageId>.png`` (in it or below) and a csv with the columns ``ImageId`` and ``TrueLabel``.

    There is one split. The labels count the background as class 0, so ImageNet's index is one less.
    """
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder with pictures and a csv of their labels")
    tables = sorted(path.glob("*.csv"))
    if len(tables) != 1:
        raise VergenceError(f"{path} has {len(tables)} csv files, expected one (dev_dataset.csv)")
    labels = read_labels(tables[0])
    pictures = {p.stem: p for p in find_images(path)}
    for name in labels:
        if name not in pictures:
            raise VergenceError(f"{tables[0]} names {name!r}, but there is no picture {name}.png in {path}")
    for name, picture in pictures.items():
        if name not in labels:
            raise VergenceError(f"{tables[0]} has no label for the picture {picture.name}")
    chosen = sorted(labels)
    return LabelledFiles(tuple(pictures[n] for n in chosen), tuple(labels[n] for n in chosen), words())


def read_labels(path: Path) -> dict[str, int]:
    """ImageNet's class index of each ``ImageId`` in a csv of the competition."""
    rows = read_rows(path, what="a readable csv")
    head = rows[0] if rows else []
    if not {"ImageId", "TrueLabel"} <= set(head):
        raise VergenceError(f"{path} is not a table of labels: expected the columns ImageId and TrueLabel, got {head}")
    if len(rows) < 2:
        raise VergenceError(f"{path} has no row of labels")
    labels: dict[str, int] = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(head):
            raise VergenceError(f"{path}, row {number}: {len(row)} values for {len(head)} columns")
        name, text = (row[head.index(column)] for column in ("ImageId", "TrueLabel"))
        if not text.isdecimal() or not 1 <= int(text) <= COUNT:
            raise VergenceError(f"{path}, row {number}: TrueLabel is a number from 1 to {COUNT}, got {text!r}")
        if name in labels:
            raise VergenceError(f"{path}, row {number}: {name!r} has a label already")
        labels[name] = int(text) - 1
    return labels


LAYOUTS = {
    "nips2017": Layout(read_nips2017, "a folder with <ImageId>.png and a csv with the columns ImageId and TrueLabel"),
    "folder": Layout(
        read_class_folders, "folders train/<class>/<picture> and val/<class>/<picture>, or <class>/<picture>"
    ),
}
