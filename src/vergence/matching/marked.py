"""Readers of pictures with keypoints: Pascal VOC with Berkeley's keypoints, SPair-71k, Willow, and a plain folder.

Pools have no split for validation: it reads the pictures to train on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.images import SUFFIXES
from vergence.matching.keypoints import Listed, Marked, Pool
from vergence.reading.matlab import read_mat
from vergence.reading.pickles import read_npz_of_lists
from vergence.reading.pictures import read_picture
from vergence.reading.tables import read_json, read_rows
from vergence.reading.voc import read_xml

VOC = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
WILLOW, WILLOW_TRAINING = ("Car", "Duck", "Face", "Motorbike", "Winebottle"), 20
KEYPOINTS = "a file of keypoints: CSV with the columns x and y (and perhaps name), or JSON with a list of [x, y]"


@dataclass(frozen=True)
class Keypoint:
    """A point in pixels of its picture, perhaps with a name."""

    name: str
    x: float
    y: float


def read_keypoints(path: Path) -> list[Keypoint]:
    """Keypoints of a picture: CSV with or without a heading, or JSON with a list of [x, y] or {"x", "y", "name"}, or
    with places by name. Those without a name are called by their number."""
    rows: Iterable[Any]
    if path.suffix.lower() == ".json":
        content = read_json(path, KEYPOINTS)
        content = content.get("keypoints", content) if isinstance(content, dict) else content
        if isinstance(content, dict):
            rows = [(name, *(place if isinstance(place, list) else [])) for name, place in content.items()]
        elif isinstance(content, list):
            rows = [
                (one.get("name", ""), one.get("x"), one.get("y")) if isinstance(one, dict)
                else ("", *one) if isinstance(one, list) else () for one in content
            ]  # fmt: skip
        else:
            raise VergenceError(f"{path} is not {KEYPOINTS}")
    else:
        table = read_rows(path, what=KEYPOINTS)
        heading = [cell.strip().lower() for cell in table[0]] if table else []
        if "x" in heading and "y" in heading:
            x, y, name = heading.index("x"), heading.index("y"), heading.index("name") if "name" in heading else -1
            rows = [(row[name] if name >= 0 else "", row[x], row[y]) if len(row) == len(heading) else ()
                    for row in table[1:]]  # fmt: skip
        else:
            rows = [("", *row) for row in table]
    return _checked(rows, path)


def _checked(rows: Iterable[Any], path: Path) -> list[Keypoint]:
    points: list[Keypoint] = []
    for number, row in enumerate(rows, 1):
        try:
            name, x, y = row
            point = Keypoint(str(name) or str(number), float(x), float(y))
        except (TypeError, ValueError):
            raise VergenceError(f"{path} is not {KEYPOINTS}: its point {number} is not") from None
        if not (math.isfinite(point.x) and math.isfinite(point.y)):
            raise VergenceError(f"{path} has a keypoint that is not finite: number {number}")
        points.append(point)
    names = [point.name for point in points]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise VergenceError(f"{path} has two keypoints of the name {twice!r}")
    return points


# Pascal VOC -----------------------------------------------------------------------------------------------------------


def voc(path: Path, split: str) -> Pool:
    """Objects of VOC 2011 with Berkeley's keypoints, by the list of pairs that the field uses. Objects that are
    truncated, occluded or difficult are left out, and persons in pictures later than 2008."""
    root = _first(path, "VOC2011", "VOC2011/JPEGImages", "TrainVal/VOCdevkit/VOC2011", "VOCdevkit/VOC2011")
    root = root.parent if root.name == "JPEGImages" else root
    marks = _first(path, "Berkeley's keypoints (annotations/KIND/*.xml)", "annotations", "voc2011_keypoints_Feb2012")
    marks = marks / "annotations" if (marks / "annotations").is_dir() else marks
    listed = _first(path, "the list voc2011_pairs.npz", "voc2011_pairs.npz", "split/voc2011_pairs.npz")
    lists = read_npz_of_lists(listed).get("test" if split == "test" else "train")
    if not isinstance(lists, list) or len(lists) != len(VOC) or not all(isinstance(own, list) for own in lists):
        raise VergenceError(f"{listed} has no lists for {len(VOC)} kinds of objects in {split}")
    pictures = []
    for kind, names in zip(VOC, lists, strict=True):
        for name in names:
            found = re.fullmatch(r"[^/\\]+/((\d{4})_\w+?)_(\d+)\.xml", str(name))
            if not found:
                raise VergenceError(f"{listed} names {str(name)!r:.60}: expected KIND/PICTURE_OBJECT.xml")
            clean = _clean(root / "Annotations" / f"{found[1]}.xml", int(found[3]))
            if clean and not (kind == "person" and int(found[2]) > 2008):
                pictures.append(_berkeley(marks / str(name), root / "JPEGImages", kind))
    return _pool(pictures, path)


def without_willow(pool: Pool) -> Pool:
    """Without pictures of 2007 of the kinds that Willow has, which took some of its own from there."""
    shared = [one.kind in ("car", "motorbike") and str(one.picture).rpartition("/")[2].startswith("2007_")
              for one in pool.pictures]  # fmt: skip
    kept = [one for one, out in zip(pool.pictures, shared, strict=True) if not out]
    return Pool(tuple(kept))


def _clean(path: Path, number: int) -> bool:
    """Whether an object, counted from 1, is whole and easy."""
    objects = read_xml(path, "an annotation of VOC", "object").findall("object")
    if not 1 <= number <= len(objects):
        raise VergenceError(f"{path} has {len(objects)} objects, and keypoints are of object {number}")
    flags = [objects[number - 1].findtext(name, "0").strip() for name in ("difficult", "occluded", "truncated")]
    return all(flag in ("0", "") for flag in flags)


def _berkeley(path: Path, folder: Path, kind: str) -> Marked:
    root = read_xml(path, "an annotation of keypoints", "keypoint")
    bounds = root.find("visible_bounds")
    name = (root.findtext("image") or "").strip()
    try:
        assert bounds is not None
        assert re.fullmatch(r"\w+", name)
        left, top, width, height = (float(bounds.attrib[key]) for key in ("xmin", "ymin", "width", "height"))
        assert width > 0
        assert height > 0
        points = {}
        for mark in root.findall("keypoints/keypoint"):
            x, y = (float(mark.attrib["x"]) - left) / width, (float(mark.attrib["y"]) - top) / height
            if 0 <= x <= 1 and 0 <= y <= 1:
                points[mark.attrib["name"]] = (x, y)
    except (AssertionError, KeyError, ValueError):
        raise VergenceError(f"{path} is not an annotation of keypoints: expected image, bounds and keypoints") from None
    return Marked(kind, folder / f"{name}.jpg", points, (max(left, 0.0), max(top, 0.0), width, height))


# SPair-71k ------------------------------------------------------------------------------------------------------------


def spair(path: Path, split: str) -> Listed:
    """The listed pairs of SPair-71k; whole pictures."""
    root = path / "SPair-71k" if (path / "SPair-71k").is_dir() else path
    own = {"train": "trn", "val": "val", "test": "test"}[split]
    listed = root / "Layout" / "large" / f"{own}.txt"
    pairs = []
    for row in read_rows(listed, delimiter="\n", what="the list of pairs of SPair-71k"):
        name = row[0].strip()
        if not re.fullmatch(r"\d+-[\w-]+:[a-z]+", name):
            raise VergenceError(f"{listed} is not the list of pairs of SPair-71k: it names {name!r:.60}")
        pairs.append(_listed_pair(root, root / "PairAnnotation" / own / f"{name}.json"))
    if not pairs:
        raise VergenceError(f"{listed} lists no pairs")
    return Listed(tuple(pairs))


def _listed_pair(root: Path, path: Path) -> tuple[Marked, Marked]:
    content = read_json(path, "an annotation of a pair")
    sides = []
    try:
        kind = content["category"]
        ids = content.get("kps_ids") or list(range(len(content["src_kps"])))
        for side in ("src", "trg"):
            width, height = content[f"{side}_imsize"][:2]
            name, points = content[f"{side}_imname"], content[f"{side}_kps"]
            assert re.fullmatch(r"[\w.-]+", name)
            assert re.fullmatch(r"\w+", kind)
            assert len(points) == len(ids) > 0
            places = {str(id): (float(x) / width, float(y) / height) for id, (x, y) in zip(ids, points, strict=True)}
            sides.append(Marked(kind, root / "JPEGImages" / kind / name, places))
    except (AssertionError, KeyError, TypeError, ValueError, ZeroDivisionError):
        raise VergenceError(f"{path} is not an annotation of a pair: expected category, and for src and trg imname, "
                            "imsize and kps") from None  # fmt: skip
    return sides[0], sides[1]


# Willow and folders ---------------------------------------------------------------------------------------------------


def willow(path: Path, split: str) -> Pool:
    """Willow ObjectClass: the first 20 pictures of each kind are for training."""
    root = path / "WILLOW-ObjectClass" if (path / "WILLOW-ObjectClass").is_dir() else path
    pictures = []
    for kind in WILLOW:
        files = sorted((root / kind).glob("*.mat"))
        for file in files[WILLOW_TRAINING:] if split == "test" else files[:WILLOW_TRAINING]:
            coordinates = read_mat(file, ("pts_coord",)).get("pts_coord")
            if coordinates is None or coordinates.shape[0] != 2 or not coordinates.size:
                raise VergenceError(f"{file} has no pts_coord (2, 10)")
            picture = file.with_suffix(".png")
            size = read_picture(picture).size
            rows = {str(n): (float(x) / size[0], float(y) / size[1]) for n, (x, y) in enumerate(coordinates.T)}
            pictures.append(Marked(kind, picture, rows))
    return _pool(pictures, path)


def folder(path: Path, split: str) -> Pool:
    """Your own: ``train/KIND/NAME.jpg`` and ``test/KIND/NAME.jpg`` with ``NAME.csv`` or ``NAME.json`` beside them."""
    root = path / ("test" if split == "test" else "train")
    if not root.is_dir():
        raise VergenceError(f"{root} does not exist: expected {folder.__doc__}")
    pictures = []
    for picture in sorted(p for p in root.glob("*/*") if p.suffix.lower() in SUFFIXES):
        marks = beside(picture)
        points = read_keypoints(marks)
        if not points:
            raise VergenceError(f"{marks} has no keypoints")
        width, height = read_picture(picture).size
        places = {point.name: ((point.x + 0.5) / width, (point.y + 0.5) / height) for point in points}
        pictures.append(Marked(picture.parent.name, picture, places))
    return _pool(pictures, path)


def beside(picture: Path) -> Path:
    """The file with the keypoints of a picture."""
    files = [picture.with_suffix(suffix) for suffix in (".csv", ".json")]
    found = next((file for file in files if file.exists()), None)
    if found is None:
        raise VergenceError(f"{picture} has no keypoints: expected {files[0].name} or {files[1].name} beside it")
    return found


def _pool(pictures: Sequence[Marked], path: Path) -> Pool:
    kinds = {one.kind for one in pictures}
    alone = sorted(kind for kind in kinds if sum(one.kind == kind for one in pictures) < 2)
    kept = [one for one in pictures if one.kind not in alone]
    if not kept:
        raise VergenceError(f"{path} has no two marked pictures of the same kind")
    return Pool(tuple(kept))


def _first(path: Path, what: str, *names: str) -> Path:
    found = next((path / name for name in names if (path / name).exists()), None)
    if found is None:
        raise VergenceError(f"{path} has no {what}: expected {' or '.join(names)} in it")
    return found


LAYOUTS = {
    "folder": Layout(folder, "train/KIND/NAME.jpg and test/KIND/NAME.jpg with NAME.csv (name, x, y) or NAME.json"),
    "voc": Layout(voc, "VOC2011/, annotations/KIND/*.xml of Berkeley's keypoints, and voc2011_pairs.npz"),
    "spair": Layout(spair, "Layout/large/*.txt, PairAnnotation/*/*.json and JPEGImages/KIND/*.jpg of SPair-71k"),
    "willow": Layout(willow, "Car, Duck, Face, Motorbike and Winebottle with NAME.png and NAME.mat (pts_coord)"),
}
