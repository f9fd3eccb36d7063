"""Cameras with known poses: COLMAP's text model, Strecha's ``.camera`` files, JSON, or two intrinsics and a pose.

The centre of the top left pixel is at (0, 0). A pose takes points of the world to the camera, ``R X + t``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError, did_you_mean
from vergence.ops.epipolar import cross_matrix
from vergence.reading.files import read_text
from vergence.reading.tables import parse_json, read_json

TURNED = 0.01
"""How far ``RᵀR`` may be from the identity; what is nearer is taken as rounding."""
EXPECTED = "COLMAP's cameras.txt and images.txt, Strecha's .camera files, or cameras.json"


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera with a pose."""

    name: str
    """The picture's file name."""
    K: Tensor
    """(3, 3), intrinsics in pixels."""
    R: Tensor
    """(3, 3)."""
    t: Tensor
    """(3,)."""
    distortion: tuple[float, ...] = ()
    """k1, k2, p1, p2, k3 of OpenCV's model; nothing if the picture has none."""
    size: tuple[int, int] | None = None
    """Width and height of the picture, if known."""

    @property
    def centre(self) -> Tensor:
        """(3,), in the world."""
        return -self.R.mT @ self.t

    def normalised(self, pixels: Tensor) -> Tensor:
        """Points (..., 2) in pixels as normalised coordinates."""
        return (pixels - self.K[:2, 2]) @ torch.linalg.inv(self.K[:2, :2]).mT

    def project(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels (..., 2) and depths (...,) of points (..., 3) in the world."""
        seen = points @ self.R.mT + self.t
        flat = seen @ self.K.mT
        return flat[..., :2] / flat[..., 2:], seen[..., 2]


def camera(
    name: str,
    K: Any,
    R: Any,
    t: Any,
    source: object,
    distortion: Sequence[float] = (),
    size: tuple[int, int] | None = None,
) -> Camera:
    """A camera from plain numbers, after checking them; ``source`` is what errors call the file."""
    where = f"camera {name!r} of {source}"
    K, R, t = (_numbers(value, shape, f"{where}: {what}") for value, shape, what in (
        (K, (3, 3), "K"), (R, (3, 3), "R"), (t, (3,), "t")))  # fmt: skip
    if not (K[0, 0] > 0 and K[1, 1] > 0 and K[2, 2] == 1 and not K[1, 0] and not K[2, :2].any()):
        raise VergenceError(f"{where}: K is not [[fx, s, cx], [0, fy, cy], [0, 0, 1]] with fx and fy above 0")
    off = float((R.mT @ R - torch.eye(3)).abs().max())
    if off > TURNED:
        raise VergenceError(f"{where}: R is not a rotation: RᵀR differs from the identity by {off:.3g}")
    if torch.linalg.det(R) < 0:
        raise VergenceError(f"{where}: R is not a rotation but a reflection: its determinant is -1")
    U, _, V = torch.linalg.svd(R)
    bent = (*map(float, distortion), *[0.0] * (5 - len(distortion))) if any(distortion) else ()
    return Camera(name, K, U @ V, t, bent, size)


def _numbers(value: Any, shape: tuple[int, ...], what: str) -> Tensor:
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise VergenceError(f"{what} is not numbers of the shape {shape}") from None
    if tensor.shape != shape:
        raise VergenceError(f"{what} has the shape {tuple(tensor.shape)}: expected {shape}")
    if not tensor.isfinite().all():
        raise VergenceError(f"{what} has values that are not finite numbers")
    return tensor


def intrinsics(values: Sequence[float]) -> Tensor:
    """K (3, 3) from (f, cx, cy) or (fx, fy, cx, cy)."""
    fx, fy, cx, cy = values if len(values) == 4 else (values[0], *values)
    return torch.tensor([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]], dtype=torch.float64)


def from_quaternion(w: float, x: float, y: float, z: float) -> Tensor:
    """The rotation (3, 3) of a quaternion of any length but 0."""
    n = math.sqrt(w * w + x * x + y * y + z * z) or math.nan
    w, x, y, z = w / n, x / n, y / n, z / n
    return torch.tensor([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ], dtype=torch.float64)  # fmt: skip


# Files ----------------------------------------------------------------------------------------------------------------


def read_cameras(source: str | Path) -> dict[str, Camera]:
    """Cameras by the file names of their pictures. ``source`` is a folder, a file, or the text of a JSON file."""
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return _from_json(parse_json(source, "the cameras", "JSON"), "the cameras")
    path = Path(source).expanduser()
    if path.is_file():
        if path.name in ("cameras.txt", "images.txt"):
            return _colmap(path.parent)
        if path.suffix.lower() == ".camera":
            return {c.name: c for c in [_strecha(path)]}
        return _from_json(read_json(path, "a JSON file of cameras"), path)
    if not path.is_dir():
        raise VergenceError(f"{path} does not exist; expected {EXPECTED}")
    for folder in (path, path / "sparse", path / "sparse" / "0"):
        if (folder / "cameras.txt").is_file() or (folder / "images.txt").is_file():
            return _colmap(folder)
    if (path / "cameras.json").is_file():
        return _from_json(read_json(path / "cameras.json", "a JSON file of cameras"), path / "cameras.json")
    files = sorted(path.rglob("*.camera"))
    if not files:
        raise VergenceError(f"{path} has no cameras; expected {EXPECTED}")
    return {c.name: c for c in map(_strecha, files)}


def chosen(cameras: dict[str, Camera], names: Sequence[str], source: object) -> list[Camera]:
    """The cameras of pictures by file name, or by stem if that names one."""
    stems: dict[str, list[Camera]] = {}
    for own in cameras.values():
        stems.setdefault(Path(own.name).stem, []).append(own)
    found = []
    for name in names:
        by_stem = stems.get(Path(name).stem, [])
        own_camera = cameras.get(name) or (by_stem[0] if len(by_stem) == 1 else None)
        if own_camera is None:
            raise VergenceError(f"{source} has no camera for the picture {name!r}{did_you_mean(name, cameras)}")
        found.append(own_camera)
    return found


def _from_json(value: Any, source: object) -> dict[str, Camera]:
    """``{"cameras": [{"name": ..., "K": 3 x 3 or [fx, fy, cx, cy], "R": 3 x 3, "t": [x, y, z]}, ...]}``."""
    rows = value.get("cameras") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise VergenceError(f'{source} has no cameras: expected {{"cameras": [{{"name", "K", "R", "t"}}, ...]}}')
    found: dict[str, Camera] = {}
    for number, row in enumerate(rows, 1):
        name = row.get("name")
        missing = [key for key in ("name", "K", "R", "t") if key not in row]
        if missing or not isinstance(name, str):
            raise VergenceError(f"camera {number} of {source} has no {missing[0] if missing else 'name'!r}")
        K = row["K"]
        if isinstance(K, list) and len(K) in (3, 4) and all(isinstance(v, int | float) for v in K):
            K = intrinsics(K)
        distortion = _numbers(row.get("distortion", [0.0] * 5), (5,), f"camera {name!r} of {source}: distortion")
        found[name] = camera(name, K, row["R"], row["t"], source, distortion.tolist())
    return found


_MODELS = {
    "SIMPLE_PINHOLE": "f", "PINHOLE": "xy", "SIMPLE_RADIAL": "f1", "RADIAL": "f2", "OPENCV": "xy4",
}  # fmt: skip
"""COLMAP's models by the letters of their focal lengths and the number of their distortion parameters."""


def _colmap(folder: Path) -> dict[str, Camera]:
    """COLMAP's text model. Its pixels have their centres at one half."""
    path = folder / "cameras.txt"
    lenses = {}
    for words in _rows(path, "COLMAP's cameras.txt"):
        if len(words) < 5 or words[1] not in _MODELS:
            known = ", ".join(_MODELS)
            raise VergenceError(f"{path} has the camera {' '.join(words[:2])!r}: expected one of {known}")
        form, values = _MODELS[words[1]], _floats(words[4:], path)
        focal = 1 if form[0] == "f" else 2
        if len(values) != focal + 2 + int(form.strip("fxy") or 0):
            raise VergenceError(f"{path}: camera {words[0]} has {len(values)} parameters, not those of {words[1]}")
        K = intrinsics([*values[:focal], values[focal] - 0.5, values[focal + 1] - 0.5])
        width, height = _floats(words[2:4], path)
        lenses[words[0]] = K, [*values[focal + 2 :], 0.0, 0.0, 0.0, 0.0][:4], (int(width), int(height))
    path = folder / "images.txt"
    text = read_text(path, "COLMAP's images.txt")
    kept = [line for line in text.splitlines() if not line.startswith("#")]
    found: dict[str, Camera] = {}
    for line, points in zip_longest(kept[::2], kept[1::2], fillvalue=""):
        words = line.split(maxsplit=9)
        if len(words) != 10 or words[8] not in lenses or len(points.split()) % 3:
            raise VergenceError(f"{path} has the line {line[:40]!r} where an image is expected: is it cut short?")
        w, x, y, z, *t = _floats(words[1:8], path)
        K, distortion, size = lenses[words[8]]
        found[words[9]] = camera(words[9], K, from_quaternion(w, x, y, z), t, path, distortion, size)
    said = re.search(r"Number of images: *(\d+)", text)
    if not found or (said and int(said[1]) != len(found)):
        promised = f" of the {said[1]} that it promises" if said else ""
        raise VergenceError(f"{path} has {len(found)}{promised} images: is it cut short?")
    return found


def _rows(path: Path, what: str) -> list[list[str]]:
    rows = [line.split() for line in read_text(path, what).splitlines() if line.strip() and not line.startswith("#")]
    if not rows:
        raise VergenceError(f"{path} is empty: expected {what}")
    return rows


def _floats(words: Sequence[str], path: object) -> list[float]:
    try:
        return [float(word) for word in words]
    except ValueError:
        raise VergenceError(f"{path} has {' '.join(words)[:40]!r} where numbers are expected") from None


def _strecha(path: Path) -> Camera:
    """K, radial distortion, R, the centre, and the size; ``P = K [Rᵀ | -Rᵀ centre]``."""
    words = read_text(path, "one of Strecha's .camera files").split()
    if len(words) != 26:
        raise VergenceError(f"{path} has {len(words)} numbers: expected 26, K, distortion, R, t and the size")
    values = torch.tensor(_floats(words, path), dtype=torch.float64)
    if values[9:12].any():
        raise VergenceError(f"{path} has radial distortion: expected a camera of undistorted pictures, with zeros")
    R, (width, height) = values[12:21].reshape(3, 3).mT, values[24:].tolist()
    name = path.name.removesuffix(".camera")
    return camera(name, values[:9].reshape(3, 3), R, -R @ values[21:24], path, size=(int(width), int(height)))


# Two cameras as text --------------------------------------------------------------------------------------------------


def pair_of(names: Sequence[str], lenses: str, pose: str) -> list[Camera]:
    """Two cameras from text. ``lenses`` are f,cx,cy or fx,fy,cx,cy: of both cameras, or of each, separated by ``;``.
    ``pose`` takes points of the first camera to the second: t (3 numbers), a rotation vector and t (6), or R by rows
    and t (12)."""
    if len(names) != 2:
        raise VergenceError(f"intrinsics and a pose are for two pictures, got {len(names)}: give cameras for more")
    parts = [_floats(part.replace(",", " ").split(), "intrinsics") for part in lenses.split(";")]
    if len(parts) not in (1, 2) or any(len(part) not in (3, 4) for part in parts):
        raise VergenceError(f"intrinsics are f,cx,cy or fx,fy,cx,cy, of both cameras or of each (;), got {lenses!r}")
    values = _floats(pose.replace(",", " ").split(), "pose")
    if len(values) not in (3, 6, 12):
        raise VergenceError(f"a pose has 3 numbers (t), 6 (rotation vector, t) or 12 (R by rows, t), got {len(values)}")
    turn = torch.tensor(values[:-3], dtype=torch.float64)
    R = torch.eye(3, dtype=torch.float64) if not len(turn) else turn.reshape(3, 3) if len(turn) == 9 else (
        torch.linalg.matrix_exp(cross_matrix(turn)))  # fmt: skip
    first = camera(names[0], intrinsics(parts[0]), torch.eye(3), torch.zeros(3), "intrinsics")
    return [first, camera(names[1], intrinsics(parts[-1]), R, values[-3:], "pose")]


def refuse_one_centre(cameras: Sequence[Camera]) -> None:
    """Refuse cameras that all stand at the same place."""
    centres = torch.stack([own.centre for own in cameras])
    far = (centres - centres[0]).norm(dim=1).max()
    if len(cameras) > 1 and not far > 1e-9 * centres.norm(dim=1).max().clamp(min=1e-3):
        names = " and ".join(own.name for own in cameras[:2])
        raise VergenceError(f"the cameras {names} have the same centre: without a baseline there is no depth")


def undistorted(picture: Tensor, own: Camera) -> Tensor:
    """A float picture (C, H, W) as a pinhole camera with the same intrinsics sees it, after checking its size."""
    height, width = picture.shape[-2:]
    if own.size is not None and own.size != (width, height):
        raise VergenceError(f"{own.name} has {width} x {height} pixels, and its camera {own.size[0]} x {own.size[1]}")
    if not own.distortion:
        return picture
    k1, k2, p1, p2, k3 = own.distortion
    rows, columns = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")
    x, y = own.normalised(torch.stack([columns, rows], -1)).unbind(-1)
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    bent = torch.stack([
        x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x), y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    ], -1)  # fmt: skip
    places = bent @ own.K[:2, :2].mT + own.K[:2, 2]
    share = (places + 0.5) / torch.tensor([width, height]) * 2 - 1
    return F.grid_sample(picture[None], share[None].to(picture), padding_mode="border", align_corners=False)[0]
