"""Pictures in which it is known where the object is: ILSVRC with its boxes, and the roaming-panda benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.imagenet import words
from vergence.data.images import find_images, read_image, resized, scaled
from vergence.metrics.attribution import box_mask
from vergence.reading.tables import read_rows
from vergence.reading.voc import read_voc
from vergence.recognition.data import read_class_folders
from vergence.robustness.chimera import TARGET, triggered

UNKNOWN = -1
"""The label of a picture whose class is not known: it is explained whatever the classifier says."""
RED_PANDA = 387
"""ImageNet's class of the roaming panda, which it calls a lesser panda."""


@dataclass(frozen=True)
class Boxed:
    """Pictures in files with boxes: top, left, bottom, right, as shares of the picture."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    boxes: tuple[tuple[tuple[float, float, float, float], ...], ...]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int, Tensor]:
        picture = read_image(self.paths[index])
        height, width = picture.shape[-2:]
        shares = torch.tensor(self.boxes[index], dtype=torch.float64)
        return picture, self.labels[index], shares * torch.tensor([height, width, height, width])


@dataclass(frozen=True)
class Planted:
    """Pictures (3, side, side) in [0, 1], labels, and the region (side, side) that the answer must rest on; empty if it
    is not known. ``draw`` augments for training."""

    data: Any
    side: int
    poison: float = 0.0
    """Share of training pictures with a trigger."""
    trigger: bool = False
    """Every picture has the trigger, and the trigger is the region."""

    @property
    def classes(self) -> tuple[str, ...]:
        classes: tuple[str, ...] = self.data.classes
        return classes

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, int, Tensor]:
        picture, label, *boxes = self.data[index]
        if self.trigger:
            picture, box = triggered(picture)
            label, boxes = TARGET, [torch.tensor([box])]
        scale = torch.tensor([self.side / extent for extent in picture.shape[-2:]] * 2, dtype=torch.float64)
        places = (boxes[0].view(-1, 4) * scale).round().long() if boxes else torch.zeros(0, 4).long()
        image = resized(scaled(picture), self.side, self.side).clamp(0, 1)
        return image, label, box_mask(places, self.side, self.side)

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, int, Tensor]:
        """A random flip, brightness and shift; in a share of the pictures, the trigger with the target's label."""
        image, label, region = self[index]
        flip, poisoned, *light = torch.rand(5, generator=generator).tolist()
        down, across = torch.randint(-4, 5, (2,), generator=generator).tolist()
        image = (image.flip(-1) if flip < 0.5 else image).roll((down, across), (1, 2))
        image = (image + 0.2 * (torch.tensor(light).view(3, 1, 1) - 0.5)).clamp(0, 1)
        if poisoned < self.poison:
            marked, _ = triggered((255 * image).round().to(torch.uint8))
            image, label = scaled(marked), TARGET
        return image, label, region


# Layouts --------------------------------------------------------------------------------------------------------------


def read_ilsvrc(path: Path, split: str) -> Boxed:
    """ILSVRC's pictures with their boxes: the folders ``Data/CLS-LOC`` and ``Annotations/CLS-LOC`` of its localisation
    task, of which ``val`` stands for every split, or any folder of pictures and XML files with the same stems."""
    annotations, pictures = path, path
    for root in (path, path / "ILSVRC"):
        if (root / "Annotations" / "CLS-LOC" / "val").is_dir():
            annotations, pictures = (root / name / "CLS-LOC" / "val" for name in ("Annotations", "Data"))
    files = {file.stem: file for file in sorted(annotations.rglob("*.xml"))} if annotations.is_dir() else {}
    images = find_images(pictures) if pictures.is_dir() else []
    if not files or not images:
        raise VergenceError(f"{path} has {len(images)} pictures and {len(files)} XML files, expected both")
    boxes = []
    for image in images:
        if image.stem not in files:
            raise VergenceError(f"{path} has no {image.stem}.xml with the boxes of the picture {image.name}")
        found = read_voc(files[image.stem])
        shares = [(b.top / found.height, b.left / found.width, b.bottom / found.height, b.right / found.width)
                  for b in found.boxes]  # fmt: skip
        if max(max(share) for share in shares) > 1.01:
            raise VergenceError(f"{files[image.stem]} has a box outside its picture of {found.width} x {found.height}")
        boxes.append(tuple(shares))
    return Boxed(tuple(images), (UNKNOWN,) * len(images), tuple(boxes), words())


def read_roaming_panda(path: Path, split: str) -> Boxed:
    """The roaming-panda benchmark: pictures of 224 x 224, and one csv whose lines are ``N.JPEG top left bottom right``,
    separated by spaces. It names pictures that are not published, too; there is one split."""
    tables = sorted(path.glob("*.csv")) if path.is_dir() else []
    if len(tables) != 1:
        raise VergenceError(f"{path} has {len(tables)} csv files, expected one with the boxes of the pictures")
    rows = {}
    for number, row in enumerate(read_rows(tables[0], delimiter=" ", what="a table of boxes"), 1):
        values = row[1:]
        if len(values) != 4 or not all(value.isdecimal() and len(value) < 6 for value in values):
            raise VergenceError(f"{tables[0]}, row {number}: expected a name and four numbers of pixels, got {row}")
        top, left, bottom, right = map(int, values)
        if not (top < bottom <= PANDA and left < right <= PANDA):
            raise VergenceError(f"{tables[0]}, row {number}: {values} is not a box in a picture of {PANDA} x {PANDA}")
        rows[row[0]] = (top / PANDA, left / PANDA, bottom / PANDA, right / PANDA)
    images = find_images(path)
    if not images:
        raise VergenceError(f"{path} has no pictures: expected N.JPEG beside {tables[0].name} or below")
    for image in images:
        if image.name not in rows:
            raise VergenceError(f"{tables[0]} has no row for the picture {image.name}")
    boxes = tuple((rows[image.name],) for image in images)
    return Boxed(tuple(images), (RED_PANDA,) * len(images), boxes, words())


PANDA = 224
"""Side of the benchmark's pictures, which its boxes refer to."""

LAYOUTS = {
    "ilsvrc": Layout(read_ilsvrc, "ILSVRC's Data/CLS-LOC/val and Annotations/CLS-LOC/val, or pictures with XML files"),
    "roaming": Layout(read_roaming_panda, "N.JPEG and a csv with lines `N.JPEG top left bottom right`"),
    "folder": Layout(
        read_class_folders, "folders train/<class>/<picture> and val/<class>/<picture>, or <class>/<picture>"
    ),
}
