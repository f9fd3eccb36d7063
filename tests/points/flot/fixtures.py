"""Small data sets in the public layouts, written from their published names with NumPy alone, and a checkpoint as the
authors have it."""

from __future__ import annotations

import numpy as np
import torch


def _cloud(count, seed):
    # Up is y, depth is z: nothing below the ground or too far.
    return np.random.default_rng(seed).uniform([-5, -1, 3], [5, 2, 30], (count, 3)).astype(np.float32)


def _folders(root, names, count=60):
    for number, name in enumerate(names):
        folder = root / name
        folder.mkdir(parents=True)
        first = _cloud(count, number)
        np.save(folder / "pc1.npy", first)
        np.save(folder / "pc2.npy", first + np.float32(0.3))


def ft3d_s(path):
    root = path / "FlyingThings3D_subset_processed_35m"
    _folders(root / "train", ["0000000"])
    _folders(root / "val", ["0000000"])


def ft3d_o(path):
    root = path / "data_processed_maxcut_35_20k_2k_8192"
    root.mkdir(parents=True)
    for number, name in enumerate(["TRAIN_A_0000_left_0006-0", "TEST_A_0000_left_0006-0"]):
        first = _cloud(50, number)
        mask = np.arange(50) % 3 > 0
        colours = np.zeros((50, 3), np.uint8)
        arrays = {"points1": first, "points2": _cloud(40, 99), "flow": 0 * first + 0.1, "valid_mask1": mask}
        np.savez(root / f"{name}.npz", color1=colours, color2=colours, **arrays)


def kitti_s(path):
    _folders(path / "KITTI_processed_occ_final", ["000000", "000001"])


def kitti_o(path):
    root = path / "kitti_rm_ground"
    root.mkdir(parents=True)
    for number in range(2):
        # forward, left, up: the depth comes first
        first, second = _cloud(50, number)[:, [2, 0, 1]], _cloud(45, 9)[:, [2, 0, 1]]
        np.savez(root / f"{number:06d}.npz", pos1=first, pos2=second, gt=0 * first + 0.2)


def folder(path):
    for split in ("train", "test"):
        (path / split).mkdir(parents=True)
        for number in range(2):
            first = _cloud(30, number)
            np.savez(path / split / f"{number}.npz", points1=first, points2=_cloud(40, 9), flow=0 * first)


layouts = {"ft3d_s": ft3d_s, "ft3d_o": ft3d_o, "kitti_s": kitti_s, "kitti_o": kitti_o, "folder": folder}


def prediction(folder):
    first = np.random.default_rng(0).normal(0, 5, (150, 4)).astype("<f4")
    (folder / "000000.bin").write_bytes(first.tobytes())
    np.save(folder / "later.npy", first[:140, :3] + 0.2)
    return ["000000.bin", "later.npy", "--axes", "lidar", "--points", "100"]


def checkpoint(folder):
    """The names and shapes of the authors' files, whose own name says how many points they were trained with."""
    weights = {"gamma": torch.zeros(1), "epsilon": torch.zeros(1)}
    weights |= {"fc.weight": torch.randn(3, 128), "fc.bias": torch.zeros(3)}
    for part in ("feat_conv", "ref_conv"):
        for conv, (inputs, outputs) in enumerate([(3, 32), (32, 64), (64, 128)], 1):
            for layer, below in enumerate([inputs + 3, outputs, outputs], 1):
                name = f"{part}{conv}"
                weights[f"{name}.fc{layer}.weight"] = torch.randn(outputs, below, 1, 1) / below**0.5
                weights[f"{name}.bn{layer}.weight"] = torch.ones(outputs)
                weights[f"{name}.bn{layer}.bias"] = torch.zeros(outputs)
    torch.save({"model": weights, "nb_iter": 1}, folder / "model_8192.tar", _use_new_zipfile_serialization=False)
    return folder / "model_8192.tar"
