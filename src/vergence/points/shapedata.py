"""Clouds of single objects with classes and parts: ModelNet40, ShapeNetPart, a user's own class folders; random
sampling, augmentation, and the disturbances that robustness is measured with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.classfolders import class_files
from vergence.data.clouds import as_points
from vergence.data.meshes import SUFFIXES, read_numbers, read_surface
from vergence.points.shapes import Objects
from vergence.reading.hdf5 import read_hdf5
from vergence.reading.tables import read_json, read_rows


class Shape(NamedTuple):
    """An object: points (P, 3) on the unit sphere, its class, and the part of each point (P,)."""

    points: Tensor
    label: int
    parts: Tensor


class Shapes(Protocol):
    """Objects by index, with the names that their numbers stand for."""

    classes: tuple[str, ...]
    parts: tuple[int, ...]
    part_names: tuple[str, ...]

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Shape: ...


def normalised(points: Tensor) -> Tensor:
    """Points (P, 3) centred, and scaled so that the farthest has a distance of 1."""
    centred = points - points.mean(0)
    return centred / centred.norm(dim=1).max().clamp_min(1e-12)


# Sampling and augmentation --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clouds:
    """Objects as network input: random points of each, always the same ones by index; new ones, turned, scaled and
    shifted, on each ``draw`` for training. A cloud with too few points repeats some."""

    data: Any
    asked: Objects

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self._sampled(index, generator("points", self.asked.points, index))

    def draw(self, index: int, generator: torch.Generator) -> dict[str, Tensor]:
        sample = self._sampled(index, generator)
        low, high = self.asked.scale
        points = sample["points"] @ random_turn(self.asked.turn, generator).mT
        points = points * (low + (high - low) * torch.rand((), generator=generator))
        shift = self.asked.shift * (2 * torch.rand(3, generator=generator) - 1)
        return {**sample, "points": points + shift}

    def _sampled(self, index: int, generator: torch.Generator) -> dict[str, Tensor]:
        shape: Shape = self.data[index]
        chosen = random_rows(len(shape.points), self.asked.points, generator)
        sample = {"points": shape.points[chosen], "label": torch.tensor(shape.label), "index": torch.tensor(index)}
        return {**sample, "parts": shape.parts[chosen]} if self.asked.task == "parts" else sample


def random_rows(count: int, wanted: int, source: torch.Generator) -> Tensor:
    """``wanted`` different numbers below ``count`` in random order; all of them and some again if there are fewer."""
    order = torch.randperm(count, generator=source)
    if count >= wanted:
        return order[:wanted]
    return torch.cat([order, torch.randint(count, (wanted - count,), generator=source)])


def random_turn(kind: str, source: torch.Generator) -> Tensor:
    """A random rotation (3, 3) about the second axis (``up``), about any axis (``any``), or none."""
    if kind == "none":
        return torch.eye(3)
    if kind == "up":
        angle = 2 * math.pi * float(torch.rand((), generator=source))
        cos, sin = math.cos(angle), math.sin(angle)
        return torch.tensor([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]])
    q, r = torch.linalg.qr(torch.randn(3, 3, generator=source))
    q = q * r.diagonal().sign()
    return q * torch.linalg.det(q).sign()


# Disturbances ---------------------------------------------------------------------------------------------------------

FEWEST = 16
"""Points that a disturbance leaves, if there are as many."""
Disturb = Callable[[Tensor, torch.Generator], Tensor]
"""Changes a cloud (M, 3) on the unit sphere; the result is not scaled again."""


def noisy(sigma: float) -> Disturb:
    """Independent normal noise on every coordinate."""
    return lambda points, source: points + sigma * torch.randn(points.shape, generator=source)


def thinned(share: float) -> Disturb:
    """A random share of the points, but at least :data:`FEWEST`."""

    def thin(points: Tensor, source: torch.Generator) -> Tensor:
        return points[torch.randperm(len(points), generator=source)[: max(round(share * len(points)), FEWEST)]]

    return thin


def uneven(strength: float) -> Disturb:
    """Half of the points, more likely on one side of the object: by ``exp(strength * x)`` along a random direction."""

    def choose(points: Tensor, source: torch.Generator) -> Tensor:
        direction = torch.nn.functional.normalize(torch.randn(3, generator=source), dim=0)
        weight = (strength * (points @ direction)).exp()
        return points[torch.multinomial(weight, max(len(points) // 2, min(FEWEST, len(points))), generator=source)]

    return choose


def tilted(degrees: float) -> Disturb:
    """Turned by this angle about a random horizontal axis; 180 or more: by a random rotation about any axis."""

    def tilt(points: Tensor, source: torch.Generator) -> Tensor:
        if degrees >= 180:
            return points @ random_turn("any", source).mT
        turn = random_turn("up", source)
        cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        return points @ (turn @ torch.tensor([[1, 0, 0], [0, cos, -sin], [0, sin, cos]]) @ turn.mT).mT

    return tilt


@dataclass(frozen=True)
class Disturbed:
    """Objects as :class:`Clouds` gives them by index, disturbed in the same way each time."""

    data: Any
    disturb: Disturb
    name: str

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        sample = self.data[index]
        return {**sample, "points": self.disturb(sample["points"], generator("disturbed", self.name, index))}


# ModelNet40 and ShapeNetPart ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredShapes:
    """Objects whose clouds are in memory."""

    clouds: Tensor  # (S, P, 3)
    labels: Tensor  # (S,)
    owners: Tensor | None  # (S, P)
    classes: tuple[str, ...]
    parts: tuple[int, ...] = ()
    part_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.clouds)

    def __getitem__(self, index: int) -> Shape:
        points = normalised(self.clouds[index])
        owners = torch.zeros(len(points), dtype=torch.long) if self.owners is None else self.owners[index]
        return Shape(points, int(self.labels[index]), owners)


@dataclass(frozen=True)
class ShapeFiles:
    """Objects in files, read on access."""

    files: tuple[Path, ...]
    labels: tuple[int, ...]
    load: Callable[[Path, int], tuple[Tensor, Tensor]]
    """Points (P, 3) and parts (P,) of a file, given its class."""
    classes: tuple[str, ...]
    parts: tuple[int, ...] = ()
    part_names: tuple[str, ...] = ()
    note: str = ""
    split: str = ""

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Shape:
        points, owners = self.load(self.files[index], self.labels[index])
        return Shape(normalised(points), self.labels[index], owners)


SAMPLED = 4096
"""Points sampled on the faces of a mesh: the most that the paper uses."""


def _read_modelnet40(path: Path, split: str) -> StoredShapes | ShapeFiles:
    """The clouds in HDF5, or the meshes. There is no validation set: the test shapes stand in for it."""
    part = "train" if split == "train" else "test"
    for root in (path / "modelnet40_ply_hdf5_2048", path):
        if any(root.glob("ply_data_*.h5")):
            clouds, labels, _ = _stored(root, f"ply_data_{part}*.h5", (), len(MODELNET))
            return StoredShapes(clouds, labels, None, _class_names(root / "shape_names.txt"))
    root = path / "ModelNet40" if (path / "ModelNet40").is_dir() else path
    folders = sorted(folder.parent for folder in root.glob("*/train") if folder.is_dir())
    if not folders:
        raise VergenceError(
            f"{path} is not ModelNet40: expected modelnet40_ply_hdf5_2048/ply_data_*.h5 or "
            "ModelNet40/<class>/{train,test}/*.off"
        )
    pairs = [(file, label) for label, f in enumerate(folders) for file in sorted((f / part).glob("*.off"))]
    if not pairs:
        raise VergenceError(f"{root} holds no <class>/{part}/*.off")
    files, numbers = zip(*pairs, strict=True)
    return ShapeFiles(files, numbers, _surface, tuple(folder.name for folder in folders))


MODELNET = (
    "airplane", "bathtub", "bed", "bench", "bookshelf", "bottle", "bowl", "car", "chair", "cone", "cup", "curtain",
    "desk", "door", "dresser", "flower_pot", "glass_box", "guitar", "keyboard", "lamp", "laptop", "mantel", "monitor",
    "night_stand", "person", "piano", "plant", "radio", "range_hood", "sink", "sofa", "stairs", "stool", "table",
    "tent", "toilet", "tv_stand", "vase", "wardrobe", "xbox",
)  # fmt: skip
"""The classes of ModelNet40, in the order of their labels."""


def _class_names(path: Path) -> tuple[str, ...]:
    """The class names that come with the clouds; without the file, those that are published."""
    if not path.exists():
        return MODELNET
    names = tuple(row[0].strip() for row in read_rows(path, what="a list of class names"))
    if names != MODELNET:
        raise VergenceError(f"{path} has {len(names)} names: expected the {len(MODELNET)} classes of ModelNet40")
    return names


def _stored(root: Path, pattern: str, more: tuple[str, ...], classes: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Clouds, labels and parts of all files of a split, in the order of their numbers."""
    files = sorted(root.glob(pattern), key=lambda file: (len(file.name), file.name))
    if not files:
        raise VergenceError(f"{root} holds no {pattern}")
    clouds, labels, owners = [], [], []
    for file in files:
        arrays = read_hdf5(file, ("data", "label", *more))
        data, numbers = arrays["data"], arrays["label"].reshape(-1)
        if data.ndim != 3 or data.shape[2] != 3 or not data.size or len(numbers) != len(data):
            raise VergenceError(
                f"{file} has 'data' of shape {data.shape} and {len(numbers)} labels: expected (n, points, 3) and n"
            )
        as_points(data.reshape(-1, 3), file)
        if numbers.dtype.kind not in "iu" or not 0 <= int(numbers.min()) <= int(numbers.max()) < classes:
            raise VergenceError(f"{file} has labels outside 0 to {classes - 1}")
        clouds.append(torch.from_numpy(data).float())
        labels.append(torch.from_numpy(numbers.astype("int64")))
        for name in more:
            if arrays[name].shape != data.shape[:2] or arrays[name].dtype.kind not in "iu":
                raise VergenceError(f"{file} has {name!r} of shape {arrays[name].shape}: expected {data.shape[:2]}")
            owners.append(torch.from_numpy(arrays[name].astype("int64")))
    sizes = {cloud.shape[1] for cloud in clouds}
    if len(sizes) > 1:
        raise VergenceError(f"the files {pattern} of {root} have clouds of {min(sizes)} to {max(sizes)} points")
    return torch.cat(clouds), torch.cat(labels), torch.cat(owners) if owners else None


def _surface(path: Path, label: int) -> tuple[Tensor, Tensor]:
    points = read_surface(path, SAMPLED, generator("surface", path.name))
    return points, torch.zeros(len(points), dtype=torch.long)


SHAPENET = {
    "Airplane": 4, "Bag": 2, "Cap": 2, "Car": 4, "Chair": 4, "Earphone": 3, "Guitar": 3, "Knife": 2, "Lamp": 4,
    "Laptop": 2, "Motorbike": 6, "Mug": 2, "Pistol": 3, "Rocket": 3, "Skateboard": 3, "Table": 3,
}  # fmt: skip
"""The number of parts of each category of ShapeNetPart, in their order."""


def _read_shapenetpart(path: Path, split: str) -> StoredShapes | ShapeFiles:
    parts = tuple(SHAPENET.values())
    named = tuple(f"{name} {number}" for name, count in SHAPENET.items() for number in range(count))
    for root in (path / "hdf5_data", path / "shapenet_part_seg_hdf5_data", path):
        if any(root.glob("ply_data_*.h5")):
            clouds, labels, owners = _stored(root, f"ply_data_{split}*.h5", ("pid",), len(SHAPENET))
            assert owners is not None
            first = torch.tensor([0, *parts]).cumsum(0)
            if not ((owners >= first[labels, None]) & (owners < first[labels + 1, None])).all():
                raise VergenceError(f"{root} has shapes with parts of another category in ply_data_{split}*.h5")
            return StoredShapes(clouds, labels, owners, tuple(SHAPENET), parts, named)
    root = path / "shapenetcore_partanno_segmentation_benchmark_v0_normal"
    root = root if root.is_dir() else path
    if not (root / "train_test_split").is_dir():
        raise VergenceError(
            f"{path} is not ShapeNetPart: expected shapenetcore_partanno_segmentation_benchmark_v0_normal with "
            "synsetoffset2category.txt and train_test_split, or ply_data_*.h5"
        )
    rows = [row[0].split() for row in read_rows(root / "synsetoffset2category.txt", what="a list of categories")]
    synsets = {row[-1]: row[0] for row in rows if len(row) > 1}
    unknown = sorted(set(synsets.values()) - set(SHAPENET))
    if unknown or not synsets:
        found = f"the category {unknown[0]!r}" if unknown else "no categories"
        raise VergenceError(f"{root / 'synsetoffset2category.txt'} has {found}: expected those of ShapeNetPart")
    listed = root / "train_test_split" / f"shuffled_{split}_file_list.json"
    entries = read_json(listed, "a list of shapes")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, str) for entry in entries):
        raise VergenceError(f"{listed} is not a list of shapes such as shape_data/02691156/1a04e3eab45ca15d")
    files, labels_ = [], []
    for entry in entries:
        synset, _, shape = entry.rpartition("shape_data/")[2].partition("/")
        if synset not in synsets or "/" in shape or ".." in shape:
            raise VergenceError(
                f"{listed} has the shape {entry!r}, whose category synsetoffset2category.txt does not list"
            )
        files.append(root / synset / f"{shape}.txt")
        labels_.append(list(SHAPENET).index(synsets[synset]))
    return ShapeFiles(tuple(files), tuple(labels_), _labelled, tuple(SHAPENET), parts, named)


def _labelled(path: Path, label: int) -> tuple[Tensor, Tensor]:
    """Rows of x y z nx ny nz and a part."""
    rows = read_numbers(path, "rows of x y z nx ny nz and a part")
    if rows.shape[1] != 7:
        raise VergenceError(f"{path} has {rows.shape[1]} numbers in a row: expected x y z nx ny nz and a part")
    sizes = tuple(SHAPENET.values())
    first = sum(sizes[:label])
    owners = torch.from_numpy(rows[:, 6].astype("int64"))
    if not first <= int(owners.min()) <= int(owners.max()) < first + sizes[label]:
        raise VergenceError(f"{path} has parts outside {first} to {first + sizes[label] - 1}, those of its category")
    return as_points(rows, path), owners


# A user's own folder --------------------------------------------------------------------------------------------------


def _read_folder(path: Path, split: str) -> ShapeFiles:
    stands_in = {"train": ["train"], "val": ["val", "test"], "test": ["test", "val"]}
    files = class_files(path, split, stands_in, _clouds_in, "cloud or mesh")
    return ShapeFiles(files.paths, files.labels, _surface, files.classes, note=files.note, split=files.split)


def _clouds_in(folder: Path) -> Sequence[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())


LAYOUTS = {
    "modelnet40": Layout(_read_modelnet40, "modelnet40_ply_hdf5_2048/ply_data_*.h5, or ModelNet40's .off meshes"),
    "shapenetpart": Layout(_read_shapenetpart, "ShapeNetPart as text with normals, or as ply_data_*.h5"),
    "folder": Layout(_read_folder, "class folders of .ply, .obj, .off, .xyz, .txt, .pcd, .npy or .npz"),
}
