"""Readers of annotated pictures: PASCAL VOC and its relatives, COCO, Cityscapes and its fog, YOLO, CSV, folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.images import SUFFIXES, find_images
from vergence.data.layouts import is_named, parse, read
from vergence.detection.checking import Raw, checked
from vergence.detection.data import Collection, Entry
from vergence.reading.files import read_text, refusing
from vergence.reading.pictures import picture_size
from vergence.reading.tables import read_json, read_records
from vergence.reading.voc import read_annotation

VOC = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
SIX = ("bicycle", "bird", "car", "cat", "dog", "person")
"""Classes of Watercolor and Comic, which VOC has too."""
CITYSCAPES = ("person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle")
BETAS = (0.005, 0.01, 0.02)


def _folder_with(path: Path, *names: str) -> Path:
    """The folder itself or one below it that has these files or folders."""
    places = [path, *sorted(p for p in path.glob("*") if p.is_dir())] if path.is_dir() else []
    found = next((p for p in places if all((p / name).exists() for name in names)), None)
    if found is None:
        raise VergenceError(f"{path} has no {' and '.join(names)}")
    return found


def _some(entries: Sequence[Any], source: object, what: str = "pictures") -> None:
    if not entries:
        raise VergenceError(f"{source} has no {what}")


# PASCAL VOC -----------------------------------------------------------------------------------------------------------


def voc(path: Path, split: str, classes: Sequence[str] = VOC) -> Collection:
    """``VOC20xx/{Annotations,ImageSets/Main,JPEGImages}`` of one or several years; ``classes.txt`` has other names."""
    years = [p for p in [path, *sorted(path.glob("*")), *sorted(path.glob("VOCdevkit/*"))]
             if (p / "ImageSets" / "Main").is_dir()]  # fmt: skip
    if not years:
        raise VergenceError(f"{path} has no ImageSets/Main with lists of pictures, nor a folder VOC20xx with one")
    names = ("trainval", "train") if split == "train" else ("test", "val")
    lists = [(root, name) for root in years for name in names if (root / "ImageSets/Main" / f"{name}.txt").exists()]
    chosen = [(root, name) for root, name in lists if name == next(n for own, n in lists if own == root)]
    if split != "train" and any(name == "test" for _, name in chosen):
        chosen = [(root, name) for root, name in chosen if name == "test"]  # as published: tests are those of 2007
    if not chosen:
        raise VergenceError(f"{years[0] / 'ImageSets' / 'Main'} has no list {names[0]}.txt or {names[1]}.txt")
    own = next((p for p in (path / "classes.txt", years[0] / "classes.txt") if p.exists()), None)
    classes = _lines(own) if own else classes
    raws = [raw for root, name in chosen for raw in _voc_pictures(root, name, classes)]
    _some(raws, path)
    return checked(raws, classes, "corners", path)


def _lines(path: Path) -> list[str]:
    lines = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    _some(lines, path, "names of classes")
    return lines


def _voc_pictures(root: Path, split: str, classes: Sequence[str]) -> list[Raw]:
    list_ = root / "ImageSets" / "Main" / f"{split}.txt"
    names = [line.split()[0] for line in read_text(list_).splitlines() if line.strip()]
    _some(names, list_)
    six = tuple(classes) == SIX  # of other data with VOC's 20 classes these are read
    raws = []
    for name in names:
        file = root / "Annotations" / f"{name}.xml"
        if not file.exists():
            raise VergenceError(f"{list_} names {name!r}, for which there is no {file}")
        found = read_annotation(file)
        boxes = [box for box in found.boxes if not (six and box.name in VOC and box.name not in SIX)]
        raws.append(Raw(
            _picture(root / "JPEGImages", name), found.height, found.width,
            [(box.left - 1, box.top - 1, box.right, box.bottom) for box in boxes],  # pixels are counted from 1
            [box.name for box in boxes], [box.difficult for box in boxes], str(file),
        ))  # fmt: skip
    return raws


def _picture(folder: Path, stem: str) -> Path:
    """The picture of this name, whatever its ending; JPEG if there is none."""
    return next((p for p in (folder / f"{stem}{end}" for end in (".jpg", ".png", ".jpeg", ".JPG")) if p.exists()),
                folder / f"{stem}.jpg")  # fmt: skip


# COCO -----------------------------------------------------------------------------------------------------------------


def coco(path: Path, split: str) -> Collection:
    """``annotations/instances_{train,val}*.json`` with a folder of pictures of the same name, or ``train.json`` and
    ``test.json`` (or ``val.json``) beside the pictures."""
    file = _coco_file(path, split)
    content = read_json(file, "annotations of COCO")
    if not isinstance(content, dict) or not all(
        isinstance(content.get(k), list) for k in ("images", "annotations", "categories")
    ):
        raise VergenceError(f"{file} is not annotations of COCO: expected images, annotations and categories")
    with refusing(file, "annotations of COCO"):
        names = {int(row["id"]): str(row["name"]) for row in content["categories"]}
        raws: dict[Any, Raw] = {}
        for row in content["images"]:
            place = _coco_picture(file, str(row["file_name"]))
            raws[row["id"]] = Raw(place, int(row["height"]), int(row["width"]), [], [], [], str(file))
        for number, row in enumerate(content["annotations"]):
            if row["image_id"] not in raws:
                raise VergenceError(f"{file}: annotation {number} is of picture {row['image_id']}, which is not there")
            if row["category_id"] not in names:
                raise VergenceError(f"{file}: annotation {number} has category_id {row['category_id']}, which is none "
                                    "of its categories")  # fmt: skip
            raw = raws[row["image_id"]]
            left, top, width, height = (float(value) for value in row["bbox"])
            raw.boxes.append((left, top, width, height))
            raw.names.append(names[row["category_id"]])
            raw.aside.append(bool(row.get("iscrowd", 0)))
    _some(list(raws), file)
    return checked(list(raws.values()), [names[key] for key in sorted(names)], "sides", file)


def _coco_file(path: Path, split: str) -> Path:
    words = ("train",) if split == "train" else ("test", "val", "valid")
    for word in words:
        for pattern in (f"annotations/instances_{word}*.json", f"annotations/{word}*.json", f"{word}.json",
                        f"{word}/_annotations.coco.json"):  # fmt: skip
            found = sorted(path.glob(pattern)) if path.is_dir() else []
            if found:
                return found[0]
    raise VergenceError(f"{path} has no annotations/instances_{words[-1]}*.json and no {words[0]}.json")


def _coco_picture(file: Path, name: str) -> Path:
    root = file.parent.parent if file.parent.name == "annotations" else file.parent
    word = file.stem.removeprefix("instances_")
    places = (root / word / name, root / "images" / word / name, root / "images" / name, root / name)
    return next((p for p in places if p.exists()), places[0])


# Cityscapes -----------------------------------------------------------------------------------------------------------


def cityscapes(path: Path, split: str, beta: float | None = None) -> Collection:
    """``leftImg8bit/{train,val}/CITY`` and ``gtFine``: boxes around the polygons of instances. With ``beta``, the foggy
    pictures of that density instead (``leftImg8bit_foggy``)."""
    name = "leftImg8bit" if beta is None else "leftImg8bit_foggy"
    root = _folder_with(path, name, "gtFine")
    part = "train" if split == "train" else "val"
    ending = "_leftImg8bit.png" if beta is None else f"_leftImg8bit_foggy_beta_{beta:g}.png"
    pictures = sorted((root / name / part).glob(f"*/*{ending}"))
    _some(pictures, root / name / part, f"pictures *{ending}")
    raws = []
    for picture in pictures:
        stem = picture.name.removesuffix(ending)
        file = root / "gtFine" / part / picture.parent.name / f"{stem}_gtFine_polygons.json"
        raws.append(_polygons(file, picture))
    return checked(raws, CITYSCAPES, "corners", root)


def _polygons(file: Path, picture: Path) -> Raw:
    content = read_json(file, "polygons of Cityscapes")
    with refusing(file, "polygons of Cityscapes"):
        raw = Raw(picture, int(content["imgHeight"]), int(content["imgWidth"]), [], [], [], str(file))
        for item in content["objects"]:
            if item["label"] in CITYSCAPES:  # not the groups, such as `cargroup`
                points = torch.tensor(item["polygon"], dtype=torch.float64).reshape(-1, 2)
                low, high = points.amin(0).tolist(), points.amax(0).tolist()
                raw.boxes.append((low[0], low[1], high[0], high[1]))
                raw.names.append(str(item["label"]))
                raw.aside.append(False)
    return raw


# YOLO -----------------------------------------------------------------------------------------------------------------


def yolo(path: Path, split: str) -> Collection:
    """``images/{train,val}`` and ``labels/{train,val}`` with a line ``class x y width height`` per object, relative to
    the picture; or lists ``train.txt`` and ``test.txt``. Names of classes are in ``data.yaml``, ``classes.txt`` or
    ``obj.names``. A picture without a text file, or with an empty one, has no objects."""
    names, classes = _yolo_names(path)
    words = ("train",) if split == "train" else ("test", "val", "valid")
    pictures: list[Path] = []
    for word in words:
        list_ = path / f"{word}.txt"
        folder = next((p for p in (path / "images" / word, path / word / "images") if p.is_dir()), None)
        if list_.is_file():
            pictures = [path / line.strip() for line in read_text(list_).splitlines() if line.strip()]
            gone = next((p for p in pictures if not p.is_file()), None)
            if gone is not None:
                raise VergenceError(f"{list_} names {gone}, which does not exist")
        elif folder is not None:
            pictures = find_images(folder)
        if pictures or list_.is_file():
            _some(pictures, list_ if list_.is_file() else folder)
            return checked([_yolo_picture(p, classes, names) for p in pictures], classes, "corners", path)
    raise VergenceError(f"{path} has no images/{words[0]} with pictures and no list {words[0]}.txt")


def _yolo_names(path: Path) -> tuple[Path, list[str]]:
    plain = next((p for p in (path / "classes.txt", path / "obj.names") if p.is_file()), None)
    if plain is not None:
        return plain, _lines(plain)
    file = path / "data.yaml"
    if not file.is_file():
        raise VergenceError(f"{path} has no data.yaml, classes.txt or obj.names with the names of its classes")
    text = read_text(file)
    inline = re.search(r"^names:\s*\[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    block = re.search(r"^names:[ \t]*\r?\n((?:[ \t]+.*\n?|- .*\n?)+)", text, re.MULTILINE)
    rows = inline[1].split(",") if inline else block[1].splitlines() if block else []
    names = [re.sub(r"^\s*(?:-|\d+:)?\s*", "", row).strip().strip("'\"") for row in rows]
    names = [name for name in names if name]
    _some(names, file, "names of classes ('names:')")
    return file, names


def _yolo_picture(picture: Path, classes: Sequence[str], names: Path) -> Raw:
    height, width = picture_size(picture)
    parts = list(picture.parts)
    places = [n for n, part in enumerate(parts) if part == "images"]
    if places:
        parts[places[-1]] = "labels"
    file = Path(*parts).with_suffix(".txt")
    raw = Raw(picture, height, width, [], [], [], str(file))
    for number, line in enumerate(read_text(file).splitlines() if file.exists() else [], 1):
        words = line.split()
        if not words:
            continue
        try:
            label, (x, y, w, h) = int(words[0]), map(float, words[1:5])
        except ValueError:
            raise VergenceError(f"{file}, line {number}: expected class x y width height, got {line[:60]!r}") from None
        if not 0 <= label < len(classes):
            raise VergenceError(
                f"{file}, line {number}: class {label} is outside 0 to {len(classes) - 1}, the names in {names.name}"
            )
        if max(x, y, w, h) > 2:
            raise VergenceError(
                f"{file}, line {number}: numbers are shares of the picture, from 0 to 1, got {line[:60]!r}"
            )
        raw.boxes.append(((x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height))
        raw.names.append(classes[label])
        raw.aside.append(False)
    return raw


# CSV and plain folders ------------------------------------------------------------------------------------------------

CORNERS, SIDES = ("xmin", "ymin", "xmax", "ymax"), ("x", "y", "width", "height")


def table(path: Path, split: str) -> Collection:
    """``train.csv`` and ``test.csv`` (or one ``annotations.csv``) with a row per object: file, class, and xmin, ymin,
    xmax, ymax or x, y, width, height in pixels. A row with an empty class says that a picture has no objects."""
    names = ("train.csv", "annotations.csv") if split == "train" else ("test.csv", "val.csv", "annotations.csv")
    file = next((path / name for name in names if (path / name).is_file()), None)
    if file is None:
        raise VergenceError(f"{path} has no {names[0]} and no annotations.csv")
    what = "a table of boxes (file, class, xmin, ymin, xmax, ymax or x, y, width, height)"
    rows = read_records(file, ("file", "class"), what)
    columns = next((kind for kind in (CORNERS, SIDES) if rows and all(name in rows[0] for name in kind)), None)
    if columns is None:
        raise VergenceError(f"{file} is not {what}: it has no {', '.join(CORNERS)} and no {', '.join(SIDES)}")
    raws: dict[str, Raw] = {}
    for number, row in enumerate(rows, 2):
        name = row["file"].strip()
        if name not in raws:
            height, width = picture_size(path / name)
            raws[name] = Raw(path / name, height, width, [], [], [], str(file))
        if not row["class"].strip():
            continue
        try:
            a, b, c, d = (float(row[column]) for column in columns)
        except ValueError:
            raise VergenceError(f"{file}, row {number}: {', '.join(columns)} are numbers of pixels") from None
        raws[name].boxes.append((a, b, c, d))
        raws[name].names.append(row["class"].strip())
        raws[name].aside.append(False)
    classes = _table_classes(path, file, raws.values())
    return checked(list(raws.values()), classes, "corners" if columns is CORNERS else "sides", file)


def _table_classes(path: Path, file: Path, raws: Iterable[Raw]) -> list[str]:
    """Those of classes.txt, or of the training table, in alphabetical order."""
    if (path / "classes.txt").is_file():
        return _lines(path / "classes.txt")
    train = next((p for p in (path / "train.csv", path / "annotations.csv") if p.is_file()), file)
    if train == file:
        return sorted({name for raw in raws for name in raw.names})
    return sorted({row["class"].strip() for row in read_records(train, ("file", "class")) if row["class"].strip()})


def folder(path: Path, split: str) -> Collection:
    """Pictures without annotations, in any folders; one with a table of boxes is read as ``csv``."""
    if path.is_dir() and any((path / name).is_file() for name in ("train.csv", "test.csv", "annotations.csv")):
        return table(path, split)
    parts = ("train",) if split == "train" else ("test", "val")
    own = next((path / part for part in parts if (path / part).is_dir()), path)
    pictures = find_images(own) if own.is_dir() else []
    if not pictures:
        raise VergenceError(f"{path} has no pictures ({', '.join(sorted(SUFFIXES)[:5])} ...)")
    none = torch.zeros(0, 4), torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.bool)
    return Collection([Entry(picture, *none) for picture in pictures], (), "pictures without annotations")


# All ------------------------------------------------------------------------------------------------------------------

_VOC_FILES = "Annotations/*.xml, ImageSets/Main/*.txt and JPEGImages"
LAYOUTS: Mapping[str, Layout] = {
    "voc": Layout(voc, f"PASCAL VOC: VOCdevkit/VOC20xx with {_VOC_FILES}; classes.txt names other classes"),
    "watercolor": Layout(partial(voc, classes=SIX), f"Watercolor2k: {_VOC_FILES}"),
    "comic": Layout(partial(voc, classes=SIX), f"Comic2k: {_VOC_FILES}"),
    "clipart": Layout(voc, f"Clipart1k: {_VOC_FILES}"),
    "coco": Layout(coco, "COCO: annotations/instances_{train,val}*.json and the folders of pictures"),
    "cityscapes": Layout(cityscapes, "Cityscapes: leftImg8bit and gtFine (*_gtFine_polygons.json)"),
    "foggy": Layout(partial(cityscapes, beta=0.02), "Foggy Cityscapes: leftImg8bit_foggy and gtFine"),
    "yolo": Layout(yolo, "images/{train,val}, labels/{train,val}/*.txt and data.yaml or classes.txt"),
    "csv": Layout(table, "train.csv and test.csv (file, class, xmin, ymin, xmax, ymax) and pictures"),
    "folder": Layout(folder, "a folder of pictures, or one with train.csv and test.csv"),
}


def read_domain(source: str, split: str, beta: float, embedded: Callable[[], Any]) -> Any:
    """The pictures of a source; ``beta`` is the density of foggy ones."""
    foggy = is_named(source) and parse(source)[0] == "foggy"
    known = {**LAYOUTS, "foggy": Layout(partial(cityscapes, beta=beta), LAYOUTS["foggy"].about)} if foggy else LAYOUTS
    return read(source, known, split, embedded)
