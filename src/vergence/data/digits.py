"""scikit-learn's handwritten digits and where its data lies, without importing it: that takes longer than reading."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vergence.reading.arrays import read_gzip
from vergence.reading.tables import parse_rows


def data_folder() -> Path:
    """The folder of scikit-learn's data sets and photographs."""
    package = find_spec("sklearn")
    return Path(next(iter((package and package.submodule_search_locations) or ()), "")) / "datasets"


@cache
def handwritten() -> tuple[Tensor, Tensor]:
    """1797 digits (N, 8, 8) from 0 to 1 in float64, and their labels (N,)."""
    file = data_folder() / "data" / "digits.csv.gz"
    if file.exists():
        rows = np.array(parse_rows(read_gzip(file).decode(), file), np.float64)
        images, labels = rows[:, :-1].reshape(-1, 8, 8), rows[:, -1]
    else:  # another version may keep it elsewhere
        from sklearn.datasets import load_digits

        bunch = load_digits()
        images, labels = bunch.images, bunch.target
    return torch.from_numpy(images / 16), torch.from_numpy(labels).long()
