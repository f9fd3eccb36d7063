"""Small data sets in the public layouts, from their published names, with NumPy, SciPy, pickle and Pillow alone."""

from __future__ import annotations

import pickle

import numpy as np
from PIL import Image
from scipy.io import savemat


def picture(path, seed=0, size=(40, 36)):
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "JPEG" if path.suffix in ("", ".jpg") else "PNG")


def units(rows, columns=64, seed=0):
    drawn = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def labelled(path, clusters=6, each=4, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, descriptors=units(clusters * each, seed=seed), labels=np.repeat(np.arange(clusters), each))


def one_file(path):
    labelled(path / "all.npz", clusters=10)
    return path / "all.npz"


def two_files(path):
    for seed, split in enumerate(("test", "train")):
        labelled(path / f"{split}.npz", seed=seed)


def class_folders(path):
    for cluster in range(5):
        for number in range(2):
            picture(path / f"c{cluster}" / f"{number}.jpg", 10 * cluster + number)


def split_folders(path):
    for split in ("test", "train"):
        for cluster in range(2):
            for number in range(2):
                picture(path / split / f"c{cluster}" / f"{number}.png", 10 * cluster + number)


def _truth(path, name, protocol=2):
    path.mkdir(parents=True, exist_ok=True)
    gnd = [
        {"bbx": [2.0, 3.0, 38.0, 34.0], "easy": [0], "hard": [1, 2], "junk": [3]},
        {"bbx": [0.0, 0.0, 20.0, 20.0], "easy": np.array([2]), "hard": [3], "junk": []},
    ]
    content = {"imlist": [f"all_{i}" for i in range(4)], "qimlist": ["ask_0", "ask_1"], "gnd": gnd}
    (path / f"gnd_{name}.pkl").write_bytes(pickle.dumps(content, protocol=protocol))


def revisited_pictures(name):
    def write(path):
        _truth(path, name)
        for seed, stem in enumerate(["all_0", "all_1", "all_2", "all_3", "ask_0", "ask_1"]):
            picture(path / "jpg" / f"{stem}.jpg", seed)

    return write


def revisited_matlab(name):
    def write(path):
        _truth(path, name, protocol=4)
        savemat(path / f"{name}_resnet.mat", {"X": units(4).T, "Q": units(2, seed=1).T})

    return write


def sfm(with_pictures):
    def write(path):
        path.mkdir(parents=True, exist_ok=True)
        splits = {}
        for split, first in (("train", "b"), ("val", "a")):
            # The folders of a picture are the last letters of its name: those of the validation sort first.
            cids = [f"{split}{i}0{first}{first}{first}{first}{first}{first}" for i in range(6)]
            splits[split] = {"cids": cids, "cluster": [0, 0, 1, 1, 2, 2], "qidxs": [0, 2], "pidxs": [1, 3]}
            for seed, cid in enumerate(cids if with_pictures else ()):
                picture(path / "ims" / cid[-2:] / cid[-4:-2] / cid[-6:-4] / cid, seed)
            if not with_pictures:
                np.savez(path / f"{split}.npz", descriptors=units(6))
        (path / "retrieval-SfM-120k.pkl").write_bytes(pickle.dumps(splits, protocol=2))

    return write


layouts = {
    "folder": {"one": one_file, "two": two_files},
    "pictures": split_folders,
    "sfm120k": {"pictures": sfm(True), "descriptors": sfm(False)},
    "roxford5k": {"pictures": revisited_pictures("roxford5k"), "matlab": revisited_matlab("roxford5k")},
    "rparis6k": {"pictures": revisited_pictures("rparis6k"), "matlab": revisited_matlab("rparis6k")},
}


def prediction(folder):
    np.savez(folder / "mine.npz", gallery=units(30), queries=units(2, seed=1))
    return ["--descriptors", "mine.npz", "--neighbours", "8"]


def pictures(folder):
    """A query and a gallery of pictures, by a small network without training."""
    random = np.random.default_rng(0)
    (folder / "gallery").mkdir()
    for name in ("query.png", "gallery/a.png", "gallery/b.png"):
        Image.fromarray(random.integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(folder / name)
    files = ["--query", str(folder / "query.png"), "--gallery", str(folder / "gallery")]
    return [*files, "--backbone", "resnet18", "--method", "alpha"]
