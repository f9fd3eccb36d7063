"""Labelled pictures: CIFAR-10 and CIFAR-100 in both published forms, CUB-200-2011, list files, class folders, and
transforms for training and evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from vergence.contract.data import Layout, Missing
from vergence.core.errors import Several, VergenceError, reason
from vergence.data import images
from vergence.data.classfolders import class_files
from vergence.data.images import find_images, read_image
from vergence.data.layouts import left_out, read_all
from vergence.data.listfiles import listed_files
from vergence.reading.files import read_bytes, read_text
from vergence.reading.pickles import read_pickle
from vergence.recognition.settings import PictureView

SIDE = 32
Box = tuple[float, float, float, float]
"""Left, top, width and height, in pixels."""


@dataclass(frozen=True)
class Labelled:
    """Pictures in memory, bytes (N, 3, H, W), with labels and the names of the classes."""

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])


@dataclass(frozen=True)
class LabelledFiles:
    """Pictures in files, read on access."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]
    boxes: tuple[Box, ...] = ()
    """Crop of each picture; empty: whole pictures."""
    skipped: tuple[str, ...] = ()
    """One sentence per missing file that was left out."""
    note: str = ""
    """How the files were split, if they came in one piece."""
    split: str = ""
    """The split that the files came from, if another stands in for the one asked for."""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = read_image(self.paths[index])
        if self.boxes:
            left, top, width, height = self.boxes[index]
            cut = picture[:, round(top) : round(top + height), round(left) : round(left + width)]
            if not cut.numel():
                raise VergenceError(f"the box {self.boxes[index]} lies outside {self.paths[index]}")
            picture = cut
        return picture, self.labels[index]


def middle(view: PictureView, picture: Tensor) -> Tensor:
    """Evaluation transform: the centre crop, normalised, (3, size, size)."""
    cut = images.centre(images.scaled(picture), view.resize, view.size)
    return images.normalised(cut, view.mean, view.std)


def augmented(view: PictureView, picture: Tensor, generator: torch.Generator) -> Tensor:
    """Training transform: randomly augmented and normalised, (3, size, size)."""
    if view.augment == "area-flip":
        cut = images.area_crop(images.scaled(picture), view.size, view.areas, generator, (3 / 4, 4 / 3))
    elif view.augment == "crop-flip":
        cut = images.random_crop(images.scaled(picture), view.resize, view.size, generator)
    else:
        cut = images.centre(images.scaled(picture), view.resize, view.size)
    if view.augment == "pad-flip":
        cut = images.padded_crop(cut, 4, generator)
    if view.augment != "none":
        cut = images.flipped(cut, generator)
    return images.normalised(cut, view.mean, view.std)


@dataclass(frozen=True)
class Viewed:
    """Labelled pictures as network input: the centre crop by index, randomly augmented by ``draw``."""

    data: Any
    view: PictureView

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture, label = self.data[index]
        return middle(self.view, picture), label

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, int]:
        picture, label = self.data[index]
        return augmented(self.view, picture, generator), label


# CIFAR ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cifar:
    """File names and keys of a CIFAR release."""

    classes: int
    files: dict[str, Sequence[str]]
    binary_files: dict[str, Sequence[str]]
    label_key: bytes
    label_bytes: int
    names_pickle: tuple[str, bytes]
    names_text: str
    folders: tuple[str, str]


_CIFAR10 = _Cifar(
    10,
    {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]},
    {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]},
    b"labels",
    1,
    ("batches.meta", b"label_names"),
    "batches.meta.txt",
    ("cifar-10-batches-py", "cifar-10-batches-bin"),
)
_CIFAR100 = _Cifar(
    100,
    {"train": ["train"], "test": ["test"]},
    {"train": ["train.bin"], "test": ["test.bin"]},
    b"fine_labels",
    2,  # the coarse label comes first
    ("meta", b"fine_label_names"),
    "fine_label_names.txt",
    ("cifar-100-python", "cifar-100-binary"),
)


def _read_cifar(kind: _Cifar, path: Path, split: str) -> Labelled:
    """Either form, from the folder itself or the one above it. CIFAR has no validation split: ``val`` is ``test``."""
    split = "train" if split == "train" else "test"
    folder = next((path / name for name in kind.folders if (path / name).is_dir()), path)
    if (folder / kind.binary_files[split][0]).exists():
        parts = read_all(partial(_read_binary, kind, folder / name) for name in kind.binary_files[split])
        names = _read_names_text(folder / kind.names_text, kind.classes)
    elif (folder / kind.files[split][0]).exists():
        parts = read_all(partial(_read_pickle, kind, folder / name) for name in kind.files[split])
        names = _read_names_pickle(folder / kind.names_pickle[0], kind.names_pickle[1], kind.classes)
    else:
        raise VergenceError(
            f"{path} holds neither {kind.files[split][0]} nor {kind.binary_files[split][0]}: "
            f"expected the files of {kind.folders[0]} or {kind.folders[1]}"
        )
    counts = {len(labels) for _, labels in parts}
    if len(counts) > 1:  # a file truncated at the end of a row still reads without error
        shortest = kind.files[split][min(range(len(parts)), key=lambda i: len(parts[i][1]))]
        raise VergenceError(f"{folder} is not whole: {shortest} has fewer pictures than its siblings")
    pixels, labels = (np.concatenate(p) for p in zip(*parts, strict=True))
    return Labelled(
        torch.from_numpy(pixels.reshape(-1, 3, SIDE, SIDE)), torch.from_numpy(labels.astype(np.int64)), names
    )


def _read_pickle(kind: _Cifar, path: Path) -> tuple[Any, Any]:
    batch = read_pickle(path)
    if not isinstance(batch, dict) or b"data" not in batch or kind.label_key not in batch:
        raise VergenceError(f"{path} is not a CIFAR batch: expected 'data' and {kind.label_key.decode()!r}")
    try:
        pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[kind.label_key])
    except ValueError:
        raise VergenceError(f"{path} is not a CIFAR batch: its rows differ in length") from None
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != 3 * SIDE * SIDE or not len(pixels):
        raise VergenceError(
            f"{path} is not a CIFAR batch: 'data' is {pixels.dtype} {pixels.shape}, not bytes (N, 3072)"
        )
    return pixels, _checked_labels(labels, len(pixels), kind.classes, path)


def _read_binary(kind: _Cifar, path: Path) -> tuple[Any, Any]:
    row = kind.label_bytes + 3 * SIDE * SIDE
    content = np.frombuffer(read_bytes(path), np.uint8)
    if not len(content) or len(content) % row:
        raise VergenceError(f"{path} is cut short: {len(content)} bytes are not whole rows of {row}")
    rows = content.reshape(-1, row)
    labels = _checked_labels(rows[:, kind.label_bytes - 1], len(rows), kind.classes, path)
    return rows[:, kind.label_bytes :], labels


def _checked_labels(labels: Any, count: int, classes: int, path: Path) -> Any:
    if labels.shape != (count,) or labels.dtype.kind not in "iu":
        raise VergenceError(f"{path} has {labels.size} labels for {count} pictures")
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise VergenceError(f"{path} has a label outside 0 to {classes - 1}")
    return labels


def _read_names_pickle(path: Path, key: bytes, classes: int) -> tuple[str, ...]:
    if not path.exists():  # the names are optional
        return tuple(map(str, range(classes)))
    content = read_pickle(path)
    names = content.get(key) if isinstance(content, dict) else None
    if not isinstance(names, list) or len(names) != classes:
        raise VergenceError(f"{path} does not name {classes} classes under {key.decode()!r}")
    return tuple(name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names)


def _read_names_text(path: Path, classes: int) -> tuple[str, ...]:
    if not path.exists():
        return tuple(map(str, range(classes)))
    names = tuple(read_text(path).split())
    if len(names) != classes:
        raise VergenceError(f"{path} names {len(names)} classes, expected {classes}")
    return names


# CUB-200-2011 --------------------------------------------------------------------------------------------------------

T = TypeVar("T")


def read_cub(
    path: Path, split: str, crop: Literal["none", "box"] = "none", missing: Missing = "refuse"
) -> LabelledFiles:
    """``images/<class>/<picture>`` with images.txt, image_class_labels.txt, train_test_split.txt and classes.txt.

    There is no validation split: ``val`` is ``test``. With ``crop="box"`` birds are cut out by bounding_boxes.txt.
    """
    folder = path / "CUB_200_2011" if (path / "CUB_200_2011").is_dir() else path
    listed = folder / "images.txt"
    names = _numbered(listed, str)
    classes = _numbered(folder / "classes.txt", str)
    if list(classes) != list(range(1, len(classes) + 1)):
        gap = next(number for number in range(1, max(classes) + 2) if number not in classes)
        raise VergenceError(f"{folder / 'classes.txt'} does not number the classes from 1 on: there is no class {gap}")
    labels = _numbered(folder / "image_class_labels.txt", int, names)
    trains = _numbered(folder / "train_test_split.txt", int, names)
    boxes = _numbered(folder / "bounding_boxes.txt", _box, names) if crop == "box" else {}
    unknown = next((number for number in names if labels[number] not in classes), None)
    if unknown is not None:
        raise VergenceError(
            f"{folder / 'image_class_labels.txt'} gives picture {unknown} the class {labels[unknown]}, but "
            f"classes.txt has 1 to {len(classes)}"
        )
    if not set(trains.values()) <= {0, 1}:
        raise VergenceError(f"{folder / 'train_test_split.txt'} has numbers other than 1 (train) and 0 (test)")
    mine = [number for number in names if trains[number] == (split == "train")]
    there = {p for p in (folder / "images").glob("*/*") if p.is_file()}
    gone = {number for number in mine if folder / "images" / names[number] not in there}
    absent = [f"{folder / 'images' / names[n]} does not exist, but {listed} lists it" for n in mine if n in gone]
    skipped = left_out(absent, missing)
    kept = [number for number in mine if number not in gone]
    shown = {labels[number] for number in kept}
    empty = [
        f"the class {name!r} of {folder} has no training pictures" for n, name in classes.items() if n not in shown
    ]
    if empty and split == "train":
        raise Several(empty)
    if not kept:
        raise VergenceError(f"{folder} has no pictures for {split!r}")
    return LabelledFiles(
        tuple(folder / "images" / names[number] for number in kept),
        tuple(labels[number] - 1 for number in kept),
        tuple(classes.values()),
        tuple(boxes[number] for number in kept) if boxes else (),
        skipped,
    )


def _numbered(path: Path, read: Callable[[str], T], names: dict[int, str] | None = None) -> dict[int, T]:
    """Lines of a number and a value, by number; if ``names`` are given, they must be exactly its keys."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise VergenceError(f"{path} does not exist: expected CUB-200-2011") from None
    except (OSError, UnicodeError) as error:
        raise VergenceError(f"{path} cannot be read: {reason(error)}") from error
    values: dict[int, T] = {}
    for line, text in enumerate(lines, 1):
        number, _, rest = text.strip().partition(" ")
        try:
            key, value = int(number), read(rest.strip())
            if not rest.strip() or key in values:
                raise ValueError
        except ValueError:
            raise VergenceError(f"line {line} of {path} is not a new number and its value: {text[:60]!r}") from None
        values[key] = value
    if not values:
        raise VergenceError(f"{path} is empty")
    for key, name in (names or {}).items():
        if key not in values:
            raise VergenceError(f"{path} has no line for picture {key} ({name})")
    extra = next((key for key in values if names is not None and key not in names), None)
    if extra is not None:
        raise VergenceError(f"{path} has a line for picture {extra}, which is not in images.txt")
    return values


def _box(text: str) -> Box:
    left, top, width, height = map(float, text.split())
    if not all(map(math.isfinite, (left, top, width, height))) or min(width, height) <= 0 or min(left, top) < 0:
        raise ValueError
    return left, top, width, height


# Class folders, list files -------------------------------------------------------------------------------------------

_STANDS_IN = {"train": ["train"], "val": ["val", "test"], "test": ["test", "val"]}


def read_lists(path: Path, split: str, missing: Missing = "refuse") -> LabelledFiles:
    """``PATH/NAME_train.list`` and ``PATH/NAME_val.list``, as the authors' code has them for ImageNet and CUB. ``test``
    may replace ``val`` and the other way round."""
    found, skipped = listed_files(path, split, _STANDS_IN, missing)
    return LabelledFiles(found.paths, found.labels, found.classes, skipped=skipped, split=found.split)


def read_class_folders(path: Path, split: str) -> LabelledFiles:
    """``PATH/<split>/<class>/*.jpg``, or ``PATH/<class>/*.jpg``, which are split by their names. ``test`` may replace
    ``val`` and the other way round."""
    try:
        found = class_files(path, split, _STANDS_IN, find_images, "picture")
        return LabelledFiles(found.paths, found.labels, found.classes, note=found.note, split=found.split)
    except OSError as error:
        raise VergenceError(f"{error.filename or path} cannot be read: {error.strerror}") from error


LAYOUTS = {
    "cifar10": Layout(lambda path, split: _read_cifar(_CIFAR10, path, split), "cifar-10-batches-py or -bin"),
    "cifar100": Layout(lambda path, split: _read_cifar(_CIFAR100, path, split), "cifar-100-python or -binary"),
    "cub": Layout(
        read_cub, "CUB_200_2011: images/, images.txt, image_class_labels.txt, train_test_split.txt, classes.txt"
    ),
    "list": Layout(
        read_lists,
        "imagenet_train.list and imagenet_val.list, or other NAME_train.list and NAME_val.list, with one line "
        "relative/path.jpg,label per picture",
    ),
    "folder": Layout(
        read_class_folders, "folders train/<class>/<picture> and val/<class>/<picture>, or <class>/<picture>"
    ),
}
