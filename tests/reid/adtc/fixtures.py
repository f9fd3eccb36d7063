"""Small data sets in the public layouts and without any, written with NumPy and Pillow alone."""

from __future__ import annotations

from reid.csalr.fixtures import layouts as labelled
from reid.csalr.fixtures import picture


def without_names(path):
    for seed in range(5):
        picture(path / f"IMG {seed}.png", seed)


layouts = {**labelled, "unlabelled": without_names}


def prediction(folder):
    for seed in range(4):
        picture(folder / "gallery" / f"{seed}.jpg", seed)
    picture(folder / "query.png", 9, size=(50, 120))
    return ["--query", "query.png", "--gallery", "gallery", "--index", "index/kept.safetensors"]
