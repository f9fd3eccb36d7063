"""Small data sets in the public layouts, written with NumPy, Pillow and plain bytes, and a pair to predict on."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

HEIGHT, WIDTH, SHIFT = 36, 60, 5


def pair(seed=0, height=HEIGHT, width=WIDTH, shift=SHIFT):
    """A textured pair whose points are all ``shift`` pixels farther left in the right picture."""
    noise = np.random.default_rng(seed).normal(size=(height, width + shift, 3))
    wide = gaussian_filter(noise, (1.0, 1.0, 0))
    wide = ((wide - wide.min()) / np.ptp(wide) * 255).astype(np.uint8)
    return wide[:, :width], wide[:, shift:]


def _save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def pfm(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    header = f"Pf\n{values.shape[1]} {values.shape[0]}\n-1\n".encode()
    path.write_bytes(header + values[::-1].astype("<f4").tobytes())


def png16(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = values.shape
    raw = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    )


def truth(value=float(SHIFT)):
    return np.full((HEIGHT, WIDTH), value, np.float32)


def sceneflow(path):
    scenes = ("monkaa/frames_cleanpass/a_rain_of_stones_x2", "flyingthings3d/frames_cleanpass/TRAIN/A/0000",
              "flyingthings3d/frames_cleanpass/TEST/A/0000",
              "driving/frames_cleanpass/35mm_focallength/scene_forwards/fast")  # fmt: skip
    for number, scene in enumerate(scenes):
        for side, pixels in zip(("left", "right"), pair(number), strict=True):
            _save(path / scene / side / "0006.png", pixels)
        pfm(path / scene.replace("frames_cleanpass", "disparity") / "left" / "0006.pfm", truth())


def _kitti(path, left, right, occ, noc):
    known = np.where(np.arange(WIDTH) >= SHIFT, 256 * SHIFT, 0) * np.ones((HEIGHT, 1), int)
    for number in range(2):
        for side, pixels in zip((left, right), pair(number), strict=True):
            _save(path / "training" / side / f"{number:06d}_10.png", pixels)
        png16(path / "training" / occ / f"{number:06d}_10.png", known)
        png16(path / "training" / noc / f"{number:06d}_10.png", np.where(np.arange(WIDTH) >= 20, known, 0))


def kitti2015(path):
    _kitti(path, "image_2", "image_3", "disp_occ_0", "disp_noc_0")


def kitti2012(path):
    _kitti(path, "colored_0", "colored_1", "disp_occ", "disp_noc")


def middlebury(path):
    for number, scene in enumerate(("Adirondack-perfect", "Jadeplant-perfect")):
        for name, pixels in zip(("im0", "im1"), pair(number), strict=True):
            _save(path / scene / f"{name}.png", pixels)
        pfm(path / scene / "disp0.pfm", np.where(np.arange(WIDTH) >= SHIFT, truth(), np.inf))


def parted(path):
    for split in ("train", "test"):
        for side, pixels in zip(("left", "right"), pair(), strict=True):
            _save(path / split / side / "a.png", pixels)
        pfm(path / split / "disparity" / "a.pfm", truth())


def whole(path):
    for number in range(2):
        for side, pixels in zip(("left", "right"), pair(number), strict=True):
            _save(path / side / f"{number}.png", pixels)
        (path / "disparity").mkdir(exist_ok=True)
        np.save(path / "disparity" / f"{number}.npy", truth())


layouts = {
    "sceneflow": sceneflow,
    "kitti2015": kitti2015,
    "kitti2012": kitti2012,
    "middlebury": middlebury,
    "folder": {"parted": parted, "whole": whole},
}


def prediction(folder):
    for side, pixels in zip(("left", "right"), pair(height=48, width=80), strict=True):
        _save(folder / f"{side}.png", pixels)
    return ["left.png", "right.png", "--baseline", "0.2", "--focal", "100"]
