"""Boxes in the XML files of Pascal VOC and ILSVRC."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from vergence.core.errors import VergenceError
from vergence.reading.budget import within
from vergence.reading.files import read_text, refusing

XML = "an annotation with boxes in XML"


class VocBox(NamedTuple):
    """An object of a picture: its name, and its box in pixels."""

    name: str
    left: float
    top: float
    right: float
    bottom: float
    difficult: bool = False


class Annotation(NamedTuple):
    """The size of the annotated picture, and its objects."""

    width: int
    height: int
    boxes: tuple[VocBox, ...]


def read_xml(path: Path, what: str, counted: str) -> ElementTree.Element:
    """The root of an annotation, with a bounded number of elements named ``counted``. Declared entities, which can name
    other files and grow without end, are refused."""
    text = read_text(path, what)
    if "<!" in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL):
        raise VergenceError(f"{path} is refused: it declares things that an annotation does not need")
    within("points", text.count(f"<{counted}"), path)
    with refusing(path, what):
        return ElementTree.fromstring(re.sub(r"^\s*<\?xml.*?\?>", "", text, flags=re.DOTALL))


def read_annotation(path: Path) -> Annotation:
    """The boxes of one picture as they stand, which may be none, or boxes without area."""
    root = read_xml(path, XML, "object")
    width, height = (int(_number(root, f"size/{name}", path)) for name in ("width", "height"))
    if width < 1 or height < 1:
        raise VergenceError(f"{path} is not {XML}: it has a picture of {width} x {height}")
    boxes = []
    for item in root.findall("object"):
        left, top, right, bottom = (_number(item, f"bndbox/{name}", path) for name in ("xmin", "ymin", "xmax", "ymax"))
        difficult = (item.findtext("difficult") or "").strip() == "1"
        boxes.append(VocBox((item.findtext("name") or "").strip(), left, top, right, bottom, difficult))
    return Annotation(width, height, tuple(boxes))


def read_voc(path: Path) -> Annotation:
    """The boxes of one picture; it has at least one, and each has an area."""
    found = read_annotation(path)
    for box in found.boxes:
        if not (box.left < box.right and box.top < box.bottom):
            raise VergenceError(
                f"{path} has a box without area: {box.left:g}, {box.top:g}, {box.right:g}, {box.bottom:g}"
            )
    if not found.boxes:
        raise VergenceError(f"{path} is not {XML}: it has 0 objects in a picture of {found.width} x {found.height}")
    return found


def _number(element: ElementTree.Element, name: str, path: Path) -> float:
    text = (element.findtext(name) or "").strip()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e9:
        raise VergenceError(f"{path} is not {XML}: {name} is a number of pixels, got {text!r}")
    return value
