"""Where data comes from: ``embedded``, ``LAYOUT:PATH`` for a public data set, or a plain ``PATH`` to a folder.

A path may name the archive that a data set is handed out as; it is unpacked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from vergence.contract.data import EMBEDDED, Layout, Missing
from vergence.core.errors import Several, VergenceError, did_you_mean
from vergence.data.archives import is_archive, unpacked

T = TypeVar("T")

PLAIN = "folder"
"""The layout of a path that names none."""


def find(source: str, layouts: Mapping[str, Layout]) -> tuple[Layout, Path] | None:
    """The reader and path that a source names; None for embedded data."""
    if source == EMBEDDED:
        return None
    name, path = parse(source)
    if name not in layouts:
        raise VergenceError(f"no layout {name!r} to read {source!r} with{did_you_mean(name, layouts)}")
    if not there(path):
        raise VergenceError(f"{path} does not exist; expected {layouts[name].about}")
    return layouts[name], unpacked(path) if is_archive(path) else path


def read(source: str, layouts: Mapping[str, Layout], split: str, embedded: Callable[[], Any]) -> Any:
    """What a source names: ``embedded()`` or a split of the data set that a layout reads."""
    named = find(source, layouts)
    return embedded() if named is None else named[0].read(named[1], split)


def share(count: int, split: str, of: int = 4) -> int:
    """How many samples an embedded split has: all of ``count`` to train on, a fraction of it to validate and test."""
    return count if split == "train" else max(count // of, 1)


def parse(source: str) -> tuple[str, Path]:
    """The layout and path that a source names."""
    name, colon, rest = source.partition(":")
    if not colon or len(name) == 1:  # a single letter is a Windows drive
        name, rest = PLAIN, source
    try:
        return name, Path(rest).expanduser()
    except RuntimeError:  # a home of nobody
        return name, Path(rest)


def there(path: Path) -> bool:
    """Whether something is at a path that may not even be one."""
    try:
        return path.exists()
    except (OSError, ValueError):  # too long a name, a zero byte
        return False


def read_all(readers: Iterable[Callable[[], T]]) -> list[T]:
    """What each reader gives; if some refuse, one error that has the sentences of all."""
    found, refused = [], []
    for reader in readers:
        try:
            found.append(reader())
        except VergenceError as error:
            refused.append(str(error))
    if refused:
        raise Several(refused)
    return found


def left_out(gone: Sequence[str], missing: Missing) -> tuple[str, ...]:
    """The sentences about what a list names and is not there: all of them in one error, or to be told by who goes on
    without."""
    if gone and missing == "refuse":
        raise Several(gone)
    return tuple(gone)
