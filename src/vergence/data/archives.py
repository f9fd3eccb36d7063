"""Data sets as published archives: zip and tar files, unpacked once, and never outside their own folder."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from vergence.core.errors import VergenceError
from vergence.core.files import home
from vergence.reading.archives import SUFFIXES, unpack


def is_archive(path: Path) -> bool:
    """Whether a file has a name that :func:`unpacked` can open."""
    return path.name.lower().endswith(SUFFIXES) and path.is_file()


def unpacked(path: Path) -> Path:
    """The folder with an archive's contents, cached below ``$VERGENCE_HOME``.

    Unpacking is atomic. An archive with links, devices, or names that lead outside the folder is refused.
    """
    size, changed = path.stat().st_size, path.stat().st_mtime_ns
    known = hashlib.sha256(f"{path.resolve()}\0{size}\0{changed}".encode()).hexdigest()[:12]
    folder = home() / "unpacked" / f"{path.name.partition('.')[0]}-{known}"
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as scratch:
                unpack(path, Path(scratch) / "content")
                (Path(scratch) / "content").rename(folder)
        except OSError as error:
            if not folder.is_dir():  # otherwise another process was faster
                raise VergenceError(f"cannot unpack {path} into {folder}: {error.strerror or error}") from error
    entries = list(folder.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else folder
