"""Small data sets in the public layouts, written with struct, pickle, SciPy, NumPy and Pillow alone."""

from __future__ import annotations

import gzip
import struct

import numpy as np
from PIL import Image

from recognition.snl.fixtures import cifar10_binary, cifar10_python, class_folders


def _idx(path, array, packed):
    content = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.with_name(path.name + (".gz" if packed else "")).write_bytes(gzip.compress(content) if packed else content)


def mnist(path, packed=False, count=30):
    path.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for prefix in ("train", "t10k"):
        _idx(path / f"{prefix}-images-idx3-ubyte", random.integers(0, 256, (count, 28, 28)).astype(np.uint8), packed)
        _idx(path / f"{prefix}-labels-idx1-ubyte", (np.arange(count) % 10).astype(np.uint8), packed)


def packed_mnist(path):
    mnist(path, packed=True)


def svhn(path, labels=None):
    from scipy.io import savemat

    path.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    for split in ("train", "test"):
        own = np.arange(20) % 10 + 1 if labels is None else np.asarray(labels)
        pictures = random.integers(0, 256, (32, 32, 3, len(own))).astype(np.uint8)
        savemat(path / f"{split}_32x32.mat", {"X": pictures, "y": own.reshape(-1, 1).astype(np.uint8)})


def packed_svhn(path):
    """With its arrays compressed, as MATLAB writes them."""
    from scipy.io import loadmat, savemat

    svhn(path)
    for file in path.glob("*.mat"):
        arrays = {name: array for name, array in loadmat(file).items() if name in ("X", "y")}
        savemat(file, arrays, do_compression=True)


layouts = {
    "mnist": {"plain": mnist, "packed": packed_mnist},
    "svhn": {"plain": svhn, "compressed": packed_svhn},
    "cifar10": {"python": cifar10_python, "binary": cifar10_binary},
    "folder": class_folders,
}


def prediction(folder):
    pixels = np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    Image.fromarray(pixels[..., 0]).save(folder / "grey.png")
    return ["a.png", "grey.png"]
