"""Small data sets in the public layouts, written from their published names with NumPy, SciPy, JSON and Pillow alone;
CUB-200, lists and class folders as the tests of snl write them, those of retrieval as its tests do."""

from __future__ import annotations

import json

import numpy as np
from PIL import Image
from scipy.io import savemat

from recognition.snl import fixtures as snl
from retrieval.lattqe import fixtures as retrieval

CARS = ["AM General Hummer SUV 2000", "Acura RL Sedan 2012", "Audi TT Coupe 2012"]


def _picture(path, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (40, 52, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "JPEG")


def _records(fields, rows):
    """A struct array with one element per row, as MATLAB saves it."""
    made = np.zeros((1, len(rows)), dtype=[(name, object) for name in fields])
    for place, row in enumerate(rows):
        for name, value in zip(fields, row, strict=True):
            made[0, place][name] = value
    return made


def _names():
    cells = np.empty((1, len(CARS)), object)
    cells[0] = CARS
    return cells


BOX = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")


def cars_devkit(path):
    """As first released: two folders of pictures, the devkit, and the labels of the test beside it."""
    for split in ("train", "test"):
        rows = []
        for number, label in enumerate((1, 2, 3, 1), 1):
            _picture(path / f"cars_{split}" / f"{number:05d}.jpg", number)
            rows.append((2, 3, 40, 30, label, f"{number:05d}.jpg"))
        annotations = _records((*BOX, "class", "fname"), rows)
        folder = path / "devkit" if split == "train" else path
        folder.mkdir(exist_ok=True)
        name = "cars_train_annos.mat" if split == "train" else "cars_test_annos_withlabels.mat"
        savemat(folder / name, {"annotations": annotations}, do_compression=True)
    savemat(path / "devkit" / "cars_meta.mat", {"class_names": _names()})


def cars_annos(path):
    """As released later: one folder of pictures and one file for both splits."""
    rows = []
    for number, (label, test) in enumerate(((1, 0), (2, 0), (3, 0), (2, 1), (3, 1)), 1):
        name = f"car_ims/{number:06d}.jpg"
        _picture(path / name, number)
        rows.append((name, 2, 3, 40, 30, label, np.uint8(test)))
    annotations = _records(("relative_im_path", *BOX, "class", "test"), rows)
    savemat(path / "cars_annos.mat", {"annotations": annotations, "class_names": _names()})


def aircraft(path):
    folder = path / "data"
    variants = ["707-320", "A300B4", "Boeing 717"]
    lines = {"trainval": [], "test": []}
    for number, (split, variant) in enumerate([("trainval", v) for v in variants] + [("test", v) for v in variants]):
        name = f"{1_000_000 + number:07d}"
        _picture(folder / "images" / f"{name}.jpg", number)
        lines[split].append(f"{name} {variant}\n")
    for split, text in lines.items():
        (folder / f"images_variant_{split}.txt").write_text("".join(text))
    (folder / "variants.txt").write_text("".join(f"{v}\n" for v in variants))


def inaturalist(path):
    categories = [
        {"id": 7, "name": "Parus major", "supercategory": "Aves"},
        {"id": 2, "name": "Amanita muscaria", "supercategory": "Fungi"},
    ]
    for split in ("train", "val"):
        images, annotations = [], []
        for number, category in enumerate((7, 2, 7)):
            name = f"train_val_images/Aves/Parus major/{split}{number}.jpg"
            _picture(path / name, number)
            images.append({"id": 10 + number, "file_name": name, "width": 52, "height": 40})
            annotations.append({"id": number, "image_id": 10 + number, "category_id": category})
        content = {"images": images, "annotations": annotations, "categories": categories}
        (path / f"{split}2017.json").write_text(json.dumps(content))


layouts = {
    "cars": {"devkit": cars_devkit, "one file": cars_annos},
    "aircraft": aircraft,
    "inaturalist": inaturalist,
    **{name: snl.layouts[name] for name in ("cub", "list", "folder")},
    **{name: retrieval.layouts[name] for name in ("sfm120k", "roxford5k", "rparis6k", "pictures")},
}


def prediction(folder):
    pixels = np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "a.png")
    Image.fromarray(pixels[..., 0]).save(folder / "grey.png")
    return ["a.png", "grey.png", "--groups", "3"]
