"""Batches that depend on the seed alone, not on workers, processes or where a run was stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from vergence.contract.data import Data
from vergence.core.errors import VergenceError
from vergence.core.seeding import derive_pairs, generator


@dataclass(frozen=True)
class Augmented:
    """Data whose training samples pass through ``augment(sample, generator)``."""

    data: Data
    augment: Callable[[Any, torch.Generator], Any]

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.data[index]

    def draw(self, index: int, generator: torch.Generator) -> Any:
        return self.augment(self.data[index], generator)


class BatchPlan:
    """The batches of every epoch, as a function of the seed alone.

    This process (``rank`` of ``world``) gets its share of each batch, cut into ``pieces``.
    """

    def __init__(
        self,
        data: Data,
        size: int,
        seed: tuple[int | str, ...],
        drop_last: bool = True,
        pieces: int = 1,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if not len(data):
            raise VergenceError("there is nothing to train on: the training data is empty")
        self.data, self.size, self.seed, self.drop_last = data, size, seed, drop_last
        self.pieces, self.rank, self.world = pieces, rank, world
        self._kept: dict[int, list[list[int]]] = {}

    def epoch(self, epoch: int) -> list[list[int]]:
        """The index batches of an epoch, over all processes."""
        if epoch not in self._kept:
            # The loader reads ahead, so the epoch that trains and the one after it are both in use.
            self._kept = {e: batches for e, batches in self._kept.items() if e == epoch - 1}
            self._kept[epoch] = self._make(generator(*self.seed, "order", epoch))
        return self._kept[epoch]

    def _make(self, source: torch.Generator) -> list[list[int]]:
        custom = getattr(self.data, "batches", None)
        if custom is not None:
            batches = [list(map(int, batch)) for batch in custom(self.size, source)]
        else:
            order = torch.randperm(len(self.data), generator=source).tolist()
            batches = [order[i : i + self.size] for i in range(0, len(order), self.size)]
            if self.drop_last and len(batches) > 1 and len(batches[-1]) < self.size:
                batches.pop()
        if not batches:
            raise VergenceError("there is nothing to train on: no batch could be made of the training data")
        least = min(map(len, batches))
        if least < self.world:
            raise VergenceError(f"a batch of {least} samples cannot be shared by {self.world} processes")
        return batches

    def cut(self, batch: list[int]) -> list[list[int]]:
        """This process's share of a batch, in pieces; fewer where there are not enough samples."""
        share = batch[self.rank :: self.world]
        return [share[i :: self.pieces] for i in range(min(self.pieces, len(share)))]

    def weights(self, epoch: int, batch: int) -> list[float]:
        """Weights of the pieces, such that the mean over processes of the weighted sums is the mean over the batch."""
        if self.world == self.pieces == 1:
            return [1.0]
        indices = self.epoch(epoch)[batch]
        return [len(piece) * self.world / len(indices) for piece in self.cut(indices)]

    def stream(self, epoch: int, batch: int, workers: int = 0) -> Iterator[Any]:
        """This process's pieces, endlessly, from batch ``batch`` of epoch ``epoch`` on."""
        loader: DataLoader[Any] = DataLoader(
            _Drawn(self.data, self.seed),  # type: ignore[arg-type]
            batch_sampler=_Places(self, epoch, batch),
            collate_fn=collator(self.data),
            num_workers=workers,
            worker_init_fn=_quiet_worker,
        )
        return told(loader)


@dataclass(frozen=True)
class _Places:
    """Pieces of (epoch, index), from a given batch on."""

    plan: BatchPlan
    first_epoch: int
    first_batch: int

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, skip = self.first_epoch, self.first_batch
        while True:
            for batch in self.plan.epoch(epoch)[skip:]:
                for piece in self.plan.cut(batch):
                    yield [(epoch, index) for index in piece]
            epoch, skip = epoch + 1, 0


@dataclass(frozen=True)
class _Drawn:
    """Training samples by (epoch, index), each with its own seed."""

    data: Data
    seed: tuple[int | str, ...]

    def __getitems__(self, places: Sequence[tuple[int, int]]) -> list[Any]:
        """The samples of one batch."""
        draw = getattr(self.data, "draw", None)
        if draw is None:
            return [self.data[index] for _, index in places]
        # All seeds first: two tight loops are faster than one. The default generator is passed on, so that functions
        # that take none draw from the same seed.
        seeds = derive_pairs((*self.seed, "sample"), places)
        seeded = torch.default_generator.manual_seed
        return [draw(index, seeded(seed)) for (_, index), seed in zip(places, seeds, strict=True)]


def _quiet_worker(number: int) -> None:
    """Ignore SIGINT in a worker: the parent handles it and ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(frozen=True)
class InOrder:
    """Batches of the given samples in order, for evaluation."""

    data: Data
    indices: Sequence[int]
    size: int
    workers: int = 0

    def __len__(self) -> int:
        return -(-len(self.indices) // self.size)

    def __iter__(self) -> Iterator[Any]:
        batches = [list(self.indices[i : i + self.size]) for i in range(0, len(self.indices), self.size)]
        loader: DataLoader[Any] = DataLoader(
            self.data,  # type: ignore[arg-type]
            batch_sampler=batches,
            collate_fn=collator(self.data),
            num_workers=self.workers,
            worker_init_fn=_quiet_worker,
        )
        return told(loader)


def told(loader: DataLoader[Any]) -> Iterator[Any]:
    """The batches of a loader; errors in its worker processes keep their one-sentence message."""
    try:
        yield from _calm(loader)
    except VergenceError as error:  # from a worker it comes with the worker's whole traceback
        raise VergenceError(str(error).strip().splitlines()[-1].removeprefix(f"{_ERROR}: ")) from None
    except (RuntimeError, ConnectionError, EOFError) as error:
        # A worker that dies while it sends a tensor breaks the connection; errors that the data raises in a worker
        # begin with "Caught".
        broken = isinstance(error, ConnectionError | EOFError) and not str(error).startswith("Caught")
        if not (loader.num_workers and broken) and "DataLoader worker (pid" not in str(error):
            raise
        failure = VergenceError("a data worker died; try fewer --workers, or a smaller batch")
        failure.exit_code = 1
        raise failure from None


def _calm(loader: DataLoader[Any]) -> Iterator[Any]:
    """A loader's iterator that reports a dead worker only when the next batch is asked for.

    PyTorch also raises that from a signal handler, wherever the main thread happens to be: while it writes a
    checkpoint, or cleans up.
    """
    ours = loader.num_workers > 0 and threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGCHLD) if ours and hasattr(signal, "SIGCHLD") else None
    stream = iter(loader)
    if before is not None:
        signal.signal(signal.SIGCHLD, before)
    return stream


_ERROR = f"{VergenceError.__module__}.{VergenceError.__name__}"


def collator(data: Data) -> Callable[[list[Any]], Any]:
    """The data's own ``collate``, or PyTorch's default."""
    collate: Callable[[list[Any]], Any] = getattr(data, "collate", default_collate)
    return collate
