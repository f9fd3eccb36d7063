"""Folders of people's pictures without identities, for methods that need none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.images import find_images
from vergence.metrics.ranking import JUNK
from vergence.reid.data import LAYOUTS, Shot, Shots

CAMERA = 0
"""The camera of pictures that do not tell theirs."""
LEAST = 4
"""The smallest number of pictures that clusters are sought in."""


@dataclass(frozen=True)
class Unlabelled(Shots):
    """Pictures of unknown people: all of them for training and again in the test, where nothing can be ranked."""

    note: str = ""


def has_identities(data: object) -> bool:
    """Whether any picture of some data has an identity."""
    return any(identity != JUNK for identity in getattr(data, "identities", ()))


def read_unlabelled(path: Path, split: str, note: str = "") -> Unlabelled:
    """Every picture below a folder, whatever its name."""
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder: expected pictures of people, with any names")
    files = find_images(path)
    if len(files) < LEAST:
        raise VergenceError(f"{path} holds {len(files)} pictures: expected at least {LEAST} to find clusters in")
    return Unlabelled(tuple(Shot(file, JUNK, CAMERA) for file in files), note=note)


def read_either(path: Path, split: str) -> Shots:
    """A plain folder: with identities where names are like ID_CAMERA_anything.jpg, or every picture without."""
    known = LAYOUTS["folder"].read
    parts = any((path / name).is_dir() for name in ("train", "query", "gallery"))
    if parts or not path.is_dir():
        shots: Shots = known(path, split)
        return shots
    try:
        shots = known(path, split)
    except VergenceError as why:
        if "names are not like" not in str(why) and "holds no pictures" not in str(why):
            raise
        return read_unlabelled(path, split, f"{path} is read without identities: {why}")
    return shots


UNLABELLED = {
    **LAYOUTS,
    "folder": Layout(
        read_either, "folders train, query and gallery (or one) with ID_CAMERA_anything.jpg, or any names"
    ),
    "unlabelled": Layout(read_unlabelled, "a folder of pictures of people with any names, no identities"),
}
"""The layouts of the room, and folders without identities."""
