"""Small data sets in the public layouts, written from their published names with pickle, NumPy and Pillow alone; those
of videos and tracklets as the tests of their rooms write them."""

from __future__ import annotations

import pickle

import numpy as np
from PIL import Image

from reid import tracklet_layouts as tracklets
from video.ata import fixtures as videos


def _pixels(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def cifar10_python(path):
    folder = path / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        batch = {b"data": _pixels(4, number), b"labels": [0, 3, 9, 1], b"batch_label": b"x", b"filenames": [b"a"] * 4}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    names = {b"label_names": [f"class{i}".encode() for i in range(10)], b"num_vis": 3072}
    (folder / "batches.meta").write_bytes(pickle.dumps(names, protocol=2))


def cifar10_binary(path):
    folder = path / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        labels = np.array([[0], [3], [9], [1]], np.uint8)
        (folder / f"{name}.bin").write_bytes(np.concatenate([labels, _pixels(4, number)], 1).tobytes())
    (folder / "batches.meta.txt").write_text("".join(f"class{i}\n" for i in range(10)) + "\n")


def cifar100_python(path):
    folder = path / "cifar-100-python"
    folder.mkdir(parents=True)
    for number, name in enumerate(("train", "test")):
        batch = {b"data": _pixels(3, number), b"fine_labels": [0, 99, 42], b"coarse_labels": [3, 19, 7]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    names = {b"fine_label_names": [f"fine{i}".encode() for i in range(100)]}
    (folder / "meta").write_bytes(pickle.dumps(names, protocol=2))


def cifar100_binary(path):
    folder = path / "cifar-100-binary"
    folder.mkdir(parents=True)
    for number, name in enumerate(("train.bin", "test.bin")):
        labels = np.array([[3, 0], [19, 99], [7, 42]], np.uint8)  # coarse, fine
        (folder / name).write_bytes(np.concatenate([labels, _pixels(3, number)], 1).tobytes())
    (folder / "fine_label_names.txt").write_text("".join(f"fine{i}\n" for i in range(100)))


def class_folders(path):
    for split in ("train", "test"):
        for name, colour in (("cat", "red"), ("dog", "blue")):
            folder = path / split / name
            folder.mkdir(parents=True)
            pixels = np.random.default_rng(len(name)).integers(0, 256, (40, 52, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "one.png")
            Image.new("RGB", (64, 33), colour).save(folder / "two.jpg")


def cub(path):
    """Three classes; of every class the first picture trains and the second tests."""
    folder = path / "CUB_200_2011"
    classes = ["001.Albatross", "002.Auklet", "003.Wren"]
    names = [f"{name}/{name[4:]}_{number:04d}.jpg" for name in classes for number in (1, 2)]
    for seed, name in enumerate(names):
        (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(seed).integers(0, 256, (40, 52, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / name)
    lines = {
        "images.txt": names,
        "image_class_labels.txt": [1 + number // 2 for number in range(6)],
        "train_test_split.txt": [1, 0] * 3,
    }
    for file, values in lines.items():
        (folder / file).write_text("".join(f"{n} {value}\n" for n, value in enumerate(values, 1)))
    (folder / "classes.txt").write_text("".join(f"{n} {name}\n" for n, name in enumerate(classes, 1)))


def imagenet_lists(path):
    """As the public code has ImageNet: lists beside folders of pictures, with labels in the order of the folders."""
    folders = ["n01440764", "n01443537"]
    for split, picture in (("train", "{0}/{0}_10026.JPEG"), ("val", "val/{0}_00000293.JPEG")):
        lines = []
        for label, folder in enumerate(folders):
            name = picture.format(folder) if split == "val" else "train/" + picture.format(folder)
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(label).integers(0, 256, (40, 52, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path / name, format="JPEG")
            lines.append(f"{name},{label}\n")
        (path / f"imagenet_{split}.list").write_text("".join(lines))


layouts = {
    "cifar10": {"python": cifar10_python, "binary": cifar10_binary},
    "cifar100": {"python": cifar100_python, "binary": cifar100_binary},
    "cub": cub,
    "list": imagenet_lists,
    "folder": class_folders,
    "ucf101": videos.ucf101,
    "hmdb51": videos.hmdb51,
    "videos": videos.class_folders,
    **{"tracklets" if name == "folder" else name: write for name, write in tracklets.layouts.items()},
}


def prediction(folder):
    pixels = np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    Image.fromarray(pixels[..., 0]).save(folder / "grey.png")
    return ["a.png", "grey.png", "--points", "45,35", "30,20"]
