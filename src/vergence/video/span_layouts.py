"""Readers of videos with annotated spans: ActivityNet-1.3 and THUMOS-14 with snippet features, and plain folders."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.video import SUFFIXES, open_video
from vergence.reading.arrays import as_finite, read_npy
from vergence.reading.files import read_text
from vergence.reading.tables import read_json, read_rows
from vergence.video.annotated import Annotated, checked_spans
from vergence.video.snippets import describe_video

FEATURES = (".npy", ".csv")
ANNOTATIONS = ("activity_net.v1-3.min.json", "anet_anno_action.json", "annotations.json")
FOLDERS = ("features", "csv_mean_100", "fix_feat_100", "videos", "")
FRAMES, RATE = 5, 30.0
"""THUMOS-14: frames per snippet, and frames per second."""
UNCLEAR = "Ambiguous"


def read_features(path: Path) -> Tensor:
    """Features (S, D) of a file: an array, or a table of numbers with or without a heading."""
    if path.suffix.lower() == ".npy":
        values = read_npy(path)
    else:
        rows = read_rows(path, what="a table of features")
        heading = bool(rows) and not _is_number(rows[0][0])
        try:
            values = np.array([[float(v) for v in row] for row in rows[heading:]], np.float32)
        except ValueError:
            raise VergenceError(f"{path} is not a table of features: expected rows of numbers of one length") from None
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "fiu":
        raise VergenceError(f"{path} holds no features: expected numbers (snippets, channels), got {values.shape}")
    return torch.from_numpy(np.ascontiguousarray(as_finite(values, path, "features"), np.float32))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@dataclass(frozen=True)
class _Files(Sequence[Tensor]):
    """Features by video, read on access; those of a video file are computed."""

    paths: tuple[Path, ...]
    rate: float

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        path = self.paths[index]
        if path.suffix.lower() in FEATURES:
            return read_features(path)
        return describe_video(open_video(path), self.rate)[0]


class _Listed:
    """The files of a data set by the name of their video, in whichever of the usual folders they are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        folder = next((path / name for name in FOLDERS if (path / name).is_dir() and self._some(path / name)), None)
        if folder is None:
            raise VergenceError(f"{path} has no features: expected features/<video>.npy or .csv, or videos/<video>.mp4")
        self.files = {file.stem: file for file in sorted(folder.iterdir()) if file.suffix.lower() in _KNOWN}

    @staticmethod
    def _some(folder: Path) -> bool:
        return any(file.suffix.lower() in _KNOWN for file in folder.iterdir())

    def of(self, name: str) -> Path | None:
        return self.files.get(name) or self.files.get(f"v_{name}")


_KNOWN = frozenset(FEATURES) | SUFFIXES
_SUBSETS = {
    "train": ("training", "train"),
    "val": ("validation", "val"),
    "test": ("validation", "val", "testing", "test"),
}


def read_activitynet(path: Path, split: str, rate: float = 7.5) -> Annotated:
    """``activity_net.v1-3.min.json`` (or BMN's ``anet_anno_action.json``) with ``features/v_<id>.npy`` or ``.csv``.

    The labels of the test subset are not public: ``test`` is ``validation``. Videos without a file are left out, since
    several are no longer to be had; their number is in the note.
    """
    listed = next((path / name for name in ANNOTATIONS if (path / name).is_file()), None)
    if listed is None:
        raise VergenceError(f"{path} has no {ANNOTATIONS[0]} or {ANNOTATIONS[2]}: expected ActivityNet's annotations")
    content = read_json(listed)
    database = content.get("database", content) if isinstance(content, dict) else None
    if not isinstance(database, dict) or not database:
        raise VergenceError(f"{listed} holds no videos: expected {{'database': {{id: ...}}}}")
    rows = [row for name, entry in database.items() if (row := _entry(listed, name, entry))[1] in _SUBSETS[split]]
    if split == "test" and any(row[1] in ("testing", "test") and row[3] for row in rows):
        rows = [row for row in rows if row[1] in ("testing", "test")]  # a data set whose test labels are public
    return _collected(path, listed, split, rows, rate)


def _entry(listed: Path, name: str, entry: Any) -> tuple[str, str, float, list[tuple[float, float]], list[str]]:
    if not isinstance(entry, dict):
        raise VergenceError(f"video {name!r} of {listed} is not {{'subset', 'duration', 'annotations'}}")
    try:
        duration = float(entry["duration"] if "duration" in entry else entry["duration_second"])
        if "feature_frame" in entry:  # the features leave out the last frames
            duration *= float(entry["feature_frame"]) / float(entry["duration_frame"])
        spans = [(float(a["segment"][0]), float(a["segment"][1])) for a in entry.get("annotations", ())]
        labels = [str(a.get("label", "action")) for a in entry.get("annotations", ())]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError):
        raise VergenceError(
            f"video {name!r} of {listed} is not {{'duration': s, 'annotations': [{{'segment': [s, s], 'label': ...}}]}}"
        ) from None
    if not (math.isfinite(duration) and duration > 0):
        raise VergenceError(f"video {name!r} of {listed} has a duration of {duration:g} s")
    return name.removeprefix("v_"), str(entry.get("subset", "training")), duration, spans, labels


def _collected(path: Path, listed: Path, split: str, rows: Sequence[Any], rate: float) -> Annotated:
    if not rows:
        raise VergenceError(f"{listed} has no videos for {split!r}")
    files = _Listed(path)
    found = [(row, file) for row in rows if (file := files.of(row[0]))]
    if not found:
        raise VergenceError(f"{path} has features of none of the {len(rows)} videos that {listed.name} lists")
    gone = len(rows) - len(found)
    return Annotated(
        tuple(row[0] for row, _ in found),
        tuple(row[2] for row, _ in found),
        tuple(checked_spans(row[3], row[2], f"video {row[0]!r} of {listed}") for row, _ in found),
        tuple(tuple(row[4]) for row, _ in found),
        _Files(tuple(file for _, file in found), rate),
        note=f"{gone} of {len(rows)} listed videos have no features and are left out" if gone else "",
    )


def read_thumos(path: Path, split: str) -> Annotated:
    """``annotation/<Class>_val.txt`` and ``<Class>_test.txt`` with ``features/<video>.npy`` or ``.csv``.

    The validation videos are for training, as in all work on it: ``train`` reads ``val``, and ``val`` reads ``test``. A
    snippet has 5 frames of 30 per second. Spans of ``Ambiguous_<split>.txt`` are neither right nor wrong.
    """
    kind = "val" if split == "train" else "test"
    folders = [path / name for name in ("annotation", "annotations", "")]
    folder = next((each for each in folders if any(each.glob(f"*_{kind}.txt"))), None)
    if folder is None:
        raise VergenceError(f"{path} has no annotation/<Class>_{kind}.txt: expected THUMOS-14's annotations")
    by_video: dict[str, list[tuple[str, float, float]]] = {}
    for file in sorted(folder.glob(f"*_{kind}.txt")):
        for name, start, end in _thumos_lines(file):
            by_video.setdefault(name, []).append((file.name.removesuffix(f"_{kind}.txt"), start, end))
    files = _Listed(path)
    found = {name: own for name in sorted(by_video) if (own := files.of(name))}
    if not found:
        raise VergenceError(f"{path} has features of none of the {len(by_video)} videos that {folder} lists")
    features = _Files(tuple(found.values()), RATE / FRAMES)
    durations = tuple(len(rows) * FRAMES / RATE for rows in features)
    # Annotations may go on a little after the last snippet.
    inside = [
        [row for row in by_video[name] if row[1] < duration] for name, duration in zip(found, durations, strict=True)
    ]

    def spans(unclear: bool) -> tuple[Tensor, ...]:
        return tuple(
            checked_spans([row[1:] for row in rows if (row[0] == UNCLEAR) == unclear], duration, f"{name} of {folder}")
            for name, rows, duration in zip(found, inside, durations, strict=True)
        )

    labels = tuple(tuple(row[0] for row in rows if row[0] != UNCLEAR) for rows in inside)
    gone = len(by_video) - len(found)
    note = f"{gone} of {len(by_video)} listed videos have no features and are left out" if gone else ""
    return Annotated(tuple(found), durations, spans(False), labels, features, spans(True), note)


def _thumos_lines(file: Path) -> Iterator[tuple[str, float, float]]:
    lines = read_text(file).splitlines()
    if not any(map(str.strip, lines)):
        raise VergenceError(f"{file} is empty: expected lines of a video with its start and end")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        words = line.split()
        if len(words) != 3 or not all(map(_is_number, words[1:])):
            raise VergenceError(f"line {number} of {file} is not a video with its start and end: {line[:60]!r}")
        yield words[0], float(words[1]), float(words[2])


def read_folder(path: Path, split: str, rate: float = 7.5) -> Annotated:
    """``annotations.json`` as ActivityNet's, with ``features/<video>.npy`` or ``.csv``, or ``videos/<video>.mp4``.
    If it names no subset for validation and test, every fourth video is kept for both."""
    listed = path / "annotations.json"
    if not listed.is_file():
        raise VergenceError(
            f"{path} has no annotations.json: expected {{'database': {{video: {{'duration', 'annotations'}}}}}}"
        )
    content = read_json(listed)
    database = content.get("database", content) if isinstance(content, dict) else None
    if not isinstance(database, dict) or not database:
        raise VergenceError(f"{listed} holds no videos: expected {{'database': {{video: ...}}}}")
    rows = [_entry(listed, name, entry) for name, entry in sorted(database.items())]
    if {row[1] for row in rows} <= {"training", "train"} and len(rows) > 1:
        kept = rows[3::4] or rows[1:2]
        rows = kept if split != "train" else [row for row in rows if row not in kept]
    else:
        rows = [row for row in rows if row[1] in _SUBSETS[split]]
    return _collected(path, listed, split, rows, rate)


def layouts(rate: float) -> dict[str, Layout]:
    """All layouts; ``rate`` snippets per second where features are computed from videos."""
    readers: dict[str, tuple[Callable[..., Annotated], str]] = {
        "activitynet": (partial(read_activitynet, rate=rate), f"{ANNOTATIONS[0]} and features/v_<id>.csv or .npy"),
        "thumos14": (read_thumos, "annotation/<Class>_{val,test}.txt and features/<video>.npy or .csv"),
        "folder": (partial(read_folder, rate=rate), "annotations.json and features/<video>.npy or videos/<video>.mp4"),
    }
    return {name: Layout(read, about) for name, (read, about) in readers.items()}


LAYOUTS = layouts(7.5)
