"""An index for galleries that do not fit in memory: a folder of index files, built one by one and searched as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.files import make_folder, write_json
from vergence.reading.tables import read_json
from vergence.search.index import Index, Kind

_LIST = "shards.json"
Part = tuple[Tensor, Sequence[str]]
"""Descriptors (n, D) with their names."""


class Shards:
    """The memory-mapped index files of a folder. Positions are numbered across all of them."""

    def __init__(self, folder: Path, made_by: str | None = None) -> None:
        listed = read_json(folder / _LIST)
        try:
            self.files = [folder / str(shard["file"]) for shard in listed["shards"]]
            self.counts = [int(shard["count"]) for shard in listed["shards"]]
            self.dimension, self.made_by = int(listed["dimension"]), str(listed["made_by"])
        except (KeyError, TypeError, ValueError) as error:
            raise VergenceError(f"{folder / _LIST} is damaged: {error}") from error
        if made_by is not None and self.made_by != made_by:
            raise VergenceError(f"{folder} was made with other weights; make it again from its gallery")
        self.starts = [sum(self.counts[:i]) for i in range(len(self.counts))]
        self.open = lru_cache(maxsize=4)(self._open)

    @classmethod
    def build(
        cls, folder: Path, parts: Iterable[Part], made_by: str, kind: Kind = "flat", size: int = 200_000
    ) -> Shards:
        """Write a folder from a stream of parts; no more than ``size`` descriptors are held at a time.

        The list of files is written last: a folder without it is not an index.
        """
        if size < 1:
            raise VergenceError(f"a shard holds at least one descriptor, got size={size}")
        make_folder(folder)
        (folder / _LIST).unlink(missing_ok=True)
        shards, dimension = [], 0
        for number, (descriptors, names) in enumerate(_regrouped(parts, size)):
            dimension = dimension or int(descriptors.shape[1])
            file = f"shard-{number:05}.safetensors"
            Index(descriptors, tuple(names), made_by, kind).save(folder / file)
            shards.append({"file": file, "count": len(names)})
        if not shards:
            raise VergenceError(f"there is nothing to index in {folder}: the gallery is empty")
        write_json(folder / _LIST, {"made_by": made_by, "dimension": dimension, "shards": shards})
        return cls(folder)

    def __len__(self) -> int:
        return sum(self.counts)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names; read on first use."""
        return tuple(name for number in range(len(self.files)) for name in self.open(number).names)

    def search(self, queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """As :meth:`Index.search`, one shard after another; as exact as each shard."""
        best = (torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64))
        for number, start in enumerate(self.starts):
            far, places = self.open(number).search(queries, count)
            joined = torch.cat([best[0], far], 1), torch.cat([best[1], torch.where(places < 0, -1, places + start)], 1)
            far, order = joined[0].sort(dim=1, stable=True)
            best = far[:, :count], joined[1].gather(1, order[:, :count])
        return best

    def vectors(self, places: Tensor) -> Tensor:
        """Descriptors at positions of any shape: (..., D)."""
        flat = places.flatten()
        descriptors = torch.zeros(len(flat), self.dimension)
        for number, (start, count) in enumerate(zip(self.starts, self.counts, strict=True)):
            here = ((flat >= start) & (flat < start + count)).nonzero()[:, 0]
            if len(here):
                descriptors[here] = self.open(number).vectors(flat[here] - start)
        return descriptors.unflatten(0, places.shape)

    def weighted(self, places: Tensor, weights: Tensor) -> Tensor:
        """Weighted sums of the descriptors at positions (Q, k) with weights (Q, k): (Q, D)."""
        return torch.bmm(weights.cpu().float()[:, None], self.vectors(places))[:, 0]

    def _open(self, number: int) -> Index:
        index = Index.load(self.files[number], self.made_by)
        if (len(index), index.dimension) != (self.counts[number], self.dimension):
            raise VergenceError(f"{self.files[number]} is not the shard that {_LIST} names")
        return index


def _regrouped(parts: Iterable[Part], size: int) -> Iterator[tuple[Tensor, list[str]]]:
    """The same descriptors in parts of ``size``."""
    held: list[Tensor] = []
    names: list[str] = []
    dimension = 0
    for descriptors, named in parts:
        if descriptors.ndim != 2 or len(descriptors) != len(named):
            raise VergenceError(
                f"an index needs a name for each descriptor, got {len(named)} names for descriptors of shape "
                f"{tuple(descriptors.shape)}"
            )
        if not len(named):
            continue
        dimension = dimension or descriptors.shape[1]
        if descriptors.shape[1] != dimension:
            raise VergenceError(
                f"descriptors of one gallery have one length: {named[0]!r} has {descriptors.shape[1]} numbers, those "
                f"before it {dimension}"
            )
        held.append(descriptors.detach().cpu().float())
        names += named
        while len(names) >= size:
            joined = torch.cat(held)
            yield joined[:size], names[:size]
            held, names = [joined[size:]], names[size:]
    if names:
        yield torch.cat(held), names
