"""Small data sets in the published forms and photographs to predict on, written with NumPy, Pillow and plain text."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter, map_coordinates

WIDTH, HEIGHT, FOCAL = 128, 96, 140.0
K = np.array([[FOCAL, 0, 63.5], [0, FOCAL, 47.5], [0, 0, 1]])
PLANE = np.array([0.05, 0.1, 0.5])
"""n · X = 1."""


def centres(count):
    return [np.array([0.12 * i, 0.04 * i * i, 0.0]) for i in range(count)]


def views(count):
    """Cameras without rotation see a textured plane."""
    texture = gaussian_filter(np.random.default_rng(3).normal(size=(HEIGHT, WIDTH)), 1.5)
    texture = (texture - texture.min()) / np.ptp(texture)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    pixels = np.stack([columns.ravel(), rows.ravel(), np.ones(rows.size)])
    for centre in centres(count):
        H = K @ (np.eye(3) - np.outer(centre, PLANE)) @ np.linalg.inv(K)
        back = np.linalg.inv(H) @ pixels
        seen = map_coordinates(texture, (back[:2] / back[2])[::-1], order=1, mode="reflect").reshape(HEIGHT, WIDTH)
        yield Image.fromarray((seen * 255).astype(np.uint8)).convert("RGB")


def depth():
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    rays = np.stack([(columns - 63.5) / FOCAL, (rows - 47.5) / FOCAL, np.ones_like(rows)], -1)
    return 1 / (rays @ PLANE)


def cloud(path):
    rows, columns = np.mgrid[:HEIGHT:2, :WIDTH:2]
    rays = np.stack([(columns - 63.5) / FOCAL, (rows - 47.5) / FOCAL, np.ones_like(rows)], -1).reshape(-1, 3)
    points = rays / (rays @ PLANE)[:, None]
    lines = "".join(f"{x:.5f} {y:.5f} {z:.5f}\n" for x, y, z in points)
    head = f"ply\nformat ascii 1.0\nelement vertex {len(points)}\n"
    path.write_text(head + "property float x\nproperty float y\nproperty float z\nend_header\n" + lines)


def _save(folder, count):
    folder.mkdir(parents=True)
    names = [f"{i:04d}.png" for i in range(count)]
    for name, picture in zip(names, views(count), strict=True):
        picture.save(folder / name)
    return names


def text(rows):
    return "\n".join(" ".join(f"{float(v):.9g}" for v in row) for row in rows) + "\n"


def strecha(path):
    names = _save(path / "images", 5)
    (path / "cameras").mkdir()
    for name, centre in zip(names, centres(5), strict=True):
        rows = [*K, (0, 0, 0), *np.eye(3), centre, (WIDTH, HEIGHT)]
        (path / "cameras" / f"{name}.camera").write_text(text(rows))
    cloud(path / "surface.ply")


def colmap(path):
    names = _save(path / "images", 4)
    lens = f"1 PINHOLE {WIDTH} {HEIGHT} {FOCAL} {FOCAL} 64 48"
    (path / "cameras.txt").write_text(f"# Camera list\n# Number of cameras: 1\n{lens}\n")
    lines = ["# Image list", "# Number of images: 4, mean observations per image: 0"]
    for number, (name, centre) in enumerate(zip(names, centres(4), strict=True), 1):
        t = " ".join(f"{-v:.9g}" for v in centre)
        lines += [f"{number} 1 0 0 0 {t} 1 {name}", ""]
    (path / "images.txt").write_text("\n".join(lines) + "\n")
    cloud(path / "scene.ply")


def listed(count):
    rows = [
        {"name": f"{i:04d}.png", "K": [FOCAL, 63.5, 47.5], "R": np.eye(3).tolist(), "t": (-c).tolist()}
        for i, c in enumerate(centres(count))
    ]
    return json.dumps({"cameras": rows})


def as_json(path):
    _save(path / "images", 4)
    (path / "cameras.json").write_text(listed(4))


def png16(path, values):
    height, width = values.shape
    raw = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    )


def tum(path):
    path = path / "rgbd_dataset_freiburg3_nostructure_texture_far"
    times = [1341841278.0 + i / 30 for i in range(5)]
    (path / "depth").mkdir(parents=True)
    (path / "rgb").mkdir()
    for kind in ("rgb", "depth"):
        lines = [f"# {kind} maps", "# file: x.bag", "# timestamp filename"]
        lines += [f"{t:.6f} {kind}/{t:.6f}.png" for t in times]
        (path / f"{kind}.txt").write_text("\n".join(lines) + "\n")
    for t, picture in zip(times, views(5), strict=True):
        picture.save(path / "rgb" / f"{t:.6f}.png")
        png16(path / "depth" / f"{t:.6f}.png", np.round(5000 * depth()))
    poses = [f"{t:.4f} {c[0]:.6f} {c[1]:.6f} {c[2]:.6f} 0.0000 0.0000 0.0000 1.0000" for t, c in
             zip(times, centres(5), strict=True)]  # fmt: skip
    (path / "groundtruth.txt").write_text("\n".join(["# timestamp tx ty tz qx qy qz qw", *poses]) + "\n")
    return path


layouts = {"folder": {"colmap": colmap, "json": as_json}, "strecha": strecha, "tum": tum}


def prediction(folder):
    for name, picture in zip(("left.png", "right.png"), views(2), strict=True):
        picture.save(folder / name)
    return ["left.png", "right.png", "--intrinsics", f"{FOCAL},63.5,47.5", "--pose=-0.12,-0.04,0"]


quick = {"data.scene": "sphere", "model.method": "corrected"}
"""Changes that make it quick to judge."""
