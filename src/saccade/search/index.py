"""An index of descriptors by name: searched with FAISS, kept in a file that cannot execute code.

The file is safetensors: the descriptors, the names, and a text that says what made them. A flat FAISS index is its
vectors, so nothing is lost by building it when the file is opened.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.files import load_tensors, save_tensors

_KEY = "saccade_index"


@dataclass(frozen=True)
class Index:
    """Descriptors (N, D) by name, searched by Euclidean distance, exactly."""

    descriptors: Tensor
    names: tuple[str, ...]
    made_by: str
    """What gave the descriptors; one that others gave cannot be searched with ours."""
    _flat: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        import faiss

        if self.descriptors.ndim != 2 or len(self.descriptors) != len(self.names) or not len(self.names):
            raise SaccadeError(
                f"an index needs a name for each descriptor, got {len(self.names)} names for descriptors of shape "
                f"{tuple(self.descriptors.shape)}"
            )
        if not self.descriptors.isfinite().all():
            raise SaccadeError("the descriptors of the index hold values that are not finite")
        flat = faiss.IndexFlatL2(self.descriptors.shape[1])
        flat.add(_plain(self.descriptors))
        object.__setattr__(self, "_flat", flat)

    def __len__(self) -> int:
        return len(self.names)

    def search(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The nearest of each query (Q, D): distances and positions, (Q, count) each, nearest first."""
        if queries.ndim != 2 or queries.shape[1] != self.descriptors.shape[1]:
            raise SaccadeError(
                f"the index holds descriptors of {self.descriptors.shape[1]} numbers, the queries are of shape "
                f"{tuple(queries.shape)}"
            )
        squared, places = self._flat.search(_plain(queries), min(count, len(self)))
        return torch.from_numpy(squared).clamp(min=0).sqrt(), torch.from_numpy(places)

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        about = json.dumps({"names": self.names, "made_by": self.made_by})
        save_tensors(path, {"descriptors": self.descriptors.float()}, {_KEY: about})

    @classmethod
    def load(cls, path: Path, made_by: str | None = None) -> Index:
        """Open a file; one made by something else than ``made_by`` is refused."""
        tensors, metadata = load_tensors(path)
        if _KEY not in metadata or "descriptors" not in tensors:
            raise SaccadeError(f"{path} is not an index of Saccade's")
        try:
            about = json.loads(metadata[_KEY])
            names, maker = tuple(map(str, about["names"])), str(about["made_by"])
        except (ValueError, KeyError, TypeError) as error:
            raise SaccadeError(f"{path} is damaged: {error}") from error
        if made_by is not None and maker != made_by:
            raise SaccadeError(f"{path} was made with other weights; make it again from its gallery")
        return cls(tensors["descriptors"], names, maker)


def descriptors_by(parameters: Sequence[Tensor]) -> str:
    """A short name for weights, to tell whose descriptors an index holds."""
    import hashlib

    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _plain(tensor: Tensor) -> Any:
    return tensor.detach().cpu().float().contiguous().numpy()
