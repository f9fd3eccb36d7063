"""Small panoramas in the public layouts, written with NumPy and Pillow, and a panorama to predict on."""

from __future__ import annotations

import numpy as np
from PIL import Image

HEIGHT = 32


def panorama(seed=0, height=HEIGHT, up=(0.0, 0.0, 1.0)):
    """A room as a function of direction: bright above, dark below, with posts that are parallel to ``up``."""
    rows = (np.arange(height) + 0.5) * np.pi / height
    columns = 2 * np.pi - (np.arange(2 * height) + 0.5) * np.pi / height
    colatitude, longitude = np.meshgrid(rows, columns, indexing="ij")
    direction = np.stack(
        [np.cos(longitude) * np.sin(colatitude), np.sin(longitude) * np.sin(colatitude), np.cos(colatitude)], -1
    )
    up = np.asarray(up) / np.linalg.norm(up)
    side = np.cross(up, [1.0, 0.2, 0.1])
    side /= np.linalg.norm(side)
    other = np.cross(up, side)
    azimuth = np.arctan2(direction @ other, direction @ side)
    level = direction @ up
    bright = np.where(level > 0.6, 220, np.where(level < -0.5, 60, 140))
    posts = (np.floor(azimuth * 8 / np.pi + seed) % 2 == 0) & (np.abs(level) < 0.55)
    grey = np.where(posts, 30, bright)[..., None] + np.array([0, 5 * (seed % 3), 20])
    return np.clip(grey, 0, 255).astype(np.uint8)


def _save(path, pixels, **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **how)


def sun360(path):
    for number in range(4):
        kind = ("indoor/bedroom", "outdoor/street")[number % 2]
        _save(path / kind / f"pano_{'abcd'[number]}abcdefgh.jpg", panorama(number))


def deep360up(path):
    lines = ["# name phi theta"]
    for number, (phi, theta) in enumerate(((0.0, 0.0), (30.0, 120.0), (60.0, 275.5))):
        angle, turn = np.radians(phi), np.radians(theta)
        # theta runs to the right from the left border, against the longitude
        up = (np.sin(angle) * np.cos(turn), -np.sin(angle) * np.sin(turn), np.cos(angle))
        _save(path / "images" / f"{number}.png", panorama(number, up=up))
        lines.append(f"images/{number}.png {phi} {theta}")
    (path / "list.txt").write_text("\n".join(lines) + "\n")


def parted(path):
    for split in ("train", "test"):
        for number in range(2):
            _save(path / split / f"{number}.png", panorama(number))


def whole(path):
    for number in range(3):
        _save(path / f"{number}.png", panorama(number))


layouts = {"sun360": sun360, "deep360up": deep360up, "folder": {"parted": parted, "whole": whole}}


def prediction(folder):
    _save(folder / "room.jpg", panorama(1, 64, (0.2, 0.1, 1.0)))
    return ["room.jpg"]
