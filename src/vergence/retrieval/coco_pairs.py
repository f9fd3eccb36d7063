"""From annotated pictures in COCO's format to pairs: objects cut out, their places filled, attributes to patterns.

    python -m vergence.retrieval.coco_pairs COCO OUT                       # people of COCO, or your own annotations
    python -m vergence.retrieval.coco_pairs COCO OUT --category dog --attributes mine.csv

``COCO`` has ``annotations/instances_*.json`` (or one ``annotations.json``) with polygons or run lengths, and the
pictures in a folder of the same name (``train2017``), in ``images``, or beside the annotations. ``attributes.csv`` has
a column ``id`` (of the annotation) and one column per attribute; objects with equal values are one pattern, rows of
empty values have none. Without it, patterns follow from the boxes: where the picture cuts an object, and its shape.

``OUT`` becomes a folder that ``vergence train fosearch --data OUT`` reads, and ``OUT/foregrounds`` a gallery for
``vergence predict fosearch``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.files import write_table
from vergence.data.coco_masks import mask_of
from vergence.data.images import read_image
from vergence.drawing.masks import write_picture
from vergence.reading.files import refusing
from vergence.reading.tables import read_json, read_records
from vergence.retrieval.cutouts import Fill, grown, inpainted, trimmed

CATEGORY = "person"
LEAST_SIDE, LEAST_FILL = 32, 0.2
"""Objects narrower or lower than this many pixels are left out as small, and those that fill less than this share of
their box as occluded."""
WHAT = "annotations of COCO"
BORDER = 2.0
"""Pixels: a box that ends as near to the border is cut by it."""


@dataclass(frozen=True)
class Instance:
    """An annotated object."""

    identity: int
    picture: Path
    size: tuple[int, int]
    """Height and width of its picture."""
    box: tuple[float, float, float, float]
    segmentation: Any
    others: int
    """Other objects of its category in the picture."""
    source: Path

    @property
    def name(self) -> str:
        return f"annotation {self.identity} of {self.source}"

    def mask(self) -> Tensor:
        return mask_of(self.segmentation, *self.size, self.name)

    def read(self) -> Tensor:
        """Its picture, (3, H, W) of bytes."""
        picture = read_image(self.picture)
        if tuple(picture.shape[-2:]) != self.size:
            high, wide = picture.shape[-2:]
            raise VergenceError(
                f"{self.picture} is {wide} x {high} pixels, but {self.source} says {self.size[1]} x {self.size[0]}"
            )
        return picture

    def cutout(self) -> Tensor:
        """The object alone, (4, h, w) of bytes."""
        return trimmed(torch.cat([self.read(), self.mask().to(torch.uint8).unsqueeze(0) * 255]), self.name)

    def background(self, fill: Fill = "pyramid") -> Tensor:
        """Its picture without the object, (3, H, W) of bytes."""
        return inpainted(self.read(), grown(self.mask(), max(round(max(self.size) / 150), 1)), fill)


def annotation_files(path: Path) -> list[Path]:
    """The annotation files of a folder in COCO's layout."""
    patterns = ("annotations/instances_*.json", "annotations/*.json", "annotations.json", "instances.json")
    found = next((files for pattern in patterns if (files := sorted(path.glob(pattern)))), []) if path.is_dir() else []
    if not found:
        raise VergenceError(f"{path} has no annotations/instances_*.json and no annotations.json")
    return found


def instances(path: Path, category: str = "") -> list[Instance]:
    """The objects of a category that are neither crowds nor small nor mostly hidden. By default people, or the most
    frequent category where there are none."""
    found = [instance for file in annotation_files(path) for instance in _of_file(file, category)]
    if not found:
        raise VergenceError(
            f"{annotation_files(path)[0]} has no object of the category {category or CATEGORY!r} that is at least "
            f"{LEAST_SIDE} pixels wide and high and not mostly hidden"
        )
    return found


def _of_file(file: Path, category: str) -> list[Instance]:
    content = read_json(file, WHAT)
    keys = ("images", "annotations", "categories")
    if not isinstance(content, dict) or not all(isinstance(content.get(key), list) for key in keys):
        raise VergenceError(f"{file} is not {WHAT}: expected images, annotations and categories")
    with refusing(file, WHAT):
        names = {int(row["id"]): str(row["name"]) for row in content["categories"]}
        counts = Counter(names.get(int(row["category_id"]), "") for row in content["annotations"])
        chosen = category or (CATEGORY if counts[CATEGORY] else counts.most_common(1)[0][0] if counts else CATEGORY)
        if category and category not in names.values():
            raise VergenceError(f"{file} has no category {category!r}")
        pictures = {
            row["id"]: (str(row["file_name"]), int(row["height"]), int(row["width"])) for row in content["images"]
        }
        rows = [row for row in content["annotations"] if names.get(int(row["category_id"])) == chosen]
        company = Counter(row["image_id"] for row in rows)
        found = []
        for row in rows:
            if row["image_id"] not in pictures:
                raise VergenceError(
                    f"{file}: annotation {row['id']} is of picture {row['image_id']}, which is not there"
                )
            name, high, wide = pictures[row["image_id"]]
            left, top, width, height = (float(value) for value in row["bbox"])
            area = float(row.get("area", width * height))
            if row.get("iscrowd") or min(width, height) < LEAST_SIDE or area < LEAST_FILL * width * height:
                continue
            place = _picture(file, name)
            found.append(Instance(int(row["id"]), place, (high, wide), (left, top, width, height), row["segmentation"],
                                  company[row["image_id"]] - 1, file))  # fmt: skip
    return found


def _picture(file: Path, name: str) -> Path:
    root = file.parent.parent if file.parent.name == "annotations" else file.parent
    word = file.stem.removeprefix("instances_")
    places = (root / word / name, root / "images" / word / name, root / "images" / name, root / name)
    return next((place for place in places if place.exists()), places[0])


# Attributes and patterns ----------------------------------------------------------------------------------------------


def read_attributes(file: Path) -> dict[int, dict[str, str]]:
    """By annotation the values of its attributes, from a table with a column ``id``."""
    rows = read_records(file, ("id",), "a table of attributes")
    with refusing(file, "a table of attributes"):
        return {int(row["id"]): {k: v.strip() for k, v in row.items() if k != "id"} for row in rows}


def automatic(instance: Instance) -> dict[str, str]:
    """What a box alone tells: the borders of the picture that cut the object, and its shape."""
    left, top, width, height = instance.box
    high, wide = instance.size
    borders = {
        "left": left <= BORDER, "right": left + width >= wide - BORDER,
        "above": top <= BORDER, "below": top + height >= high - BORDER,
    }  # fmt: skip
    cut = [name for name, touched in borders.items() if touched]
    ratio = width / height
    shape = "tall" if ratio < 0.45 else "upright" if ratio < 0.8 else "square" if ratio < 1.3 else "wide"
    return {"truncation": f"cut {' and '.join(cut)}" if cut else "whole", "shape": shape}


def group_patterns(rows: Sequence[Mapping[str, str]]) -> tuple[Tensor, tuple[str, ...]]:
    """A pattern for each row of attributes (n,): rows with the same values share it, and rows without any value have
    none (-1); and the names of the patterns."""
    texts = [", ".join(value for value in row.values() if value) for row in rows]
    names = tuple(sorted({text for text in texts if text}))
    places = {name: place for place, name in enumerate(names)}
    return torch.tensor([places.get(text, -1) for text in texts], dtype=torch.long), names


def patterns_of(found: Sequence[Instance], file: Path | None) -> tuple[Tensor, tuple[str, ...]]:
    """The patterns of instances (n,), by a table of attributes or automatically, and their names."""
    if file is None:
        return group_patterns([automatic(instance) for instance in found])
    known = read_attributes(file)
    if not set(known) & {instance.identity for instance in found}:
        raise VergenceError(f"{file} has no row for any of the {len(found)} objects: its ids are not theirs")
    return group_patterns([known.get(instance.identity, {}) for instance in found])


@dataclass(frozen=True)
class Parts:
    """Cut-outs of instances by index, or their backgrounds."""

    found: Sequence[Instance]
    removed: bool = False

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, index: int) -> Tensor:
        instance = self.found[index]
        return instance.background() if self.removed else instance.cutout()

    @cached_property
    def boxes(self) -> Tensor:
        return torch.tensor([instance.box for instance in self.found], dtype=torch.float32)


# Writing --------------------------------------------------------------------------------------------------------------


def write_pairs(
    path: Path, out: Path, category: str = "", attributes: Path | None = None, fill: Fill = "pyramid"
) -> int:
    """Write the pairs of a COCO folder to another folder; returns how many. Objects whose files cannot be read are an
    error."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise VergenceError(f"{out} exists already: expected the name of a new or empty folder")
    found = instances(path, category)
    own = path / "attributes.csv"
    patterns, names = patterns_of(found, attributes or (own if own.is_file() else None))
    out.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and moved when it is whole: an error leaves nothing behind.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        whole = Path(scratch) / "pairs"
        _write(whole, found, [names[pattern] if pattern >= 0 else "" for pattern in patterns.tolist()], fill)
        if out.exists():
            out.rmdir()
        whole.rename(out)
    return len(found)


def _write(out: Path, found: Sequence[Instance], patterns: Sequence[str], fill: Fill) -> None:
    for folder in ("backgrounds", "foregrounds"):
        (out / folder).mkdir(parents=True)
    pairs, kinds = [], []
    for instance, pattern in zip(found, patterns, strict=True):
        name = f"{instance.picture.stem}-{instance.identity}.png"
        write_picture(out / "backgrounds" / name, instance.background(fill))
        # A transparent border, so that an object that fills its box is told from a picture without transparency.
        write_picture(out / "foregrounds" / name, F.pad(instance.cutout(), (1, 1, 1, 1)))
        pairs.append([name, *(f"{value:g}" for value in instance.box), name])
        kinds.append([name, pattern])
    write_table(out / "pairs.csv", ["background", "x", "y", "width", "height", "foreground"], pairs)
    write_table(out / "foregrounds" / "patterns.csv", ["file", "pattern"], kinds)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coco", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--category", default="", help="the category whose objects are cut out")
    parser.add_argument("--attributes", type=Path, help="a table of attributes; by default attributes.csv in COCO")
    parser.add_argument(
        "--fill", choices=get_args(Fill), default="pyramid", help="how the places of objects are filled"
    )
    options = parser.parse_args(argv)
    try:
        count = write_pairs(options.coco, options.out, options.category, options.attributes, options.fill)
    except VergenceError as error:
        parser.exit(2, f"{error}\n")
    print(f"{options.out}: {count} pairs of a background and a cut-out")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
