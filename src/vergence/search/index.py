"""An index of descriptors by name: searched with FAISS, kept in a file that cannot execute code.

The file is safetensors: the descriptors, the names, what made them, and FAISS's own structure where there is one. Its
descriptors are mapped into memory, not copied: opening one looks at them once, and the system may drop them again.

=========  =========================================================================  =======================
kind       how it looks                                                               in memory, a vector
=========  =========================================================================  =======================
flat       at every descriptor: exact                                                 nothing but the file
ivf        at the lists of the centres nearest to the query                           4 D bytes and an id
hnsw       along a graph of neighbours                                                4 D bytes and its links
ivfpq      like ivf, at codes of one byte for 8 numbers; the best few exactly again   D / 8 bytes and an id
=========  =========================================================================  =======================
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.files import load_tensors, save_tensors

Kind = Literal["flat", "ivf", "hnsw", "ivfpq"]
_KEY = "vergence_index"
_REFINE = 4
"""ivfpq: so many times as many candidates as asked for are compared exactly."""
_SAMPLE = 64
"""Descriptors a centre that the centres are found from."""


class Searchable(Protocol):
    """What expansion needs of an index."""

    @property
    def dimension(self) -> int: ...

    def __len__(self) -> int: ...

    def search(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]: ...

    def vectors(self, places: Tensor) -> Tensor: ...

    def weighted(self, places: Tensor, weights: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Index:
    """Descriptors (N, D) by name, searched by Euclidean distance: exactly, unless another kind is asked for."""

    descriptors: Tensor
    names: tuple[str, ...]
    made_by: str
    """What gave the descriptors; one that others gave cannot be searched with ours."""
    kind: Kind = "flat"
    effort: int = 16
    """ivf, ivfpq: lists looked at; hnsw: candidates kept, at least. More finds more, slower."""
    structure: Any = field(default=None, repr=False, compare=False)
    """FAISS's index of the other kinds; made if it is not given."""

    def __post_init__(self) -> None:
        if self.descriptors.ndim != 2 or len(self.descriptors) != len(self.names) or not len(self.names):
            raise VergenceError(
                f"an index needs a name for each descriptor, got {len(self.names)} names for descriptors of shape "
                f"{tuple(self.descriptors.shape)}"
            )
        if self.kind not in get_args(Kind):
            raise VergenceError(f"an index is {', '.join(get_args(Kind))}, not {self.kind!r}")
        if self.effort < 1:
            raise VergenceError(f"an index is searched with an effort of at least 1, got {self.effort}")
        object.__setattr__(self, "descriptors", self.descriptors.detach().cpu().float().contiguous())
        _refuse_not_finite(self.descriptors, self.names)
        if self.kind != "flat" and self.structure is None:
            object.__setattr__(self, "structure", _structure(self.kind, self.descriptors))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def dimension(self) -> int:
        return int(self.descriptors.shape[1])

    def search(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The nearest of each query (Q, D): distances and positions, (Q, count) each, nearest first; as many as there
        are, if these are fewer. An approximate index that finds fewer fills up with position -1, infinitely far."""
        if queries.ndim != 2 or queries.shape[1] != self.dimension:
            raise VergenceError(
                f"the index holds descriptors of {self.dimension} numbers, the queries are of shape "
                f"{tuple(queries.shape)}"
            )
        count = min(count, len(self))
        if self.kind == "flat":
            squared, places = _faiss().knn(_plain(queries), self.descriptors.numpy(), count)
        else:
            squared, places = self._approximately(_plain(queries), count)
        return torch.from_numpy(squared).clamp(min=0).sqrt(), torch.from_numpy(places)

    def _approximately(self, queries: Any, count: int) -> tuple[Any, Any]:
        faiss = _faiss()

        if self.kind == "hnsw":
            wanted = faiss.SearchParametersHNSW(efSearch=max(self.effort, count))
        else:
            wanted = faiss.SearchParametersIVF(nprobe=min(self.effort, self.structure.nlist))
        more = min(count * _REFINE, len(self)) if self.kind == "ivfpq" else count
        squared, places = self.structure.search(queries, more, params=wanted)
        if self.kind != "ivfpq":
            squared[places < 0] = math.inf
            return squared, places
        found = torch.from_numpy(places)
        exact = (self.vectors(found) - torch.from_numpy(queries)[:, None]).square().sum(-1)
        best = exact.masked_fill(found < 0, torch.inf).topk(count, largest=False)
        return best.values.numpy(), found.gather(1, best.indices).numpy()

    def vectors(self, places: Tensor) -> Tensor:
        """Descriptors at positions of any shape: (..., D)."""
        return self.descriptors[places]

    def weighted(self, places: Tensor, weights: Tensor) -> Tensor:
        """Sums of descriptors at positions (Q, k) with weights (Q, k): (Q, D), without a copy of what is summed."""
        if not places.shape[1]:
            return torch.zeros(len(places), self.dimension)
        given = weights.cpu().float()
        if len(places) == 1:
            return torch.nn.functional.embedding_bag(places, self.descriptors, per_sample_weights=given, mode="sum")
        # Reading descriptors is all the cost. Lists that share much come one after another, so that it is in the cache.
        turn = _company(places, len(self)).argsort()
        sums = torch.nn.functional.embedding_bag(
            places[turn], self.descriptors, per_sample_weights=given[turn], mode="sum"
        )
        return sums.index_select(0, torch.empty_like(turn).scatter_(0, turn, torch.arange(len(turn))))

    def added(self, descriptors: Tensor, names: Sequence[str]) -> Index:
        """This index with more in it, given by what made the rest. Centres and codes stay those of the first."""
        if descriptors.ndim != 2 or descriptors.shape[1] != self.dimension:
            raise VergenceError(
                f"the index holds descriptors of {self.dimension} numbers, those to add are of shape "
                f"{tuple(descriptors.shape)}"
            )
        structure = None
        if self.structure is not None:
            structure = _faiss().clone_index(self.structure)
            structure.add(_plain(descriptors))
        joined = torch.cat([self.descriptors, descriptors.detach().cpu().float()])
        return Index(joined, (*self.names, *names), self.made_by, self.kind, self.effort, structure)

    @property
    def bytes_a_vector(self) -> float:
        """What a search needs in memory for each vector, beside the mapped file."""
        held = 0 if self.structure is None else len(_faiss().serialize_index(self.structure))
        return held / len(self) if held else 4.0 * self.dimension

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        about = {"made_by": self.made_by, "kind": self.kind, "effort": self.effort}
        names = torch.frombuffer(bytearray("\0".join(self.names).encode() + b"\0"), dtype=torch.uint8)
        tensors = {"descriptors": self.descriptors, "names": names}
        if self.structure is not None:
            tensors["structure"] = torch.from_numpy(_faiss().serialize_index(self.structure))
        save_tensors(path, tensors, {_KEY: json.dumps(about)})

    @classmethod
    def load(cls, path: Path, made_by: str | None = None) -> Index:
        """Open a file; one made by something else than ``made_by`` is refused."""
        tensors, metadata = load_tensors(path)
        if _KEY not in metadata or not {"descriptors", "names"} <= set(tensors):
            raise VergenceError(f"{path} is not an index of Vergence's")
        try:
            about = json.loads(metadata[_KEY])
            maker, kind, effort = str(about["made_by"]), about["kind"], int(about["effort"])
            names = tuple(tensors["names"].numpy().tobytes().decode().split("\0")[:-1])
        except (ValueError, KeyError, TypeError) as error:
            raise VergenceError(f"{path} is damaged: {error}") from error
        if made_by is not None and maker != made_by:
            raise VergenceError(f"{path} was made with other weights; make it again from its gallery")
        structure = _restored(tensors, path) if kind != "flat" else None
        return cls(tensors["descriptors"], names, maker, kind, effort, structure)


def descriptors_by(parameters: Sequence[Tensor]) -> str:
    """A short name for weights, to tell whose descriptors an index holds."""
    import hashlib

    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _faiss() -> Any:
    """FAISS, imported when it is needed, with as many threads as PyTorch has; its type stubs miss most of it."""
    faiss = import_module("faiss")
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def _structure(kind: Kind, descriptors: Tensor) -> Any:
    """Centres from a sample in even steps, so that the same descriptors give the same index."""
    faiss = _faiss()
    count, dimension = descriptors.shape
    lists = max(min(math.isqrt(count), count // _SAMPLE), 1)
    if kind == "hnsw":
        made = faiss.IndexHNSWFlat(dimension, 32)
    elif kind == "ivf":
        made = faiss.IndexIVFFlat(faiss.IndexFlatL2(dimension), dimension, lists)
    else:
        if count < 256 or dimension % 8:
            raise VergenceError(
                f"ivfpq needs at least 256 descriptors of a multiple of 8 numbers, got {count} of {dimension}"
            )
        made = faiss.IndexIVFPQ(faiss.IndexFlatL2(dimension), dimension, lists, dimension // 8, 8)
        made.pq.cp.min_points_per_centroid = 1
    if kind != "hnsw":
        made.cp.min_points_per_centroid = 1
        step = max(count // max(_SAMPLE * max(lists, 256), 1), 1)
        made.train(descriptors[::step].contiguous().numpy())
    made.add(descriptors.numpy())
    return made


def _restored(tensors: dict[str, Tensor], path: Path) -> Any:
    if "structure" not in tensors:
        raise VergenceError(f"{path} is damaged: it names a structure and has none")
    try:
        made = _faiss().deserialize_index(tensors["structure"].numpy())
    except RuntimeError as error:
        raise VergenceError(f"{path} is damaged: FAISS cannot read its structure") from error
    if (made.ntotal, made.d) != tuple(tensors["descriptors"].shape):
        raise VergenceError(f"{path} is damaged: its structure is not of its descriptors")
    return made


def _refuse_not_finite(descriptors: Tensor, names: Sequence[str], rows: int = 65536) -> None:
    """A sum is not finite if a part of it is not: one pass, and no mask as large as the descriptors."""
    for start in range(0, len(descriptors), rows):
        sums = descriptors[start : start + rows].sum(1, dtype=torch.float64)
        if not sums.isfinite().all():
            first = names[start + int((~sums.isfinite()).nonzero()[0, 0])]
            raise VergenceError(f"the descriptors of the index hold values that are not finite, the first at {first!r}")


def _plain(tensor: Tensor) -> Any:
    return tensor.detach().cpu().float().contiguous().numpy()


def _company(places: Tensor, count: int) -> Tensor:
    """A number (Q,) for each list of positions (Q, k) among ``count``, alike for lists that share most of theirs: the
    middle one of the first lists in which its positions are found."""
    lists = torch.arange(len(places))[:, None].expand_as(places)
    first = torch.full((count,), len(places)).scatter_reduce_(0, places.flatten(), lists.flatten(), "amin")
    return first[places].median(1).values
