"""Data sets as published archives: zip and tar files, unpacked once, and never outside their own folder."""

from __future__ import annotations

import hashlib
import shutil
import stat
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from vergence.core.errors import VergenceError
from vergence.core.files import home

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def is_archive(path: Path) -> bool:
    """Whether a file has a name that :func:`unpacked` can open."""
    return path.name.lower().endswith(SUFFIXES) and path.is_file()


def unpacked(path: Path) -> Path:
    """The folder with an archive's contents, cached below ``$VERGENCE_HOME``.

    Unpacking is atomic. An archive with links, devices, or names that lead outside the folder is refused before
    anything is written.
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


def unpack(path: Path, folder: Path) -> None:
    """Write an archive's files below a new folder."""
    folder.mkdir()
    try:
        if path.name.lower().endswith(".zip"):
            _unzip(path, folder)
        else:
            _untar(path, folder)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise VergenceError(f"{path} is not a whole archive: {error}") from error
    if not any(folder.iterdir()):
        raise VergenceError(f"{path} is an empty archive")


def _unzip(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            _check(entry.filename, path, plain=kind in (0, stat.S_IFREG, stat.S_IFDIR))
        for entry in archive.infolist():
            target = folder / entry.filename
            if entry.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file, 1 << 20)


def _untar(path: Path, folder: Path) -> None:
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        for entry in members:
            _check(entry.name, path, plain=entry.isreg() or entry.isdir())
        archive.extractall(folder, members, filter="data")


def _check(name: str, path: Path, plain: bool) -> None:
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts or ":" in name.partition("/")[0]:
        raise VergenceError(f"{path} is refused: its entry {name!r} would be written outside its folder")
    if not plain:
        raise VergenceError(f"{path} is refused: its entry {name!r} is neither a file nor a folder")
