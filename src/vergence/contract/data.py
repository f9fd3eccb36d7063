"""What data is to the engine: anything with a length and samples by index, embedded or read from a public layout.

Three more methods are used where data has them:

* ``draw(index, generator)``: the sample for training, with its random augmentation drawn from ``generator`` (or from
  PyTorch's own, which is seeded alike; NumPy's and Python's are not);
* ``batches(size, generator)``: the index batches of one epoch (identity-balanced sampling, buckets by length);
* ``collate(samples)``: how samples become a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import tyro

EMBEDDED = "embedded"
Source = Annotated[str, tyro.conf.arg(aliases=["--data"])]
"""The field of a config that says where data comes from: ``embedded``, ``LAYOUT:PATH`` or a plain ``PATH``."""

Missing = Literal["refuse", "skip"]
"""What becomes of a list that names files which are not there: it is refused, or they are left out."""


@runtime_checkable
class Data(Protocol):
    """Samples by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True)
class Layout:
    """A published way to lay out a data set in files."""

    read: Callable[[Path, str], Any]
    """``read(path, split)``; refuses what is missing, empty or cut short with one sentence."""
    about: str
    """What the files are, for help and errors."""


@dataclass(frozen=True)
class First:
    """The first ``count`` samples of some data, which keeps its other attributes."""

    data: Any
    count: int

    def __len__(self) -> int:
        return min(self.count, len(self.data))

    def __getitem__(self, index: int) -> Any:
        return self.data[range(len(self))[index]]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "data":  # while being copied it has nothing yet
            raise AttributeError(name)
        return getattr(self.data, name)


@dataclass(frozen=True)
class Indices:
    """Data whose samples are their own numbers, for evaluation that looks things up by index."""

    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return range(self.count)[index]


def source_of(config: Any) -> str | None:
    """Where a config's data comes from; None if it does not say."""
    data = getattr(config, "data", None)
    source: str | None = data if isinstance(data, str) else getattr(data, "source", None)
    return source
