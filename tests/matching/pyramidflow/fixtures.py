"""Small data sets in the public layouts, written from their published names with NumPy and Pillow alone."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

HEIGHT, WIDTH, SHIFT = 48, 64, (3, -2)
"""Everything moves by three pixels to the right and two up."""


def frames(count, height=HEIGHT, width=WIDTH, shift=SHIFT):
    """Pictures of a textured plane in motion."""
    texture = np.random.default_rng(1).normal(size=(height + 60, width + 60, 3))
    texture = gaussian_filter(texture, (1.5, 1.5, 0))
    texture = ((texture - texture.min()) / np.ptp(texture) * 255).astype(np.uint8)
    for n in range(count):
        y, x = 30 - n * shift[1], 30 - n * shift[0]
        yield Image.fromarray(texture[y : y + height, x : x + width])


def flo(path, u, v, height=HEIGHT, width=WIDTH):
    values = np.empty((height, width, 2), "<f4")
    values[..., 0], values[..., 1] = u, v
    path.write_bytes(struct.pack("<fii", 202021.25, width, height) + values.tobytes())


def png16(path, u, v, valid=None):
    values = np.empty((HEIGHT, WIDTH, 3), ">u2")
    values[..., 0], values[..., 1] = u * 64 + 2**15, v * 64 + 2**15
    values[..., 2] = 1 if valid is None else valid
    raw = b"".join(b"\0" + row.tobytes() for row in values)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    )


def _save(folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in zip(names, frames(len(names)), strict=True):
        picture.save(folder / name)


def chairs2(path):
    for split in ("train", "val"):
        folder = path / "FlyingChairs2" / split
        _save(folder, ["0000000-img_0.png", "0000000-img_1.png"])
        flo(folder / "0000000-flow_01.flo", *SHIFT)
        flo(folder / "0000000-flow_10.flo", *(-s for s in SHIFT))
        Image.fromarray(np.zeros((HEIGHT, WIDTH), np.uint8)).save(folder / "0000000-occ_01.png")


def things(path):
    for split in ("train", "val"):
        folder = path / "FlyingThings3D_subset" / split
        _save(folder / "image_clean" / "left", ["0000000.png", "0000001.png"])
        for way, name, sign in (("into_future", "0000000", 1), ("into_past", "0000001", -1)):
            (folder / "flow" / "left" / way).mkdir(parents=True)
            flo(folder / "flow" / "left" / way / f"{name}.flo", *(sign * s for s in SHIFT))


def sintel(path):
    for sequence in ("alley_1", "market_2"):
        _save(path / "training" / "final" / sequence, ["frame_0001.png", "frame_0002.png"])
        (path / "training" / "flow" / sequence).mkdir(parents=True)
        (path / "training" / "occlusions" / sequence).mkdir(parents=True)
        flo(path / "training" / "flow" / sequence / "frame_0001.flo", *SHIFT)
        hidden = Image.fromarray(np.zeros((HEIGHT, WIDTH), np.uint8))
        hidden.save(path / "training" / "occlusions" / sequence / "frame_0001.png")


def _kitti(root, images):
    _save(root / "training" / images, ["000000_10.png", "000000_11.png"])
    for kind in ("flow_occ", "flow_noc"):
        (root / "training" / kind).mkdir()
        sparse = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) % (2 if kind == "flow_occ" else 4) == 0
        png16(root / "training" / kind / "000000_10.png", *SHIFT, sparse)


def kitti_2015(path):
    _kitti(path, "image_2")


def kitti_both(path):
    _kitti(path / "2012", "colored_0")
    _kitti(path / "2015", "image_2")


def middlebury(path):
    _save(path / "other-data" / "Dimetrodon", ["frame10.png", "frame11.png"])
    (path / "other-gt-flow" / "Dimetrodon").mkdir(parents=True)
    flo(path / "other-gt-flow" / "Dimetrodon" / "flow10.flo", *SHIFT)


def flat(path):
    _save(path, ["a2.png", "a10.png"])
    flo(path / "a2.flo", *SHIFT)


def parted(path):
    for split in ("train", "test"):
        flat(path / split)


layouts = {
    "folder": {"flat": flat, "parted": parted},
    "chairs2": chairs2,
    "things": things,
    "sintel": sintel,
    "kitti": {"2015": kitti_2015, "both": kitti_both},
    "middlebury": middlebury,
}


def prediction(folder):
    for name, picture in zip(("one.png", "two.png"), frames(2), strict=True):
        picture.save(folder / name)
    return ["one.png", "two.png"]
