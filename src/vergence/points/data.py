"""Pairs of point clouds with ground-truth scene flow: FlyingThings3D and KITTI in both published preparations, a
user's own folder, and the random sampling of points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.clouds import as_points
from vergence.reading.arrays import read_npy, read_npz

HELD_OUT = 2000
"""Number of training files held out for validation as in the paper, evenly spaced in the sorted list."""
DEPTH = 35.0
"""KITTI: points with a greater depth, in metres, are left out."""
GROUND = -1.4
"""KITTI_s: points below this height at both instants are the ground."""


class Scene(NamedTuple):
    """Two clouds (N, 3) and (M, 3), the flow of the first (N, 3), and the mask of points whose flow is known (N,)."""

    p: Tensor
    q: Tensor
    flow: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Scenes:
    """Scenes in files, read on access."""

    files: tuple[Path, ...]
    load: Callable[[Path], Scene]
    aligned: bool
    """Whether row i of both clouds is the same point."""
    split: str = ""
    """The split that the files came from, if another stands in for the one asked for."""

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Scene:
        return self.load(self.files[index])


@dataclass(frozen=True)
class Drawn:
    """Scenes as network input: ``points`` random points of each cloud, always the same ones by index, new ones on each
    ``draw`` for training."""

    data: Any
    points: int
    draws: Literal["apart", "together"] = "apart"
    """apart: the two clouds are sampled independently; together: the same rows of both, so that every point has a match
    (FT3D_p)."""

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.draw(index, generator("points", self.points, index))

    def draw(self, index: int, generator: torch.Generator) -> dict[str, Tensor]:
        p, q, flow, mask = self.data[index]
        first = torch.randperm(len(p), generator=generator)[: self.points]
        if self.draws == "together":
            second = first[torch.randperm(len(first), generator=generator)]
        else:
            second = torch.randperm(len(q), generator=generator)[: self.points]
        return {"p": p[first], "q": q[second], "flow": flow[first], "mask": mask[first]}

    def collate(self, scenes: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Stacks scenes, cut to the smallest number of points; point order is random, so the cut is a random subset."""
        batch = {}
        for name in scenes[0]:
            least = min(len(scene[name]) for scene in scenes)
            batch[name] = torch.stack([scene[name][:least] for scene in scenes])
        return batch


# Files ----------------------------------------------------------------------------------------------------------------


def _listed(path: Path, pattern: str, expected: str) -> list[Path]:
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder: expected {expected}")
    try:
        files = sorted(path.glob(pattern))
    except OSError as error:
        raise VergenceError(f"{path} cannot be read: {error.strerror}") from None
    if not files:
        raise VergenceError(f"{path} holds no {pattern}: expected {expected}")
    return files


def _split(files: list[Path], split: str) -> tuple[Path, ...]:
    """The training files, or those held out for validation: an eighth in a small data set."""
    count = min(HELD_OUT, max(len(files) // 8, 1))
    if len(files) == 1:
        return tuple(files)
    held = {int(i) for i in np.linspace(0, len(files) - 1, count)}
    return tuple(file for i, file in enumerate(files) if (i in held) == (split == "val"))


def _two_clouds(folder: Path) -> tuple[Tensor, Tensor]:
    first, second = (as_points(read_npy(folder / name), folder / name) for name in ("pc1.npy", "pc2.npy"))
    if first.shape != second.shape:
        raise VergenceError(
            f"{folder} has {len(first)} rows in pc1.npy and {len(second)} in pc2.npy: rows must correspond"
        )
    return first, second


def _array(arrays: dict[str, Any], name: str, path: Path) -> Tensor:
    if name not in arrays:
        raise VergenceError(f"{path} has no array {name!r}: there is {', '.join(arrays) or 'none'}")
    return as_points(arrays[name], path, f"{name!r} as (N, 3)")


def _flowing(arrays: dict[str, Any], names: tuple[str, str, str], path: Path) -> tuple[Tensor, Tensor, Tensor]:
    p, q, flow = (_array(arrays, name, path) for name in names)
    if len(p) != len(flow):
        raise VergenceError(f"{path} has {len(flow)} rows of {names[2]!r} for {len(p)} of {names[0]!r}")
    return p, q, flow


def _all(points: Tensor) -> Tensor:
    return torch.ones(len(points), dtype=torch.bool)


# FlyingThings3D ------------------------------------------------------------------------------------------------------


def _read_ft3d_s(path: Path, split: str) -> Scenes:
    root = path / "FlyingThings3D_subset_processed_35m"
    root = root if root.is_dir() else path
    expected = "FlyingThings3D_subset_processed_35m/{train,val}/<scene>/pc1.npy and pc2.npy"
    part = root / ("val" if split == "test" else "train")  # the test scenes are in the folder named val
    folders = [file.parent for file in _listed(part, "0*/pc1.npy", expected)]
    return Scenes(tuple(folders) if split == "test" else _split(folders, split), _load_ft3d_s, aligned=True)


def _load_ft3d_s(folder: Path) -> Scene:
    turn = torch.tensor([-1.0, 1.0, -1.0])
    first, second = (cloud * turn for cloud in _two_clouds(folder))
    return Scene(first, second, second - first, _all(first))


LEFT_OUT = frozenset(
    f"{name}-0.npz"
    for name in (
        "TRAIN_C_0140_left_0006",  # has NaN values; in all others the flow of no point is known
        "TRAIN_A_0364_left_0008", "TRAIN_A_0364_left_0009", "TRAIN_A_0658_left_0014", "TRAIN_B_0053_left_0009",
        "TRAIN_B_0053_left_0011", "TRAIN_B_0424_left_0011", "TRAIN_B_0609_right_0010",
        "TEST_A_0149_right_0013", "TEST_A_0149_right_0012", "TEST_A_0123_right_0009", "TEST_A_0123_right_0008",
    )
)  # fmt: skip
"""Files of FT3D_o that the authors leave out."""


def _read_ft3d_o(path: Path, split: str) -> Scenes:
    root = path / "data_processed_maxcut_35_20k_2k_8192"
    root = root if root.is_dir() else path
    expected = "data_processed_maxcut_35_20k_2k_8192/{TRAIN,TEST}_*.npz"
    listed = _listed(root, "TEST_*.npz" if split == "test" else "TRAIN_*.npz", expected)
    files = [file for file in listed if file.name not in LEFT_OUT]
    return Scenes(tuple(files) if split == "test" else _split(files, split), _load_masked, aligned=False)


def _load_masked(path: Path) -> Scene:
    arrays = read_npz(path)
    p, q, flow = _flowing(arrays, ("points1", "points2", "flow"), path)
    if "valid_mask1" not in arrays:
        return Scene(p, q, flow, _all(p))
    mask = arrays["valid_mask1"]
    if mask.shape not in ((len(p),), (len(p), 1)) or mask.dtype.kind not in "biuf":
        raise VergenceError(f"{path} has a 'valid_mask1' of shape {mask.shape}, expected ({len(p)},)")
    return Scene(p, q, flow, torch.from_numpy(mask.reshape(-1) != 0))


# KITTI ---------------------------------------------------------------------------------------------------------------


def _read_kitti_s(path: Path, split: str) -> Scenes:
    """All scenes in every split: KITTI is only for testing."""
    root = path / "KITTI_processed_occ_final"
    root = root if root.is_dir() else path
    expected = "KITTI_processed_occ_final/<six digits>/pc1.npy and pc2.npy"
    folders = [file.parent for file in _listed(root, "[0-9]*/pc1.npy", expected)]
    mapping = next((p for p in (root / MAPPING, root.parent / MAPPING) if p.exists()), None)
    if mapping is not None:
        folders = _mapped(folders, mapping)
    elif len(folders) == 200:
        raise VergenceError(
            f"{root} has all 200 scenes, and the protocol keeps 142 of them: put HPLFlowNet's {MAPPING} beside them"
        )
    return Scenes(tuple(folders), _load_kitti_s, aligned=True)


MAPPING = "KITTI_mapping.txt"
"""One line per scene, empty for those that are left out."""


def _mapped(folders: list[Path], mapping: Path) -> list[Path]:
    try:
        lines = mapping.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise VergenceError(f"{mapping} cannot be read: {error}") from None
    kept = [f for f in folders if f.name.isdigit() and int(f.name) < len(lines) and lines[int(f.name)].strip()]
    if not kept:
        raise VergenceError(f"{mapping} keeps none of the {len(folders)} scenes: expected one line per scene")
    return kept


def _load_kitti_s(folder: Path) -> Scene:
    first, second = _two_clouds(folder)
    ground = (first[:, 1] < GROUND) & (second[:, 1] < GROUND)
    kept = ~ground & (first[:, 2] < DEPTH) & (second[:, 2] < DEPTH)
    if not kept.any():
        raise VergenceError(f"{folder} has no point above the ground and nearer than {DEPTH:g} m")
    first, second = first[kept], second[kept]
    return Scene(first, second, second - first, _all(first))


def _read_kitti_o(path: Path, split: str) -> Scenes:
    """All scenes in every split: KITTI is only for testing."""
    root = path / "kitti_rm_ground"
    root = root if root.is_dir() else path
    return Scenes(tuple(_listed(root, "*.npz", "kitti_rm_ground/*.npz")), _load_kitti_o, aligned=False)


def _load_kitti_o(path: Path) -> Scene:
    p, q, flow = (x[:, [1, 2, 0]] for x in _flowing(read_npz(path), ("pos1", "pos2", "gt"), path))
    near, near_second = p[:, 2] < DEPTH, q[:, 2] < DEPTH
    if not (near.any() and near_second.any()):
        raise VergenceError(f"{path} has no point nearer than {DEPTH:g} m")
    p, flow = p[near], flow[near]
    return Scene(p, q[near_second], flow, _all(p))


# A user's own folder --------------------------------------------------------------------------------------------------


def read_folder(path: Path, split: str) -> Scenes:
    """``PATH/<split>/*.npz`` with points1, points2, flow and, if the flow is not known everywhere, valid_mask1."""
    stands_in = {"train": ["train"], "val": ["val", "test"], "test": ["test", "val"]}[split]
    part = next((path / name for name in stands_in if (path / name).is_dir()), path / split)
    expected = f"{path.name}/{split}/*.npz with points1, points2 and flow"
    return Scenes(tuple(_listed(part, "*.npz", expected)), _load_masked, aligned=False, split=part.name)


LAYOUTS = {
    "ft3d_s": Layout(_read_ft3d_s, "HPLFlowNet's FlyingThings3D_subset_processed_35m"),
    "ft3d_o": Layout(_read_ft3d_o, "FlowNet3D's data_processed_maxcut_35_20k_2k_8192"),
    "kitti_s": Layout(_read_kitti_s, "HPLFlowNet's KITTI_processed_occ_final"),
    "kitti_o": Layout(_read_kitti_o, "FlowNet3D's kitti_rm_ground"),
    "folder": Layout(read_folder, "folders train, val and test of *.npz with points1, points2 and flow"),
}
