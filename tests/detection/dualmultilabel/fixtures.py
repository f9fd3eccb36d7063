"""Small data sets in the public layouts, written from their published names with json and plain text alone."""

from __future__ import annotations

import json

import numpy as np
import torch
from PIL import Image

BOXES = {"person": (5, 8, 30, 50), "car": (35, 20, 75, 45), "dog": (12, 30, 40, 58)}


def _picture(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (60, 80, 3), np.uint8)).save(path)


def _xml(name, objects):
    rows = "".join(
        f"<object><name>{kind}</name><difficult>0</difficult><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax>"
        f"<ymax>{d}</ymax></bndbox></object>\n"
        for kind, (a, b, c, d) in objects.items()
    )
    size = "<size><width>80</width><height>60</height><depth>3</depth></size>"
    return f"<annotation><filename>{name}.jpg</filename>{size}\n{rows}</annotation>\n"


def _voc(root, lists):
    for number, (split, count) in enumerate(lists.items()):
        names = [f"{split}_{n:06d}" for n in range(count)]
        (root / "ImageSets" / "Main").mkdir(parents=True, exist_ok=True)
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{name}\n" for name in names))
        for name in names:
            _picture(root / "JPEGImages" / f"{name}.jpg", number)
            (root / "Annotations").mkdir(exist_ok=True)
            (root / "Annotations" / f"{name}.xml").write_text(_xml(name, BOXES))


def voc(path):
    _voc(path / "VOCdevkit" / "VOC2007", {"trainval": 2, "test": 2})
    _voc(path / "VOCdevkit" / "VOC2012", {"trainval": 2})
    return path / "VOCdevkit"


def watercolor(path):
    _voc(path, {"train": 2, "test": 2})


def coco(path):
    for split in ("train2017", "val2017"):
        images = [{"id": n, "file_name": f"{n:012d}.jpg", "height": 60, "width": 80} for n in range(2)]
        for row in images:
            _picture(path / split / row["file_name"], row["id"])
        categories = [{"id": i, "name": name} for i, name in ((1, "person"), (3, "car"), (18, "dog"))]
        ids = {row["name"]: row["id"] for row in categories}
        annotations = [
            {"id": 10 * n + k, "image_id": n, "category_id": ids[name], "bbox": [a, b, c - a, d - b], "iscrowd": 0}
            for n in range(2)
            for k, (name, (a, b, c, d)) in enumerate(BOXES.items())
        ]
        (path / "annotations").mkdir(exist_ok=True)
        content = {"images": images, "annotations": annotations, "categories": categories}
        (path / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))


def _cityscapes(path, folder, ending):
    for part, city in (("train", "aachen"), ("val", "lindau")):
        for n in range(2):
            stem = f"{city}_{n:06d}_000019"
            _picture(path / folder / part / city / f"{stem}{ending}.png", n)
            objects = [{"label": "car", "polygon": [[35, 20], [75, 22], [60, 45]]},
                       {"label": "person", "polygon": [[5, 8], [30, 8], [30, 50], [5, 50]]},
                       {"label": "cargroup", "polygon": [[0, 0], [9, 0], [9, 9]]},
                       {"label": "road", "polygon": [[0, 40], [80, 40], [80, 60], [0, 60]]}]  # fmt: skip
            file = path / "gtFine" / part / city / f"{stem}_gtFine_polygons.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"imgHeight": 60, "imgWidth": 80, "objects": objects}))


def cityscapes(path):
    _cityscapes(path, "leftImg8bit", "_leftImg8bit")


def foggy(path):
    _cityscapes(path, "leftImg8bit_foggy", "_leftImg8bit_foggy_beta_0.02")


def _yolo_rows():
    rows = []
    for number, (a, b, c, d) in enumerate(BOXES.values()):
        rows.append(f"{number} {(a + c) / 160:.6f} {(b + d) / 120:.6f} {(c - a) / 80:.6f} {(d - b) / 60:.6f}\n")
    return "".join(rows)


def yolo_lists(path):
    """Darknet's form: lists of pictures, names in a file of their own."""
    for split in ("test", "train"):
        lines = []
        for n in range(2):
            _picture(path / "images" / f"{split}{n}.png", n)
            (path / "labels").mkdir(exist_ok=True)
            (path / "labels" / f"{split}{n}.txt").write_text(_yolo_rows())
            lines.append(f"images/{split}{n}.png\n")
        (path / f"{split}.txt").write_text("".join(lines))
    (path / "classes.txt").write_text("".join(f"{name}\n" for name in BOXES))


def table(path):
    path.mkdir()
    for split in ("train", "test"):
        rows = ["file,class,xmin,ymin,xmax,ymax\n"]
        for n in range(2):
            _picture(path / "pictures" / f"{split}{n}.png", n)
            rows += [f"pictures/{split}{n}.png,{name},{a},{b},{c},{d}\n" for name, (a, b, c, d) in BOXES.items()]
        (path / f"{split}.csv").write_text("".join(rows))


def folder(path):
    for split in ("train", "test"):
        for n in range(2):
            _picture(path / split / f"{n}.png", n)


layouts = {
    "voc": voc, "watercolor": watercolor, "comic": watercolor, "clipart": watercolor, "coco": coco,
    "cityscapes": cityscapes, "foggy": foggy, "yolo": yolo_lists, "csv": table, "folder": folder,
}  # fmt: skip


def prediction(path):
    """Two pictures of different sizes."""
    _picture(path / "street.png", 3)
    Image.fromarray(np.random.default_rng(4).integers(0, 255, (90, 70, 3), np.uint8)).save(path / "tall.jpg")
    return [str(path / "street.png"), str(path / "tall.jpg"), "--score", "0.05"]


def _norm(state, name, width):
    for part, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
        state[f"{name}.{part}"] = torch.full((width,), value)


def checkpoint(path):
    """A Faster R-CNN as torchvision names it, with one block per stage and two classes."""
    torch.manual_seed(0)
    state = {"backbone.body.conv1.weight": torch.randn(64, 3, 7, 7) * 0.05}
    _norm(state, "backbone.body.bn1", 64)
    inputs = 64
    for stage, width in enumerate((64, 128, 256, 512), 1):
        block = f"backbone.body.layer{stage}.0"
        for number, (a, b, side) in enumerate(((inputs, width, 1), (width, width, 3), (width, 4 * width, 1)), 1):
            state[f"{block}.conv{number}.weight"] = torch.randn(b, a, side, side) * (1 / (a * side * side)) ** 0.5
            _norm(state, f"{block}.bn{number}", b)
        state[f"{block}.downsample.0.weight"] = torch.randn(4 * width, inputs, 1, 1) * (1 / inputs) ** 0.5
        _norm(state, f"{block}.downsample.1", 4 * width)
        inputs = 4 * width
        for kind, (c, side) in {"inner": (inputs, 1), "layer": (256, 3)}.items():
            state[f"backbone.fpn.{kind}_blocks.{stage - 1}.0.weight"] = torch.randn(256, c, side, side) * 0.01
            state[f"backbone.fpn.{kind}_blocks.{stage - 1}.0.bias"] = torch.zeros(256)
    shapes = {"rpn.head.conv.0.0": (256, 256, 3, 3), "rpn.head.cls_logits": (3, 256, 1, 1),
              "rpn.head.bbox_pred": (12, 256, 1, 1), "roi_heads.box_head.fc6": (1024, 12544),
              "roi_heads.box_head.fc7": (1024, 1024), "roi_heads.box_predictor.cls_score": (3, 1024),
              "roi_heads.box_predictor.bbox_pred": (12, 1024)}  # fmt: skip
    for name, shape in shapes.items():
        state[f"{name}.weight"], state[f"{name}.bias"] = torch.zeros(shape).normal_(std=0.01), torch.zeros(shape[0])
    torch.save({name: tensor.half() for name, tensor in state.items()}, path / "fasterrcnn.pth")
    return path / "fasterrcnn.pth"
