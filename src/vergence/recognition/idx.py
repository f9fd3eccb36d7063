"""MNIST and the data sets that copy its files (Fashion-MNIST, KMNIST): arrays in IDX files, packed with gzip or not.

An IDX file is two zero bytes, a byte for the type of its values, one for the number of dimensions, the dimensions as
big-endian 32-bit integers, and the values, big-endian too.
"""

from __future__ import annotations

import math
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.layouts import read_all
from vergence.reading.arrays import read_gzip
from vergence.reading.budget import within
from vergence.reading.files import read_bytes, refusing
from vergence.recognition.data import Labelled

WHAT = "a complete IDX file"
CLASSES = 10
_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_PREFIXES = {"train": "train", "val": "t10k", "test": "t10k"}


def read_idx(path: Path) -> Any:
    """The array of an IDX file, in the machine's byte order; a name that ends in ``.gz`` is unpacked first."""
    content = read_gzip(path, WHAT) if path.suffix == ".gz" else read_bytes(path, WHAT)
    with refusing(path, WHAT):
        if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES or not content[3]:
            raise ValueError("its first four bytes are not those of one")
        kind, dimensions = np.dtype(_TYPES[content[2]]), content[3]
        start = 4 + 4 * dimensions
        if len(content) < start:
            raise ValueError("it ends within its header")
        shape = struct.unpack(f">{dimensions}I", content[4:start])
        count = math.prod(shape)
        within("values", count, path)
        if len(content) - start != count * kind.itemsize:
            raise ValueError(
                f"its header promises {count * kind.itemsize} bytes for the shape {shape}, and {len(content) - start} "
                "follow"
            )
        return np.frombuffer(content, kind, count, start).reshape(shape).astype(kind.newbyteorder("="))


def read_mnist(path: Path, split: str) -> Labelled:
    """The pictures and labels of a split, from the folder itself or from ``raw`` or ``MNIST/raw`` in it.

    Grey pictures are shown to networks of three channels: the channels share their memory. MNIST has no validation
    split: ``val`` is ``test``.
    """
    prefix = _PREFIXES[split]
    folder = next((f for f in (path, path / "raw", path / "MNIST" / "raw") if _find(f, prefix, "images", 3)), path)
    files = [_find(folder, prefix, what, n) for what, n in (("images", 3), ("labels", 1))]
    for file, name in zip(files, ("images-idx3", "labels-idx1"), strict=True):
        if file is None:
            raise VergenceError(f"{folder} has no file {prefix}-{name}-ubyte or {prefix}-{name}-ubyte.gz")
    pictures, labels = read_all(partial(read_idx, file) for file in files if file is not None)
    if pictures.dtype != np.uint8 or pictures.ndim != 3 or not pictures.size:
        raise VergenceError(f"{files[0]} has {pictures.dtype} of the shape {pictures.shape}: expected bytes (N, H, W)")
    if labels.shape != pictures.shape[:1]:
        raise VergenceError(f"{files[1]} has labels of the shape {labels.shape} for {len(pictures)} pictures")
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= CLASSES:
        raise VergenceError(f"{files[1]} has a label outside 0 to {CLASSES - 1}")
    grey = torch.from_numpy(pictures)[:, None]
    names = tuple(str(label) for label in range(CLASSES))
    return Labelled(grey.expand(-1, 3, -1, -1), torch.from_numpy(labels.astype(np.int64)), names)


def _find(folder: Path, prefix: str, what: str, dimensions: int) -> Path | None:
    """The file of a split; some archives write a dot for the second hyphen."""
    names = [f"{prefix}-{what}{mark}idx{dimensions}-ubyte{end}" for mark in "-." for end in ("", ".gz")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


MNIST = Layout(read_mnist, "train-images-idx3-ubyte, train-labels-idx1-ubyte and the same with t10k, each also as .gz")
