"""Archives: zip and tar files, unpacked within a budget and never outside their own folder."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from vergence.core.errors import VergenceError
from vergence.reading.budget import within, within_expansion
from vergence.reading.files import open_file, refusing, size_of

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
WHAT = "a complete archive"
_PIECE = 1 << 20


def unpack(path: Path, folder: Path) -> None:
    """Write the files of an archive below a new folder. Links, devices, and names that lead outside are refused; bytes
    are counted while they are written, for an archive may lie about its sizes."""
    with open_file(path, WHAT) as file, refusing(path, WHAT):
        folder.mkdir()
        if path.name.lower().endswith(".zip"):
            _unzip(file, path, folder, size_of(file))
        else:
            _untar(file, path, folder, size_of(file))
        if not any(folder.iterdir()):
            raise VergenceError(f"{path} is an empty archive")


def _unzip(file: IO[bytes], path: Path, folder: Path, size: int) -> None:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        for entry in entries:
            kind = stat.S_IFMT(entry.external_attr >> 16)
            _check(entry.filename, path, plain=kind in (0, stat.S_IFREG, stat.S_IFDIR))
        within("entries", len(entries), path)
        within_expansion(sum(entry.file_size for entry in entries), size, path)
        total = 0
        for entry in entries:
            if entry.is_dir():
                (folder / entry.filename).mkdir(parents=True, exist_ok=True)
                continue
            with archive.open(entry) as source:
                total = _write(source, folder / entry.filename, total, size, path)


def _untar(file: IO[bytes], path: Path, folder: Path, size: int) -> None:
    with tarfile.open(fileobj=file) as archive:
        total = count = 0
        for entry in archive:  # one after another: a compressed archive is read through only once
            count += 1
            within("entries", count, path)
            _check(entry.name, path, plain=entry.isreg() or entry.isdir())
            within_expansion(total + entry.size, size, path)
            target = folder / entry.name
            if entry.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            source = archive.extractfile(entry)
            assert source is not None
            with source:
                total = _write(source, target, total, size, path)


def _write(source: IO[bytes], target: Path, total: int, packed: int, path: Path) -> int:
    while piece := source.read(_PIECE):
        total += len(piece)
        within_expansion(total, packed, path)
        _append(target, piece, path)
    if not target.exists():
        _append(target, b"", path)
    return total


def _append(target: Path, piece: bytes, path: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as file:
            file.write(piece)
    except OSError as error:  # a full disk, a name that is too long
        raise VergenceError(f"cannot unpack {path} into {target.parent}: {error.strerror or error}") from None


def _check(name: str, path: Path, plain: bool) -> None:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in name.partition("/")[0]:
        raise VergenceError(f"{path} is refused: its entry {name!r} would be written outside its folder")
    if not parts.parts or "\0" in name:
        raise VergenceError(f"{path} is refused: it has an entry named {name!r}")
    if not plain:
        raise VergenceError(f"{path} is refused: its entry {name!r} is neither a file nor a folder")


def is_zip(path: Path) -> bool:
    """Whether a file ends as zip files do."""
    return zipfile.is_zipfile(path)


@contextmanager
def open_zip(path: Path, name: str = "") -> Iterator[zipfile.ZipFile]:
    """A zip whose entries are plain files inside it, for readers that take its files one by one."""
    name = name or str(path)
    with open_file(path, "a complete zip") as file, refusing(name, "a complete zip"), zipfile.ZipFile(file) as archive:
        within("entries", len(archive.infolist()), name)
        yield archive
