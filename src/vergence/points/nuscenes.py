"""nuScenes-lidarseg: the 16 classes of its challenge, its official scenes, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.points.classes import IGNORED, ClassSet
from vergence.points.semantickitti import Sweep
from vergence.reading.files import read_bytes
from vergence.reading.tables import read_json

CLASSES = ClassSet(
    (
        IGNORED, "barrier", "bicycle", "bus", "car", "construction_vehicle", "motorcycle", "pedestrian", "traffic_cone",
        "trailer", "truck", "driveable_surface", "other_flat", "sidewalk", "terrain", "manmade", "vegetation",
    ),
    (
        (0, 0, 0), (112, 128, 144), (220, 20, 60), (255, 127, 80), (255, 158, 0), (233, 150, 70), (255, 61, 99),
        (0, 0, 230), (47, 79, 79), (255, 140, 0), (255, 99, 71), (0, 207, 191), (175, 0, 75), (75, 0, 75),
        (112, 180, 60), (222, 184, 135), (0, 175, 0),
    ),
)  # fmt: skip
LEARNING = torch.tensor(
    [0, 0, 7, 7, 7, 0, 7, 0, 0, 1, 0, 0, 8, 0, 2, 3, 3, 4, 5, 0, 0, 6, 9, 10, 11, 12, 13, 14, 15, 0, 16, 0]
)
"""(32,): the class of each number in a label file."""
_VALIDATION = (
    "3 12-18 35-36 38-39 92-110 221 268-278 329-332 344-346 519-524 552-565 625-627 629-630 632-638 770-771 775 "
    "777-778 780-784 794-800 802 904-917 919-931 962-963 966-969 971-972 1059-1073"
)
EXPECTED = "v1.0-*/{scene,sample,sample_data,lidarseg}.json, samples/LIDAR_TOP/*.pcd.bin and lidarseg/v1.0-*/*.bin"


def validation_scenes() -> frozenset[str]:
    """The names of the 150 official validation scenes; two of them are in the mini set."""
    numbers: list[int] = []
    for part in _VALIDATION.split():
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return frozenset(f"scene-{number:04d}" for number in numbers)


class NuScenesSweeps:
    """Key frames of the upper scanner, read on access."""

    classes = CLASSES

    def __init__(self, files: list[tuple[Path, Path]], split: str = "") -> None:
        self.files, self.split = files, split

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sweep:
        scan, labels = self.files[index]
        content = read_bytes(scan, "a scan of float32 x, y, z, intensity, ring")
        if len(content) % 20 or not content:
            raise VergenceError(f"{scan} is not a scan: {len(content)} bytes are not whole points of 5 float32")
        values = torch.from_numpy(np.frombuffer(content, "<f4").reshape(-1, 5).copy())
        bad = int((~values.isfinite()).any(1).sum())
        if bad:
            raise VergenceError(f"{scan} has {bad} of {len(values)} points with values that are not finite numbers")
        raw = torch.from_numpy(np.frombuffer(read_bytes(labels, "a label file of uint8"), np.uint8).astype(np.int64))
        if len(raw) != len(values):
            raise VergenceError(
                f"{labels} has {len(raw)} bytes: expected one for each of the scan's {len(values)} points"
            )
        if int(raw.max()) >= len(LEARNING):
            raise VergenceError(f"{labels} has the label {int(raw.max())}: nuScenes-lidarseg has 0 to 31")
        # The scanner's own axes are right, forward, up.
        points = torch.stack([values[:, 1], -values[:, 0], values[:, 2]], 1)
        return Sweep(points, values[:, 3] / 255, LEARNING[raw])


def read(path: Path, split: str) -> NuScenesSweeps:
    """Key frames of the official scenes; the test set has no labels, so validation scenes stand in for it."""
    tables = next((folder for folder in sorted(path.glob("v1.0-*")) if (folder / "lidarseg.json").is_file()), None)
    if tables is None:
        raise VergenceError(f"{path} has no nuScenes-lidarseg: expected {EXPECTED}")
    names = {row["token"]: row["name"] for row in _rows(tables / "scene.json", "token", "name")}
    scene_of = {row["token"]: row["scene_token"] for row in _rows(tables / "sample.json", "token", "scene_token")}
    label_rows = _rows(tables / "lidarseg.json", "sample_data_token", "filename")
    labels = {row["sample_data_token"]: row["filename"] for row in label_rows}
    held_out = validation_scenes()
    files = []
    for row in _rows(tables / "sample_data.json", "token", "sample_token", "filename"):
        if row["token"] not in labels:
            continue
        scene = names.get(scene_of.get(row["sample_token"], ""))
        if scene is None:
            raise VergenceError(f"{tables / 'sample_data.json'}: {row['token']!r} belongs to no scene of scene.json")
        if (scene in held_out) == (split != "train"):
            files.append((_inside(path, row["filename"]), _inside(path, labels[row["token"]])))
    if not files:
        raise VergenceError(f"{path} has no labelled key frame of the official {split} scenes: expected {EXPECTED}")
    return NuScenesSweeps(sorted(files), "val" if split == "test" else "")


def _rows(path: Path, *needed: str) -> list[dict[str, Any]]:
    rows = read_json(path, "a table of nuScenes")
    if not isinstance(rows, list):
        raise VergenceError(f"{path} is not a table of nuScenes: expected a list of records")
    for row in rows:
        if not isinstance(row, dict) or any(not isinstance(row.get(name), str) for name in needed):
            raise VergenceError(f"{path} has a record without {', '.join(needed)}")
    return rows


def _inside(root: Path, name: str) -> Path:
    """A file below the data set's folder; tables may not name files elsewhere."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise VergenceError(f"{root} names the file {name!r}, which is not below it")
    return root / name


LAYOUT = Layout(read, EXPECTED)
