"""Class folders, ``PATH/<split>/<class>/<file>``, of images, videos or any other files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vergence.core.errors import Several, VergenceError


class ClassFiles(NamedTuple):
    """Files with their labels, and the class names that the labels index."""

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]


def class_files(
    path: Path, split: str, stands_in: Mapping[str, Sequence[str]], find: Callable[[Path], Sequence[Path]], what: str
) -> ClassFiles:
    """The files that ``find`` returns for each class folder of a split; ``what`` names them in errors (``picture``).

    ``stands_in`` lists the folders that a split may be in; the first that exists is used.
    """
    folder = next((path / name for name in stands_in[split] if (path / name).is_dir()), None)
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
    return ClassFiles(tuple(f for f, _ in pairs), tuple(label for _, label in pairs), tuple(classes))
