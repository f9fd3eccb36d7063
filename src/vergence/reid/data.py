"""Re-identification images: readers of the public data sets and of plain folders, samplers and augmentation.

Training and test identities do not overlap. A test set is one list of pictures, the queries first and then the gallery;
``val`` is ``test``, since none of the data sets has a validation split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data import images
from vergence.data.images import SUFFIXES, read_image
from vergence.metrics.ranking import JUNK, Taken
from vergence.reid.settings import PersonView, Sampler


class Shot(NamedTuple):
    """A picture file with its identity and camera."""

    path: Path
    identity: int
    camera: int


class Seen(NamedTuple):
    """A sample: a picture (3, H, W), its identity (in training a class label from 0) and its camera."""

    picture: Tensor
    identity: int
    camera: int


@dataclass(frozen=True)
class Shots:
    """Pictures in files, read on access. The first ``queries`` are the queries; the rest is the gallery."""

    shots: tuple[Shot, ...]
    queries: int = 0

    def __len__(self) -> int:
        return len(self.shots)

    def __getitem__(self, index: int) -> Seen:
        path, identity, camera = self.shots[index]
        return Seen(read_image(path), identity, camera)

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(shot.path for shot in self.shots)

    @property
    def identities(self) -> tuple[int, ...]:
        return tuple(shot.identity for shot in self.shots)

    @property
    def cameras(self) -> tuple[int, ...]:
        return tuple(shot.camera for shot in self.shots)


def whole(view: PersonView, picture: Tensor) -> Tensor:
    """Evaluation transform: the whole picture, resized and normalised, (3, height, width)."""
    return images.normalised(images.resized(images.scaled(picture), view.height, view.width), view.mean, view.std)


def augmented(view: PersonView, picture: Tensor, generator: torch.Generator) -> Tensor:
    """Training transform: randomly augmented and normalised, (3, height, width)."""
    seen = whole(view, picture)
    if view.pad:
        seen = images.padded_crop(seen, view.pad, generator)
    if view.flip:
        seen = images.flipped(seen, generator)
    if view.erase:
        seen = images.erased(seen, view.erase, generator)
    return seen


@dataclass(frozen=True)
class Viewed:
    """Pictures as network input: the whole picture by index, randomly augmented by ``draw``."""

    data: Any
    view: PersonView

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Seen:
        picture, identity, camera = self.data[index]
        return Seen(whole(self.view, picture), identity, camera)

    def draw(self, index: int, generator: torch.Generator) -> Seen:
        picture, identity, camera = self.data[index]
        return Seen(augmented(self.view, picture, generator), identity, camera)


@dataclass(frozen=True)
class Balanced(Viewed):
    """Batches with ``each`` pictures per identity (PK sampling); identities with fewer pictures repeat them."""

    each: int = 4

    def batches(self, size: int, generator: torch.Generator) -> Iterator[list[int]]:
        """One epoch: every identity once, ``size // each`` of them per batch."""
        if size < self.each or size % self.each:
            raise VergenceError(f"a batch of {size} cannot hold identities with {self.each} pictures each")
        by_identity: dict[int, list[int]] = {}
        for index, identity in enumerate(self.data.identities):
            by_identity.setdefault(identity, []).append(index)
        people = [list(by_identity.values())[i] for i in torch.randperm(len(by_identity), generator=generator)]
        together = size // self.each
        for start in range(0, len(people) - together + 1 if len(people) >= together else 1, together):
            yield [i for indices in people[start : start + together] for i in self._some(indices, generator)]

    def _some(self, indices: Sequence[int], generator: torch.Generator) -> list[int]:
        chosen: list[int] = []
        while len(chosen) < self.each:
            order = torch.randperm(len(indices), generator=generator).tolist()
            chosen += [indices[i] for i in order][: self.each - len(chosen)]
        return chosen


def judged(data: Any) -> tuple[Taken, Taken]:
    """Identities and cameras of the queries and of the gallery of a test set."""
    identities, cameras = torch.tensor(data.identities), torch.tensor(data.cameras)
    queries, gallery = (Taken(identities[s], cameras[s]) for s in (slice(data.queries), slice(data.queries, None)))
    if not len(queries) or not len(gallery):
        raise VergenceError(f"there is nothing to rank: {len(queries)} queries and {len(gallery)} gallery pictures")
    return queries, gallery


# Reading names -------------------------------------------------------------------------------------------------------

Read = Callable[[str], tuple[str, int] | None]
"""Parses identity and camera from a file name; None if the name does not fit the layout."""


def _market(name: str) -> tuple[str, int] | None:
    """``0002_c1s1_000451_03.jpg``, ``0001_c2_f0046182.jpg``, ``-1_c1s1_...``."""
    found = re.match(r"(-?\d+)_c(\d+)", name)
    return (found[1], int(found[2])) if found else None


def _plain(name: str) -> tuple[str, int] | None:
    """``anna_2_anything.jpg``: identity, camera (a number, with or without a ``c``), anything."""
    found = re.match(r"([^_]+)_c?(\d+)(?:[_.]|$)", name)
    return (found[1], int(found[2])) if found else None


def _listed(folder: Path, read: Read, form: str) -> list[tuple[Path, str, int]]:
    """The pictures of a folder with identity and camera; a name that cannot be parsed is an error."""
    try:
        files = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())
    except OSError as error:
        raise VergenceError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
    if not files:
        raise VergenceError(f"{folder} holds no pictures")
    parsed = [(file, read(file.name)) for file in files]
    strange = [file.name for file, name in parsed if name is None]
    if strange:
        raise VergenceError(
            f"{folder} has {len(strange)} of {len(files)} pictures whose names are not like {form}, "
            f"the first {strange[0]!r}"
        )
    return [(file, *name) for file, name in parsed if name is not None]


def _folders(path: Path, names: Sequence[str]) -> list[Path]:
    missing = [name for name in names if not (path / name).is_dir()]
    if missing:
        raise VergenceError(f"{path} has no folder {missing[0]!r}: expected {', '.join(names)}")
    return [path / name for name in names]


def _relabelled(shots: Sequence[Shot]) -> Shots:
    """Maps identities to class labels from 0, for training."""
    labels = {identity: label for label, identity in enumerate(sorted({shot.identity for shot in shots}))}
    return Shots(tuple(shot._replace(identity=labels[shot.identity]) for shot in shots))


def _tested(queries: Sequence[Shot], gallery: Sequence[Shot]) -> Shots:
    return Shots((*queries, *gallery), len(queries))


# Layouts -------------------------------------------------------------------------------------------------------------


def _read_market(path: Path, split: str, form: str = "0002_c1s1_000451_03.jpg") -> Shots:
    """Three folders. Junk (``-1``) is left out; distractors (``0000``) stay in the gallery."""
    train, query, test = _folders(path, ("bounding_box_train", "query", "bounding_box_test"))

    def shots(folder: Path) -> list[Shot]:
        read = [Shot(file, int(name), camera) for file, name, camera in _listed(folder, _market, form)]
        kept = [shot for shot in read if shot.identity != JUNK]
        if not kept:
            raise VergenceError(f"{folder} holds only junk pictures")
        return kept

    return _relabelled(shots(train)) if split == "train" else _tested(shots(query), shots(test))


def _read_cuhk03(path: Path, split: str, boxes: Sequence[str]) -> Shots:
    """CUHK03-NP has one Market-1501 layout per kind of bounding box."""
    folder = next((path / name for name in boxes if (path / name).is_dir()), path)
    return _read_market(folder, split, "0003_c1_21.png")


def _read_msmt17(path: Path, split: str) -> Shots:
    """Lists of ``0000/0000_000_01_0303morning_0008_0.jpg 0``; the public training set is ``train`` and ``val``."""
    releases = (("train", "test"), ("mask_train_v2", "mask_test_v2"))
    folders = next((r for r in releases if (path / r[0]).is_dir()), releases[0])
    if split == "train":
        return _relabelled(_msmt17_part(_folders(path, folders)[0], path, ("list_train.txt", "list_val.txt"))[0])
    shots, queries = _msmt17_part(_folders(path, folders)[1], path, ("list_query.txt", "list_gallery.txt"))
    return Shots(tuple(shots), queries)


def _msmt17_part(folder: Path, path: Path, lists: tuple[str, str]) -> tuple[list[Shot], int]:
    """The pictures of both lists, and the length of the first. Together they must name every picture of the folder."""
    first, second = (_msmt17_list(path / name, folder) for name in lists)
    named = {shot.path for shot in (*first, *second)}
    there = {p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES}
    if there - named:
        example = min(there - named)
        raise VergenceError(
            f"{len(there - named)} pictures of {folder} are neither in {lists[0]} nor in {lists[1]}, "
            f"the first {example.relative_to(folder)}"
        )
    return [*first, *second], len(first)


def _msmt17_list(path: Path, folder: Path) -> list[Shot]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise VergenceError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise VergenceError(f"{path} cannot be read: {error}") from error
    shots = []
    for number, line in enumerate(lines, 1):
        fields = re.fullmatch(r"(\S*?\d+_\d+_(\d+)_\S+\.\w+) (\d+)", line.strip())
        if not fields:
            raise VergenceError(f"line {number} of {path} is not a picture with its identity: {line[:60]!r}")
        shots.append(Shot(folder / fields[1], int(fields[3]), int(fields[2])))
    if not shots:
        raise VergenceError(f"{path} names no pictures")
    return shots


def _read_plain(path: Path, split: str) -> Shots:
    """``train``, ``query`` and ``gallery`` with ``ID_CAMERA_anything.jpg``; or all in one folder.

    In one folder every second identity is for training. Of the others the first picture per identity and camera is a
    query, and all are the gallery (a query does not match itself, since its own camera is left out).
    """
    form = "ID_CAMERA_anything.jpg"
    if any((path / name).is_dir() for name in ("train", "query", "gallery")):
        folders = _folders(path, ("train",) if split == "train" else ("query", "gallery"))
        parts = [_listed(folder, _plain, form) for folder in folders]
    else:
        parts = [_listed(path, _plain, form)]
    numbers = {name: n for n, name in enumerate(sorted({name for part in parts for _, name, _ in part}))}
    shots = [[Shot(file, numbers[name], camera) for file, name, camera in part] for part in parts]
    if len(shots) == 2:
        return _tested(*shots)
    if split == "train" and (path / "train").is_dir():
        return _relabelled(shots[0])
    mine = [shot for shot in shots[0] if (shot.identity % 2 == 1) == (split == "train")]
    if not mine:
        raise VergenceError(f"{path} has one identity only: expected some for training and others for the test")
    if split == "train":
        return _relabelled(mine)
    firsts: dict[tuple[int, int], Shot] = {}
    for shot in mine:
        firsts.setdefault((shot.identity, shot.camera), shot)
    return _tested(list(firsts.values()), mine)


def _read_occluded(path: Path, split: str) -> Shots:
    """Occluded-REID: hidden people ask for whole ones, each kind as one camera. It is for testing; whoever trains on it
    all the same gets every picture."""
    query, gallery = _folders(path, ("query", "gallery"))

    def shots(folder: Path, camera: int) -> list[Shot]:
        return [Shot(file, int(name), camera) for file, name, _ in _listed(folder, _numbered, "001_01.jpg")]

    if split == "train":
        return _relabelled([*shots(query, 0), *shots(gallery, 1)])
    return _tested(shots(query, 0), shots(gallery, 1))


def _numbered(name: str) -> tuple[str, int] | None:
    """``001_05.jpg``: identity and number of the picture."""
    found = re.match(r"(\d+)_(\d+)", name)
    return (found[1], int(found[2])) if found else None


def _layout(read: Callable[[Path, str], Shots], about: str) -> Layout:
    def checked(path: Path, split: str) -> Shots:
        if not path.is_dir():
            raise VergenceError(f"{path} is not a folder: expected {about}")
        return read(path, split)

    return Layout(checked, about)


_MARKET = "the folders bounding_box_train, query and bounding_box_test"
LAYOUTS = {
    "market1501": _layout(_read_market, f"Market-1501: {_MARKET}"),
    "dukemtmc": _layout(lambda path, split: _read_market(path, split, "0001_c2_f0046182.jpg"), f"Duke: {_MARKET}"),
    "cuhk03-detected": _layout(
        lambda path, split: _read_cuhk03(path, split, ("detected",)), f"CUHK03-NP: the folder detected with {_MARKET}"
    ),
    "cuhk03-labelled": _layout(
        lambda path, split: _read_cuhk03(path, split, ("labeled", "labelled")),
        f"CUHK03-NP: the folder labeled with {_MARKET}",
    ),
    "msmt17": _layout(_read_msmt17, "MSMT17: the folders train and test, and list_{train,val,query,gallery}.txt"),
    "occluded-reid": _layout(
        _read_occluded, "Occluded-REID: the folders query (hidden people) and gallery (whole ones)"
    ),
    "folder": _layout(_read_plain, "folders train, query and gallery (or one) with ID_CAMERA_anything.jpg"),
}


def sampled(data: Any, view: PersonView, sampler: Sampler, each: int) -> Viewed:
    """Training data in random order, or with ``each`` pictures per identity in a batch."""
    return Balanced(data, view, each) if sampler == "balanced" else Viewed(data, view)
