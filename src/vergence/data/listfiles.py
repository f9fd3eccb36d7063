"""List files, ``NAME_train.list`` and ``NAME_val.list``: one line ``relative/path.jpg,label`` per file, labels from 0.

Paths are relative to the folder of the lists, or to the folder ``images`` in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vergence.contract.data import Missing
from vergence.core.errors import Several, VergenceError
from vergence.data.classfolders import ClassFiles
from vergence.data.layouts import left_out
from vergence.reading.files import read_text

MOST = 1_000_000
"""Upper bound of labels."""


class _Line(NamedTuple):
    name: str
    label: int


def listed_files(
    path: Path, split: str, stands_in: Mapping[str, Sequence[str]], missing: Missing = "refuse"
) -> tuple[ClassFiles, tuple[str, ...]]:
    """The files that the list of a split names, and one sentence for each that is missing.

    ``stands_in`` has the endings that the list of a split may have (``val``: ``NAME_val.list``); the first that exists
    is used. The training list decides how many classes there are; a class is called by its folder if all its
    training files are in one, which holds no others.
    """
    source, ending = _list(path, split, stands_in)
    lines = _lines(source)
    training = lines if ending == "train" else _lines(_list(path, "train", stands_in)[0])
    classes = _classes(training)
    unknown = next((line for line in lines if line.label >= len(classes)), None)
    if unknown is not None:
        raise VergenceError(
            f"{source} gives {unknown.name} the label {unknown.label}, but the training "
            f"list has 0 to {len(classes) - 1}"
        )
    absent = set(range(len(classes))) - {line.label for line in training}
    if absent:
        raise Several([f"the label {label} has no files in the training list of {path}" for label in sorted(absent)])
    root = path / "images" if (path / "images").is_dir() and not (path / lines[0].name).exists() else path
    there = _there(root, lines)
    gone = [f"{root / line.name} does not exist, but {source} lists it" for line in lines if line.name not in there]
    skipped = left_out(gone, missing)
    kept = [line for line in lines if line.name in there]
    if not kept:
        raise VergenceError(f"{root} has none of the files that {source} lists")
    paths, labels = tuple(root / line.name for line in kept), tuple(line.label for line in kept)
    return ClassFiles(paths, labels, classes, split=ending), skipped


def _list(path: Path, split: str, stands_in: Mapping[str, Sequence[str]]) -> tuple[Path, str]:
    """The list of a split, and its ending."""
    for ending in stands_in[split]:
        lists = sorted(path.glob(f"*_{ending}.list"))
        if len(lists) > 1:
            raise VergenceError(f"{path} has several lists for {split!r}: {', '.join(p.name for p in lists)}")
        if lists:
            return lists[0], ending
    raise VergenceError(f"{path} has no list for {split!r}: expected a file NAME_{stands_in[split][0]}.list")


def _lines(path: Path) -> list[_Line]:
    lines = []
    for number, text in enumerate(read_text(path).splitlines(), 1):
        name, comma, label = text.strip().rpartition(",")
        inside = PurePosixPath(name)
        # isdecimal alone would let through digits of other scripts, which int() reads too.
        if not (comma and label.isascii() and label.isdecimal() and len(label) < 8 and int(label) < MOST):
            raise VergenceError(f"line {number} of {path} is not a file and its label, from 0 on: {text[:60]!r}")
        if not name or inside.is_absolute() or ".." in inside.parts or "\0" in name:
            raise VergenceError(f"line {number} of {path} names no file below the folder of the list: {text[:60]!r}")
        lines.append(_Line(str(inside), int(label)))
    if not lines:
        raise VergenceError(f"{path} is empty")
    return lines


def _classes(lines: Sequence[_Line]) -> tuple[str, ...]:
    """Names of classes: their folders where folders and labels are one to one, else numbers."""
    folders: dict[int, set[str]] = {}
    for line in lines:
        folders.setdefault(line.label, set()).add(os.path.dirname(line.name))
    names = {label: next(iter(some)) for label, some in folders.items() if len(some) == 1}
    last = {label: os.path.basename(name) for label, name in names.items()}
    own = len(names) == len(folders) == len(set(last.values())) and all(last.values())
    return tuple(last.get(label, str(label)) if own else str(label) for label in range(max(folders) + 1))


def _there(root: Path, lines: Sequence[_Line]) -> set[str]:
    """The listed files that exist. Every folder is listed once: data sets have a million files in a thousand."""
    there: set[str] = set()
    for folder in {os.path.dirname(line.name) for line in lines}:
        try:
            with os.scandir(root / folder) as entries:
                there.update(os.path.join(folder, entry.name) for entry in entries if entry.is_file())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise VergenceError(f"{root / folder} cannot be read: {error.strerror}") from error
    return there
