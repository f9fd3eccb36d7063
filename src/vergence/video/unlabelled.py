"""Readers of videos without labels: all videos below a folder, in any arrangement."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.video import SUFFIXES, is_video
from vergence.video.data import Labelled
from vergence.video.layouts import FOLDED, LAYOUTS, read_class_folders

HELD_OUT = 10
"""One of so many videos is held out for validation and test."""


def read_unlabelled(path: Path, split: str) -> Labelled:
    """All video files and folders of frames below ``PATH``; every tenth of them in the order of their names is kept for
    validation and test. A folder ``PATH/<split>`` is used if there is one for each."""
    own = path / ("train" if split == "train" else "test")
    apart = all((path / name).is_dir() for name in ("train", "test"))
    videos = _below(own if apart else path)
    if not videos:
        raise VergenceError(
            f"{own if apart else path} holds no video: expected files named {', '.join(sorted(SUFFIXES))}"
        )
    if not apart and len(videos) > 1:
        held = videos[HELD_OUT - 1 :: HELD_OUT] or videos[-1:]
        videos = held if split != "train" else [video for video in videos if video not in set(held)]
    note = "" if apart else f"one of {HELD_OUT} videos is held out"
    return Labelled(tuple(videos), (0,) * len(videos), (), note=note)


def _below(folder: Path) -> list[Path]:
    """Video files below a folder, and folders that hold pictures and no video."""
    if not folder.is_dir():
        raise VergenceError(f"{folder} is no folder of videos")
    videos = []
    for place, folders, files in os.walk(folder):
        folders.sort()
        own = [Path(place, name) for name in sorted(files) if Path(name).suffix.lower() in SUFFIXES]
        videos += own or ([Path(place)] if is_video(Path(place)) else [])
    return videos


def read_any(path: Path, split: str) -> Labelled:
    """Class folders of videos; or videos without labels, if there are any in the folder itself."""
    children = sorted(path.iterdir()) if path.is_dir() else []
    return read_unlabelled(path, split) if any(map(is_video, children)) else read_class_folders(path, split)


UNLABELLED = LAYOUTS | {
    "folder": Layout(read_any, "folders train/<class>/<video>, <class>/<video>, or videos without labels"),
    "unlabelled": Layout(read_unlabelled, "videos anywhere below a folder"),
}


def unlabelled(fold: int) -> dict[str, Layout]:
    """All layouts, with split ``fold`` of the data sets that have three."""
    return UNLABELLED | {name: replace(LAYOUTS[name], read=partial(read, fold=fold)) for name, read in FOLDED.items()}
