"""Data sources: ``embedded``, ``LAYOUT:PATH`` for a public data set, or a plain ``PATH`` to a folder.

A path may also be the published archive of a data set, which is unpacked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from vergence.contract.data import EMBEDDED, Layout, Missing
from vergence.core.errors import Several, VergenceError, did_you_mean
from vergence.core.progress import Progress
from vergence.data.archives import is_archive, unpacked

T = TypeVar("T")

PLAIN = "folder"
"""The layout of a plain path."""


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
    """The data of a source: ``embedded()``, or a split of a data set read by its layout."""
    named = find(source, layouts)
    return embedded() if named is None else named[0].read(named[1], split)


def share(count: int, split: str, of: int = 4) -> int:
    """The number of samples of an embedded split: ``count`` for training, ``count // of`` for validation and test."""
    return count if split == "train" else max(count // of, 1)


def parse(source: str) -> tuple[str, Path]:
    """The layout and path that a source names."""
    name, _, rest = source.partition(":") if is_named(source) else (PLAIN, "", source)
    try:
        return name, Path(rest).expanduser()
    except RuntimeError:  # the home of an unknown user
        return name, Path(rest)


def is_named(source: str) -> bool:
    """Whether a source names its layout; a single letter is a Windows drive."""
    name, colon, _ = source.partition(":")
    return bool(colon) and len(name) > 1


def there(path: Path) -> bool:
    """Whether a path exists; false for invalid paths."""
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, a zero byte
        return False


def read_all(readers: Iterable[Callable[[], T]]) -> list[T]:
    """The results of all readers; if some fail, a single error with all their messages."""
    results, refused = [], []
    for reader in readers:
        try:
            results.append(reader())
        except VergenceError as error:
            refused.append(str(error))
    if refused:
        raise Several(refused)
    return results


def left_out(gone: Sequence[str], missing: Missing) -> tuple[str, ...]:
    """The messages about listed but missing files: raised as one error, or returned for a caller that goes on without
    them."""
    if gone and missing == "refuse":
        raise Several(gone)
    return tuple(gone)


def say_left_out(progress: Progress, sentences: Iterable[str]) -> None:
    """Report listed files that could not be read."""
    for sentence in sentences:
        progress.say(f"left out: {sentence}")
