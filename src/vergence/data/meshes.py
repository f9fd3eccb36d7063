"""Surfaces from files, as clouds: meshes (``.off``, ``.obj``, ``.ply`` with faces) are sampled on their faces, and text
(``.xyz``, ``.txt``, ``.pts``) has one point per row. Other clouds are read by :mod:`vergence.data.clouds`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.data.clouds import as_points, read_cloud
from vergence.reading.budget import within
from vergence.reading.files import read_bytes, read_text, refusing

TEXTS = (".xyz", ".txt", ".pts")
SUFFIXES = (".ply", ".obj", ".off", *TEXTS, ".pcd", ".npy", ".npz")


def read_surface(path: Path, count: int, source: torch.Generator) -> Tensor:
    """The points (P, 3) of a cloud, or ``count`` random points on the faces of a mesh, evenly spread."""
    kind = path.suffix.lower()
    if isinstance(path, InMemory):
        return read_cloud(path)
    if kind not in SUFFIXES:
        raise VergenceError(f"{path} is no cloud or mesh that can be read: expected one of {', '.join(SUFFIXES)}")
    if kind in TEXTS:
        return as_points(read_numbers(path), path)
    if kind not in (".off", ".obj", ".ply"):
        return read_cloud(path)
    vertices, faces = _read_ply(path) if kind == ".ply" else read_mesh(path)
    return sample_faces(vertices, faces, count, source) if len(faces) else vertices


def read_mesh(path: Path) -> tuple[Tensor, Tensor]:
    """Vertices (V, 3) and triangles (F, 3) of an OFF or OBJ file; polygons are cut into fans."""
    what = f"a complete {path.suffix.lower()} mesh"
    text = read_text(path, what)
    with refusing(path, what):
        rows, polygons = _off(text, path) if path.suffix.lower() == ".off" else _obj(text, path)
        vertices = as_points(np.array(rows, np.float64).reshape(-1, 3), path)
        return vertices, _triangles(polygons, len(vertices))


def sample_faces(vertices: Tensor, faces: Tensor, count: int, source: torch.Generator) -> Tensor:
    """``count`` random points (count, 3) on triangles, with equal density; on the vertices, if no triangle has an
    area."""
    a, b, c = (vertices.double()[faces[:, corner]] for corner in range(3))
    area = torch.linalg.cross(b - a, c - a).norm(dim=1)
    total = area.cumsum(0)
    if not float(total[-1]) > 0:
        return vertices[torch.randint(len(vertices), (count,), generator=source)]
    place = torch.rand(count, generator=source, dtype=torch.float64) * total[-1]
    chosen = torch.searchsorted(total, place, right=True).clamp(max=len(faces) - 1)
    u, v = torch.rand(2, count, 1, generator=source, dtype=torch.float64)
    root = u.sqrt()
    points = (1 - root) * a[chosen] + root * (1 - v) * b[chosen] + root * v * c[chosen]
    return points.to(vertices.dtype)


def read_numbers(path: Path, what: str = "a table of numbers, one point per row") -> Any:
    """The numbers (P, columns) of a text file, separated by spaces, commas or semicolons. A first row with their count
    alone and rows that begin with # are left out."""
    text = read_text(path, what)
    with refusing(path, what):
        rows = [row.split() for row in re.sub("[,;]", " ", text).splitlines() if row.strip() and row.strip()[0] != "#"]
        if len(rows) > 1 and len(rows[0]) == 1 and len(rows[1]) > 1:
            rows = rows[1:]
        within("points", len(rows), path)
        columns = len(rows[0]) if rows else 0
        uneven = next((number for number, row in enumerate(rows, 1) if len(row) != columns), None)
        if uneven is not None or columns < 3:
            raise ValueError(f"row {uneven or 1} has {len(rows[(uneven or 1) - 1]) if rows else 0} numbers")
        return np.array(rows, np.float64)


# Formats --------------------------------------------------------------------------------------------------------------


def _off(text: str, path: Path) -> tuple[list[list[float]], list[list[int]]]:
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    lines = [words for words in lines if words]
    if not lines or not lines[0][0].upper().startswith(("OFF", "COFF")):
        raise ValueError("it does not begin with OFF")
    # Some files of ModelNet40 have the counts right after the word, without a space.
    rest = re.sub("^C?OFF", "", lines[0][0], flags=re.IGNORECASE)
    head = [*([rest] if rest else []), *lines[0][1:]]
    head, body = (head, lines[1:]) if head else (lines[1], lines[2:])
    vertices, faces = int(head[0]), int(head[1])
    within("points", max(vertices, faces), path)
    if vertices < 0 or faces < 0 or len(body) < vertices + faces:
        raise ValueError(f"it has {len(body)} rows for {vertices} vertices and {faces} faces")
    polygons = []
    for words in body[vertices : vertices + faces]:
        corners = list(map(int, words[1 : 1 + int(words[0])]))
        if len(corners) != int(words[0]):
            raise ValueError("a face has too few corners")
        polygons.append(corners)
    return [[float(word) for word in _three(words)] for words in body[:vertices]], polygons


def _obj(text: str, path: Path) -> tuple[list[list[float]], list[list[int]]]:
    rows: list[list[float]] = []
    polygons = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            rows.append([float(word) for word in _three(words[1:])])
        elif words[:1] == ["f"]:
            corners = [int(word.split("/")[0]) for word in words[1:]]
            if len(corners) < 3 or 0 in corners:
                raise ValueError("a face has fewer than three corners")
            polygons.append([corner - 1 if corner > 0 else len(rows) + corner for corner in corners])
    if not rows:
        raise ValueError("it has no vertices")
    within("points", max(len(rows), len(polygons)), path)
    return rows, polygons


def _three(words: list[str]) -> list[str]:
    if len(words) < 3:
        raise ValueError("a vertex has fewer than three coordinates")
    return words[:3]


def _triangles(polygons: list[list[int]], vertices: int) -> Tensor:
    fans = [(p[0], p[i], p[i + 1]) for p in polygons for i in range(1, len(p) - 1)]
    faces = torch.tensor(fans, dtype=torch.long).reshape(-1, 3)
    if len(faces) and not 0 <= int(faces.min()) <= int(faces.max()) < vertices:
        raise ValueError(f"a face names vertex {int(faces.max())} of {vertices}")
    return faces


_SIZES = {
    "char": 1, "int8": 1, "uchar": 1, "uint8": 1, "short": 2, "int16": 2, "ushort": 2, "uint16": 2, "int": 4,
    "int32": 4, "uint": 4, "uint32": 4, "float": 4, "float32": 4, "double": 8, "float64": 8,
}  # fmt: skip


def _read_ply(path: Path) -> tuple[Tensor, Tensor]:
    """Vertices of a PLY file, and its triangles where it has a list of faces right after them (in text, or in
    little-endian binary with triangles only); else none."""
    vertices = read_cloud(path)
    none = torch.zeros(0, 3, dtype=torch.long)
    content = read_bytes(path)
    header = re.match(rb"ply\r?\n(.*?)end_header\r?\n", content, re.DOTALL)
    if header is None:  # read_cloud has refused it
        return vertices, none
    words = [line.split() for line in header[1].decode("ascii", "replace").splitlines() if line.strip()]
    elements = [at for at, line in enumerate(words) if line[0] == "element"]
    faces = next((at for at in elements if words[at][1] == "face"), None)
    if faces is None or elements.index(faces) != 1 or int(words[faces][2]) < 1:
        return vertices, none
    count, form = int(words[faces][2]), next(line[1] for line in words if line[0] == "format")
    lists = [line for line in words[faces + 1 :] if line[0] == "property"]
    with refusing(path, "a whole .ply mesh"):
        within("points", count, path)
        if form == "ascii":
            rows = [row.split() for row in content[header.end() :].decode("ascii").splitlines() if row.strip()]
            rows = rows[len(vertices) : len(vertices) + count]
            if len(rows) < count:
                raise ValueError(f"it has fewer than the {count} faces its header says")
            return vertices, _triangles([list(map(int, row[1 : 1 + int(row[0])])) for row in rows], len(vertices))
        if form != "binary_little_endian" or len(lists) != 1 or lists[0][1] != "list":
            return vertices, none
        row = sum(_SIZES[line[1]] for line in words[elements[0] + 1 : faces] if line[0] == "property")
        start = header.end() + row * len(vertices)
        head, kind = (f"<{'u' if name[0] == 'u' else 'i'}{_SIZES[name]}" for name in lists[0][2:4])
        triangle = np.dtype([("n", head), ("corners", kind, 3)])
        if len(content) - start < count * triangle.itemsize:
            raise ValueError(f"it has fewer than the {count} triangles its header says")
        table = np.frombuffer(content, triangle, count, start)
        if not (table["n"] == 3).all():
            return vertices, none
        return vertices, _triangles(table["corners"].tolist(), len(vertices))
