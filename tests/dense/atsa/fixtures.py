"""Small data sets in the public layouts, written with NumPy and Pillow, and a photograph with depth to predict on."""

from __future__ import annotations

import numpy as np
from PIL import Image

HEIGHT, WIDTH = 40, 52


def scene(seed=0, height=HEIGHT, width=WIDTH, near=255):
    """A picture, its depth (near is ``near``) and the mask of a disc in front of a slope."""
    source = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    mask = (y - height * 0.55) ** 2 + (x - width * source.uniform(0.35, 0.65)) ** 2 < (0.25 * height) ** 2
    picture = source.integers(60, 120, (height, width, 3)).astype(np.uint8)
    picture[mask] = source.integers(140, 255, 3)
    depth = 20 + 100 * y / height
    depth[mask] = 230
    depth = depth if near == 255 else 255 - depth
    return picture, depth.astype(np.uint8), mask


def _save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def _write(root, names, count=3, near=255, first=0, tails=("", "", "")):
    for number in range(first, first + count):
        picture, depth, mask = scene(number, near=near)
        for name, pixels, suffix, tail in zip(names, (picture, depth, mask.astype(np.uint8) * 255),
                                              (".jpg", ".png", ".png"), tails, strict=True):  # fmt: skip
            _save(root / name / f"{number:04d}{tail}{suffix}", pixels)


USUAL = ("RGB", "depth", "GT")
IMAGE = ("Image", "Depth", "Mask")


def dmra(path):
    """As the authors of DUT-RGBD published it."""
    for part in ("train", "test"):
        _write(path / f"{part}_data", [f"{part}_{name}" for name in ("images", "depth", "masks")])


def benchmark(path):
    for part in ("TRAIN", "TEST"):
        _write(path / f"NJU2K_{part}", USUAL, tails=("_left", "_left", "_left"))


def halves(path):
    for part in ("train", "test"):
        _write(path / part, USUAL, near=0)


def original(path):
    _write(path, ("RGB", "depth", "groundtruth"), 5, tails=("", "_Depth", ""))


def whole(path):
    _write(path, IMAGE)


def nested(path):
    _write(path / "STERE", USUAL)


def images(path):
    for part in ("train", "test"):
        _write(path / part, ("images", "depth", "masks"))


def arrays(path):
    for number in range(2):
        picture, depth, mask = scene(number)
        _save(path / "images" / f"{number}.png", picture)
        _save(path / "masks" / f"{number}.png", mask.astype(np.uint8))
        (path / "depth").mkdir(exist_ok=True)
        np.save(path / "depth" / f"{number}.npy", (1000.0 / (depth + 10)).astype(np.float32))


layouts = {
    "njud": {"benchmark": benchmark, "halves": halves},
    "nlpr": {"halves": halves, "original": original},
    "dut-rgbd": dmra,
    "stereo": {"nested": nested, "whole": whole},
    "rgbd135": whole,
    "lfsd": whole,
    "ssd": whole,
    "folder": {"images": images, "arrays": arrays},
}


def prediction(folder):
    picture, depth, _ = scene(4, 60, 80)
    _save(folder / "photo.png", picture)
    _save(folder / "depth.png", depth)
    return ["photo.png", "depth.png"]
