"""Small data sets in the public layouts, written from their published names with SciPy and json alone."""

from __future__ import annotations

import json

import numpy as np
from PIL import Image
from scipy.io import savemat


def _picture(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (60, 80, 3), np.uint8)).save(path)


def _boxes(people):
    kind = [(name, object) for name in ("x1", "x2", "y1", "y2")]
    rows = np.zeros((1, len(people)), dtype=kind)
    for number, box in enumerate(people):
        for name, value in zip(("x1", "x2", "y1", "y2"), box, strict=True):
            rows[0, number][name] = float(value)
    return rows


def hico(path):
    """``anno_bbox.mat`` as MATLAB writes it: arrays of structures in structures, pixels counted from 1."""
    root = path / "hico_20160224_det"
    actions = np.zeros((2, 1), dtype=[("nname", object), ("vname", object), ("vname_ing", object)])
    actions[0, 0], actions[1, 0] = ("cup", "hold", "holding"), ("dining_table", "sit_at", "sitting_at")
    content = {"list_action": actions}
    for split in ("train", "test"):
        rows = np.zeros((1, 3), dtype=[("filename", object), ("size", object), ("hoi", object)])
        for number in range(3):
            name = f"HICO_{split}2015_{number:08d}.jpg"
            _picture(root / "images" / f"{split}2015" / name, number)
            fields = ("id", "bboxhuman", "bboxobject", "connection", "invis")
            hoi = np.zeros((1, 3), dtype=[(field, object) for field in fields])
            person = (5, 30, 4, 50)
            hoi[0, 0] = (1, _boxes([person]), _boxes([(20, 35, 20, 33)]), np.array([[1, 1]]), 0)
            # The same person again, a pixel off: one object.
            hoi[0, 1] = (2, _boxes([(6, 30, 4, 50)]), _boxes([(25, 78, 30, 58)]), np.array([[1, 1]]), 0)
            hoi[0, 2] = (1, np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)), 1)
            size = np.zeros((1, 1), dtype=[(field, object) for field in ("width", "height", "depth")])
            size[0, 0] = (80, 60, 3)
            rows[0, number] = (name, size, hoi)
        content[f"bbox_{split}"] = rows
    savemat(root / "anno_bbox.mat", content)


def _vocabulary(root):
    root.mkdir(parents=True, exist_ok=True)
    (root / "objects.json").write_text(json.dumps(["person", "table", "cup"]))
    (root / "predicates.json").write_text(json.dumps(["on", "hold"]))


def _vrd(root, splits=("train", "test")):
    _vocabulary(root)
    table = {"category": 1, "bbox": [30, 58, 10, 75]}
    cup = {"category": 2, "bbox": [20, 34, 30, 42]}
    person = {"category": 0, "bbox": [2, 57, 40, 70]}
    for split in splits:
        content = {}
        for number in range(3):
            name = f"{split}{number}.jpg"
            _picture(root / f"sg_{split}_images" / name, number)
            content[name] = [
                {"predicate": 0, "subject": cup, "object": table},
                {"predicate": 1, "subject": person, "object": cup},
            ]
        (root / f"annotations_{split}.json").write_text(json.dumps(content))


def vrd(path):
    _vrd(path / "json_dataset")


def vrd_detected(path):
    _vrd(path)
    rows = [
        {"image_id": f"test{n}", "category": name, "bbox": box, "score": 0.8}
        for n in range(3)
        for name, box in (("cup", [30, 20, 12, 14]), ("table", [10, 30, 65, 28]), ("dog", [0, 0, 5, 5]))
    ]
    (path / "detections_test.json").write_text(json.dumps(rows))


def unrel(path):
    """``annotations.mat``: cells of structures of cells of structures."""
    _vrd(path, ("test",))
    pictures = np.empty((2, 1), object)
    for number in range(2):
        name = f"{number}.jpg"
        _picture(path / "images" / name, number)
        boxes = {"person": np.array([[5.0, 5, 30, 55]]), "cup": np.array([[20.0, 20, 34, 35]])}
        objects, relations = np.empty((2, 1), object), np.empty((1, 1), object)
        for place, (category, box) in enumerate(boxes.items()):
            objects[place, 0] = {"category": category, "box": box}
        words = np.empty((1, 1), object)
        words[0, 0] = "hold"
        relations[0, 0] = {
            "sub": "person", "sub_box": boxes["person"], "obj": "cup", "obj_box": boxes["cup"], "rels": words,
        }  # fmt: skip
        pictures[number, 0] = {"filename": name, "im_id": number, "objects": objects, "relationships": relations}
    savemat(path / "annotations.mat", {"annotations": pictures})


def folder(path):
    path.mkdir()
    for split in ("train", "test"):
        rows = []
        for number in range(3):
            _picture(path / split / f"{number}.png", number)
            things = [{"class": "cup", "bbox": [30, 20, 12, 14]}, {"class": "table", "bbox": [10, 30, 65, 28]}]
            row = {"file": f"{split}/{number}.png", "objects": things}
            rows.append(row | ({"predicates": ["on"]} if split == "train" else {"relations": [[0, "on", 1]]}))
        (path / f"{split}.json").write_text(json.dumps(rows))


layouts = {"hico": hico, "vrd": {"plain": vrd, "detected": vrd_detected}, "unrel": unrel, "folder": folder}


def prediction(path):
    """A picture, and detections as COCO's results."""
    _picture(path / "photo.png", 7)
    rows = [
        {"image_id": "photo", "category_id": 47, "bbox": [30, 20, 12, 14], "score": 0.9},
        {"image_id": "photo", "category_id": 67, "bbox": [10, 30, 65, 28], "score": 0.8},
        {"image_id": "photo", "category_id": 1, "bbox": [40, 2, 30, 55], "score": 0.7},
    ]
    (path / "detections.json").write_text(json.dumps(rows))
    return [str(path / "photo.png"), "--detections", str(path / "detections.json")]
