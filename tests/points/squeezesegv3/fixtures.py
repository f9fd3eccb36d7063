"""Small labelled scans in the public layouts, written from their published names with NumPy alone."""

from __future__ import annotations

import json

import numpy as np

RAW = np.array([0, 10, 40, 48, 50, 70, 71, 72, 80, 81, 252], np.uint32)


def _points(count, seed):
    source = np.random.default_rng(seed)
    cloud = source.normal(0, [15, 15, 1], (count, 3))
    return np.concatenate([cloud, source.uniform(0, 1, (count, 1))], 1).astype("<f4")


def semantickitti(path):
    for sequence in ("00", "08"):
        for kind in ("velodyne", "labels"):
            (path / "sequences" / sequence / kind).mkdir(parents=True)
        points = _points(400, int(sequence))
        points.tofile(path / "sequences" / sequence / "velodyne" / "000000.bin")
        labels = RAW[np.arange(400) % len(RAW)] | (np.uint32(7) << 16)  # the high half numbers the instance
        labels.astype("<u4").tofile(path / "sequences" / sequence / "labels" / "000000.label")


def nuscenes(path):
    names = {"scene": [], "sample": [], "sample_data": [], "lidarseg": []}
    for folder in ("v1.0-trainval", "samples/LIDAR_TOP", "lidarseg/v1.0-trainval"):
        (path / folder).mkdir(parents=True)
    for number, scene in enumerate(("scene-0001", "scene-0003")):
        scan = f"samples/LIDAR_TOP/n{number}.pcd.bin"
        labels = f"lidarseg/v1.0-trainval/d{number}_lidarseg.bin"
        names["scene"].append({"token": f"c{number}", "name": scene})
        names["sample"].append({"token": f"s{number}", "scene_token": f"c{number}"})
        names["sample_data"].append({"token": f"d{number}", "sample_token": f"s{number}", "filename": scan})
        names["lidarseg"].append({"token": f"l{number}", "sample_data_token": f"d{number}", "filename": labels})
        ring = np.zeros((300, 1), np.float32)
        np.concatenate([_points(300, number) * [1, 1, 1, 255], ring], 1).astype("<f4").tofile(path / scan)
        (np.arange(300) % 32).astype(np.uint8).tofile(path / labels)
    for name, rows in names.items():
        (path / "v1.0-trainval" / f"{name}.json").write_text(json.dumps(rows))


def folder(path):
    for split in ("train", "test"):
        (path / split).mkdir(parents=True)
        for number in range(2):
            points = _points(200, number)
            np.savez(path / split / f"{number}.npz", points=points, labels=np.arange(200) % 20)


layouts = {"semantickitti": semantickitti, "nuscenes": nuscenes, "folder": folder}


def prediction(folder):
    _points(500, 3).tofile(folder / "000000.bin")
    return ["000000.bin"]
