"""Weights: safetensors files, and torch archives of plain data. Neither can run code."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from vergence.core.errors import VergenceError
from vergence.core.files import is_utf8
from vergence.reading.budget import within
from vergence.reading.files import open_file, read_bytes, refusing, size_of
from vergence.reading.pickles import STAND_INS, plain
from vergence.reading.tables import parse_json

if TYPE_CHECKING:
    from torch import Tensor

SAFETENSORS = "a complete safetensors file"
ARCHIVE = "a torch archive of plain data"
_HEADER = 100_000_000
"""Bytes; safetensors itself reads no longer one."""


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and metadata of a safetensors file."""
    from safetensors.torch import load, load_file

    metadata = read_metadata(path)
    with refusing(path, SAFETENSORS):
        return load_file(path) if is_utf8(path) else load(read_bytes(path, SAFETENSORS)), metadata


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file, without reading its tensors."""
    with open_file(path, SAFETENSORS) as file, refusing(path, SAFETENSORS):
        size = struct.unpack("<Q", file.read(8))[0]
        if size > min(size_of(file), _HEADER):
            raise ValueError("its header is longer than the file")
        header = parse_json(file.read(size), path, SAFETENSORS)
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise VergenceError(f"{path} is not {SAFETENSORS}: its metadata does not map names to text")
    return dict(metadata)


def load_archive(path: Path, arrays: bool = False) -> dict[str, Any]:
    """Read a torch archive (``.pt``, ``.pth``, ``.tar``) of plain data and tensors; code in it is refused, not run.
    ``arrays`` allows NumPy arrays in it."""
    import torch

    with open_file(path, ARCHIVE) as file, refusing(path, ARCHIVE):
        if zipfile.is_zipfile(file):
            file.seek(0)
            with zipfile.ZipFile(file) as archive:  # torch stores without packing: what grows was not written by it
                sizes = [entry.file_size for entry in archive.infolist()]
                within("entries", len(sizes), path)
                if sum(sizes) > size_of(file):
                    raise ValueError("its content is larger than the file")
        file.seek(0)
        with torch.serialization.safe_globals(STAND_INS if arrays else []):
            try:
                content = torch.load(file, map_location="cpu", weights_only=True)
            except UnpicklingError as error:
                raise ValueError(_not_plain(error)) from None
        content = plain(content, path) if arrays else content
    if not isinstance(content, dict):
        raise VergenceError(f"{path} holds a {type(content).__name__}, not a dictionary")
    return content


def _not_plain(error: UnpicklingError) -> str:
    """Why PyTorch refuses an archive; its own message proposes to run the code in it."""
    needed = re.search(r"GLOBAL ([\w.]+)", str(error))
    return f"it needs the code of {needed[1]}, which is not run" if needed else "it is damaged, or of another kind"


def load_state(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a weights file: safetensors, or a torch archive of plain tensors. Common wrappers
    (``state_dict``, ``model``, ``model_state``, names that begin with ``module.``) are removed."""
    from torch import Tensor

    state: Any = load_tensors(path)[0] if path.suffix == ".safetensors" else load_archive(path)
    for wrapper in ("state_dict", "model", "model_state"):
        if isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    bad = next((name for name, value in state.items() if not isinstance(value, Tensor)), None)
    if bad is not None:
        raise VergenceError(f"{path} is not a file of weights: {bad!r} is a {type(state[bad]).__name__}, not a tensor")
    return {str(name).removeprefix("module."): tensor for name, tensor in state.items()}


def read_index(content: Any, source: object) -> Any:
    """A FAISS index from an array of bytes. FAISS checks little: callers compare a digest of the bytes first."""
    from importlib import import_module

    with refusing(source, "a complete index"):
        return import_module("faiss").deserialize_index(content)
