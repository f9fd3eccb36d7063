"""Small sets of tracklets in the public layouts, written from their published names with NumPy, SciPy and Pillow."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
from scipy.io import savemat

from reid.picture_layouts import picture

SIZE = (8, 16)


def mars(path):
    """Tracks (identity, camera, frames): two people to train on; two asked for, junk and a distractor beside them."""
    parts = {
        "train": [(1, 1, 3), (1, 2, 2), (3, 1, 1), (3, 6, 2)],
        "test": [(-1, 1, 2), (0, 2, 2), (2, 1, 3), (2, 3, 2), (4, 2, 1), (4, 5, 4)],
    }
    (path / "info").mkdir(parents=True)
    for part, tracks in parts.items():
        names, rows = [], []
        for number, (identity, camera, frames) in enumerate(tracks, 1):
            person = "00-1" if identity < 0 else f"{identity:04d}"
            own = [f"{person}C{camera}T{number:04d}F{frame:03d}.jpg" for frame in range(1, frames + 1)]
            for seed, name in enumerate(own if identity >= 0 else ()):  # nobody reads junk
                picture(path / f"bbox_{part}" / person / name, 10 * number + seed, SIZE)
            rows.append([len(names) + 1, len(names) + frames, identity, camera])
            names += own
        (path / "info" / f"{part}_name.txt").write_text("\n".join(names) + "\n")
        savemat(path / "info" / f"tracks_{part}_info.mat", {f"track_{part}_info": np.array(rows, float)})
    savemat(path / "info" / "query_IDX.mat", {"query_IDX": np.array([[5, 3]], np.uint16)})


def ilids(path, people=4, form="json"):
    """As many frames of a person as its number; the second of two splits trains on 4 and 1."""
    for camera in ("cam1", "cam2"):
        for person in range(1, people + 1):
            for frame in range(person):
                name = f"{camera}_person{person:03d}_{frame:05d}.png"
                picture(path / "i-LIDS-VID" / "sequences" / camera / f"person{person:03d}" / name, frame, SIZE)
    if form == "json":
        first = {"train": ["person001", "person002"], "test": ["person003", "person004"]}
        second = {"train": ["person004", "person001"], "test": ["person003", "person002"]}
        (path / "splits.json").write_text(json.dumps([first, second]))
    else:
        (path / "train-test people splits").mkdir()
        file = path / "train-test people splits" / "train_test_splits_ilidsvid.mat"
        savemat(file, {"ls_set": np.array([[1, 2, 3, 4], [3, 2, 4, 1]], np.uint16)})


def prid(path, frames):
    """By camera and person the number of frames."""
    for camera, counts in frames.items():
        for person, count in counts.items():
            for frame in range(count):
                picture(path / "prid_2011/multi_shot" / camera / f"person_{person:04d}" / f"{frame:04d}.png", 0, (4, 8))


def listed_prid(path):
    prid(path, {camera: {1: 1, 2: 2, 3: 1, 4: 2} for camera in ("cam_a", "cam_b")})
    split = {"train": ["person_0002", "person_0001"], "test": ["person_0003", "person_0004"]}
    (path / "splits_prid2011.json").write_text(json.dumps([split]))


def plain(path):
    for folder in ("train/anna_1", "train/anna_c2_a", "train/bo_1", "query/cy_1", "gallery/cy_2_x", "gallery/di_1"):
        picture(path / folder / "1.jpg", 0, SIZE)


layouts = {
    "mars": mars,
    "ilids-vid": {"json": ilids, "mat": partial(ilids, form="mat")},
    "prid2011": listed_prid,
    "folder": plain,
}
