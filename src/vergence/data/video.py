"""Reading videos from files, folders of frames and cameras, as RGB bytes (H, W, 3), and writing them to files.

A :class:`Video` holds no open file: every pass and every :meth:`Video.at` opens it again, so that a video can be passed
to other processes and read in several places at once.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError, reason
from vergence.core.files import replacing
from vergence.data.images import SUFFIXES as PICTURES
from vergence.data.images import read_image
from vergence.reading.video import LOCAL, open_container

Frame = npt.NDArray[np.uint8]
"""RGB bytes (H, W, 3)."""

SUFFIXES = frozenset({".mp4", ".avi", ".webm", ".mkv", ".mov", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv", ".ts", ".3gp",
                      ".ogv"})  # fmt: skip
FOLDER_RATE = 25.0
"""Default frames per second of a folder of frames."""
_FAR = 48
"""Number of frames from which seeking pays off in files without an index of key frames."""


class Size(NamedTuple):
    """The size of a frame, in pixels."""

    height: int
    width: int


class Video(ABC):
    """Frames in order; every iteration starts from the first."""

    def __init__(self, name: str, fps: float, size: Size | None, length: int | None) -> None:
        self.name = name
        self.fps = fps
        self._size = size
        self.length = length
        """Number of frames according to the file; None for a camera."""
        self.lost = 0
        """Number of frames that could not be read in the last complete pass."""

    @property
    def size(self) -> Size:
        """The size of the decoded frames. Reads the first one if needed: a file may store its frames rotated."""
        if self._size is None:
            self._size = Size(*next(self.frames()).shape[:2])
        return self._size

    def __iter__(self) -> Iterator[Frame]:
        return self.frames()

    @abstractmethod
    def frames(self, shorter: int | None = None) -> Iterator[Frame]:
        """All frames in order, scaled so that their shorter side has ``shorter`` pixels, if given."""

    @abstractmethod
    def at(self, indices: Sequence[int], shorter: int | None = None) -> Frame:
        """Frames by index as one array (K, H, W, 3), in the given order (indices may repeat), without reading the
        rest: frame i is the one shown at ``i / fps``."""

    def _checked(self, indices: Sequence[int]) -> list[int]:
        wanted = [int(i) for i in indices]
        if not wanted:
            raise VergenceError(f"no frame of {self.name} was asked for")
        assert self.length is not None, "a camera has no frames to choose from"
        for index in (min(wanted), max(wanted)):
            if not 0 <= index < self.length:
                raise VergenceError(f"{self.name} has the frames 0 to {self.length - 1}, not {index}")
        return wanted


def open_video(source: Path | str | int, fps: float | None = None) -> Video:
    """A video file, a folder of frames, or a camera by its number (``0`` is the first).

    ``fps`` is the frame rate of a folder of frames; files have their own.
    """
    if isinstance(source, int):
        return _Camera(source)
    if isinstance(source, InMemory):
        return _Given(source, fps or FOLDER_RATE)
    path = Path(source)
    try:
        kind = "folder" if path.is_dir() else "file" if path.exists() else ""
    except (OSError, ValueError):  # a name too long, a zero byte
        kind = ""
    if not kind:
        raise VergenceError(f"{path} does not exist: expected a video file, a folder of frames or a camera's number")
    return _Frames(path, fps or FOLDER_RATE) if kind == "folder" else _File(path)


def is_video(path: Path) -> bool:
    """Whether a path is named like a video file, or is a folder of frames."""
    return path.suffix.lower() in SUFFIXES if path.is_file() else path.is_dir() and bool(_pictures(path))


class _Given(Video):
    """Frames given in Python: an array (T, H, W, 3), a tensor (T, 3, H, W), or a list of images."""

    def __init__(self, source: InMemory, fps: float) -> None:
        self.source = source.value
        try:
            count = len(self.source)
        except TypeError:
            count = 0
        if not count:
            raise VergenceError(f"{source} holds no frames: expected an array (T, H, W, 3) or a list of pictures")
        super().__init__(source.name, fps, Size(*self._frame(0).shape[:2]), count)

    def frames(self, shorter: int | None = None) -> Iterator[Frame]:
        return (rescaled(self._frame(i), shorter) if shorter else self._frame(i) for i in range(len(self.source)))

    def at(self, indices: Sequence[int], shorter: int | None = None) -> Frame:
        frames = [self._frame(i) for i in self._checked(indices)]
        return np.stack([rescaled(frame, shorter) if shorter else frame for frame in frames])

    def _frame(self, index: int) -> Frame:
        value = self.source[index]
        picture = read_image(value if isinstance(value, Path) else InMemory(f"frame {index}", value))
        return picture.permute(1, 2, 0).numpy()


# Files ---------------------------------------------------------------------------------------------------------------


class _File(Video):
    def __init__(self, path: Path) -> None:
        with self._stream(path) as (container, stream):
            rate = stream.average_rate or stream.guessed_rate or Fraction(25)
            if not (rate > 0 and stream.width > 0 and stream.height > 0):
                raise VergenceError(f"{path} is not a readable video: it names no size or rate")
            if stream.frames:
                length = stream.frames
            elif stream.duration is not None:
                length = round(stream.duration * stream.time_base * rate)
            else:  # the container's duration, in microseconds
                length = round((container.duration or 0) * rate / 1_000_000)
            self.exact = bool(stream.frames)
        self.path = path
        self.rate = rate
        super().__init__(str(path), float(rate), None, max(length, 1))

    def _stream(self, path: Path) -> Any:
        return open_container(str(path), str(path), options=LOCAL)

    def frames(self, shorter: int | None = None) -> Iterator[Frame]:
        count, damaged = 0, [0]
        self.lost = 0
        with self._stream(self.path) as (container, stream):
            stream.thread_type = "AUTO"
            for frame in _decoded(container, stream, damaged):
                count += 1
                yield _upright(frame, shorter)
        assert self.length is not None
        if not count:
            raise VergenceError(f"{self.name} is damaged: not one frame of it can be read")
        missing = max(self.length - count, 0)
        # A length estimated from a duration is a frame or two off in intact files, and the audio may last longer.
        if self.exact or damaged[0] or missing > max(2, self.length // 10):
            self.lost = max(missing, damaged[0])

    def at(self, indices: Sequence[int], shorter: int | None = None) -> Frame:
        wanted = self._checked(indices)
        frames: dict[int, Frame] = {}
        with self._stream(self.path) as (container, stream):
            start = stream.start_time or 0
            step = 1 / (self.rate * stream.time_base)  # clock ticks per frame
            times = {index: start + int(index * step) for index in sorted(set(wanted))}
            self._collect(_Cursor(container, stream, int(step)), times, shorter, frames)
        return np.stack([frames[index] for index in wanted])

    def _collect(self, cursor: _Cursor, times: dict[int, int], shorter: int | None, frames: dict[int, Frame]) -> None:
        for index, time in times.items():
            frame = cursor.shown_at(time)
            if frame is None or (cursor.ended and self._short(index, cursor.behind(time))):
                raise VergenceError(f"{self.name} is damaged: frame {index} of {self.length} cannot be read")
            frames[index] = _upright(frame, shorter)

    def _short(self, index: int, behind: float) -> bool:
        """Whether the last available frame is too far before the requested one."""
        assert self.length is not None
        return behind > (1 if self.exact else max(2, self.length // 10))


class _Cursor:
    """Moves forward through a stream to given times, seeking where that saves decoding."""

    def __init__(self, container: Any, stream: Any, step: int) -> None:
        self.container, self.stream, self.step = container, stream, max(step, 1)
        self.frames = _decoded(container, stream, [])
        self.last: Any = None
        self.ahead: Any = None
        """The next frame, if decoded already."""
        self.ended = False

    def shown_at(self, time: int) -> Any:
        """The last frame that starts at or before a time (within half a frame, because timestamps are rounded)."""
        until = time + self.step // 2
        if self._far(time):
            self._seek(time, until)
        while not self.ended:
            if self.ahead is None:
                self.ahead = next(self.frames, None)
            if self.ahead is None:
                self.ended = True
            elif self.last is not None and self.ahead.pts > until:
                break
            else:
                self.last, self.ahead = self.ahead, None
                if self.last.pts + self.step // 2 >= time and self.last.pts <= until:
                    break  # found without decoding the next frame
        return self.last

    def behind(self, time: int) -> float:
        return (time - self.last.pts) / self.step

    def _far(self, time: int) -> bool:
        here = self.last.pts if self.last is not None else self.stream.start_time or 0
        entries = self.stream.index_entries
        if len(entries) > 1:
            key = entries.search_timestamp(time)
            return key >= 0 and entries[key].timestamp > here + self.step
        return bool(time - here > _FAR * self.step)

    def _seek(self, time: int, until: int) -> None:
        start = self.stream.start_time or 0
        for back in (0, 16, 64, 256, None):  # a key frame may be stored before the requested time and shown after it
            target = start if back is None else max(time - back * self.step, start)
            self.container.seek(target, stream=self.stream, backward=True, any_frame=False)
            self.frames, self.last, self.ended = _decoded(self.container, self.stream, []), None, False
            self.ahead = next(self.frames, None)
            if target == start or (self.ahead is not None and self.ahead.pts <= until):
                return


def _decoded(container: Any, stream: Any, damaged: list[int]) -> Iterator[Any]:
    """Frames that have a timestamp, in order; packets that cannot be decoded are skipped and counted."""
    import av

    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except (StopIteration, av.error.FFmpegError, OSError):
            return
        try:
            for frame in packet.decode():
                if frame.pts is not None:
                    yield frame
        except av.error.FFmpegError:
            if damaged:
                damaged[0] += 1
        if packet.size == 0 and packet.dts is None:  # the final flush packet
            return


def _upright(frame: Any, shorter: int | None) -> Frame:
    """A decoded frame as RGB, scaled, and rotated upright."""
    height, width = frame.height, frame.width
    if shorter is not None and min(height, width) != shorter:
        share = shorter / min(height, width)
        height, width = max(round(height * share), shorter), max(round(width * share), shorter)
        frame = frame.reformat(width=width, height=height, format="rgb24", interpolation="BILINEAR")
    pixels: Frame = frame.to_ndarray(format="rgb24")
    turns = round(frame.rotation / 90) % 4
    return np.ascontiguousarray(np.rot90(pixels, turns)) if turns else pixels


# Folders of frames, cameras ------------------------------------------------------------------------------------------


def _pictures(folder: Path) -> list[Path]:
    """The image files in a folder in natural order: frame_2 before frame_10."""

    def key(path: Path) -> list[Any]:
        return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]

    return sorted((p for p in folder.iterdir() if p.suffix.lower() in PICTURES and p.is_file()), key=key)


class _Frames(Video):
    def __init__(self, folder: Path, fps: float) -> None:
        try:
            self.paths = _pictures(folder)
        except OSError as error:
            raise VergenceError(f"{folder} cannot be read: {error.strerror}") from None
        if not self.paths:
            raise VergenceError(f"{folder} holds no frames: expected pictures ({', '.join(sorted(PICTURES))})")
        super().__init__(str(folder), fps, Size(*read_image(self.paths[0]).shape[1:]), len(self.paths))

    def frames(self, shorter: int | None = None) -> Iterator[Frame]:
        return (self._read(path, shorter) for path in self.paths)

    def at(self, indices: Sequence[int], shorter: int | None = None) -> Frame:
        wanted = self._checked(indices)
        frames = {index: self._read(self.paths[index], shorter) for index in set(wanted)}
        return np.stack([frames[index] for index in wanted])

    def _read(self, path: Path, shorter: int | None) -> Frame:
        picture = read_image(path)
        if tuple(picture.shape[1:]) != self.size:
            have, first = "x".join(map(str, picture.shape[1:])), "x".join(map(str, self.size))
            raise VergenceError(f"{path} is {have} (height x width), but {self.paths[0].name} before it is {first}")
        return rescaled(np.ascontiguousarray(picture.permute(1, 2, 0).numpy()), shorter)


def rescaled(frame: Frame, shorter: int | None) -> Frame:
    """A frame scaled so that its shorter side has ``shorter`` pixels."""
    height, width = frame.shape[:2]
    if shorter is None or min(height, width) == shorter:
        return frame
    from PIL import Image

    share = shorter / min(height, width)
    size = max(round(width * share), shorter), max(round(height * share), shorter)
    return np.array(Image.fromarray(frame).resize(size, Image.Resampling.BILINEAR))


class _Camera(Video):
    """A camera, opened by its number for every pass."""

    def __init__(self, number: int) -> None:
        places = {"linux": (f"/dev/video{number}", "v4l2"), "darwin": (str(number), "avfoundation")}
        if sys.platform not in places:
            raise VergenceError(f"camera {number} cannot be opened: cameras are read on Linux and macOS")
        self.place, self.format = places[sys.platform]
        name = f"camera {number}"
        with open_container(name, self.place, format=self.format) as (_, stream):
            super().__init__(name, float(stream.average_rate or 25), Size(stream.height, stream.width), None)

    def frames(self, shorter: int | None = None) -> Iterator[Frame]:
        with open_container(self.name, self.place, format=self.format) as (container, stream):
            for frame in _decoded(container, stream, []):
                yield _upright(frame, shorter)

    def at(self, indices: Sequence[int], shorter: int | None = None) -> Frame:
        raise VergenceError(f"{self.name} is a camera: its frames can only be read in order")


# Writing -------------------------------------------------------------------------------------------------------------

_WRITERS = {
    ".mp4": ("mp4", "libx264", {"crf": "18"}),
    ".mov": ("mov", "libx264", {"crf": "18"}),
    ".mkv": ("matroska", "libx264", {"crf": "18"}),
    ".webm": ("webm", "libvpx-vp9", {"crf": "24", "b": "0"}),
    ".avi": ("avi", "mpeg4", {"qscale": "3"}),
}


def write_video(path: Path | str, frames: Iterable[Frame], fps: float) -> Path:
    """Write frames of one size to a video file, atomically: H.264, VP9 or MPEG-4 by the file's suffix.

    For an odd height or width the last row or column is repeated, because these formats subsample colour by two.
    """
    import av

    path = Path(path)
    if path.suffix.lower() not in _WRITERS:
        raise VergenceError(f"{path} is not named like a video that can be written: one of {', '.join(_WRITERS)}")
    if not 0 < fps < 100_000:
        raise VergenceError(f"a video has more than 0 frames per second, got {fps:g}")
    form, codec, options = _WRITERS[path.suffix.lower()]
    stream: Any = None
    size = None
    with replacing(path) as partial:
        try:
            with av.open(str(partial), "w", format=form) as container:
                for number, frame in enumerate(frames):
                    pixels = np.asarray(frame)
                    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
                        raise VergenceError(
                            f"frame {number} of {path} is {pixels.dtype} {pixels.shape}, not bytes (H, W, 3)"
                        )
                    if size is None:
                        size = pixels.shape
                        stream = container.add_stream(codec, rate=Fraction(fps).limit_denominator(1001))
                        stream.height, stream.width = (side + side % 2 for side in size[:2])
                        stream.pix_fmt, stream.options = "yuv420p", options
                    if pixels.shape != size:
                        raise VergenceError(f"frame {number} of {path} is {pixels.shape}, the first one is {size}")
                    even = np.pad(pixels, ((0, size[0] % 2), (0, size[1] % 2), (0, 0)), "edge")
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")))
                if stream is None:
                    raise VergenceError(f"there are no frames to write to {path}")
                container.mux(stream.encode(None))
        except av.error.FFmpegError as error:
            raise VergenceError(f"cannot write {path}: {_told(error)}") from None
    return path


def _told(error: BaseException) -> str:
    return getattr(error, "strerror", None) or reason(error)
