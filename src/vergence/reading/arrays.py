"""Arrays of numbers: NumPy's files, MATLAB's, and gzipped bytes. Sizes are checked before memory is taken."""

from __future__ import annotations

import gzip
import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from vergence.core.errors import VergenceError
from vergence.reading.budget import FREE, within, within_expansion
from vergence.reading.files import open_file, refusing, size_of

NPY = "a complete .npy file of numbers"
NPZ = "a complete .npz file of numbers"


def read_npy(path: Path) -> Any:
    """The array of a ``.npy`` file. One with Python objects in it is refused."""
    with open_file(path, NPY) as file, refusing(path, NPY):
        return _array(file, size_of(file), path)


def read_npz(path: Path) -> dict[str, Any]:
    """The arrays of a ``.npz`` file by name."""
    with open_file(path, NPZ) as file, refusing(path, NPZ), zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        within("entries", len(entries), path)
        within_expansion(sum(entry.file_size for entry in entries), size_of(file), path)
        arrays = {}
        for entry in entries:
            with archive.open(entry) as member:
                arrays[entry.filename.removesuffix(".npy")] = _array(member, entry.file_size, path)
        return arrays


def _array(file: IO[bytes], size: int, path: Path) -> Any:
    """An array whose header promises no more than the ``size`` bytes there are."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its format version is {version[0]}.{version[1]}")
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if any(not isinstance(side, int) or side < 0 for side in shape):
        raise ValueError(f"its shape is {shape}")
    count = math.prod(shape)
    within("values", count, path)
    if count * dtype.itemsize > size:
        raise ValueError(f"its header promises an array of the shape {shape}, and the file is shorter")
    content = file.read(count * dtype.itemsize)
    if len(content) < count * dtype.itemsize:
        raise ValueError("it ends too early")
    array = np.frombuffer(content, dtype, count).copy()
    return array.reshape(shape[::-1]).transpose() if fortran else array.reshape(shape)


def read_gzip(path: Path, what: str = "a complete gzip file") -> bytes:
    """The unpacked bytes of a ``.gz`` file."""
    with open_file(path, what) as packed, refusing(path, what), gzip.GzipFile(fileobj=packed) as file:
        parts, total = [], 0
        while part := file.read(FREE // 16):
            parts.append(part)
            total += len(part)
            within_expansion(total, size_of(packed), path)
        return b"".join(parts)


def as_finite(array: Any, path: Path, what: str) -> Any:
    """The array, if all its values are finite numbers."""
    if array.dtype.kind not in "fiub":
        raise VergenceError(f"{path} does not hold {what}: its values are {array.dtype}, not numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        raise VergenceError(f"{path} does not hold {what}: {bad} of its {array.size} values are not finite numbers")
    return array
