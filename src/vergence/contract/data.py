"""The data interface: a length and samples by index, embedded or read from a public layout.

Three more methods are optional:

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

from vergence.core.errors import VergenceError

EMBEDDED = "embedded"
Source = Annotated[str, tyro.conf.arg(aliases=["--data"])]
"""Type of the config field that names the data source: ``embedded``, ``LAYOUT:PATH`` or a plain ``PATH``."""

Missing = Literal["refuse", "skip"]
"""How to treat a list that names missing files: refuse it, or skip them."""


@runtime_checkable
class Data(Protocol):
    """Samples by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True)
class Layout:
    """The file layout of a public data set."""

    read: Callable[[Path, str], Any]
    """``read(path, split)``; missing, empty or truncated data is a one-sentence error."""
    about: str
    """Description of the files, for help and errors."""


def told_by(data: Any, name: str) -> str:
    """What a reader says about its data, also if others wrap it: ``note`` (how it was split) or ``split`` (the one that
    it really is); empty if it says nothing."""
    while hasattr(data, "__dict__"):
        text = vars(data).get(name)
        if isinstance(text, str) and text:
            return text
        data = vars(data).get("data")
    return ""


@dataclass(frozen=True)
class Spread:
    """At most ``count`` samples of ``data``, spread evenly over it: a folder may be sorted by class."""

    data: Any
    count: int

    def __len__(self) -> int:
        return min(self.count, len(self.data))

    def __getitem__(self, index: int) -> Any:
        return self.data[self.place(index)]

    def place(self, index: int) -> int:
        """The index of a sample in the whole data."""
        return range(len(self))[index] * len(self.data) // len(self)


@dataclass(frozen=True)
class First:
    """The first ``count`` samples of ``data``, with its other attributes."""

    data: Any
    count: int

    def __len__(self) -> int:
        return min(self.count, len(self.data))

    def __getitem__(self, index: int) -> Any:
        return self.data[range(len(self))[index]]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "data":  # while being copied it has no fields yet
            raise AttributeError(name)
        return getattr(self.data, name)


@dataclass(frozen=True)
class Indices:
    """Data whose samples are their own indices, for evaluation that looks samples up itself."""

    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return range(self.count)[index]


def change_source(config: Any, source: str) -> dict[str, Any]:
    """The change of a config, by dotted name, that reads data from ``source``; none if it is empty."""
    if not source:
        return {}
    if source_of(config) is None:
        raise VergenceError(f"there is no data to replace by {source}: this config names no source")
    return {"data" if isinstance(config.data, str) else "data.source": source}


def source_of(config: Any) -> str | None:
    """The data source of a config; None if it has none."""
    data = getattr(config, "data", None)
    source: str | None = data if isinstance(data, str) else getattr(data, "source", None)
    return source
