"""Archives: zip and tar files, unpacked within a budget and never outside their own folder."""

from __future__ import annotations

import itertools
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from vergence.core.errors import VergenceError
from vergence.reading.budget import within, within_expansion
from vergence.reading.files import open_file, refusing, size_of

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
WHAT = "a complete archive"
ZIP = "a complete zip"
_PIECE = 1 << 20


def unpack(path: Path, folder: Path) -> None:
    """Write the files of an archive below a new folder. Links, devices, and names that lead outside are refused; bytes
    are counted while they are written, for an archive may lie about its sizes."""
    with open_file(path, WHAT) as file, refusing(path, WHAT):
        folder.mkdir()
        unpacked = _Unpacked(path, size_of(file))
        if path.name.lower().endswith(".zip"):
            _unzip(file, folder, unpacked)
        else:
            _untar(file, folder, unpacked)
        if not any(folder.iterdir()):
            raise VergenceError(f"{path} is an empty archive")


@dataclass
class _Unpacked:
    """Counts the bytes of an archive while they are unpacked."""

    source: object
    packed: int
    total: int = 0

    def pieces(self, file: IO[bytes]) -> Iterator[bytes]:
        while piece := file.read(_PIECE):
            self.total += len(piece)
            within_expansion(self.total, self.packed, self.source)
            yield piece


def _unzip(file: IO[bytes], folder: Path, unpacked: _Unpacked) -> None:
    with zipfile.ZipFile(file) as archive:
        for entry in _entries(archive, unpacked):
            if entry.is_dir():
                (folder / entry.filename).mkdir(parents=True, exist_ok=True)
                continue
            with archive.open(entry) as member:
                _write(unpacked.pieces(member), folder / entry.filename, unpacked.source)


def _entries(archive: zipfile.ZipFile, unpacked: _Unpacked) -> list[zipfile.ZipInfo]:
    """All entries of a zip, checked before any of them is unpacked."""
    entries = archive.infolist()
    within("entries", len(entries), unpacked.source)
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        _check(entry.filename, unpacked.source, kind in (0, stat.S_IFREG, stat.S_IFDIR), entry.filename.endswith("/"))
        if entry.flag_bits & 1:
            raise VergenceError(f"{unpacked.source} is locked with a password: expected {WHAT} without one")
    within_expansion(sum(entry.file_size for entry in entries), unpacked.packed, unpacked.source)
    return entries


def _untar(file: IO[bytes], folder: Path, unpacked: _Unpacked) -> None:
    with tarfile.open(fileobj=file) as archive:
        count = 0
        for entry in archive:  # one after another: a compressed archive is read through only once
            count += 1
            within("entries", count, unpacked.source)
            _check(entry.name, unpacked.source, entry.isreg() or entry.isdir(), entry.isdir())
            within_expansion(unpacked.total + entry.size, unpacked.packed, unpacked.source)
            target = folder / entry.name
            if entry.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            member = archive.extractfile(entry)
            assert member is not None
            with member:
                _write(unpacked.pieces(member), target, unpacked.source)


def _write(pieces: Iterator[bytes], target: Path, source: object) -> None:
    for piece in itertools.chain([b""], pieces):  # an empty file is written too
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as file:
                file.write(piece)
        except OSError as error:  # a full disk, a name that is too long
            raise VergenceError(f"cannot unpack {source} into {target.parent}: {error.strerror or error}") from None


def _check(name: str, source: object, plain: bool, folder: bool) -> None:
    parts = PurePosixPath(name.replace("\\", "/"))
    first = name.partition("/")[0]
    if parts.is_absolute() or ".." in parts.parts or ":" in first or first == "~":
        raise VergenceError(f"{source} is refused: its entry {name!r} would be written outside its folder")
    if not name or "\0" in name or not (parts.parts or folder):
        raise VergenceError(f"{source} is refused: it has an entry named {name!r}")
    if not plain:
        raise VergenceError(f"{source} is refused: its entry {name!r} is neither a file nor a folder")


def is_zip(path: Path) -> bool:
    """Whether a file ends as zip files do."""
    return zipfile.is_zipfile(path)


def zip_names(path: Path, name: str = "") -> list[str]:
    """The names of the files in a zip, checked as :func:`unpack` does; ``name`` is what errors call the zip."""
    with _zip(path, name) as (_, entries, _):
        return [entry.filename for entry in entries]


def zip_files(path: Path, name: str = "") -> Iterator[tuple[str, bytes]]:
    """The files of a zip one by one, by name. Checked as :func:`unpack` does."""
    with _zip(path, name) as (archive, entries, unpacked):
        for entry in entries:
            with archive.open(entry) as member:
                content = b"".join(unpacked.pieces(member))
            yield entry.filename, content


@contextmanager
def _zip(path: Path, name: str) -> Iterator[tuple[zipfile.ZipFile, list[zipfile.ZipInfo], _Unpacked]]:
    with open_file(path, ZIP) as file, refusing(name or path, ZIP), zipfile.ZipFile(file) as archive:
        unpacked = _Unpacked(name or path, size_of(file))
        yield archive, [entry for entry in _entries(archive, unpacked) if not entry.is_dir()], unpacked
