"""Point clouds from files, as float32 tensors (N, 3): ``.npy``, ``.npz``, ``.ply``, ``.pcd`` and KITTI's ``.bin``; and
clouds written as PLY."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.core.files import replacing
from vergence.reading.arrays import read_npy, read_npz
from vergence.reading.budget import within, within_expansion
from vergence.reading.files import read_bytes, refusing

SUFFIXES = (".npy", ".npz", ".ply", ".pcd", ".bin")
_MOST_REPEATS = 4096
"""Values of one field of a PCD file: feature histograms have hundreds."""


INTENSITY = ("intensity", "remission", "reflectivity", "reflectance", "i", "scalar_intensity")
"""Names of the column that says how strongly a scanner's pulse was reflected."""


def read_cloud(path: Path) -> Tensor:
    """A cloud's coordinates, (N, 3); other attributes of points are dropped."""
    return as_points(_rows(path), path)


def read_scan(path: Path) -> tuple[Tensor, Tensor | None]:
    """A scan's coordinates (N, 3), and the intensity (N,) of its points where the file has one: the fourth column of
    arrays and of KITTI's files, or a column of that name."""
    rows = _rows(path)
    points = as_points(rows, path)
    if rows.shape[1] < 4:
        return points, None
    intensity = torch.from_numpy(np.ascontiguousarray(rows[:, 3], np.float32))
    bad = int((~intensity.isfinite()).sum())
    if bad:
        raise VergenceError(f"{path} has {bad} of {len(points)} points whose intensity is not a finite number")
    return points, intensity


def _rows(path: Path) -> Any:
    """Points as they are in a file: x, y, z, perhaps the intensity, perhaps more."""
    if isinstance(path, InMemory):
        value = path.value.detach().cpu().numpy() if isinstance(path.value, Tensor) else path.value
        if not isinstance(value, np.ndarray):
            raise VergenceError(f"{path} is a {type(value).__name__}: expected a path, or an array or tensor (N, 3)")
        return value
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise VergenceError(f"{path} is no point cloud that can be read: expected one of {', '.join(SUFFIXES)}")
    if kind == ".npy":
        return read_npy(path)
    if kind == ".npz":
        return _only_cloud(read_npz(path), path)
    content = read_bytes(path, f"a {kind} point cloud")
    if kind == ".bin":
        if len(content) % 16:
            raise VergenceError(f"{path} is no KITTI scan: {len(content)} bytes are not whole points of 4 float32")
        return np.frombuffer(content, "<f4").reshape(-1, 4)
    with refusing(path, f"a whole {kind} point cloud"):
        return _read_ply(content, path) if kind == ".ply" else _read_pcd(content, path)


def _only_cloud(arrays: Mapping[str, Any], path: Path) -> Any:
    clouds = [name for name, array in arrays.items() if array.ndim == 2 and array.shape[1] >= 3]
    named = next((name for name in ("points", "xyz") if name in clouds), None)
    if named is None and len(clouds) != 1:
        raise VergenceError(f"{path} has the arrays {', '.join(arrays)}: expected one of shape (N, 3), or one 'points'")
    return arrays[named or clouds[0]]


def as_points(array: Any, path: Path, what: str = "a point cloud") -> Tensor:
    """An array of shape (N, 3 or more) as coordinates (N, 3): at least one row, all values finite."""
    if array.dtype.kind not in "fiu":
        raise VergenceError(f"{path} does not hold {what}: its values are {array.dtype}, not numbers")
    if array.ndim != 2 or array.shape[1] < 3:
        raise VergenceError(f"{path} does not hold {what}: its shape is {array.shape}, not (N, 3)")
    if not len(array):
        raise VergenceError(f"{path} holds {what} without points")
    with np.errstate(over="ignore"):
        points = np.ascontiguousarray(array[:, :3], np.float32)
    if not np.isfinite(points).all():
        bad = int((~np.isfinite(points)).any(1).sum())
        raise VergenceError(f"{path} has {bad} of {len(points)} rows with values that are not finite numbers")
    return torch.from_numpy(points)


# PLY ------------------------------------------------------------------------------------------------------------------

_PLY_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_PLY_ORDER = {"binary_little_endian": "<", "binary_big_endian": ">"}


def _read_ply(content: bytes, path: Path) -> Any:
    header = re.match(rb"ply\r?\n(.*?)end_header\r?\n", content, re.DOTALL)
    if header is None:
        raise ValueError("its header is missing or cut short")
    lines = [line.split() for line in header[1].decode("ascii").splitlines()]
    form = next((words[1] for words in lines if words[:1] == ["format"] and len(words) > 1), None)
    if form is None:
        raise ValueError("its header names no format")
    elements: list[tuple[str, int, list[tuple[str, str]]]] = []
    for words in lines:
        if words[:1] == ["element"]:
            elements.append((words[1], int(words[2]), []))
        elif words[:1] == ["property"]:
            elements[-1][2].append((words[-1], words[1]))
    if not elements or elements[0][0] != "vertex":
        raise ValueError("its first element is not 'vertex'")
    _, count, properties = elements[0]
    within("points", count, path)
    return _columns(content[header.end() :], count, properties, form, _PLY_TYPES, _PLY_ORDER)


def _columns(
    body: bytes,
    count: int,
    properties: list[tuple[str, str]],
    form: str,
    types: Mapping[str, str],
    orders: Mapping[str, str],
) -> Any:
    """The x, y, z and perhaps the intensity of ``count`` rows, in text or binary."""
    names = [name for name, _ in properties]
    if not {"x", "y", "z"} <= set(names):
        raise ValueError(f"its points have {', '.join(names) or 'nothing'}, not x, y and z")
    reflected = next((name for name in names if name.lower() in INTENSITY), None)
    wanted = [*"xyz"] if reflected is None else [*"xyz", reflected]
    if form == "ascii":
        rows = body.decode("ascii").split("\n")[:count]
        places = [names.index(name) for name in wanted]
        parts = [row.split() for row in rows if row.strip()]
        if len(parts) < count or any(len(part) < len(names) for part in parts):
            raise ValueError(f"it has fewer than the {count} points its header says")
        return np.array([[float(part[place]) for place in places] for part in parts]).reshape(-1, len(wanted))
    if form not in orders:
        raise ValueError(f"its format {form!r} is unknown")
    row = np.dtype([(f"{name}_{place}", orders[form] + types[kind]) for place, (name, kind) in enumerate(properties)])
    if len(body) < count * row.itemsize:
        raise ValueError(f"it has fewer than the {count} points its header says")
    table = np.frombuffer(body, row, count)
    return np.stack([table[f"{name}_{names.index(name)}"].astype(np.float64) for name in wanted], 1)


def write_ply(
    path: Path,
    points: Tensor,
    colours: Tensor | None = None,
    normals: Tensor | None = None,
    **scalars: Tensor,
) -> Path:
    """Write a cloud (N, 3) as binary PLY, with colours (N, 3) from 0 to 255, normals (N, 3) and further numbers (N,)
    for each point: whole numbers as int32, others as float32."""
    columns: list[tuple[str, str, Any]] = []
    for names, rows in (("x y z", points), ("nx ny nz", normals)):
        if rows is not None:
            columns += [(name, "float", rows.detach().cpu().numpy()[:, i]) for i, name in enumerate(names.split())]
    if colours is not None:
        shades = colours.detach().cpu().clamp(0, 255).to(torch.uint8).numpy()
        columns += [(name, "uchar", shades[:, i]) for i, name in enumerate(("red", "green", "blue"))]
    for name, values in scalars.items():
        kind = "float" if values.is_floating_point() else "int"
        columns.append((name, kind, values.detach().cpu().numpy()))
    table = np.empty(len(points), [(name, f"<{_PLY_TYPES[kind]}") for name, kind, _ in columns])
    for name, _, values in columns:
        table[name] = values
    properties = "".join(f"property {kind} {name}\n" for name, kind, _ in columns)
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n{properties}end_header\n"
    with replacing(path) as partial:
        partial.write_bytes(header.encode("ascii") + table.tobytes())
    return path


# PCD ------------------------------------------------------------------------------------------------------------------


def _read_pcd(content: bytes, path: Path) -> Any:
    data = re.search(rb"^DATA[ \t]+(\w+)[ \t]*\r?\n", content, re.MULTILINE)
    if data is None:
        raise ValueError("its header is missing or cut short")
    lines = (line.split() for line in content[: data.start()].decode("ascii").splitlines())
    header = {words[0].upper(): words[1:] for words in lines if words}
    counts = header.get("COUNT") or ["1"] * len(header["FIELDS"])
    properties = []
    for name, size, kind, repeat in zip(header["FIELDS"], header["SIZE"], header["TYPE"], counts, strict=True):
        if not 0 < int(repeat) <= _MOST_REPEATS:
            raise ValueError(f"its field {name!r} has a COUNT of {repeat}")
        properties += [(name, f"{kind.lower()}{size}")] * int(repeat)
    types = {kind: kind for _, kind in properties}
    count, form, body = int(header["POINTS"][0]), data[1].decode(), content[data.end() :]
    within("points", count, path)
    if form == "binary_compressed":
        within_expansion(int(np.frombuffer(body[4:8], "<u4")[0]), len(body), path)
        return _columns(_transposed(body, count, properties), count, properties, "binary", types, {"binary": "<"})
    return _columns(body, count, properties, form, types, {"binary": "<"})


def _transposed(body: bytes, count: int, properties: list[tuple[str, str]]) -> bytes:
    """A compressed body, which is stored field by field, as rows of points."""
    packed, size = np.frombuffer(body[:8], "<u4")
    plain = _lzf(body[8 : 8 + int(packed)], int(size))
    columns, start = [], 0
    for _, kind in properties:
        width = int(kind[1:])
        columns.append(np.frombuffer(plain, np.uint8, width * count, start).reshape(count, width))
        start += width * count
    return np.concatenate(columns, 1).tobytes()


def _lzf(packed: bytes, size: int) -> bytes:
    """Decompress Marc Lehmann's LZF: runs of literal bytes, and copies of earlier output."""
    out, i = bytearray(), 0
    while i < len(packed):
        control = packed[i]
        i += 1
        if control < 32:
            out += packed[i : i + control + 1]
            i += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += packed[i]
            i += 1
        start = len(out) - ((control & 31) << 8) - packed[i] - 1
        i += 1
        if start < 0:
            raise ValueError("its compressed data is damaged")
        for place in range(start, start + length + 2):  # a copy may overlap its own output
            out.append(out[place])
    if len(out) != size:
        raise ValueError("its compressed data is cut short")
    return bytes(out)
