"""Checks of uploaded files before use, by their content and not by their name.

A checked file is copied into its job's folder under a generated name, with the suffix of its content. Decoders only
get files that passed: known signatures, bounded sizes, no playlists that refer to other files, no pickles.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import shutil
import stat
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from vergence.app.form import Field, name_of
from vergence.app.limits import Limits
from vergence.contract.inputs import Kind
from vergence.core.errors import VergenceError
from vergence.data.clouds import read_cloud
from vergence.data.video import Frame, open_video

PICTURES = {"PNG": ".png", "JPEG": ".jpg", "BMP": ".bmp", "WEBP": ".webp", "PPM": ".ppm", "TIFF": ".tif"}
"""Accepted picture formats; none of their decoders starts another program."""


@dataclass(frozen=True)
class Upload:
    """A checked file: its path, the visitor's name for it, and the suffix of its content."""

    path: Path
    name: str
    suffix: str
    about: str = ""
    """Short description for the visitor: ``640 x 480``."""


def check(field: Field, paths: Sequence[str | Path], folder: Path, limits: Limits) -> list[Upload]:
    """Check the files of one field; a bad one is a one-sentence error. Only files below ``folder`` are opened."""
    if not paths:
        return []
    if len(paths) > limits.files:
        raise VergenceError(f"{field.label}: {len(paths)} files are more than the {limits.files} that are taken")
    if len(paths) > 1 and not field.several:
        raise VergenceError(f"{field.label}: {name_of(field.kind)} is expected, not {len(paths)} files")
    uploads = []
    for path in (inside(p, folder) for p in paths):
        size = path.stat().st_size
        if size > limits.upload_bytes:
            raise VergenceError(f"{path.name} has {size / 1e6:.0f} MB, more than the {limits.upload_mb} that are taken")
        if not size:
            raise VergenceError(f"{path.name} is empty")
        uploads.append(_looked_at(field.kind, path, limits))
    return uploads


def inside(path: str | Path, folder: Path) -> Path:
    """The resolved path of a file below the folder; ``..`` and links cannot lead outside."""
    try:
        real = Path(path).resolve(strict=True)
        plain = stat.S_ISREG(Path(path).lstat().st_mode)
    except (OSError, ValueError, RuntimeError):
        raise VergenceError("the upload no longer exists: please choose the file again") from None
    if not (plain and real.is_relative_to(folder.resolve())):
        raise VergenceError("only files that were uploaded here can be used")
    return real


def _looked_at(kind: Kind, path: Path, limits: Limits) -> Upload:
    if kind in (Kind.IMAGE, Kind.IMAGES):
        return _picture(path, limits)
    if kind in (Kind.VIDEO, Kind.VIDEOS):
        return _video(path, limits)
    if kind is Kind.CLOUD:
        return _cloud(path, limits)
    if kind is Kind.GRAPH:
        return _graph(path, limits)
    return _zip(path, limits) if zipfile.is_zipfile(path) else _picture(path, limits)


# Pictures -------------------------------------------------------------------------------------------------------------


def _picture(path: Path, limits: Limits, name: str = "") -> Upload:
    name = name or path.name
    width, height, form = _decoded(path, name, limits)
    return Upload(path, name, PICTURES[form], f"{width} × {height}")


def _decoded(source: Path | io.BytesIO, name: str, limits: Limits) -> tuple[int, int, str]:
    """The size and format of a picture that decodes to its end."""
    try:
        with Image.open(source, formats=tuple(PICTURES)) as picture:
            (width, height), form = picture.size, str(picture.format)
            if width * height > limits.megapixels * 10**6:
                raise VergenceError(
                    f"{name} has {width} x {height} pixels, more than the {limits.megapixels} million that are taken"
                )
            picture.load()
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError):
        raise VergenceError(
            f"{name} is not a picture that can be read: expected PNG, JPEG, WebP, BMP, PPM or TIFF"
        ) from None
    return width, height, "PPM" if form in ("PGM", "PBM") else form


# Videos ---------------------------------------------------------------------------------------------------------------

_VIDEOS: tuple[tuple[str, int, bytes], ...] = (
    (".mp4", 4, b"ftyp"),
    (".mkv", 0, b"\x1aE\xdf\xa3"),
    (".avi", 8, b"AVI "),
    (".flv", 0, b"FLV"),
    (".wmv", 0, b"0&\xb2u\x8ef\xcf\x11"),
    (".ogv", 0, b"OggS"),
    (".mpg", 0, b"\x00\x00\x01\xba"),
    (".ts", 188, b"G"),
    (".mov", 4, b"moov"),
    (".mov", 4, b"mdat"),
)
"""Signatures of video containers; playlists, which refer to other files, are not among them."""


def _video(path: Path, limits: Limits) -> Upload:
    with path.open("rb") as file:
        start = file.read(256)
    suffix = next((s for s, at, mark in _VIDEOS if start[at : at + len(mark)] == mark), "")
    if suffix == ".ts" and start[:1] != b"G":
        suffix = ""
    if not suffix:
        raise VergenceError(f"{path.name} is not a video that can be read: expected MP4, WebM, MKV, AVI or MOV")
    frame, seconds = first_frame(path, path.name, limits)
    height, width = frame.shape[:2]
    return Upload(path, path.name, suffix, f"{width} × {height}, {seconds:.1f} s")


def first_frame(path: Path, name: str, limits: Limits) -> tuple[Frame, float]:
    """The first frame of a video and its length in seconds; one that is too long or too large is an error."""
    try:
        video = open_video(path)
        seconds = (video.length or 0) / video.fps
        if seconds > limits.video_seconds:
            raise VergenceError(
                f"{name} lasts {seconds:.0f} seconds, more than the {limits.video_seconds} that are taken"
            )
        if video.size.width * video.size.height > limits.megapixels * 10**6:
            raise VergenceError(f"{name} has frames of more than the {limits.megapixels} million pixels that are taken")
        return next(video.frames()), seconds
    except StopIteration:
        raise VergenceError(f"{name} has no frame that can be read") from None
    except VergenceError as error:
        raise VergenceError(str(error).replace(str(path), name)) from None


# Clouds ---------------------------------------------------------------------------------------------------------------


def _cloud(path: Path, limits: Limits) -> Upload:
    with path.open("rb") as file:
        start = file.read(4096)
    if start.startswith(b"\x93NUMPY"):
        suffix = ".npy"
    elif start.startswith(b"PK"):
        suffix = ".npz"
        _bounded(path, limits)
    elif start.startswith((b"ply\n", b"ply\r\n")):
        suffix = ".ply"
    elif re.search(rb"^FIELDS\s", start, re.MULTILINE):
        suffix = ".pcd"
    elif path.suffix.lower() == ".bin" and path.stat().st_size % 16 == 0:  # raw floats without a signature
        suffix = ".bin"
    else:
        raise VergenceError(
            f"{path.name} is not a point cloud that can be read: expected .npy, .npz, .ply, .pcd or .bin"
        )
    named = path if path.suffix.lower() == suffix else _beside(path, suffix)
    try:
        if suffix == ".npy":
            np.load(named, mmap_mode="r", allow_pickle=False)  # fails if the header promises more than the file has
        points = len(read_cloud(named))
    except (VergenceError, ValueError, OSError) as error:
        message = str(error).replace(str(named), path.name)
        damaged = message if isinstance(error, VergenceError) else f"{path.name} is damaged: {message}"
        raise VergenceError(damaged) from None
    finally:
        if named != path:
            named.unlink(missing_ok=True)
    if points > limits.cloud_points:
        raise VergenceError(f"{path.name} has {points} points, more than the {limits.cloud_points} that are taken")
    return Upload(path, path.name, suffix, f"{points:,} points")


def _beside(path: Path, suffix: str) -> Path:
    """A copy of the file with the suffix of its content, for readers that choose by suffix."""
    return Path(shutil.copyfile(path, path.with_name(f".{path.name}.looked-at{suffix}")))


# Graphs ---------------------------------------------------------------------------------------------------------------

_PAIRS = re.compile(r"\s*-?[\d.]+(?:[eE][-+]?\d+)?[ \t,]+-?[\d.]+(?:[eE][-+]?\d+)?\s*")


def _graph(path: Path, limits: Limits) -> Upload:
    """Detect the format of a map; its reader checks the contents later."""
    start = path.read_bytes()[:64]
    wrong = VergenceError(f"{path.name} is not a graph that can be read: expected .graph, .geojson, .graphml or a mask")
    if start.startswith((b"\x89PNG", b"\xff\xd8", b"BM", b"RIFF", b"II*\0", b"MM\0*")):
        return _picture(path, limits)
    try:
        text = path.read_text(encoding="utf-8-sig").lstrip()
    except ValueError:
        raise wrong from None
    if text.startswith("{"):
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError):
            raise wrong from None
        if not isinstance(content, dict) or not isinstance(content.get("type"), str):
            raise wrong
        return Upload(path, path.name, ".geojson", f"GeoJSON, {len(content.get('features') or [])} features")
    if text.startswith("<"):
        if "<!" in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL):  # entities can name files and grow without limit
            raise VergenceError(f"{path.name} is refused: it contains declarations that a graph does not need")
        if "<graphml" not in text[:5000]:
            raise wrong
        return Upload(path, path.name, ".graphml", f"GraphML, {text.count('<node')} nodes")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or not all(_PAIRS.fullmatch(line) for line in lines[:1000]):
        raise wrong
    return Upload(path, path.name, ".graph", f"{len(lines)} lines")


# Folders --------------------------------------------------------------------------------------------------------------


def _zip(path: Path, limits: Limits) -> Upload:
    pictures = len(_bounded(path, limits))
    if not pictures:
        raise VergenceError(f"{path.name} holds no file")
    return Upload(path, path.name, ".zip", f"{pictures} files")


def _bounded(path: Path, limits: Limits) -> list[zipfile.ZipInfo]:
    """The entries of a zip within the limits on number and size, with no path outside it."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [e for e in archive.infolist() if not e.is_dir()]
    except NotImplementedError:  # zipfile does not support this version
        raise VergenceError(f"{path.name} is a zip of an unsupported kind: please create it again") from None
    except (zipfile.BadZipFile, OSError, ValueError):
        raise VergenceError(f"{path.name} is not a whole zip") from None
    if len(entries) > limits.files:
        raise VergenceError(f"{path.name} holds {len(entries)} files, more than the {limits.files} that are taken")
    if sum(e.file_size for e in entries) > limits.upload_bytes:
        raise VergenceError(f"{path.name} would unpack to more than the {limits.upload_mb} MB that are taken")
    for entry in entries:
        parts = entry.filename.replace("\\", "/").split("/")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if parts[0] in ("", "~") or ".." in parts or ":" in parts[0] or kind not in (0, stat.S_IFREG):
            raise VergenceError(f"{path.name} is refused: its entry {entry.filename!r} leads outside it or is no file")
        if entry.flag_bits & 1:
            raise VergenceError(f"{path.name} is locked with a password")
    return entries


def place(field: Field, uploads: Sequence[Upload], folder: Path, limits: Limits) -> Path | list[Path] | None:
    """Copy checked files into the folder of a job; returns the path or paths for the system."""
    if not uploads:
        return None
    target = folder / field.name
    target.mkdir(parents=True)
    copies: list[Path] = []
    for upload in uploads:
        if upload.suffix == ".zip" and field.kind is Kind.FOLDER:
            # Each of several zips gets its own folder, for example one per person.
            copies += _unzipped(upload, target if len(uploads) == 1 else _named(target, upload.name, ""), limits)
        else:
            copies.append(Path(shutil.copyfile(upload.path, _named(target, upload.name, upload.suffix))))
    if field.kind is Kind.FOLDER:
        if not copies:
            raise VergenceError(f"{field.label}: no picture in {', '.join(u.name for u in uploads)}")
        return target
    return copies if field.several else copies[0]


def _unzipped(upload: Upload, target: Path, limits: Limits) -> list[Path]:
    """Unpack the pictures of a zip into their folders, under generated names. Common parent folders are dropped, except
    the last one if it names the pictures, as in ``people/anna/1.png``."""
    pictures = list(_pictures(upload, limits))
    levels = zip(*(folders for folders, *_ in pictures), strict=False)
    outer = sum(1 for _ in itertools.takewhile(lambda names: len(set(names)) == 1, levels))
    if outer > 1 and all(len(folders) == outer for folders, *_ in pictures):
        outer -= 1
    paths = []
    for folders, name, suffix, content in pictures:
        folder = target.joinpath(*(_plain(part) for part in folders[outer:]))
        folder.mkdir(parents=True, exist_ok=True)
        paths.append(_named(folder, name, suffix))
        paths[-1].write_bytes(content)
    return paths


def _pictures(upload: Upload, limits: Limits) -> Iterator[tuple[list[str], str, str, bytes]]:
    """Each picture of a zip: folders, name, suffix and bytes. Bytes are counted, as a zip may declare a false size."""
    left = limits.upload_bytes
    entries = _bounded(upload.path, limits)
    with zipfile.ZipFile(upload.path) as archive:
        for entry in entries:
            try:
                with archive.open(entry) as file:
                    content = file.read(left + 1)
            except NotImplementedError:  # zipfile does not support this compression
                raise VergenceError(f"{upload.name} has an unsupported compression of {entry.filename!r}") from None
            except (zipfile.BadZipFile, OSError, ValueError, EOFError, RuntimeError):
                raise VergenceError(f"{upload.name} is damaged at {entry.filename!r}") from None
            left -= len(content)
            if left < 0:
                raise VergenceError(f"{upload.name} unpacks to more than the {limits.upload_mb} MB that are taken")
            name = entry.filename.replace("\\", "/").rsplit("/", 1)[-1]
            if name.startswith(".") or "__MACOSX" in entry.filename:
                continue
            try:
                form = _decoded(io.BytesIO(content), name, limits)[2]
            except VergenceError:
                continue  # other files, such as a licence
            yield _folders(entry), name, PICTURES[form], content


def _folders(entry: zipfile.ZipInfo) -> list[str]:
    return [part for part in entry.filename.replace("\\", "/").split("/")[:-1] if part not in ("", ".")]


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:40] or "file"


def _named(folder: Path, name: str, suffix: str) -> Path:
    """An unused path in a folder, made of safe characters of the visitor's name."""
    stem = _plain(Path(name).stem)
    taken = {path.name for path in folder.iterdir()}
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return folder / next(made for number in numbers if (made := f"{stem}{number}{suffix}") not in taken)


def weight(folder: Path) -> int:
    """Total size of the files below a folder, in bytes."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:  # removed meanwhile
            continue
    return total


def sweep(folder: Path, minutes: float, keep: Iterable[Path] = ()) -> None:
    """Remove entries directly below a folder that were not modified for this long."""
    kept = set(keep)
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        try:
            old = time.time() - max(p.lstat().st_mtime for p in (path, *path.rglob("*"))) > minutes * 60
        except (OSError, ValueError):
            continue
        if old and path not in kept:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
