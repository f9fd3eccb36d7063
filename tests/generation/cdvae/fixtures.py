"""Small data sets in the public layouts, written with NumPy, Pillow and SciPy alone, and a picture to predict on."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

CHAIRS = ("1028b32dc1873c2afe26a3ac360dbd4", "1031fc859dcd3ec5b9cd5ad8c3d2ab0", "ff2223a085d32243696b74614952b2d0")
YAWS = ("000", "011", "023")


def thing(seed=0, size=40, mode="RGB"):
    """A coloured block before a white ground."""
    colour = tuple(int(v) for v in np.random.default_rng(seed).integers(20, 200, 3))
    picture = Image.new(mode, (size, size), "white" if mode == "RGB" else (0, 0, 0, 0))
    ImageDraw.Draw(picture).rectangle((size // 5, size // 4, size * 3 // 4, size - 5), fill=colour)
    return picture


def _save(path, picture):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)


def chairs(path):
    for number, chair in enumerate(CHAIRS):
        index = 0
        for tilt in ("020", "030"):
            for yaw in YAWS:
                name = f"image_{index:03d}_p{tilt}_t{yaw}_r096.png"
                _save(path / "rendered_chairs" / chair / "renders" / name, thing(10 * number + index))
                index += 1


def listed_chairs(path):
    from scipy.io import savemat

    chairs(path)
    names = np.empty((1, len(CHAIRS)), object)
    names[0, :] = CHAIRS[::-1]
    savemat(path / "rendered_chairs" / "all_chair_names.mat", {"folder_names": names})


def multipie(path):
    for person in ("001", "002", "013"):
        for camera in ("110", "051", "240", "081"):
            name = f"{person}_01_01_{camera}_07.png"
            _save(path / "session01" / "multiview" / person / "01" / f"{camera[:2]}_{camera[2]}" / name, thing(3))


def views(path):
    """Flat folders, whose pictures are split by their names."""
    for view in ("0", "90", "180", "270"):
        for number in (13, 16, 17, 19, 23):  # by their hashes, 16 and 23 are for test
            _save(path / view / f"toy{number:02d}.png", thing(number))


def parted(path):
    for split in ("train", "test"):
        for view in ("left", "right"):
            for number in range(2):
                _save(path / split / view / f"toy{number}.png", thing(number))


layouts = {
    "chairs": {"plain": chairs, "listed": listed_chairs},
    "multipie": multipie,
    "folder": {"flat": views, "parted": parted},
}


def prediction(folder):
    thing(1, 60).save(folder / "toy.png")
    return ["toy.png", "--view", "90", "--between", "1"]
