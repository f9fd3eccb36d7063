"""SVHN's cropped digits: ``train_32x32.mat`` and ``test_32x32.mat``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.reading.matlab import read_mat
from vergence.recognition.data import Labelled

CLASSES = 10


def read_svhn(path: Path, split: str) -> Labelled:
    """The pictures ``X`` (32, 32, 3, N) and labels ``y`` (N, 1) of a split; the label of the digit 0 is 10. SVHN has no
    validation split: ``val`` is ``test``."""
    file = path / f"{'train' if split == 'train' else 'test'}_32x32.mat"
    if not file.is_file():
        raise VergenceError(f"{path} has no file {file.name}: expected SVHN's cropped digits")
    arrays = read_mat(file, ["X", "y"])
    if set(arrays) != {"X", "y"}:
        raise VergenceError(f"{file} is not SVHN's: expected the arrays 'X' and 'y'")
    pictures, labels = arrays["X"], arrays["y"]
    if pictures.dtype != np.uint8 or pictures.ndim not in (3, 4) or pictures.shape[2] != 3 or not pictures.size:
        raise VergenceError(
            f"'X' of {file} has {pictures.dtype} of the shape {pictures.shape}: expected bytes (H, W, 3, N)"
        )
    pictures = pictures.reshape(*pictures.shape[:3], -1)  # MATLAB drops a last dimension of one
    if labels.size != pictures.shape[3]:
        raise VergenceError(f"{file} has {labels.size} labels for {pictures.shape[3]} pictures")
    whole = labels.reshape(-1).astype(np.int64)
    if (whole != labels.reshape(-1)).any() or whole.min() < 1 or whole.max() > CLASSES:
        raise VergenceError(f"{file} has a label outside 1 to {CLASSES}")
    names = tuple(str(label) for label in range(CLASSES))
    images = torch.from_numpy(np.ascontiguousarray(pictures.transpose(3, 2, 0, 1)))
    return Labelled(images, torch.from_numpy(whole % CLASSES), names)


SVHN = Layout(read_svhn, "train_32x32.mat and test_32x32.mat, the cropped digits")
