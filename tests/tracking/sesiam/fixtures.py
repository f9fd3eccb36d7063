"""Small data sets in the public layouts, written from their published names with Pillow and NumPy alone."""

from __future__ import annotations

import numpy as np
from PIL import Image


def _frames(folder, count, name="{:08d}.jpg", size=(64, 48), first=1):
    folder.mkdir(parents=True, exist_ok=True)
    ground = np.random.default_rng(0).integers(0, 90, (size[1], size[0], 3), dtype=np.uint8)
    for number in range(count):
        frame = ground.copy()
        frame[10:30, 12 + 2 * number : 32 + 2 * number] = (200, 180, 40)
        Image.fromarray(frame).save(folder / name.format(number + first), quality=90)


def _boxes(path, count, separator=",", shift=0):
    rows = [[12 + shift + 2 * n, 10 + shift, 20, 20] for n in range(count)]
    path.write_text("".join(separator.join(f"{v:.4f}" for v in row) + "\n" for row in rows))


def _flags(path, count, end="\n"):
    path.write_text(end.join(["0"] * (count - 1) + ["1"]) + "\n")


def got10k(path):
    for split, kind in (("train", "Train"), ("val", "Val")):
        names = [f"GOT-10k_{kind}_{n:06d}" for n in (1, 2)]
        for name in names:
            folder = path / split / name
            _frames(folder, 3)
            _boxes(folder / "groundtruth.txt", 3)
            (folder / "absence.label").write_text("0\n0\n0\n")
            (folder / "cover.label").write_text("8\n7\n8\n")
        (path / split / "list.txt").write_text("".join(f"{name}\n" for name in names))


def _otb(*names):
    def write(path):
        for number, name in enumerate(names):
            _frames(path / name / "img", 3, "{:04d}.jpg")
            _boxes(path / name / "groundtruth_rect.txt", 3, ",\t"[number % 2], shift=1)

    return write


def vot(path):
    for name in ("bag", "ball1"):
        _frames(path / name, 3)
        rows = [[12 + 2 * n, 10, 32 + 2 * n, 10, 32 + 2 * n, 30, 12 + 2 * n, 30] for n in range(3)]
        text = "".join(",".join(f"{v:.2f}" for v in row) + "\n" for row in rows)
        (path / name / "groundtruth.txt").write_text(text)
        _flags(path / name / "occlusion.label", 3)
    (path / "list.txt").write_text("bag\nball1\n")


def vot2018(path):
    _frames(path / "ants1" / "color", 3)
    rows = [[12 + 2 * n, 10, 32 + 2 * n, 10, 32 + 2 * n, 30, 12 + 2 * n, 30] for n in range(3)]
    (path / "ants1" / "groundtruth.txt").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))


def one_vot(path):
    _frames(path, 3)
    rows = [[12 + 2 * n, 10, 32 + 2 * n, 10, 32 + 2 * n, 30, 12 + 2 * n, 30] for n in range(3)]
    (path / "groundtruth.txt").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))


def lasot(path):
    for name in ("airplane/airplane-2", "airplane/airplane-9"):  # the second is tested on
        _frames(path / name / "img", 3)
        _boxes(path / name / "groundtruth.txt", 3, shift=1)
        (path / name / "full_occlusion.txt").write_text("0,0,0")
        (path / name / "out_of_view.txt").write_text("0,0,0")


def folder(path):
    for split in ("train", "test"):
        _frames(path / split / "mine", 3, "frame{:02d}.png")
        _boxes(path / split / "mine" / "groundtruth.txt", 3, " ")


def one_folder(path):
    _frames(path, 3, "{}.jpg")
    _boxes(path / "groundtruth_rect.txt", 3)


layouts = {
    "got10k": got10k,
    "otb2013": _otb("Basketball", "Bolt"),
    "otb50": _otb("Biker", "Box"),
    "otb100": _otb("Bird2", "Box"),
    "vot2016": vot,
    "vot2017": vot,
    "vot2018": vot2018,
    "vot": {"several": vot, "one": one_vot},
    "lasot": lasot,
    "folder": {"split": folder, "one": one_folder},
}


def prediction(folder):
    _frames(folder / "clip", 4)
    return ["clip", "--box", "12,10,20,20", "--box", "40,20,12,12"]
