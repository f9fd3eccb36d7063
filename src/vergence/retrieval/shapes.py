"""Data for retrieval by shape: embedded silhouettes, MPEG-7 CE-Shape-1 part B, the Multiview Curve Database, folders.

There is nothing to train on, so every split is the whole data set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.images import find_images
from vergence.metrics.classes import NONE
from vergence.retrieval.masks import Cameras, Foreground, homography, read_shape, seen
from vergence.retrieval.silhouettes import KINDS, silhouette


class Shape(NamedTuple):
    """One sample: a mask (H, W), its label (-1: no class), and a name to show."""

    mask: Tensor
    label: int
    name: str


class Shapes(Protocol):
    """Masks by index, with the names of their classes."""

    @property
    def classes(self) -> Sequence[str]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Shape: ...


@dataclass(frozen=True)
class Files:
    """Pictures of shapes, with a label for each."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]
    foreground: Foreground = "auto"

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Shape:
        path = self.paths[index]
        return Shape(_mask(path, self.foreground), self.labels[index], path.stem)


@lru_cache(maxsize=4)  # many views are of one file
def _mask(path: Path, foreground: Foreground) -> Tensor:
    return read_shape(path, foreground, clean=False).mask


@dataclass(frozen=True)
class Drawn:
    """Embedded silhouettes: several individuals of each kind."""

    kinds: int
    individuals: int
    seed: str
    side: int = 256

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(KINDS)[: self.kinds]

    def __len__(self) -> int:
        return self.kinds * self.individuals

    def __getitem__(self, index: int) -> Shape:
        label, number = divmod(range(len(self))[index], self.individuals)
        kind = self.classes[label]
        return Shape(silhouette(kind, f"{self.seed} {number}", self.side) >= 0.5, label, f"{kind}-{number + 1}")


@dataclass(frozen=True)
class Views:
    """Views of every shape by random cameras, each shape a class of its own: a generated Multiview Curve Database."""

    shapes: Shapes
    count: int
    """The number of views of each shape."""
    cameras: Cameras
    seed: int | str

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(f"shape {number}" for number in range(len(self.shapes)))

    def __len__(self) -> int:
        return len(self.shapes) * self.count

    def __getitem__(self, index: int) -> Shape:
        label, number = divmod(range(len(self))[index], self.count)
        shape = self.shapes[label]
        view = homography(self.cameras, generator("view", self.seed, label, number))
        return Shape(seen(shape.mask, view, self.cameras.side), label, f"{shape.name}, view {number + 1}")


@dataclass(frozen=True)
class Some:
    """At most ``count`` shapes, spread evenly."""

    shapes: Shapes
    count: int

    @property
    def classes(self) -> Sequence[str]:
        return self.shapes.classes

    def __len__(self) -> int:
        return min(self.count, len(self.shapes))

    def __getitem__(self, index: int) -> Shape:
        return self.shapes[range(len(self))[index] * len(self.shapes) // len(self)]


# Readers --------------------------------------------------------------------------------------------------------------


def _pictures(path: Path, about: str) -> list[Path]:
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder: expected {about}")
    paths = find_images(path)
    if not paths:
        raise VergenceError(f"{path} holds no pictures: expected {about}")
    return paths


def _labelled(paths: Sequence[Path], name: Callable[[Path], str | None]) -> Files:
    """Files whose class a function reads off their paths; None is no class."""
    names = [name(path) for path in paths]
    classes = sorted({found for found in names if found is not None})
    number = {found: label for label, found in enumerate(classes)}
    labels = tuple(NONE if found is None else number[found] for found in names)
    return Files(tuple(paths), labels, tuple(classes))


def _mpeg7(path: Path, split: str) -> Files:
    """``class-n.gif`` in one folder, as published, or as PNG; below any folders."""
    paths = _pictures(path, MPEG7)
    for file in paths:
        name, dash, number = file.stem.rpartition("-")
        if not (name and dash and number.isdigit()):
            raise VergenceError(f"{file} is not named as in MPEG-7 CE-Shape-1 part B: expected class-n{file.suffix}")
    return _labelled(paths, lambda file: file.stem.rpartition("-")[0])


def _folders(about: str) -> Callable[[Path, str], Files]:
    """``class/picture``; what lies beside the class folders has no class."""

    def read(path: Path, split: str) -> Files:
        paths = _pictures(path, about)
        top = path / split if (path / split).is_dir() else path
        inside = [file for file in paths if top in file.parents]
        if not inside:
            raise VergenceError(f"{top} holds no pictures: expected {about}")
        found = _labelled(inside, lambda file: None if file.parent == top else file.relative_to(top).parts[0])
        if not found.classes:
            raise VergenceError(f"{top} has no class folders: expected {about}")
        return found

    return read


def _mcd(path: Path, split: str) -> Files:
    """Class folders; or files in one folder, named as those of MPEG-7."""
    flat = all(file.parent == path for file in _pictures(path, MCD))
    return _mpeg7(path, split) if flat else _folders(MCD)(path, split)


MPEG7 = "class-n.gif (or .png) in one folder: MPEG-7 CE-Shape-1 part B"
MCD = "one folder for each class with the pictures of its views, or class-n.png in one folder"
PLAIN = "PATH/<class>/<picture>; pictures beside the class folders are in the gallery and of no class"
LAYOUTS = {
    "folder": Layout(_folders(PLAIN), PLAIN),
    "mpeg7": Layout(_mpeg7, MPEG7),
    "mcd": Layout(_mcd, MCD),
}
