"""Checks of uploaded files before use, by their content and not by their name.

A checked file is copied into its job's folder under a generated name, with the suffix of its content. Decoders only
get files that passed: known signatures, bounded sizes, no playlists that refer to other files, no pickles.
"""

from __future__ import annotations

import io
import itertools
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from vergence.app.form import Field, name_of
from vergence.app.limits import Limits
from vergence.contract.inputs import Kind
from vergence.core.errors import VergenceError
from vergence.data.clouds import read_cloud
from vergence.data.video import Frame, open_video
from vergence.reading.archives import is_zip, zip_files, zip_names
from vergence.reading.budget import VARIABLE, budget, within
from vergence.reading.files import open_file, read_text
from vergence.reading.pictures import FORMATS, decode_picture, read_picture
from vergence.reading.tables import parse_json

_ADVICE = re.compile(rf" \({VARIABLE}=[^)]*\)")
"""For who runs the gallery, not for its visitors."""


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
        with limited(path, limits):
            with open_file(path) as file:
                start = file.read(4096)
            if not start:
                raise VergenceError(f"{path.name} is empty")
            uploads.append(_looked_at(field.kind, path, start, limits))
    return uploads


@contextmanager
def limited(path: Path, limits: Limits) -> Iterator[None]:
    """Read a file within the gallery's limits; errors call it by its name alone."""
    most = limits.upload_bytes
    try:
        with budget(
            file_bytes=most,
            text_bytes=most,
            unpacked_bytes=most,
            pixels=limits.megapixels * 10**6,
            points=limits.cloud_points,
        ):
            yield
    except VergenceError as error:
        raise VergenceError(_ADVICE.sub("", str(error)).replace(str(path), path.name)) from None


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


def _looked_at(kind: Kind, path: Path, start: bytes, limits: Limits) -> Upload:
    if kind in (Kind.IMAGE, Kind.IMAGES):
        return _picture(path)
    if kind in (Kind.VIDEO, Kind.VIDEOS):
        return _video(path, start, limits)
    if kind is Kind.CLOUD:
        return _cloud(path, start)
    if kind is Kind.GRAPH:
        return _graph(path, start)
    return _zip(path, limits) if is_zip(path) else _picture(path)


# Pictures -------------------------------------------------------------------------------------------------------------


def _picture(path: Path) -> Upload:
    picture = read_picture(path)
    return Upload(path, path.name, _suffix(picture.format), f"{picture.width} × {picture.height}")


def _suffix(form: str | None) -> str:
    return FORMATS.get(form or "", ".jpg")  # phones write several JPEG pictures into one file, which Pillow calls MPO


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


def _video(path: Path, start: bytes, limits: Limits) -> Upload:
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
    with limited(path, limits):
        video = open_video(path)
        seconds = (video.length or 0) / video.fps
        if seconds > limits.video_seconds:
            raise VergenceError(
                f"{name} lasts {seconds:.0f} seconds, more than the {limits.video_seconds} that are taken"
            )
        frame = next(video.frames(), None)
    if frame is None:
        raise VergenceError(f"{name} has no frame that can be read")
    return frame, seconds


# Clouds ---------------------------------------------------------------------------------------------------------------


def _cloud(path: Path, start: bytes) -> Upload:
    if start.startswith(b"\x93NUMPY"):
        suffix = ".npy"
    elif start.startswith(b"PK"):
        suffix = ".npz"
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
    points = _points(path, suffix)
    within("points", points, path)
    return Upload(path, path.name, suffix, f"{points:,} points")


def _points(path: Path, suffix: str) -> int:
    if path.suffix.lower() == suffix:
        return len(read_cloud(path))
    with tempfile.TemporaryDirectory(dir=path.parent) as place:  # readers choose by suffix
        named = Path(shutil.copyfile(path, Path(place) / f"cloud{suffix}"))
        try:
            return len(read_cloud(named))
        except VergenceError as error:
            raise VergenceError(str(error).replace(str(named), path.name)) from None


# Graphs ---------------------------------------------------------------------------------------------------------------

_PAIRS = re.compile(r"\s*-?[\d.]+(?:[eE][-+]?\d+)?[ \t,]+-?[\d.]+(?:[eE][-+]?\d+)?\s*")


def _graph(path: Path, start: bytes) -> Upload:
    """Detect the format of a map; its reader checks the contents later."""
    wrong = VergenceError(f"{path.name} is not a graph that can be read: expected .graph, .geojson, .graphml or a mask")
    if start.startswith((b"\x89PNG", b"\xff\xd8", b"BM", b"RIFF", b"II*\0", b"MM\0*")):
        return _picture(path)
    try:
        text = read_text(path).lstrip()
        content: Any = parse_json(text, path) if text.startswith("{") else None
    except VergenceError:
        raise wrong from None
    if text.startswith("{"):
        if not isinstance(content, dict) or not isinstance(content.get("type"), str):
            raise wrong
        features = content.get("features", [])
        if not isinstance(features, list):
            raise wrong
        return Upload(path, path.name, ".geojson", f"GeoJSON, {len(features)} features")
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
    count = len(zip_names(path))
    if count > limits.files:
        raise VergenceError(f"{path.name} holds {count} files, more than the {limits.files} that are taken")
    if not count:
        raise VergenceError(f"{path.name} holds no file")
    return Upload(path, path.name, ".zip", f"{count} files")


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
    with limited(upload.path, limits):
        pictures = list(_pictures(upload))
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


def _pictures(upload: Upload) -> Iterator[tuple[tuple[str, ...], str, str, bytes]]:
    """Each picture of a zip: folders, name, suffix and bytes."""
    for entry, content in zip_files(upload.path, upload.name):
        *folders, name = PurePosixPath(entry.replace("\\", "/")).parts
        if name.startswith(".") or "__MACOSX" in folders:
            continue
        try:
            form = decode_picture(io.BytesIO(content), name).format
        except VergenceError:
            continue  # other files, such as a licence
        yield tuple(folders), name, _suffix(form), content


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
