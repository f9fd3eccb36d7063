"""Pictures with cameras and known surfaces: Strecha's multi-view sets, TUM's RGB-D sequences, and a user's own folder.

Readers return single photographs; :class:`Windows` makes shots of several pictures out of consecutive ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.clouds import read_cloud
from vergence.data.images import find_images, read_image
from vergence.data.photographs import path_of
from vergence.matching.cameras import (
    Camera,
    camera,
    chosen,
    from_quaternion,
    intrinsics,
    pair_of,
    read_cameras,
    undistorted,
)
from vergence.matching.surfaces import Surface, from_cloud, from_depth
from vergence.reading.arrays import read_npz
from vergence.reading.files import read_text
from vergence.reading.maps import read_png16

APART = 0.02
"""Seconds: measurements of TUM's sequences that are farther apart do not belong together."""
METRE = 5000.0
"""TUM's depth of one metre."""
LENSES = {
    "freiburg1": ((517.3, 516.5, 318.6, 255.3), (0.2624, -0.9531, -0.0054, 0.0026, 1.1633)),
    "freiburg2": ((520.9, 521.0, 325.1, 249.7), (0.2312, -0.7849, -0.0033, -0.0001, 0.9172)),
    "freiburg3": ((535.4, 539.2, 320.1, 247.6), ()),
}
"""Intrinsics and distortion of TUM's three cameras, as published."""
MOTORCYCLE = (994.978, 311.193, 254.877, 31.086, 0.193001)
"""Focal length, principal point, how much farther right that of the right picture is (pixels), and baseline (metres):
the documentation of scikit-image's ``stereo_motorcycle``."""


@dataclass(frozen=True, eq=False)
class Shot:
    """Pictures of a static scene, without distortion."""

    name: str
    pictures: Sequence[Tensor]
    """Bytes (3, H, W) each."""
    cameras: Sequence[Camera]
    surface: Surface | None
    """What the first camera sees, if it is known."""
    depths: Tensor | None = None
    """(pictures, H, W), where all depths are known exactly."""


@dataclass(frozen=True, eq=False)
class Photo:
    """One picture with its camera, and its depth or a cloud of the scene."""

    name: str
    picture: Tensor
    """Bytes (3, H, W)."""
    camera: Camera
    depth: Any = None
    """(H, W) array in the unit of the poses, 0 where it is unknown."""
    cloud: Tensor | None = None
    """Points of the world, (M, 3)."""

    def surface(self) -> Surface | None:
        if self.depth is not None:
            return from_depth(self.camera, self.depth)
        return from_cloud(self.camera, self.cloud, self.picture.shape[-2:]) if self.cloud is not None else None


@dataclass(frozen=True)
class Photos:
    """Photographs in files, read on access."""

    paths: tuple[Path, ...]
    load: Callable[[int], Photo]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Photo:
        return self.load(range(len(self))[index])


@dataclass(frozen=True)
class Windows:
    """Shots of ``views`` photographs each, ``stride`` apart."""

    photos: Photos
    views: int
    stride: int = 1

    def __post_init__(self) -> None:
        if not len(self):
            raise VergenceError(
                f"{self.photos.paths[0].parent} has {len(self.photos)} pictures: expected at least "
                f"{self._reach + 1} for {self.views} views, {self.stride} apart"
            )

    @property
    def _reach(self) -> int:
        return (self.views - 1) * self.stride

    def __len__(self) -> int:
        return max(len(self.photos) - self._reach, 0)

    def __getitem__(self, index: int) -> Shot:
        first = range(len(self))[index]
        photos = [self.photos[first + number * self.stride] for number in range(self.views)]
        pictures = [flattened(photo.picture, photo.camera) for photo in photos]
        return Shot(photos[0].name, pictures, [photo.camera for photo in photos], photos[0].surface())


def flattened(picture: Tensor, own: Camera) -> Tensor:
    """A picture of bytes without its camera's distortion."""
    flat = undistorted(picture.float(), own)
    return flat.round().clamp(0, 255).to(torch.uint8) if own.distortion else picture


def motorcycle() -> Shot:
    """The stereo pair of scikit-image (Middlebury 2014, Motorcycle) with its published calibration, in metres; the
    surface is that of the ground-truth disparity."""
    left, right = (path_of(f"motorcycle_{side}.png") for side in ("left", "right"))
    disparity = read_npz(path_of("motorcycle_disp.npz"))["arr_0"].astype(float)
    focal, cx, cy, shift, baseline = MOTORCYCLE
    cameras = pair_of([left.name, right.name], f"{focal},{cx},{cy};{focal},{cx + shift},{cy}", f"{-baseline},0,0")
    with np.errstate(invalid="ignore"):
        depth = np.where(np.isfinite(disparity), baseline * focal / (disparity + shift), 0.0)
    return Shot("motorcycle", [read_image(left), read_image(right)], cameras, from_depth(cameras[0], depth))


# Folders --------------------------------------------------------------------------------------------------------------


def _read_folder(path: Path, split: str) -> Photos:
    """Pictures with cameras of any kind; a PLY file holds points of the scene."""
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder: expected {FOLDER}")
    return _with_cameras(path, read_cameras(path))


def _read_strecha(path: Path, split: str) -> Photos:
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder: expected {STRECHA}")
    if not any(path.rglob("*.camera")):
        raise VergenceError(f"{path} has no .camera files: expected {STRECHA}")
    if not any(path.rglob("*.ply")):
        raise VergenceError(f"{path} has no .ply file with the scanned surface: expected {STRECHA}")
    return _with_cameras(path, read_cameras(path))


def _with_cameras(path: Path, cameras: dict[str, Camera]) -> Photos:
    images = find_images(path)
    if not images:
        raise VergenceError(f"{path} has no picture")
    names = {Path(name).name for name in cameras} | {Path(name).stem for name in cameras}
    paths = tuple(image for image in images if {image.name, image.stem} & names)
    if len(paths) < 2:
        raise VergenceError(f"{path} has {len(paths)} pictures with a camera: expected at least two")
    own = chosen(cameras, [image.name for image in paths], path)
    clouds = sorted(path.rglob("*.ply"))
    cloud = torch.cat([read_cloud(file) for file in clouds]) if clouds else None

    def load(index: int) -> Photo:
        return Photo(paths[index].stem, read_image(paths[index]), own[index], cloud=cloud)

    return Photos(paths, load)


# TUM RGB-D ------------------------------------------------------------------------------------------------------------


def _read_tum(path: Path, split: str) -> Photos:
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder: expected {TUM}")
    lens, distortion = next((v for name, v in LENSES.items() if name in path.resolve().name), LENSES["freiburg3"])
    colour, depth = (_listed(path / f"{name}.txt", path) for name in ("rgb", "depth"))
    poses = _numbers(path / "groundtruth.txt", 8)
    found = [
        (image, depth[1][_nearest(depth[0], when)], poses[_nearest(poses[:, 0], when)])
        for when, image in zip(*colour, strict=True)
        if _together(depth[0], when) and _together(poses[:, 0], when)
    ]
    if len(found) < 2:
        raise VergenceError(f"{path}: groundtruth.txt has poses for {len(found)} of the pictures, expected two or more")
    paths = tuple(image for image, _, _ in found)

    @cache
    def pose(index: int) -> Camera:
        _, tx, ty, tz, qx, qy, qz, qw = found[index][2].tolist()
        R = from_quaternion(qw, qx, qy, qz).mT  # files have poses of the camera in the world
        t = -R @ torch.tensor([tx, ty, tz], dtype=torch.float64)
        return camera(paths[index].name, intrinsics(lens), R, t, path / "groundtruth.txt", distortion)

    def load(index: int) -> Photo:
        far = np.asarray(read_png16(found[index][1]), float) / METRE
        return Photo(paths[index].stem, read_image(paths[index]), pose(index), far)

    return Photos(paths, load)


def _listed(file: Path, folder: Path) -> tuple[Any, list[Path]]:
    """Times and files of ``rgb.txt`` or ``depth.txt``."""
    times, files = [], []
    for words in _rows(file):
        if len(words) != 2 or not (folder / words[1]).is_file():
            raise VergenceError(f"{file} has the line {' '.join(words)[:60]!r}: expected a time and a file that exists")
        times.append(_number(words[0], file))
        files.append(folder / words[1])
    present = len(list(files[0].parent.glob("*.png")))
    if present > len(files):
        raise VergenceError(
            f"{file} lists {len(files)} of the {present} pictures in {files[0].parent.name}: is it cut short?"
        )
    return np.array(times), files


def _numbers(file: Path, columns: int) -> Any:
    rows = _rows(file)
    short = next((row for row in rows if len(row) != columns), None)
    if short is not None:
        raise VergenceError(f"{file} has the line {' '.join(short)[:60]!r}: expected {columns} numbers")
    return np.array([[_number(word, file) for word in row] for row in rows])


def _rows(file: Path) -> list[list[str]]:
    rows = [line.split() for line in read_text(file).splitlines() if line.strip() and not line.startswith("#")]
    if not rows:
        raise VergenceError(f"{file} has no lines: expected {TUM}")
    return rows


def _number(word: str, file: Path) -> float:
    try:
        return float(word)
    except ValueError:
        raise VergenceError(f"{file} has {word[:40]!r} where a number is expected") from None


def _nearest(times: Any, when: float) -> int:
    return int(np.abs(times - when).argmin())


def _together(times: Any, when: float) -> bool:
    return bool(np.abs(times - when).min() <= APART)


FOLDER = "pictures with cameras.txt and images.txt, cameras.json or NAME.camera, and perhaps a .ply of the scene"
STRECHA = "images/0000.png, cameras/0000.png.camera and the scanned surface as .ply"
TUM = "rgb.txt, depth.txt, groundtruth.txt, rgb/*.png and depth/*.png"
LAYOUTS = {
    "folder": Layout(_read_folder, FOLDER),
    "strecha": Layout(_read_strecha, STRECHA),
    "tum": Layout(_read_tum, TUM),
}
