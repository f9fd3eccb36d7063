"""Reading old data sets that are stored as pickles: only their arrays are loaded, and nothing in them is executed."""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

from vergence.core.errors import VergenceError


def _bytes(text: str, encoding: str) -> bytes:
    """Stands in for ``_codecs.encode``, which pickles of Python 2 call for bytes written as text."""
    return text.encode("latin-1") if encoding == "latin1" else text.encode(encoding)


# The functions that NumPy's own pickles import; their module depends on its version.
_reconstruct = np.empty(0).__reduce__()[0]
_frombuffer = np.empty(0).__reduce_ex__(5)[0]

_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy._core.numeric", "_frombuffer"): _frombuffer,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _bytes,
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is more than data")


def _refuse_bombs(content: bytes) -> None:
    """Refuse pickles with absurd memo indices. The unpickler allocates memory up to the highest index, and for the
    claimed length of a string: a few damaged bytes could allocate gigabytes. (Lengths are checked by ``genops``.)
    """
    for count, (opcode, number, _) in enumerate(pickletools.genops(content)):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and number is not None and number > count:
            raise pickle.UnpicklingError(f"it remembers a value number {number} after {count} steps")


def read_arrays(path: Path) -> Any:
    """The content of a pickle of plain values and NumPy arrays, of any Python version; code is refused."""
    try:
        content = path.read_bytes()
        _refuse_bombs(content)
        return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    except FileNotFoundError:
        raise VergenceError(f"{path} does not exist") from None
    except Exception as error:  # a damaged pickle can raise anything
        raise VergenceError(f"{path} is not a whole pickle of plain data: {error}") from error
