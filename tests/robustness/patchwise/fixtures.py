"""Small data sets in the public layouts, written from their published names with csv, NumPy and Pillow alone."""

from __future__ import annotations

import csv

import numpy as np
from PIL import Image

COLUMNS = ["ImageId", "URL", "x1", "y1", "x2", "y2", "TrueLabel", "TargetClass"]
COLUMNS += ["OriginalLandingURL", "License", "Author", "AuthorProfileURL"]


def _picture(seed, shape=(32, 32, 3)):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def nips2017(path):
    folder = path / "images"
    folder.mkdir(parents=True)
    with (path / "dev_dataset.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for number, label in enumerate((1, 306, 1000)):
            name = f"{number:x}c7ac4a8c9dfa802"
            _picture(number).save(folder / f"{name}.png")
            rows.writerow([name, "https://a/b.jpg", 0, 0, 1, 1, label, 7, "https://a", "CC BY 2.0", "A", "https://c"])


def class_folders(path):
    for split in ("train", "test"):
        for name in ("cat", "dog"):
            folder = path / split / name
            folder.mkdir(parents=True)
            for number in range(2):
                _picture(number, (40, 52, 3)).save(folder / f"{number}.png")


layouts = {"nips2017": nips2017, "folder": class_folders}


def prediction(folder):
    _picture(0, (28, 24, 3)).save(folder / "a.png")
    _picture(1, (20, 20)).save(folder / "grey.png")
    return ["a.png", "grey.png", "--steps", "3"]
