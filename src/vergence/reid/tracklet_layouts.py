"""Readers of tracklets: MARS, iLIDS-VID, PRID-2011, and plain folders.

As with pictures (:mod:`vergence.reid.data`), training identities are not in the test and count from 0; a test set is
one list, the queries first and then the gallery; ``val`` is ``test``.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vergence.contract.data import Layout, Missing
from vergence.core.errors import VergenceError, reason
from vergence.data.images import SUFFIXES
from vergence.data.layouts import left_out
from vergence.metrics.ranking import JUNK
from vergence.reading import matlab
from vergence.reading.tables import read_json
from vergence.reid.tracklets import Tracklet, Tracklets

# Reading -------------------------------------------------------------------------------------------------------------


def read_mat(path: Path, name: str) -> Any:
    """A table of integers, at least (1, 1), from a MATLAB file of version 5 to 7.2; no code in the file is executed."""
    tables = matlab.read_mat(path, (name,))
    if name not in tables:
        raise VergenceError(f"{path} has no table {name!r}")
    table = np.asarray(tables[name])
    if table.dtype.kind not in "iuf" or table.ndim != 2 or not table.size or not np.equal(np.mod(table, 1), 0).all():
        raise VergenceError(f"{path} has a {name!r} that is not a table of whole numbers: {table.dtype} {table.shape}")
    return table.astype(np.int64)


def _pictures(folder: Path) -> tuple[str, ...]:
    """Sorted names of a folder's pictures; empty if there is no folder."""
    if not folder.is_dir():
        return ()
    return tuple(sorted(name for name in os.listdir(folder) if os.path.splitext(name)[1].lower() in SUFFIXES))


def _relabelled(tracklets: Sequence[Tracklet]) -> tuple[Tracklet, ...]:
    labels = {identity: label for label, identity in enumerate(sorted({t.identity for t in tracklets}))}
    return tuple(t._replace(identity=labels[t.identity]) for t in tracklets)


def _checked(read: Callable[..., Tracklets]) -> Callable[..., Tracklets]:
    """Wraps a reader: failures of the disk become one-sentence errors, and an empty result is an error."""

    def safe(path: Path, split: str, *rest: Any, **named: Any) -> Tracklets:
        if not path.is_dir():
            raise VergenceError(f"{path} is not a folder: expected {read.__doc__}")
        try:
            tracklets = read(path, split, *rest, **named)
        except (OSError, UnicodeError) as error:
            name = getattr(error, "filename", None) or path
            raise VergenceError(
                f"{name} cannot be read: {getattr(error, 'strerror', None) or reason(error)}"
            ) from error
        if not len(tracklets) or (split != "train" and not 0 < tracklets.queries < len(tracklets)):
            which = "for training" if split == "train" else "for both queries and gallery"
            raise VergenceError(f"{path} has no tracklets {which}")
        return replace(tracklets, tracklets=_relabelled(tracklets.tracklets)) if split == "train" else tracklets

    return safe


# MARS ----------------------------------------------------------------------------------------------------------------


@_checked
def read_mars(path: Path, split: str, missing: Missing = "refuse") -> Tracklets:
    """MARS: the folders bbox_train, bbox_test and info (train_name.txt, tracks_train_info.mat, query_IDX.mat, ...)"""
    # Identity -1 is junk and left out, 0 are distractors and stay in the gallery.
    part = "train" if split == "train" else "test"
    info, boxes = path / "info", path / f"bbox_{part}"
    for folder in (info, boxes):
        if not folder.is_dir():
            raise VergenceError(f"{path} has no folder {folder.name!r}: expected bbox_train, bbox_test and info")
    listed, tracked = info / f"{part}_name.txt", info / f"tracks_{part}_info.mat"
    if not listed.is_file():
        raise VergenceError(f"{listed} does not exist")
    names = listed.read_text(encoding="utf-8").split()
    table = read_mat(tracked, f"track_{part}_info")
    if table.shape[1] != 4:
        raise VergenceError(f"{tracked} has rows of {table.shape[1]} numbers: expected first, last, identity, camera")
    order, queries = list(range(len(table))), 0
    if part == "test":
        asked = read_mat(info / "query_IDX.mat", "query_IDX").ravel() - 1
        if asked.min() < 0 or asked.max() >= len(table) or len(set(asked.tolist())) < len(asked):
            raise VergenceError(f"{info / 'query_IDX.mat'} does not name tracks 1 to {len(table)}, each at most once")
        asks = set(asked.tolist())
        order = [*asked.tolist(), *(row for row in order if row not in asks)]
    there: dict[Path, set[str]] = {}
    tracklets: list[Tracklet] = []
    gone: list[str] = []
    for place, row in enumerate(order):
        tracklet = _mars_track(table[row].tolist(), row + 1, names, tracked, listed, boxes)
        if tracklet.identity == JUNK:
            continue
        if tracklet.folder not in there:  # list each folder once: there are a million pictures
            there[tracklet.folder] = set(_pictures(tracklet.folder))
        kept = tuple(name for name in tracklet.names if name in there[tracklet.folder])
        gone += [
            f"{tracklet.folder / name} does not exist, but {listed} lists it"
            for name in tracklet.names
            if name not in there[tracklet.folder]
        ]
        if kept:
            tracklets.append(tracklet._replace(names=kept))
            queries += part == "test" and place < len(asks)
    return Tracklets(tuple(tracklets), queries, left_out(gone, missing))


def _mars_track(row: list[int], number: int, names: list[str], tracked: Path, listed: Path, boxes: Path) -> Tracklet:
    """One row ``first, last, identity, camera``; the first two are line numbers of the name list, from 1."""
    first, last, identity, camera = row
    if not 1 <= first <= last <= len(names):
        raise VergenceError(
            f"track {number} of {tracked} has the pictures {first} to {last}, but {listed} names 1 to {len(names)}"
        )
    pictures = tuple(names[first - 1 : last])
    for name in pictures:
        parts = re.match(r"(\d{4}|00-1)C(\d)T\d+F\d+\.\w+$", name)
        if not parts:
            raise VergenceError(f"{name[:60]!r} of {listed} is not a name like 0001C1T0001F001.jpg")
        if (int(parts[1].lstrip("0") or 0), int(parts[2])) != (identity, camera):
            raise VergenceError(
                f"track {number} of {tracked} is identity {identity} in camera {camera}, but has the picture {name}"
            )
    return Tracklet(boxes / pictures[0][:4], pictures, identity, camera)


# iLIDS-VID and PRID-2011 ---------------------------------------------------------------------------------------------


class _Cameras(NamedTuple):
    """Two camera folders, each with one folder of frames per person."""

    folder: Path
    names: tuple[str, str]

    def people(self) -> list[str]:
        """Names of the people seen by both cameras, sorted."""
        each = [{p.name for p in (self.folder / name).iterdir() if p.is_dir()} for name in self.names]
        return sorted(each[0] & each[1])

    def tracklets(self, people: Sequence[str], split: str, listed: Path, missing: Missing) -> Tracklets:
        """Tracklets of these people; in a test the first camera has the queries and the second the gallery."""
        by_camera: tuple[list[Tracklet], list[Tracklet]] = ([], [])
        gone = []
        for identity, person in enumerate(sorted(people)):
            for camera, name in enumerate(self.names):
                folder = self.folder / name / person
                frames = _pictures(folder)
                if frames:
                    by_camera[camera].append(Tracklet(folder, frames, identity, camera))
                else:
                    trouble = "holds no pictures" if folder.is_dir() else "does not exist"
                    gone.append(f"{folder} {trouble}, but {listed} lists it")
        first, second = by_camera
        return Tracklets((*first, *second), 0 if split == "train" else len(first), left_out(gone, missing))


def _two_cameras(path: Path, folders: Sequence[str], names: tuple[str, str]) -> _Cameras:
    places = [path / folder for folder in folders]
    folder = next((place for place in places if (place / names[0]).is_dir()), places[0])
    for name in names:
        if not (folder / name).is_dir():
            raise VergenceError(f"{path} has no folder {(folder / name).relative_to(path)}")
    return _Cameras(folder, names)


def _json_split(listed: Path, split: str, fold: int) -> list[str]:
    """``[{"train": [people], "test": [people]}, ...]``."""
    splits = read_json(listed)
    if not isinstance(splits, list) or not all(isinstance(s, dict) for s in splits):
        raise VergenceError(f"{listed} is not a list of splits: expected [{{'train': [...], 'test': [...]}}, ...]")
    _check_fold(fold, len(splits), listed)
    people = splits[fold - 1].get("train" if split == "train" else "test")
    if not isinstance(people, list) or not people or not all(isinstance(p, str) for p in people):
        raise VergenceError(f"split {fold} of {listed} does not name people for {split!r}")
    if len(set(people)) < len(people):
        raise VergenceError(f"split {fold} of {listed} names someone twice for {split!r}")
    both = set(splits[fold - 1].get("train", [])) & set(splits[fold - 1].get("test", []))
    if both:
        raise VergenceError(f"split {fold} of {listed} has {min(both)!r} in both train and test")
    return people


def _check_fold(fold: int, folds: int, listed: Path) -> None:
    if not 1 <= fold <= folds:
        raise VergenceError(f"{listed} has splits 1 to {folds}, got {fold}")


@_checked
def read_ilidsvid(path: Path, split: str, fold: int = 1, missing: Missing = "refuse") -> Tracklets:
    """iLIDS-VID: i-LIDS-VID/sequences/cam1|cam2/person001/ and splits.json or train_test_splits_ilidsvid.mat"""
    cameras = _two_cameras(path, ("i-LIDS-VID/sequences", "sequences"), ("cam1", "cam2"))
    listed = path / "splits.json"
    if listed.is_file():
        return cameras.tracklets(_json_split(listed, split, fold), split, listed, missing)
    named = "train_test_splits_ilidsvid.mat"
    places = [path / folder / named for folder in ("train-test people splits", "")]
    listed = next((place for place in places if place.is_file()), places[0])
    if not listed.is_file():
        raise VergenceError(f"{path} has neither splits.json nor {listed.relative_to(path)}")
    table = read_mat(listed, "ls_set")
    _check_fold(fold, len(table), listed)
    people, row = cameras.people(), table[fold - 1]
    if sorted(row.tolist()) != list(range(1, len(people) + 1)):
        raise VergenceError(
            f"split {fold} of {listed} does not have each of the {len(people)} people of both cameras once, but "
            f"{len(row)} numbers from {row.min()} to {row.max()}"
        )
    half = len(row) // 2  # the first half is the test set (Wang et al., 2014)
    mine = row[half:] if split == "train" else row[:half]
    return cameras.tracklets([people[number - 1] for number in mine.tolist()], split, listed, missing)


FRAMES = 27
"""PRID-2011: people with more frames than this in both cameras are used."""
SHARED = 200
"""PRID-2011: people up to this number are in both cameras; beyond it the same number is somebody else."""


@_checked
def read_prid2011(path: Path, split: str, fold: int = 1, missing: Missing = "refuse") -> Tracklets:
    """PRID-2011: prid_2011/multi_shot/cam_a|cam_b/person_0001/ and, if there is one, splits_prid2011.json"""
    # Without that file, which is not part of the data set, ten random splits of the protocol's people are drawn.
    cameras = _two_cameras(path, ("prid_2011/multi_shot", "multi_shot"), ("cam_a", "cam_b"))
    listed = next((path / n for n in ("splits_prid2011.json", "splits.json") if (path / n).is_file()), None)
    if listed is not None:
        return cameras.tracklets(_json_split(listed, split, fold), split, listed, missing)
    _check_fold(fold, 10, path)
    people = [
        name
        for name in cameras.people()
        if (number := re.fullmatch(r"person_(\d+)", name))
        and int(number[1]) <= SHARED
        and all(len(_pictures(cameras.folder / camera / name)) > FRAMES for camera in cameras.names)
    ]
    if len(people) < 2:
        raise VergenceError(f"{cameras.folder} has {len(people)} people with more than {FRAMES} frames in both cameras")
    random.Random(f"prid2011 {fold}").shuffle(people)
    half = len(people) // 2
    return cameras.tracklets(people[half:] if split == "train" else people[:half], split, cameras.folder, missing)


# Plain folders -------------------------------------------------------------------------------------------------------


@_checked
def read_plain(path: Path, split: str) -> Tracklets:
    """the folders train, query and gallery, each with folders ID_CAMERA_anything of frames"""
    parts = []
    for part in ("train",) if split == "train" else ("query", "gallery"):
        if not (path / part).is_dir():
            raise VergenceError(f"{path} has no folder {part!r}: expected train, query and gallery")
        folders = sorted(p for p in (path / part).iterdir() if p.is_dir())
        parts.append([(folder, _plain_name(folder), _pictures(folder)) for folder in folders])
    left_out([f"{folder} holds no pictures" for part in parts for folder, _, frames in part if not frames], "refuse")
    numbers = {name: n for n, name in enumerate(sorted({name for part in parts for _, (name, _), _ in part}))}
    tracklets = [
        [Tracklet(folder, names, numbers[name], camera) for folder, (name, camera), names in part] for part in parts
    ]
    return Tracklets(tuple(t for part in tracklets for t in part), 0 if split == "train" else len(tracklets[0]))


def _plain_name(folder: Path) -> tuple[str, int]:
    parts = re.match(r"([^_]+)_c?(\d+)(?:_|$)", folder.name)
    if not parts:
        raise VergenceError(f"{folder} is not named like ID_CAMERA_anything")
    return parts[1], int(parts[2])


FOLDED: dict[str, Callable[..., Tracklets]] = {"ilids-vid": read_ilidsvid, "prid2011": read_prid2011}
"""Data sets with ten splits, ``read(path, split, fold=1, missing="refuse")``."""

LISTED: dict[str, Callable[..., Tracklets]] = {"mars": read_mars, **FOLDED}
"""Data sets whose lists may name missing files, ``read(path, split, missing="refuse")``."""

_ABOUT = "i-LIDS-VID/sequences/cam1|cam2/<person>/ with splits.json or train_test_splits_ilidsvid.mat"
LAYOUTS = {
    "mars": Layout(read_mars, "MARS: the folders bbox_train, bbox_test and info"),
    "ilids-vid": Layout(partial(read_ilidsvid, fold=1), f"iLIDS-VID: {_ABOUT}"),
    "prid2011": Layout(partial(read_prid2011, fold=1), "PRID-2011: prid_2011/multi_shot/cam_a|cam_b/<person>/"),
    "folder": Layout(read_plain, "folders train, query and gallery with folders ID_CAMERA_anything of frames"),
}
