"""SemanticKITTI: names, colours and numbers of its classes, and its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.core.files import replacing
from vergence.points.classes import IGNORED, ClassSet
from vergence.reading.files import read_bytes

CLASSES = (
    IGNORED, "car", "bicycle", "motorcycle", "truck", "other-vehicle", "person", "bicyclist", "motorcyclist",
    "road", "parking", "sidewalk", "other-ground", "building", "fence", "vegetation", "trunk", "terrain", "pole",
    "traffic-sign",
)  # fmt: skip
"""The classes of the benchmark; the first is ignored."""
RAW = (0, 10, 11, 15, 18, 20, 30, 31, 32, 40, 44, 48, 49, 50, 51, 70, 71, 72, 80, 81)
"""The number of each class in label files."""
_MERGED = {1: 0, 52: 0, 99: 0, 13: 5, 16: 5, 60: 9, 252: 1, 253: 7, 254: 6, 255: 8, 256: 5, 257: 5, 258: 4, 259: 5}
"""Further numbers in label files and their class: outliers, buses, lane markings, and things that move."""
COLOURS = (
    (0, 0, 0), (100, 150, 245), (100, 230, 245), (30, 60, 150), (80, 30, 180), (100, 80, 250), (255, 30, 30),
    (255, 40, 200), (150, 30, 90), (255, 0, 255), (255, 150, 255), (75, 0, 75), (175, 0, 75), (255, 200, 0),
    (255, 120, 50), (0, 175, 0), (135, 60, 0), (150, 240, 80), (255, 240, 150), (255, 0, 0),
)  # fmt: skip
CLASS_SET = ClassSet(CLASSES, COLOURS)
SEQUENCES = {
    "train": ("00", "01", "02", "03", "04", "05", "06", "07", "09", "10"),
    "val": ("08",),
    "test": tuple(f"{number:02d}" for number in range(11, 22)),
}
"""The official split; labels of the test sequences are not public."""


def _lookup() -> Tensor:
    table = torch.full((1 << 16,), -1)
    table[list(RAW)] = torch.arange(len(RAW))
    for raw, label in _MERGED.items():
        table[raw] = label
    return table


LEARNING = _lookup()
"""(65536,): the class of each number in a label file; -1 for numbers that are not in use."""


@dataclass(frozen=True)
class Sweep:
    """One revolution of a scanner."""

    points: Tensor
    """(P, 3): forward, left, up, in metres."""
    intensity: Tensor
    """(P,), from 0 to 1."""
    labels: Tensor
    """(P,), classes; 0 where there are none."""


def read_scan(path: Path) -> tuple[Tensor, Tensor]:
    """Points (P, 3) and intensities (P,) of a velodyne file. Rows that are not finite are refused."""
    content = read_bytes(path, "a scan of float32 x, y, z, remission")
    if len(content) % 16 or not content:
        raise VergenceError(f"{path} is not a scan: {len(content)} bytes are not whole points of 4 float32")
    values = torch.from_numpy(np.frombuffer(content, "<f4").reshape(-1, 4).copy())
    bad = int((~values.isfinite()).any(1).sum())
    if bad:
        raise VergenceError(f"{path} has {bad} of {len(values)} points with values that are not finite numbers")
    return values[:, :3], values[:, 3]


def read_labels(path: Path, points: int) -> Tensor:
    """Classes (P,) of a label file for a scan of ``points`` points."""
    content = read_bytes(path, "a label file of uint32")
    if len(content) != 4 * points:
        raise VergenceError(f"{path} has {len(content)} bytes: expected 4 for each of the scan's {points} points")
    raw = torch.from_numpy((np.frombuffer(content, "<u4") & 0xFFFF).astype(np.int64))
    labels = LEARNING[raw]
    if len(labels) and int(labels.min()) < 0:
        unknown = sorted(set(raw[labels < 0].tolist()))[:5]
        raise VergenceError(f"{path} has labels that SemanticKITTI does not define: {', '.join(map(str, unknown))}")
    return labels


def write_labels(path: Path, labels: Tensor) -> Path:
    """Write classes (P,) as a label file, in the benchmark's raw numbers."""
    raw = torch.tensor(RAW)[labels.cpu()].numpy().astype("<u4")
    with replacing(path) as partial:
        partial.write_bytes(raw.tobytes())
    return path


@dataclass(frozen=True)
class Sweeps:
    """Scans in files, read on access."""

    files: tuple[tuple[Path, Path | None], ...]
    """Scan and label file of each."""
    split: str = ""
    classes: ClassSet = CLASS_SET

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sweep:
        scan, labels = self.files[index]
        points, intensity = read_scan(scan)
        known = torch.zeros(len(points), dtype=torch.long) if labels is None else read_labels(labels, len(points))
        return Sweep(points, intensity, known)


def read(path: Path, split: str) -> Sweeps:
    """The official sequences of a split below ``sequences``; where labels are hidden or a split is missing, those of
    the validation sequence stand in, or all that are there."""
    root = path / "sequences" if (path / "sequences").is_dir() else path / "dataset" / "sequences"
    if not root.is_dir():
        raise VergenceError(f"{path} has no folder sequences (or dataset/sequences) as SemanticKITTI has")
    found = _scans(root, SEQUENCES[split])
    used = split
    if not found and split != "train":
        found, used = _scans(root, SEQUENCES["val"]), "val"
    if not found:
        found, used = _scans(root, sorted(p.name for p in root.iterdir() if p.is_dir())), "all"
    if not found:
        raise VergenceError(f"{root} has no scans with labels: expected NN/velodyne/*.bin and NN/labels/*.label")
    return Sweeps(tuple(found), "" if used == split else used)


def _scans(root: Path, sequences: Sequence[str]) -> list[tuple[Path, Path | None]]:
    pairs: list[tuple[Path, Path | None]] = []
    for name in sequences:
        for scan in sorted((root / name / "velodyne").glob("*.bin")):
            labels = root / name / "labels" / f"{scan.stem}.label"
            if labels.is_file():
                pairs.append((scan, labels))
    return pairs


LAYOUT = Layout(read, "sequences/<NN>/velodyne/*.bin with sequences/<NN>/labels/*.label")
