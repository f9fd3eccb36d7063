"""Small data sets for foreground search in their published layouts, with NumPy, json and Pillow alone."""

from __future__ import annotations

import csv
import json

import numpy as np
from PIL import Image

SIDE = 40


def picture(path, seed=0, size=(SIDE, 36)):
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)


def cutout(path, seed=0, size=(14, 20), white=False):
    """An ellipse of noise, on transparent or on white ground."""
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    pixels = np.random.default_rng(seed).integers(0, 200, (height, width, 4), dtype=np.uint8)
    y, x = np.mgrid[:height, :width]
    inside = ((x - width / 2 + 0.5) / (width / 2 - 1)) ** 2 + ((y - height / 2 + 0.5) / (height / 2 - 1)) ** 2 <= 1
    pixels[..., 3] = np.where(inside, 255, 0)
    if white:
        pixels[~inside] = 255
        Image.fromarray(pixels[..., :3]).save(path)
    else:
        Image.fromarray(pixels).save(path)


def table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def pairs(with_split):
    """Two patterns; the first pictures by name are for the test, the last ones for training."""

    def write(path):
        rows = [["background", "x", "y", "width", "height", "foreground", *(["split"] if with_split else [])]]
        kinds = [["file", "pattern"]]
        for number, name in enumerate(("m-val", "z-train", "a-test", "n-val", "y-train", "b-test")):
            picture(path / "backgrounds" / f"{name}.png", number)
            cutout(path / "foregrounds" / f"{name}.png", number)
            split = [name.split("-")[1]] if with_split else []
            rows.append([f"{name}.png", "4", "5", "12", "20.5", f"{name}.png", *split])
            kinds.append([f"{name}.png", "walking, front" if number < 3 else "sitting, side"])
        table(path / "pairs.csv", rows)
        table(path / "foregrounds" / "patterns.csv", kinds)

    return write


def people(attributes):
    """Pictures with one person each, by polygon, by plain and by packed run lengths."""

    def write(path):
        (path / "annotations").mkdir(parents=True)
        images, annotations = [], []
        for number, name in enumerate(("m", "z", "a-test", "n", "y", "b-test")):
            picture(path / "train2017" / f"{name}.png", number, (48, 60))
            images.append({"id": 10 + number, "file_name": f"{name}.png", "height": 60, "width": 48})
            x, y, w, h = (6, 8, 34, 40) if number < 3 else (4, 24, 40, 36)
            mask = np.zeros((60, 48), dtype=np.uint8)
            mask[y : y + h, x : x + w] = 1
            runs = np.flatnonzero(np.diff(np.concatenate([[0], mask.T.ravel(), [0]])))
            ends = np.concatenate([[0], runs, [mask.size]] if runs[-1] < mask.size else [[0], runs])
            segmentation = (
                [[x, y, x + w, y, x + w, y + h, x, y + h]] if number % 2 else
                {"size": [60, 48], "counts": np.diff(ends).tolist()}
            )  # fmt: skip
            annotations.append({"id": 100 + number, "image_id": 10 + number, "category_id": 1, "bbox": [x, y, w, h],
                                "area": w * h, "iscrowd": 0, "segmentation": segmentation})  # fmt: skip
        annotations.append({**annotations[0], "id": 900, "bbox": [1, 1, 5, 5], "area": 25})
        annotations.append({**annotations[0], "id": 901, "iscrowd": 1})
        content = {"images": images, "annotations": annotations,
                   "categories": [{"id": 1, "name": "person"}, {"id": 2, "name": "dog"}]}  # fmt: skip
        (path / "annotations" / "instances_train2017.json").write_text(json.dumps(content))
        if attributes:
            rows = [["id", "orientation", "truncation"]]
            rows += [[100 + n, "left" if n < 3 else "right", "whole"] for n in range(6)]
            table(path / "attributes.csv", rows)

    return write


def fosd(second):
    """Two classes with two training pairs and two test queries each."""

    def write(path):
        names = {"Cat": ["0a_m01_1.png", "0b_m01_2.png"], "Person": ["1a_m02_1.png", "1b_m02_2.png"]}
        train = {}
        for number, (kind, pair) in enumerate(names.items()):
            other = names["Person" if kind == "Cat" else "Cat"]
            for name in pair:
                picture(path / "train" / "bg" / name, number)
                cutout(path / "train" / "fg" / name, number, white=True)
                train[name] = {"bbox": [0.2, 0.1, 0.7, 0.8], "class": kind, "similars": [n for n in pair if n != name],
                               "dissimilars": other}  # fmt: skip
        (path / "train" / "labels").mkdir()
        (path / "train" / "labels" / "train_sfosd.json").write_text(json.dumps(train))
        test, number = {}, 2 if second else 1
        for kind, pair in names.items():
            for seed, name in enumerate(pair):
                picture(path / "test" / f"bg_set{number}" / name, seed)
                cutout(path / "test" / "fg" / name, seed, white=True)
            box = [0.25, 0.25, 0.75, 1.0]
            one = {"bg": [[name, box] for name in pair], "fg": pair}
            two = {name: [box, {fg: int(fg == name) for fg in pair}] for name in pair}
            test[kind] = two if second else one
        (path / "test" / "labels").mkdir()
        (path / "test" / "labels" / f"test_set{number}.json").write_text(json.dumps(test))

    return write


layouts = {
    "folder": {"splits": pairs(True), "patterns": pairs(False)},
    "coco": {"attributes": people(True), "automatic": people(False)},
    "fosd": {"set1": fosd(False), "set2": fosd(True)},
}


def prediction(folder):
    picture(folder / "background.png", size=(60, 44))
    for number in range(5):
        cutout(folder / "gallery" / f"{number}.png", number, white=number == 4)
    files = ["--background", str(folder / "background.png"), "--gallery", str(folder / "gallery")]
    return [*files, "--box", "10,12,20,30", "--top", "3"]
