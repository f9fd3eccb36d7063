"""Where data comes from: ``embedded``, ``LAYOUT:PATH`` for a public data set, or a plain ``PATH`` to a folder.

A path may name the archive that a data set is handed out as; it is unpacked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from vergence.core.errors import Several, VergenceError, did_you_mean
from vergence.data.archives import is_archive, unpacked

T = TypeVar("T")

EMBEDDED = "embedded"
PLAIN = "folder"
"""The layout of a path that names none."""

Missing = Literal["refuse", "skip"]
"""What becomes of a list that names files which are not there: it is refused, or they are left out."""


@dataclass(frozen=True)
class Layout:
    """A published way to lay out a data set in files."""

    read: Callable[[Path, str], Any]
    """``read(path, split)``; refuses what is missing, empty or cut short with one sentence."""
    about: str
    """What the files are, for help and errors."""


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
