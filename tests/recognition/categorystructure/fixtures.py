"""Small data sets in the public layouts, written from their published names with Pillow and plain text alone; those of
CIFAR and class folders as the tests of snl write them."""

from __future__ import annotations

import numpy as np
from PIL import Image

from recognition.snl import fixtures as others

NUMBERS = ("n01443537", "n01629819", "n01641577")


def _save(path, seed, grey=False):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels[..., 0] if grey else pixels).save(path, format="JPEG")


def tiny_imagenet(path):
    """Three classes with two training pictures each, one of them grey, and three pictures to validate. The boxes that
    come with them are left out: nothing reads them."""
    folder = path / "tiny-imagenet-200"
    for label, number in enumerate(NUMBERS):
        for n in range(2):
            _save(folder / "train" / number / "images" / f"{number}_{n}.JPEG", 10 * label + n, grey=n == 1)
    lines = []
    for n, number in enumerate(reversed(NUMBERS)):
        _save(folder / "val" / "images" / f"val_{n}.JPEG", 90 + n)
        lines.append(f"val_{n}.JPEG\t{number}\t0\t32\t44\t62\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("".join(f"{number}\n" for number in NUMBERS))
    words = ("goldfish, Carassius auratus", "European fire salamander", "bullfrog, Rana catesbeiana")
    (folder / "words.txt").write_text("".join(f"{n}\t{w}\n" for n, w in zip(NUMBERS, words, strict=True)))


layouts = {
    "cifar10": others.layouts["cifar10"],
    "cifar100": others.layouts["cifar100"],
    "folder": others.layouts["folder"],
    "tiny-imagenet": tiny_imagenet,
}


def prediction(folder):
    pixels = np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    Image.fromarray(pixels[..., 0]).save(folder / "grey.png")
    return ["a.png", "grey.png"]
