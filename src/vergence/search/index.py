"""An index of named descriptors, searched with FAISS and stored in a file that cannot execute code.

The file is safetensors: the descriptors, their names, an identifier of the network, and FAISS's structure, if any.
Descriptors are memory-mapped, not copied: opening an index reads them once, and the system may evict them again.

=========  =========================================================================  =======================
kind       what a search compares with the query                                      memory per vector
=========  =========================================================================  =======================
flat       every descriptor: exact                                                    none beside the file
ivf        the lists of the centroids nearest to the query                            4 D bytes and an id
hnsw       descriptors along a graph of neighbours                                    4 D bytes and its links
ivfpq      as ivf, by codes of one byte for 8 values; the best few again, exactly     D / 8 bytes and an id
=========  =========================================================================  =======================
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.files import save_tensors
from vergence.reading.files import refusing
from vergence.reading.tables import parse_json
from vergence.reading.weights import load_tensors, read_index

Kind = Literal["flat", "ivf", "hnsw", "ivfpq"]
Metric = Literal["l2", "l1"]
_KEY = "vergence_index"
_MOST_EFFORT = 1_000_000
_REFINE = 4
"""ivfpq: number of candidates compared exactly, as a multiple of the requested number."""
_FEW, _MANY = 4, 20_000
"""From this number of queries on, and of descriptors, distances are computed by matrix products. FAISS would compare
one query after another up to hundreds of them, which takes up to 8 times as long."""
_SAMPLE = 64
"""Number of training descriptors per centroid."""


@dataclass(frozen=True)
class _About:
    """The metadata of an index file."""

    made_by: str
    kind: Kind
    effort: int
    digest: str = ""
    """SHA-256 of FAISS's structure, whose reader does not notice damage."""
    metric: Metric = "l2"

    def __post_init__(self) -> None:
        if not isinstance(self.made_by, str) or not isinstance(self.digest, str) or type(self.effort) is not int:
            raise ValueError("its metadata is not that of an index")


class Searchable(Protocol):
    """The interface of an index that query expansion needs."""

    @property
    def dimension(self) -> int: ...

    def __len__(self) -> int: ...

    def search(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]: ...

    def vectors(self, places: Tensor) -> Tensor: ...

    def weighted(self, places: Tensor, weights: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Index:
    """Named descriptors (N, D), searched by Euclidean distance (or by L1): exactly, unless another kind is chosen."""

    descriptors: Tensor
    names: tuple[str, ...]
    made_by: str
    """Identifies the network that computed the descriptors; only its own descriptors can be used as queries."""
    kind: Kind = "flat"
    effort: int = 16
    """ivf, ivfpq: number of lists searched; hnsw: least number of candidates kept. More is slower and finds more."""
    structure: Any = field(default=None, repr=False, compare=False)
    """FAISS's index, for kinds other than flat; built if not given."""
    metric: Metric = "l2"
    """The distance: Euclidean, or the sum of absolute differences (l1), for which an index is flat."""

    def __post_init__(self) -> None:
        if self.descriptors.ndim != 2 or len(self.descriptors) != len(self.names) or not len(self.names):
            raise VergenceError(
                f"an index needs a name for each descriptor, got {len(self.names)} names for descriptors of shape "
                f"{tuple(self.descriptors.shape)}"
            )
        if self.kind not in get_args(Kind):
            raise VergenceError(f"an index is {', '.join(get_args(Kind))}, not {self.kind!r}")
        if self.metric not in get_args(Metric) or (self.metric == "l1" and self.kind != "flat"):
            raise VergenceError(
                f"an index compares by l2, or by l1 if it is flat; got {self.metric!r} of kind {self.kind!r}"
            )
        if not 1 <= self.effort <= _MOST_EFFORT:
            raise VergenceError(f"an index is searched with an effort of 1 to {_MOST_EFFORT:,}, got {self.effort}")
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
        """The nearest descriptors of each query (Q, D): distances and positions, (Q, count) each, nearest first; fewer
        if the index is smaller. An approximate index that finds fewer pads with position -1 at infinite distance."""
        if queries.ndim != 2 or queries.shape[1] != self.dimension:
            raise VergenceError(
                f"the index holds descriptors of {self.dimension} numbers, the queries are of shape "
                f"{tuple(queries.shape)}"
            )
        count = min(count, len(self))
        if self.metric == "l1":
            faiss = _faiss()
            far, places = faiss.knn(_plain(queries), self.descriptors.numpy(), count, metric=faiss.METRIC_L1)
            return torch.from_numpy(far), torch.from_numpy(places)
        if self.kind == "flat":
            squared, places = _nearest(_plain(queries), self.descriptors.numpy(), count)
        else:
            squared, places = self._approximately(_plain(queries), count)
        return torch.from_numpy(squared).clamp(min=0).sqrt(), torch.from_numpy(places)

    def _approximately(self, queries: Any, count: int) -> tuple[Any, Any]:
        faiss = _faiss()

        if self.kind == "hnsw":
            params = faiss.SearchParametersHNSW(efSearch=max(self.effort, count))
        else:
            params = faiss.SearchParametersIVF(nprobe=min(self.effort, self.structure.nlist))
        more = min(count * _REFINE, len(self)) if self.kind == "ivfpq" else count
        squared, places = self.structure.search(queries, more, params=params)
        if self.kind != "ivfpq":
            squared[places < 0] = math.inf
            return squared, places
        candidates = torch.from_numpy(places)
        exact = (self.vectors(candidates) - torch.from_numpy(queries)[:, None]).square().sum(-1)
        best = exact.masked_fill(candidates < 0, torch.inf).topk(count, largest=False)
        return best.values.numpy(), candidates.gather(1, best.indices).numpy()

    def vectors(self, places: Tensor) -> Tensor:
        """Descriptors at positions of any shape: (..., D)."""
        return self.descriptors[places]

    def weighted(self, places: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of the descriptors at positions (Q, k) with weights (Q, k): (Q, D), without copying them."""
        if not places.shape[1]:
            return torch.zeros(len(places), self.dimension)
        weights = weights.cpu().float()
        if len(places) == 1:
            return torch.nn.functional.embedding_bag(places, self.descriptors, per_sample_weights=weights, mode="sum")
        # Reading descriptors dominates the cost, so lists that share most of them are summed one after another.
        turn = _company(places, len(self)).argsort()
        sums = torch.nn.functional.embedding_bag(
            places[turn], self.descriptors, per_sample_weights=weights[turn], mode="sum"
        )
        return sums.index_select(0, torch.empty_like(turn).scatter_(0, turn, torch.arange(len(turn))))

    def added(self, descriptors: Tensor, names: Sequence[str]) -> Index:
        """A copy of this index with more descriptors, from the same network. Centroids and codes are not retrained."""
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
        return Index(joined, (*self.names, *names), self.made_by, self.kind, self.effort, structure, self.metric)

    @property
    def bytes_a_vector(self) -> float:
        """Bytes of memory that a search needs per vector, beside the mapped file."""
        held = 0 if self.structure is None else len(_faiss().serialize_index(self.structure))
        return held / len(self) if held else 4.0 * self.dimension

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        about = _About(self.made_by, self.kind, self.effort, metric=self.metric)
        text = "\0".join(self.names).encode("utf-8", "surrogateescape")  # file names need not be UTF-8
        names = torch.frombuffer(bytearray(text + b"\0"), dtype=torch.uint8)
        tensors = {"descriptors": self.descriptors, "names": names}
        if self.structure is not None:
            tensors["structure"] = torch.from_numpy(_faiss().serialize_index(self.structure))
            about = replace(about, digest=_digest(tensors["structure"]))
        save_tensors(path, tensors, {_KEY: json.dumps(asdict(about))})

    @classmethod
    def load(cls, path: Path, made_by: str | None = None) -> Index:
        """Open a file; one made by another network than ``made_by`` is refused."""
        tensors, metadata = load_tensors(path)
        if _KEY not in metadata or not {"descriptors", "names"} <= set(tensors):
            raise VergenceError(f"{path} is not an index of Vergence's")
        with refusing(path, "a complete index"):
            about = _About(**parse_json(metadata[_KEY], path))
            text = tensors["names"].numpy().tobytes().decode("utf-8", "surrogateescape")
            names = tuple(text.split("\0")[:-1])
        if made_by is not None and about.made_by != made_by:
            raise VergenceError(f"{path} was made with other weights or settings; make it again from its gallery")
        structure = _restored(tensors, about.digest, path) if about.kind != "flat" else None
        with refusing(path, "a complete index"):
            return cls(tensors["descriptors"], names, about.made_by, about.kind, about.effort, structure, about.metric)


def descriptors_by(parameters: Sequence[Tensor]) -> str:
    """A short hash of weights, to identify the network that computed the descriptors of an index."""
    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _faiss() -> Any:
    """FAISS, imported on first use, with as many threads as PyTorch; untyped, because its stubs are incomplete."""
    faiss = import_module("faiss")
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def _nearest(queries: Any, descriptors: Any, count: int) -> tuple[Any, Any]:
    """Squared distances and positions of the nearest descriptors."""
    faiss = _faiss()
    before = faiss.cvar.distance_compute_blas_threshold
    if len(queries) >= _FEW and len(descriptors) >= _MANY:
        faiss.cvar.distance_compute_blas_threshold = 1
    try:
        squared, places = faiss.knn(queries, descriptors, count)
    finally:
        faiss.cvar.distance_compute_blas_threshold = before
    return squared, places


def _structure(kind: Kind, descriptors: Tensor) -> Any:
    """FAISS's index of descriptors; centroids are trained on an evenly spaced sample, so that the result is
    deterministic."""
    faiss = _faiss()
    count, dimension = descriptors.shape
    lists = max(min(math.isqrt(count), count // _SAMPLE), 1)
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(dimension, 32)
    elif kind == "ivf":
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dimension), dimension, lists)
    else:
        if count < 256 or dimension % 8:
            raise VergenceError(
                f"ivfpq needs at least 256 descriptors of a multiple of 8 numbers, got {count} of {dimension}"
            )
        index = faiss.IndexIVFPQ(faiss.IndexFlatL2(dimension), dimension, lists, dimension // 8, 8)
        index.pq.cp.min_points_per_centroid = 1
    if kind != "hnsw":
        index.cp.min_points_per_centroid = 1
        step = max(count // max(_SAMPLE * max(lists, 256), 1), 1)
        index.train(descriptors[::step].contiguous().numpy())
    index.add(descriptors.numpy())
    return index


def _digest(structure: Tensor) -> str:
    return hashlib.sha256(structure.numpy().tobytes()).hexdigest()


def _restored(tensors: dict[str, Tensor], digest: str, path: Path) -> Any:
    if "structure" not in tensors:
        raise VergenceError(f"{path} is damaged: it names a structure and has none")
    if tensors["structure"].dtype != torch.uint8 or _digest(tensors["structure"]) != digest:
        raise VergenceError(f"{path} is damaged: its structure is not the one that was written")
    index = read_index(tensors["structure"].numpy(), path)
    if (index.ntotal, index.d) != tuple(tensors["descriptors"].shape):
        raise VergenceError(f"{path} is damaged: its structure is not of its descriptors")
    return index


def _refuse_not_finite(descriptors: Tensor, names: Sequence[str], rows: int = 65536) -> None:
    """Refuse descriptors with values that are not finite. Checks their sums, which needs one pass and no large mask."""
    for start in range(0, len(descriptors), rows):
        sums = descriptors[start : start + rows].sum(1, dtype=torch.float64)
        if not sums.isfinite().all():
            first = names[start + int((~sums.isfinite()).nonzero()[0, 0])]
            raise VergenceError(f"the descriptors of the index hold values that are not finite, the first at {first!r}")


def _plain(tensor: Tensor) -> Any:
    return tensor.detach().cpu().float().contiguous().numpy()


def _company(places: Tensor, count: int) -> Tensor:
    """A sort key (Q,) for lists of positions (Q, k) below ``count``, similar for lists with many positions in common:
    the median, over a list's positions, of the first list that contains each."""
    lists = torch.arange(len(places))[:, None].expand_as(places)
    first = torch.full((count,), len(places)).scatter_reduce_(0, places.flatten(), lists.flatten(), "amin")
    return first[places].median(1).values
