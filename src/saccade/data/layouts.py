"""Where data comes from: ``embedded``, ``LAYOUT:PATH`` for a public data set, or a plain ``PATH`` to a folder.

A path may name the archive that a data set is handed out as; it is unpacked once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.data.archives import is_archive, unpacked
from saccade.errors import SaccadeError, did_you_mean

EMBEDDED = "embedded"
PLAIN = "folder"
"""The layout of a path that names none."""


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
    name, colon, rest = source.partition(":")
    if not colon or len(name) == 1:  # a single letter is a Windows drive
        name, rest = PLAIN, source
    if name not in layouts:
        raise SaccadeError(f"no layout {name!r} to read {source!r} with{did_you_mean(name, layouts)}")
    path = Path(rest).expanduser()
    if not path.exists():
        raise SaccadeError(f"{path} does not exist; expected {layouts[name].about}")
    return layouts[name], unpacked(path) if is_archive(path) else path
