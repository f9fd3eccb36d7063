"""Small data sets in the public layouts, and pictures to diagnose a classifier on."""

from __future__ import annotations

import numpy as np
from PIL import Image

from recognition.bld.fixtures import mnist, packed_mnist
from recognition.snl.fixtures import cifar10_binary, cifar10_python, class_folders

layouts = {
    "cifar10": {"python": cifar10_python, "binary": cifar10_binary},
    "mnist": {"plain": mnist, "packed": packed_mnist},
    "folder": class_folders,
}


def prediction(folder):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 52, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    Image.fromarray(pixels[..., 0]).save(folder / "grey.png")
    return ["a.png", "grey.png"]
