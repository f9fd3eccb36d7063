"""Arrays of numbers from HDF5 files, read by h5py: the extra ``hdf5``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vergence.core.errors import VergenceError
from vergence.reading.budget import within, within_expansion
from vergence.reading.files import open_file, refusing, size_of

HDF5 = "a complete HDF5 file of numbers"


def read_hdf5(path: Path, names: Sequence[str], row: int | None = None) -> dict[str, Any]:
    """The arrays of an HDF5 file with these names; all of them must be there. Sizes are checked before memory is taken,
    and links to other files are not followed. With ``row`` only that row of each array is read."""
    with _arrays(path, names) as arrays:
        return {name: stored[()] if row is None else stored[row] for name, stored in arrays.items()}


def shapes_hdf5(path: Path, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of arrays of an HDF5 file; nothing is read."""
    with _arrays(path, names) as arrays:
        return {name: tuple(stored.shape) for name, stored in arrays.items()}


@contextmanager
def _arrays(path: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    if not find_spec("h5py"):
        raise VergenceError(f"{path} is an HDF5 file, and h5py is not installed: pip install 'vergence[hdf5]'")
    import h5py

    with open_file(path, HDF5) as file, refusing(path, HDF5), h5py.File(file, "r") as archive:
        arrays = {}
        for name in names:
            link = archive.get(name, getlink=True)
            if link is None or isinstance(link, h5py.ExternalLink):
                raise VergenceError(f"{path} has no array {name!r}: there is {', '.join(archive) or 'none'}")
            stored = archive[name]
            if not isinstance(stored, h5py.Dataset) or stored.dtype.kind not in "fiubc" or stored.external:
                raise ValueError(f"{name!r} is not an array of numbers")
            within("values", stored.size, path)
            within_expansion(stored.size * stored.dtype.itemsize, size_of(file), path)
            arrays[name] = stored
        yield arrays
