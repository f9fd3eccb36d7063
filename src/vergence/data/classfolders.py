"""Class folders, ``PATH/<split>/<class>/<file>``, of images, videos or any other files.

Flat ones, ``PATH/<class>/<file>``, are split by :func:`split_of`: a file stays in its split when others come or go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vergence.core.errors import Several, VergenceError

SEED = 0
SHARES = {"train": 0.7, "val": 0.15, "test": 0.15}
RULE = (
    "there are no folders train, val and test, so files are split by a hash of their names "
    f"({', '.join(f'{split} {share:.0%}' for split, share in SHARES.items())}; seed {SEED})"
)


class ClassFiles(NamedTuple):
    """Files with their labels, and the class names that the labels index."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]
    note: str = ""
    """How the files were split, if they came in one piece."""
    split: str = ""
    """The folder that the split was read from."""


def split_of(name: str) -> str:
    """The split of a file of flat class folders: a hash of its name and :data:`SEED`, as a number from 0 to 1, against
    :data:`SHARES`."""
    position = int.from_bytes(hashlib.sha256(f"{SEED}/{name}".encode(errors="surrogateescape")).digest()[:8]) / 2**64
    below = 0.0
    for split, share in SHARES.items():
        below += share
        if position < below:
            return split
    return "test"


def class_files(
    path: Path, split: str, stands_in: Mapping[str, Sequence[str]], find: Callable[[Path], Sequence[Path]], what: str
) -> ClassFiles:
    """The files that ``find`` returns for each class folder of a split; ``what`` names them in errors (``picture``).

    ``stands_in`` lists the folders that a split may be in; the first that exists is used.
    """
    folder = next((path / name for name in stands_in[split] if (path / name).is_dir()), None)
    if folder is None and not any((path / name).is_dir() for names in stands_in.values() for name in names):
        return _flat(path, split, find, what)
    if folder is None:
        raise VergenceError(f"{path} has no folder {split!r}: expected {path.name}/{split}/<class>/<{what}>")
    # Classes are those of the training folder, so that every split numbers them in the same way.
    training = path / "train"
    classes = sorted(p.name for p in (training if training.is_dir() else folder).iterdir() if p.is_dir())
    if not classes:
        raise VergenceError(f"{folder} has no class folders: expected {folder.name}/<class>/<{what}>")
    unknown = sorted(p.name for p in folder.iterdir() if p.is_dir() and p.name not in classes)
    if unknown:
        raise VergenceError(f"{folder} has the class {unknown[0]!r}, which {training} does not have")
    files = {name: find(folder / name) for name in classes}
    empty = [f"{folder / name} holds no {what}s" for name, found in files.items() if not found]
    if empty and split == "train":
        raise Several(empty)
    pairs = [(file, label) for label, name in enumerate(classes) for file in files[name]]
    if not pairs:
        raise VergenceError(f"{folder} holds no {what}s")
    labels = tuple(label for _, label in pairs)
    return ClassFiles(tuple(f for f, _ in pairs), labels, tuple(classes), split=folder.name)


def _flat(path: Path, split: str, find: Callable[[Path], Sequence[Path]], what: str) -> ClassFiles:
    """The files of one split of flat class folders; a class without any is an error in training."""
    folders = sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    files = {f.name: found for f in folders if (found := [file for file in find(f) if file.parent == f])}
    if not files:
        raise VergenceError(
            f"{path} has no folder {split!r}: expected {path.name}/{split}/<class>/<{what}> or "
            f"{path.name}/<class>/<{what}>"
        )
    classes = tuple(files)
    chosen = {name: [file for file in found if split_of(file.name) == split] for name, found in files.items()}
    empty = [f"{path / name} has no {what}s for {split!r}: {RULE}" for name in classes if not chosen[name]]
    if empty and (split == "train" or len(empty) == len(classes)):
        raise Several(empty)
    pairs = [(file, label) for label, name in enumerate(classes) for file in chosen[name]]
    return ClassFiles(tuple(f for f, _ in pairs), tuple(label for _, label in pairs), classes, RULE)
