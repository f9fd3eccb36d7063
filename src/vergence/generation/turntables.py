"""Pictures with labels of views: the data itself, pairs of views for tests, and readers of public layouts.

The pictures of one object may be one or many. Training looks at pictures and labels alone; tests compare a picture that
was made for a view with the real one of the same object.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.classfolders import class_files
from vergence.data.images import SUFFIXES, find_images, read_image
from vergence.reading.matlab_structs import read_mat_tree

STANDS_IN = {"train": ("train",), "val": ("val", "valid", "validation", "test"), "test": ("test", "val")}
CHAIR = re.compile(r"image_(\d{3})_p(\d{3})_t(\d{3})_r\d{3}\.png")
CHAIR_NAMES = "all_chair_names.mat"
FACE = re.compile(r"(\d{3})_(\d{2})_(\d{2})_(\d{3})_(\d{2})\D?.*")
CAMERAS = {
    "110": -90, "120": -75, "090": -60, "080": -45, "130": -30, "140": -15, "051": 0,
    "050": 15, "041": 30, "190": 45, "200": 60, "010": 75, "240": 90,
}  # fmt: skip
"""Cameras of Multi-PIE at the height of the head, by their angle; two more above it are left out."""
HELD = 20
"""Every 20th object of the training share is for validation, where the publishers name none."""


@dataclass(frozen=True)
class Turntable:
    """Pictures with their views and objects."""

    pictures: Any
    """Bytes (N, 3, S, S), or paths of files of any size."""
    labels: Tensor
    """(N,), index of each picture's view."""
    objects: Tensor
    """(N,), which object each picture shows; pictures of one number show the same."""
    names: tuple[str, ...]
    """Of the views."""
    rings: tuple[tuple[int, ...], ...]
    """Views in the order in which the camera moves, one row per elevation."""
    closed: bool
    """Whether the last view of a row is next to its first."""
    note: str = ""
    split: str = ""
    size: int = 0
    """Pictures are resized to this many pixels along each side; 0 leaves them."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        index = range(len(self))[index]
        return {"picture": self.picture(index), "view": int(self.labels[index]), "object": int(self.objects[index])}

    def picture(self, index: int) -> Tensor:
        """A picture (3, S, S), from -1 to 1."""
        held = self.pictures[index]
        return squared(held if isinstance(held, Tensor) else read_image(held), self.size)

    @cached_property
    def of_object(self) -> dict[int, list[int]]:
        """The pictures of each object, by index."""
        found: dict[int, list[int]] = {}
        for index, number in enumerate(self.objects.tolist()):
            found.setdefault(number, []).append(index)
        return found


@dataclass(frozen=True)
class Pairs:
    """Every picture whose object is seen from another view too, with one of those other pictures as its source."""

    data: Turntable

    @cached_property
    def indices(self) -> list[tuple[int, int]]:
        """Source and target of each pair; the source is drawn, the same in every run."""
        table, pairs = self.data, []
        source = generator("sources")
        for own in table.of_object.values():
            for target in own:
                others = [i for i in own if table.labels[i] != table.labels[target]]
                if others:
                    pairs.append((others[int(torch.randint(len(others), (), generator=source))], target))
        return pairs

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> dict[str, Any]:
        first, second = self.indices[range(len(self))[index]]
        source, target = self.data[first], self.data[second]
        return {"source": source["picture"], "from": source["view"], "target": target["picture"], "to": target["view"],
                "object": target["object"]}  # fmt: skip


def squared(picture: Tensor, size: int) -> Tensor:
    """A picture of bytes (3, H, W) as floats from -1 to 1, made square by margins of its border's colour, and resized
    to ``size`` (0: not at all)."""
    values = picture.float() / 127.5 - 1
    height, width = values.shape[-2:]
    if height != width:
        edge = torch.cat([values[:, 0], values[:, -1], values[:, :, 0], values[:, :, -1]], 1).median(1).values
        side = max(height, width)
        top, left = (side - height) // 2, (side - width) // 2
        whole = edge.view(3, 1, 1).repeat(1, side, side)
        whole[:, top : top + height, left : left + width] = values
        values = whole
    if size and values.shape[-1] != size:
        values = F.interpolate(values[None], (size, size), mode="bilinear", antialias=True, align_corners=False)[0]
    return values.clamp(-1, 1)


# Readers --------------------------------------------------------------------------------------------------------------


def read_chairs(path: Path, split: str) -> Turntable:
    """The rendered 3D chairs: folders of models, each with pictures from 31 yaws at two elevations."""
    root = path / "rendered_chairs" if (path / "rendered_chairs").is_dir() else path
    folders = _chair_folders(root)
    share = min(len(folders) * 4 // 5 + 1, len(folders) - 1)
    chosen = _share(folders, share, split)
    files, objects, views = [], [], {}
    for number, name in enumerate(folders):
        for file in sorted((root / name / "renders").glob("image_*.png")):
            match = CHAIR.fullmatch(file.name)
            if match is None:
                raise VergenceError(f"{file} is no picture of a chair: expected image_NNN_pNNN_tNNN_r096.png")
            views[match[1]] = (match[2], match[3])
            if name in chosen:
                files.append((file, match[1]))
                objects.append(number)
    order = sorted(views)
    names = tuple(f"p{views[key][0]}_t{views[key][1]}" for key in order)
    rows: dict[str, list[int]] = {}
    for index, key in enumerate(order):
        rows.setdefault(views[key][0], []).append(index)
    rings = tuple(tuple(sorted(row, key=lambda i: names[i])) for row in rows.values())
    labels = [order.index(key) for _, key in files]
    return _checked(path, split, [file for file, _ in files], labels, objects, names, rings, True)


def _chair_folders(root: Path) -> list[str]:
    folders = sorted(p.parent.name for p in root.glob("*/renders") if p.is_dir())
    if not folders:
        raise VergenceError(f"{root} has no chairs: expected <chair>/renders/image_NNN_pNNN_tNNN_r096.png")
    listed = root / CHAIR_NAMES
    if not listed.is_file():
        return folders
    names = read_mat_tree(listed, ("folder_names",)).get("folder_names")
    if names is None:
        raise VergenceError(f"{listed} names no chairs: expected the variable folder_names")
    named = [str(value) for value in _strings(names)]
    missing = [name for name in named if name not in set(folders)]
    if missing:
        raise VergenceError(f"{listed} names {missing[0]!r}, and {root} has no folder {missing[0]}/renders")
    return named


def _strings(value: Any) -> list[str]:
    """The strings of a MATLAB cell array, whatever its nesting."""
    if isinstance(value, str):
        return [value]
    return [text for part in (value.tolist() if hasattr(value, "tolist") else value) for text in _strings(part)]


def _share(objects: Sequence[str], training: int, split: str) -> set[str]:
    """The objects of a split, where the first ``training`` are for training and the others for test."""
    if split == "test":
        return set(objects[training:])
    held = set(objects[HELD - 1 : training : HELD])
    return held if split == "val" and held else set(objects[:training]) - held


def read_multipie(path: Path, split: str) -> Turntable:
    """Multi-PIE: SSS_SS_RR_CCC_II.png for subject, session, recording, camera and light, in folders of any depth."""
    found = []
    for file in find_images(path):
        match = FACE.fullmatch(file.stem)
        if match and match[4] in CAMERAS:
            found.append((file, match[1], "_".join((match[1], match[2], match[3], match[5])), match[4]))
    if not found:
        raise VergenceError(f"{path} has no pictures of Multi-PIE: expected names like 001_01_01_051_07.png")
    people = sorted({person for _, person, _, _ in found})
    chosen = _share(people, min(max(len(people) * 4 // 5, 1), len(people) - 1), split)
    cameras = [camera for camera in CAMERAS if camera in {row[3] for row in found}]
    shots = sorted({row[2] for row in found})
    places = {shot: number for number, shot in enumerate(shots)}
    kept = [row for row in found if row[1] in chosen]
    names = tuple(str(CAMERAS[camera]) for camera in cameras)
    return _checked(
        path, split, [row[0] for row in kept], [cameras.index(row[3]) for row in kept],
        [places[row[2]] for row in kept], names, (tuple(range(len(cameras))),), False,
    )  # fmt: skip


def read_folder(path: Path, split: str) -> Turntable:
    """One folder of pictures per view; pictures of the same name show the same object."""
    if not path.is_dir():
        raise VergenceError(f"{path} is no folder: expected <view>/<picture> in it")
    files = class_files(path, split, STANDS_IN, find_images, "picture")
    names = sorted(files.classes, key=_natural)
    stems = sorted({file.stem for file in files.paths})
    places = {stem: number for number, stem in enumerate(stems)}
    labels = [names.index(files.classes[label]) for label in files.labels]
    table = _checked(
        path, split, list(files.paths), labels, [places[file.stem] for file in files.paths], tuple(names),
        (tuple(range(len(names))),), _full_turn(names),
    )  # fmt: skip
    return Turntable(**{**vars(table), "note": files.note, "split": files.split})


def _natural(name: str) -> tuple[Any, ...]:
    """Sorts numbers by value, before other names."""
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name


def _full_turn(names: Sequence[str]) -> bool:
    """Whether names are angles in degrees at equal steps all the way round."""
    try:
        angles = [float(name) for name in names]
    except ValueError:
        return False
    step = 360 / len(angles)
    return len(angles) > 2 and all(abs(b - a - step) < 0.02 * step for a, b in itertools.pairwise(angles))


def _checked(
    path: Path, split: str, files: list[Path], labels: list[int], objects: list[int], names: tuple[str, ...],
    rings: tuple[tuple[int, ...], ...], closed: bool,
) -> Turntable:  # fmt: skip
    if len(names) == 1:
        raise VergenceError(f"{path} has pictures of a single view, {names[0]!r}: expected two or more views")
    if not files:
        raise VergenceError(f"{path} has no pictures for {split!r}: expected some of two or more objects")
    return Turntable(files, torch.tensor(labels), torch.tensor(objects), names, rings, closed)


LAYOUTS: Mapping[str, Layout] = {
    "chairs": Layout(read_chairs, "rendered_chairs/<chair>/renders/image_NNN_pNNN_tNNN_r096.png (3D chairs)"),
    "multipie": Layout(read_multipie, "pictures named SSS_SS_RR_CCC_II.png, in folders of any depth (Multi-PIE)"),
    "folder": Layout(
        read_folder, f"<view>/<picture> or <split>/<view>/<picture> ({', '.join(sorted(SUFFIXES))}); pictures of the "
        "same name show the same object",
    ),
}  # fmt: skip
