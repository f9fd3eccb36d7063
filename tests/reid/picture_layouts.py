"""Small data sets in the public layouts, written from their published names with NumPy and Pillow alone."""

from __future__ import annotations

import numpy as np
from PIL import Image


def picture(path, seed=0, size=(24, 64)):
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _three_folders(path, train, query, test):
    for folder, names in (("bounding_box_train", train), ("query", query), ("bounding_box_test", test)):
        for seed, name in enumerate(names):
            picture(path / folder / name, seed)


def market1501(path):
    _three_folders(
        path,
        ["0002_c1s1_000451_03.jpg", "0002_c2s1_000301_01.jpg", "0007_c3s3_077419_03.jpg"],
        ["0003_c1s6_015971_00.jpg", "0004_c1s6_016996_00.jpg"],
        ["0003_c3s3_075944_01.jpg", "0004_c2s3_059152_01.jpg", "0000_c1s1_000151_01.jpg"],
    )


def dukemtmc(path):
    _three_folders(
        path,
        ["0001_c2_f0046182.jpg", "0001_c5_f0051341.jpg", "0034_c8_f0118923.jpg"],
        ["0005_c2_f0046985.jpg"],
        ["0005_c5_f0051781.jpg", "0006_c7_f0084321.jpg"],
    )


def cuhk03(box):
    def write(path):
        _three_folders(
            path / box,
            ["0001_c1_1.png", "0001_c2_6.png", "0002_c1_11.png"],
            ["0003_c1_21.png"],
            ["0003_c2_26.png", "0004_c1_31.png"],
        )

    return write


def msmt17(train, test):
    def write(path):
        lists = {
            "list_train.txt": (train, ["0000/0000_000_01_0303morning_0008_0.jpg 0", "0001/0001_0_04_03noon_3_1.jpg 1"]),
            "list_val.txt": (train, ["0000/0000_001_05_0303morning_0012_0.jpg 0"]),
            "list_query.txt": (test, ["0000/0000_000_02_0302noon_0011_0.jpg 0"]),
            "list_gallery.txt": (test, ["0000/0000_003_14_0303evening_15_1.jpg 0", "0007/0007_1_03_01noon_1_0.jpg 7"]),
        }  # fmt: skip
        for name, (folder, lines) in lists.items():
            for seed, line in enumerate(lines):
                picture(path / folder / line.split()[0], seed)
            (path / name).write_text("\n".join(lines) + "\n")

    return write


def occluded_reid(path):
    for folder, names in {"query": ["001_01.jpg", "002_01.jpg"], "gallery": ["001_06.jpg", "002_06.jpg"]}.items():
        for seed, name in enumerate(names):
            picture(path / folder / name, seed)


def three_plain_folders(path):
    for folder, names in {
        "train": ["anna_1_a.jpg", "anna_2_b.png", "bo_c1_x.jpg"],
        "query": ["cy_1_1.jpg"],
        "gallery": ["cy_2_test.jpg", "di_1.jpg"],
    }.items():
        for seed, name in enumerate(names):
            picture(path / folder / name, seed)


def one_plain_folder(path):
    for seed, name in enumerate(["a_1_x.jpg", "a_2_x.jpg", "b_1_x.jpg", "b_1_y.jpg", "b_2_x.jpg", "c_1_x.jpg"]):
        picture(path / name, seed)


layouts = {
    "market1501": market1501,
    "dukemtmc": dukemtmc,
    "cuhk03-detected": cuhk03("detected"),
    "cuhk03-labelled": cuhk03("labeled"),
    "occluded-reid": occluded_reid,
    "msmt17": {"v1": msmt17("train", "test"), "v2": msmt17("mask_train_v2", "mask_test_v2")},
    "folder": {"three": three_plain_folders, "one": one_plain_folder},
}


def searched(folder):
    """Files and arguments of a search."""
    for seed in range(4):
        picture(folder / "gallery" / f"{seed}.jpg", seed)
    picture(folder / "query.png", 9, size=(50, 120))
    return ["--query", "query.png", "--gallery", "gallery", "--index", "index/kept.safetensors"]
