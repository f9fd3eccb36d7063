"""Small data sets in the public layouts, written from their published names with NumPy (and h5py where it is
installed), and a cloud to predict on."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np

CLASSES = [
    "airplane",
    "bathtub",
    "bed",
    "bench",
    "bookshelf",
    "bottle",
    "bowl",
    "car",
    "chair",
    "cone",
    "cup",
    "curtain",
    "desk",
    "door",
    "dresser",
    "flower_pot",
    "glass_box",
    "guitar",
    "keyboard",
    "lamp",
    "laptop",
    "mantel",
    "monitor",
    "night_stand",
    "person",
    "piano",
    "plant",
    "radio",
    "range_hood",
    "sink",
    "sofa",
    "stairs",
    "stool",
    "table",
    "tent",
    "toilet",
    "tv_stand",
    "vase",
    "wardrobe",
    "xbox",
]


def _cloud(count, seed):
    return np.random.default_rng(seed).normal(0, [1, 2, 0.5], (count, 3)).astype(np.float32)


def _h5(path, **arrays):
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)


def modelnet40_hdf5(path):
    root = path / "modelnet40_ply_hdf5_2048"
    root.mkdir(parents=True)
    (root / "shape_names.txt").write_text("".join(f"{name}\n" for name in CLASSES))
    for number, name in enumerate(["train0", "train1", "test0"]):
        data = np.stack([_cloud(80, 10 * number + k) for k in range(3)])
        labels = np.array([[0], [8], [39]], np.uint8)
        _h5(root / f"ply_data_{name}.h5", data=data, label=labels, normal=data, faceId=np.zeros((3, 80), np.int32))


CUBE = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 2)]
QUADS = [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)]


def _off(path, joined=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{x} {y} {z}" for x, y, z in CUBE] + [f"4 {a} {b} {c} {d}" for a, b, c, d in QUADS]
    path.write_text(("OFF8 6 0\n" if joined else "OFF\n8 6 0\n") + "\n".join(rows) + "\n")


def modelnet40_off(path):
    for name in ("airplane", "bathtub"):
        for split in ("train", "test"):
            _off(path / "ModelNet40" / name / split / f"{name}_0001.off", joined=name == "bathtub")


def shapenetpart_hdf5(path):
    root = path / "hdf5_data"
    root.mkdir(parents=True)
    first = np.random.default_rng(0).integers(0, 4, 60)
    for name in ("train0", "test0"):
        data = np.stack([_cloud(60, 1), _cloud(60, 2)])
        _h5(
            root / f"ply_data_{name}.h5",
            data=data,
            label=np.array([[0], [15]], np.uint8),
            pid=np.stack([first, 47 + first % 3]).astype(np.uint8),
        )


def shapenetpart_text(path):
    root = path / "shapenetcore_partanno_segmentation_benchmark_v0_normal"
    (root / "train_test_split").mkdir(parents=True)
    (root / "synsetoffset2category.txt").write_text("Airplane\t02691156\nTable\t04379243\n")
    shapes = {"train": ("02691156/1a04e3ea", "04379243/1b05971a"), "test": ("02691156/1a32f10b", "04379243/1c259cf6")}
    for split, names in shapes.items():
        listed = root / "train_test_split" / f"shuffled_{split}_file_list.json"
        listed.write_text(json.dumps([f"shape_data/{name}" for name in names]))
        for number, name in enumerate(names):
            file = root / f"{name}.txt"
            file.parent.mkdir(exist_ok=True)
            rows = np.concatenate([_cloud(31, number), _cloud(31, 9)], 1)
            parts = (0, 47)[number] + np.arange(31) % 3
            text = [" ".join(f"{v:.6f}" for v in row) + f" {p:.6f}" for row, p in zip(rows, parts, strict=True)]
            file.write_text("\n".join(text) + "\n")


def _ply(path):
    xyz = "property float x\nproperty float y\nproperty float z\n"
    faces = "element face 6\nproperty list uchar int vertex_indices\n"
    rows = [f"{x} {y} {z}" for x, y, z in CUBE] + [f"4 {a} {b} {c} {d}" for a, b, c, d in QUADS]
    path.write_text(f"ply\nformat ascii 1.0\nelement vertex 8\n{xyz}{faces}end_header\n" + "\n".join(rows) + "\n")


def _obj(path):
    rows = [f"v {x} {y} {z}" for x, y, z in CUBE] + [
        f"f {a + 1}/1 {b + 1}/1 {c + 1}/1 {d + 1}/1" for a, b, c, d in QUADS
    ]
    path.write_text("\n".join(rows) + "\n")


def folder(path):
    for split in ("train", "test"):
        for number, name in enumerate(("mug", "chair")):
            here = path / split / name
            here.mkdir(parents=True)
            _ply(here / "a.ply")
            _obj(here / "b.obj")
            _off(here / "c.off")
            rows = [" ".join(f"{v:9.5f}" for v in row) for row in _cloud(21, number)]
            (here / "d.xyz").write_text("\n".join(rows) + "\n")


modelnet40 = {"off": modelnet40_off}
shapenetpart = {"text": shapenetpart_text}
if find_spec("h5py"):
    modelnet40["hdf5"] = modelnet40_hdf5
    shapenetpart["hdf5"] = shapenetpart_hdf5
layouts = {"modelnet40": modelnet40, "shapenetpart": shapenetpart, "folder": folder}


def prediction(folder):
    np.save(folder / "thing.npy", _cloud(300, 0))
    return ["thing.npy", "--axes", "lidar", "--votes", "2"]
