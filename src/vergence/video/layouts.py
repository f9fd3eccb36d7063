"""Readers of labelled videos as published: Kinetics, Something-Something V2, UCF-101, HMDB-51, and class folders of
videos or of folders of frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError, reason
from vergence.data.classfolders import class_files
from vergence.data.video import SUFFIXES, is_video
from vergence.reading.files import read_text
from vergence.reading.tables import read_json, read_records, read_rows
from vergence.video.data import Labelled

# Class folders -------------------------------------------------------------------------------------------------------

STANDS_IN = {"train": ("train",), "val": ("val", "validation", "validate", "test"),
             "test": ("test", "val", "validation", "validate")}  # fmt: skip


def _checked(read: Callable[..., Labelled]) -> Callable[..., Labelled]:
    """Wraps a reader: failures of the disk become one-sentence errors, and an empty result is an error."""

    def safe(path: Path, *rest: Any, **named: Any) -> Labelled:
        try:
            videos = read(path, *rest, **named)
        except (OSError, UnicodeError) as error:
            name = getattr(error, "filename", None) or path
            raise VergenceError(
                f"{name} cannot be read: {getattr(error, 'strerror', None) or reason(error)}"
            ) from error
        if not len(videos):
            raise VergenceError(f"{videos.listed or path} names no videos")
        return videos

    return safe


@_checked
def read_class_folders(path: Path, split: str) -> Labelled:
    """``PATH/<split>/<class>/`` with video files or folders of frames, or ``PATH/<class>/``, split by their names."""
    found = class_files(path, split, STANDS_IN, _videos, "video")
    return Labelled(found.paths, found.labels, found.classes, note=found.note, split=found.split)


def _videos(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if is_video(p)) if folder.is_dir() else []


def _by_stem(folder: Path) -> dict[str, Path]:
    """All video files and folders of frames below a folder, by name without suffix."""
    by_stem: dict[str, Path] = {}
    for place, folders, files in os.walk(folder):
        for name in files:
            stem, suffix = os.path.splitext(name)
            if suffix.lower() in SUFFIXES:
                by_stem[stem] = Path(place, name)
        for name in folders:
            by_stem.setdefault(name, Path(place, name))
    return by_stem


# Kinetics ------------------------------------------------------------------------------------------------------------


@_checked
def read_kinetics(path: Path, split: str) -> Labelled:
    """Annotations (``label,youtube_id,time_start,time_end,split``), lists (``path label``), or class folders."""
    names = [f"{folder}{name}.csv" for name in STANDS_IN[split] for folder in ("", "annotations/")]
    listed = next((path / name for name in names if (path / name).is_file()), None)
    if listed is None:
        if any((path / name).is_dir() for name in STANDS_IN[split]):
            return read_class_folders(path, split)
        raise VergenceError(f"{path} has neither {names[0]} nor a folder {split!r}: expected Kinetics")
    with listed.open(newline="", encoding="utf-8") as file:
        first = file.readline()
    return _annotated(path, listed, split) if "youtube_id" in first else _listed(path, listed)


def _annotated(path: Path, listed: Path, split: str) -> Labelled:
    rows = _rows(listed)
    training = next((p for p in (path / "train.csv", path / "annotations" / "train.csv") if p.is_file()), listed)
    classes = sorted({row["label"] for row in (rows if training == listed else _rows(training))})
    numbers = {name: number for number, name in enumerate(classes)}
    folder = next((path / name for name in STANDS_IN[split] if (path / name).is_dir()), path)
    files = _by_stem(folder)
    paths, labels = [], []
    for line, row in enumerate(rows, 2):
        if row["label"] not in numbers:
            raise VergenceError(f"line {line} of {listed} has the class {row['label']!r}, which is not in {training}")
        stem = f"{row['youtube_id']}_{_whole(row['time_start'], listed, line):06d}"
        stem = f"{stem}_{_whole(row['time_end'], listed, line):06d}"
        file = files.get(stem) or files.get(row["youtube_id"]) or folder / row["label"] / f"{stem}.mp4"
        paths.append(file)
        labels.append(numbers[row["label"]])
    return Labelled(tuple(paths), tuple(labels), tuple(classes), listed)


def _rows(listed: Path) -> list[dict[str, str]]:
    wanted = ("label", "youtube_id", "time_start", "time_end")
    return read_records(listed, wanted, f"a list of clips with the columns {','.join(wanted)},split")


def _whole(text: str, listed: Path, line: int) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise VergenceError(f"line {line} of {listed} has {text!r} where a number was expected") from None


def _listed(path: Path, listed: Path) -> Labelled:
    """Lines of a path and a class number, as in SlowFast and TimeSformer."""
    paths, labels = [], []
    for line, text in _lines(listed):
        name, label = _last_word(text, listed, line, "a path and a class number")
        paths.append(path / name)
        labels.append(label)
    names = next((p for p in (path / "kinetics_400_labels.csv", path / "labels.csv") if p.is_file()), None)
    classes = _class_names(names) if names else tuple(map(str, range(max(labels, default=0) + 1)))
    training = path / "train.csv"
    if names is None and training.is_file() and training != listed:  # the training list has all classes
        names, classes = training, _listed(path, training).classes
    if labels and max(labels) >= len(classes):
        raise VergenceError(f"{listed} has the class {max(labels)}, but {names} has {len(classes)} classes")
    return Labelled(tuple(paths), tuple(labels), classes, listed)


def _class_names(path: Path) -> tuple[str, ...]:
    """Class names from lines ``id,name`` below a heading."""
    rows = read_rows(path)[1:]
    if not rows or any(len(row) < 2 or row[0] != str(i) for i, row in enumerate(rows)):
        raise VergenceError(f"{path} does not name the classes: expected a heading and lines of number,name from 0 on")
    return tuple(row[1] for row in rows)


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    """The non-empty lines of a text file, with their numbers."""
    text = read_text(path)
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise VergenceError(f"{path} is empty")
    return lines


def _last_word(text: str, listed: Path, line: int, expected: str) -> tuple[str, int]:
    separator = " " if " " in text else ","
    name, _, number = text.rpartition(separator)
    if not name or not number.strip().isdecimal():
        raise VergenceError(f"line {line} of {listed} is not {expected}: {text[:80]!r}")
    return name.strip(), int(number)


# Something-Something V2 ----------------------------------------------------------------------------------------------


@_checked
def read_something(path: Path, split: str) -> Labelled:
    """The json annotations and ``20bn-something-something-v2/<id>.webm``. The labels of the test split are not public:
    ``test`` is ``validation``."""
    files = {kind: _something_file(path, kind) for kind in ("labels", "train" if split == "train" else "validation")}
    labels, listed = files.values()
    numbers = read_json(labels)
    if not isinstance(numbers, dict) or sorted(str(v) for v in numbers.values()) != sorted(
        map(str, range(len(numbers)))
    ):
        raise VergenceError(f"{labels} does not number the classes from 0 on: expected {{template: number}}")
    entries = read_json(listed)
    if not isinstance(entries, list):
        raise VergenceError(f"{listed} is not a list of videos")
    folder = path / "20bn-something-something-v2"
    files_by_stem = _by_stem(folder if folder.is_dir() else path)
    paths, targets = [], []
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not {"id", "template"} <= entry.keys():
            raise VergenceError(f"entry {number} of {listed} has no 'id' and 'template'")
        template = str(entry["template"]).replace("[", "").replace("]", "")
        if template not in numbers:
            raise VergenceError(f"entry {number} of {listed} has the class {template!r}, which is not in {labels}")
        name = str(entry["id"])
        paths.append(files_by_stem.get(name, folder / f"{name}.webm"))
        targets.append(int(numbers[template]))
    classes = tuple(sorted(numbers, key=lambda name: int(numbers[name])))
    return Labelled(tuple(paths), tuple(targets), classes, listed)


def _something_file(path: Path, kind: str) -> Path:
    names = [f"{folder}{prefix}{kind}.json" for folder in ("", "labels/", "annotations/")
             for prefix in ("something-something-v2-", "")]  # fmt: skip
    found = next((path / name for name in names if (path / name).is_file()), None)
    if found is None:
        raise VergenceError(f"{path} has no {names[0]}: expected Something-Something V2")
    return found


# UCF-101 and HMDB-51 -------------------------------------------------------------------------------------------------


@_checked
def read_ucf101(path: Path, split: str, fold: int = 1) -> Labelled:
    """``UCF-101/<Class>/*.avi`` with ``ucfTrainTestlist/``; there is no validation split, ``val`` is ``test``."""
    lists = _folder(path, ("ucfTrainTestlist",), "UCF-101")
    videos = next((path / name for name in ("UCF-101", "UCF101", "videos") if (path / name).is_dir()), path)
    numbers: dict[str, int] = {}
    for line, text in _lines(_file(lists / "classInd.txt")):
        number, _, name = text.partition(" ")
        if not number.isdecimal() or not name or int(number) != line:
            raise VergenceError(f"line {line} of {lists / 'classInd.txt'} is not a number and a class: {text[:80]!r}")
        numbers[name] = line - 1
    listed = _file(lists / f"{'train' if split == 'train' else 'test'}list{fold:02d}.txt")
    paths, labels = [], []
    for line, text in _lines(listed):
        name = _last_word(text, listed, line, "a video and a class number")[0] if split == "train" else text
        klass = name.partition("/")[0]
        if klass not in numbers:
            raise VergenceError(f"line {line} of {listed} has the class {klass!r}, which is not in classInd.txt")
        paths.append(_or_frames(videos / name))
        labels.append(numbers[klass])
    return Labelled(tuple(paths), tuple(labels), tuple(numbers), listed)


@_checked
def read_hmdb51(path: Path, split: str, fold: int = 1) -> Labelled:
    """``hmdb51_org/<class>/*.avi`` with ``testTrainMulti_7030_splits/<class>_test_split<fold>.txt``; there is no
    validation split, ``val`` is ``test``."""
    lists = _folder(path, ("testTrainMulti_7030_splits", "test_train_splits"), "HMDB-51")
    videos = next((path / name for name in ("hmdb51_org", "hmdb51", "videos") if (path / name).is_dir()), path)
    ending = f"_test_split{fold}.txt"
    classes = sorted(p.name.removesuffix(ending) for p in lists.iterdir() if p.name.endswith(ending))
    if not classes:
        raise VergenceError(f"{lists} has no <class>{ending}")
    paths, labels = [], []
    for label, name in enumerate(classes):
        listed = lists / f"{name}{ending}"
        uses = {}
        for line, text in _lines(listed):
            video, use = _last_word(text, listed, line, "a video and 0, 1 or 2")
            uses[video] = use
        for file in _videos(videos / name):
            if f"{file.stem}.avi" not in uses:  # each list has every video of its class, so this one is truncated
                raise VergenceError(f"{listed} does not list {file}")
        wanted = 1 if split == "train" else 2
        for video in (video for video, use in uses.items() if use == wanted):
            paths.append(_or_frames(videos / name / video))
            labels.append(label)
    return Labelled(tuple(paths), tuple(labels), tuple(classes), lists)


def _folder(path: Path, names: Sequence[str], what: str) -> Path:
    found = next((path / name for name in names if (path / name).is_dir()), None)
    if found is None:
        raise VergenceError(f"{path} has no folder {names[0]}: expected {what}")
    return found


def _file(path: Path) -> Path:
    if not path.is_file():
        raise VergenceError(f"{path} does not exist")
    return path


def _or_frames(path: Path) -> Path:
    """A video file, or the folder of its frames if only that exists."""
    return path.with_suffix("") if not path.exists() and path.with_suffix("").is_dir() else path


FOLDED: dict[str, Callable[..., Labelled]] = {"ucf101": read_ucf101, "hmdb51": read_hmdb51}
"""Data sets with three splits."""

LAYOUTS = {
    "kinetics": Layout(read_kinetics, "train.csv and val.csv with train/ and val/, or train/<class>/<video>"),
    "something": Layout(read_something, "something-something-v2-*.json and 20bn-something-something-v2/<id>.webm"),
    "ucf101": Layout(partial(read_ucf101, fold=1), "UCF-101/<Class>/*.avi and ucfTrainTestlist/*.txt"),
    "hmdb51": Layout(partial(read_hmdb51, fold=1), "hmdb51_org/<class>/*.avi and testTrainMulti_7030_splits/*.txt"),
    "folder": Layout(read_class_folders, "folders train/<class>/<video> and val/<class>/<video>, or <class>/<video>"),
}


def folded(fold: int) -> dict[str, Layout]:
    """All layouts, with split ``fold`` of the data sets that have three."""
    return LAYOUTS | {name: replace(LAYOUTS[name], read=partial(read, fold=fold)) for name, read in FOLDED.items()}
