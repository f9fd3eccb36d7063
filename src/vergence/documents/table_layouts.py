"""Public data sets of tables, by their published names: SciTSR, ICDAR 2013 and 2019, UNLV, PubTabNet, the JSON that
TabStruct-Net's code trains from, and a folder of pictures with a JSON file beside each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.classfolders import SHARES, split_of
from vergence.data.images import SUFFIXES
from vergence.documents.table_annotations import Box, Entry, TableFiles, entry, html_spans, number, whole
from vergence.reading.budget import within
from vergence.reading.files import open_file, read_bytes, read_text
from vergence.reading.tables import parse_json, read_json
from vergence.reading.voc import read_xml

BY_HASH = "nothing says how it is split, so tables are split by a hash of their names (" + ", ".join(
    f"{split} {share:.0%}" for split, share in SHARES.items()
) + ")"  # fmt: skip
STANDS_IN = {"train": ("train",), "val": ("val", "test"), "test": ("test", "val")}
POINTS = 72.0
"""Of an inch."""
MARGIN = 10.0
"""Points around a table that is cut out of its page."""
DPI = 150.0
"""Of SciTSR's pictures."""


def _files(entries: Sequence[Entry], where: Path, note: str = "", split: str = "") -> TableFiles:
    if not entries:
        raise VergenceError(f"{where} has no tables to read" + (f": {note}" if note else ""))
    return TableFiles(tuple(entries), note, split)


def _below(path: Path, pattern: str, what: str) -> list[Path]:
    """Files below a folder, sorted."""
    found = sorted(p for p in path.rglob(pattern) if p.is_file()) if path.is_dir() else []
    if not found:
        raise VergenceError(f"{path} has no {what}")
    return found


def _picture_of(stem: Path, what: Path) -> Path:
    """The picture with this path but for its ending."""
    beside = stem.parent.iterdir() if stem.parent.is_dir() else ()
    found = [p for p in sorted(beside) if p.name[: -len(p.suffix)] == stem.name and p.suffix.lower() in SUFFIXES]
    if not found:
        raise VergenceError(f"{what} has no picture: expected {stem.name}.png (or another format) in {stem.parent}")
    return found[0]


def _list(value: Any, key: str, path: Path) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise VergenceError(f"{path} has no list {key!r}")
    return found


# SciTSR ---------------------------------------------------------------------------------------------------------------


def scitsr(path: Path, split: str, complicated: bool = False) -> TableFiles:
    """``{train,test}/{structure,chunk,img}``: cells have the boxes of the chunks that say the same. Validation is the
    test; SciTSR-COMP are the tables of the test that ``SciTSR-COMP.list`` names."""
    part = "train" if split == "train" else "test"
    folder = path / part
    ids = [p.stem for p in _below(folder / "structure", "*.json", f"structures: expected {part}/structure/ID.json")]
    if complicated and part == "test":
        listed = [line.strip() for line in read_text(path / "SciTSR-COMP.list").splitlines() if line.strip()]
        stray = next((name for name in listed if name not in set(ids)), None)
        if stray is not None or not listed:
            raise VergenceError(f"{path / 'SciTSR-COMP.list'} names {stray!r}, which is not in {folder / 'structure'}")
        ids = listed
    entries = [found for name in ids if (found := _scitsr(folder, name)) is not None]
    return _files(entries, folder, split="test" if split == "val" else "")


def _scitsr(folder: Path, name: str) -> Entry | None:
    """A table; None if no chunk says what one of its cells says."""
    structure, chunks = folder / "structure" / f"{name}.json", folder / "chunk" / f"{name}.chunk"
    cells = _list(read_json(structure), "cells", structure)
    spans = [tuple(whole(cell, key, structure) for key in ("start_row", "end_row", "start_col", "end_col"))
             for cell in cells]  # fmt: skip
    texts = [" ".join(map(str, _list(cell, "content", structure))) for cell in cells]
    found = _list(read_json(chunks), "chunks", chunks)
    boxes = list[Box]()
    for chunk in found:
        x1, x2, y1, y2 = (number(v, chunks) for v in (_list(chunk, "pos", chunks) + [None] * 4)[:4])
        boxes.append((min(x1, x2), -max(y1, y2), max(x1, x2), -min(y1, y2)))  # a page counts upwards
    said = [str(chunk.get("text", "")) for chunk in found]
    content: list[Box | None] = [None] * len(cells)
    for mine, theirs in _same_texts(texts, said):
        order = sorted(mine, key=lambda k: (spans[k][0], spans[k][2]))
        if len(order) == len(theirs):
            for cell, chunk in zip(order, sorted(theirs, key=lambda k: (boxes[k][1], boxes[k][0])), strict=True):
                content[cell] = boxes[chunk]
    picture = _picture_of(folder / "img" / name, structure)
    if not any(content):
        return None
    return entry(structure, picture, spans, content=content, texts=texts, unit="drifting", scale=DPI / POINTS)


def _same_texts(cells: Sequence[str], chunks: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    """Places of cells and chunks that say the same, but for case and anything that is no letter or digit."""
    by_text: list[dict[str, list[int]]] = [defaultdict(list), defaultdict(list)]
    for known, texts in zip(by_text, (cells, chunks), strict=True):
        for place, text in enumerate(texts):
            known[re.sub(r"[\W_]+", "", text).lower()].append(place)
    return [(mine, by_text[1][text]) for text, mine in by_text[0].items() if text and text in by_text[1]]


# ICDAR ----------------------------------------------------------------------------------------------------------------


def icdar13(path: Path, split: str, parted: bool = False) -> TableFiles:
    """``NAME-str.xml`` beside pictures of pages, ``NAME-PAGE.png`` as pdftoppm writes them, or ``NAME.png``. The
    size of a page comes from ``NAME.pdf``, or from the picture's resolution. All tables are for every split, or split
    by a hash of their documents."""
    entries = []
    for own in _below(path, "*-str.xml", "ground truth: expected NAME-str.xml and pictures of the pages of NAME.pdf"):
        name = own.name.removesuffix("-str.xml")
        if parted and split_of(name) != split:
            continue
        root = read_xml(own, "ground truth of ICDAR 2013", "cell")
        if root.tag != "document":
            raise VergenceError(f"{own} is not ground truth of ICDAR 2013: it has no document")
        for region in root.iter("region"):
            cells = region.findall("cell")
            if cells:
                entries.append(_icdar13(own, name, region, cells))
    return _files(entries, path, BY_HASH if parted else "", "" if parted else "all")


def _icdar13(own: Path, name: str, region: ElementTree.Element, cells: Sequence[ElementTree.Element]) -> Entry:
    page = whole(region.attrib, "page", own, 1)
    spans, content, texts = [], [], []
    for cell in cells:
        row, column = (whole(cell.attrib, f"start-{key}", own, least=-1000) for key in ("row", "col"))
        spans.append((row, whole(cell.attrib, "end-row", own, row, -1000), column,
                      whole(cell.attrib, "end-col", own, column, -1000)))  # fmt: skip
        box = cell.find("bounding-box")
        if box is None:
            raise VergenceError(f"{own} has a cell without a bounding-box")
        x1, y1, x2, y2 = (number(box.get(key), own) for key in ("x1", "y1", "x2", "y2"))
        content.append((min(x1, x2), -max(y1, y2), max(x1, x2), -min(y1, y2)))
        said = cell.find("content")
        texts.append("" if said is None else " ".join("".join(said.itertext()).split()))
    low = [min(span[k] for span in spans) for k in (0, 2)]
    spans = [(a - low[0], b - low[0], c - low[1], d - low[1]) for a, b, c, d in spans]
    return entry(own, _page(own, name, page), spans, content=content, texts=texts, unit="points",
                 page=_page_size(own, name), margin=MARGIN)  # fmt: skip


def _page(own: Path, name: str, page: int) -> Path:
    """The picture of a page: pdftoppm pads numbers with zeros to the length of the last."""
    names = [f"{name}-{page:0{digits}d}" for digits in (1, 2, 3)] + ([name] if page == 1 else [])
    for stem in names:
        for suffix in sorted(SUFFIXES):
            if (own.parent / f"{stem}{suffix}").is_file():
                return own.parent / f"{stem}{suffix}"
    raise VergenceError(f"{own} has no picture of page {page}: expected {names[0]}.png in {own.parent}")


def _page_size(own: Path, name: str) -> tuple[float, float] | None:
    """Width and height of a document's first page in points; None if there is no document, or nothing says it."""
    path = own.parent / f"{name}.pdf"
    if not path.is_file():
        return None
    value = rb"\s*(-?[\d.]+)"
    found = re.search(rb"/MediaBox\s*\[" + value * 4, read_bytes(path, "a PDF document"))
    if found is None:
        return None
    left, bottom, right, top = (number(part.decode(), path) for part in found.groups())
    return abs(right - left), abs(top - bottom)


def ctdar(path: Path, split: str) -> TableFiles:
    """ICDAR 2019's XML of tables with cells (track B), and pictures of the same name somewhere below. A folder on the
    way that begins with train or test tells the split."""
    pictures = {p.stem: p for p in sorted(path.rglob("*")) if p.suffix.lower() in SUFFIXES} if path.is_dir() else {}
    entries, told = [], False
    for own in _below(path, "*.xml", "ground truth: expected XML files with tables and cells"):
        named = [s for s in ("train", "test") if any(p.lower().startswith(s) for p in own.relative_to(path).parts[:-1])]
        told = told or bool(named)
        if (named[0] if named else split_of(own.stem)) not in STANDS_IN[split]:
            continue
        root = read_xml(own, "ground truth of ICDAR 2019", "cell")
        for table in root.iter("table"):
            cells = table.findall("cell")
            if not cells:
                continue
            if own.stem not in pictures:
                raise VergenceError(f"{own} has no picture: expected {own.stem}.jpg below {path}")
            spans = [tuple(whole(c.attrib, key, own) for key in ("start-row", "end-row", "start-col", "end-col"))
                     for c in cells]  # fmt: skip
            boxes = [_hull(c.find("Coords"), own) for c in cells]
            entries.append(entry(own, pictures[own.stem], spans, cells=boxes, margin=MARGIN))
    return _files(entries, path, "" if told else BY_HASH, "test" if told and split == "val" else "")


def _hull(coords: ElementTree.Element | None, own: Path) -> Box:
    pairs = [point.split(",") for point in (coords.get("points") or "").split()] if coords is not None else []
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise VergenceError(f"{own} has a cell without points x,y")
    x, y = ([number(pair[k], own) for pair in pairs] for k in (0, 1))
    return min(x), min(y), max(x), max(y)


# UNLV -----------------------------------------------------------------------------------------------------------------


def unlv(path: Path, split: str, parted: bool = False) -> TableFiles:
    """The XML of T-Truth (DAS 2010): ``GroundTruth/Tables/Table/Cell``, and a page's picture of the same name beside it
    or somewhere below. All tables are for every split, or split by a hash of their pages."""
    pictures = {p.stem: p for p in sorted(path.rglob("*")) if p.suffix.lower() in SUFFIXES} if path.is_dir() else {}
    entries = []
    for own in _below(path, "*.xml", "ground truth: expected XML files of T-Truth"):
        if parted and split_of(own.stem) != split:
            continue
        root = read_xml(own, "ground truth of T-Truth", "Cell")
        if root.tag != "GroundTruth":
            raise VergenceError(f"{own} is not ground truth of T-Truth: it begins with {root.tag!r}")
        for table in root.iter("Table"):
            cells = [c for c in table.findall("Cell") if (c.get("dontCare") or "").lower() != "true"]
            if not cells:
                continue
            if own.stem not in pictures:
                raise VergenceError(f"{own} has no picture: expected {own.stem}.png below {path}")
            spans = [tuple(whole(c.attrib, key, own) for key in ("startRow", "endRow", "startCol", "endCol"))
                     for c in cells]  # fmt: skip
            boxes = [tuple(number(c.get(key), own) for key in ("x0", "y0", "x1", "y1")) for c in cells]
            entries.append(entry(own, pictures[own.stem], spans, cells=boxes, margin=MARGIN))  # type: ignore[arg-type]
    return _files(entries, path, BY_HASH if parted else "", "" if parted else "all")


# PubTabNet ------------------------------------------------------------------------------------------------------------


def pubtabnet(path: Path, split: str) -> TableFiles:
    """``PubTabNet_2.0.0.jsonl`` (or another .jsonl) and the folders ``train`` and ``val``. The test has no public
    ground truth: validation stands in."""
    own = _below(path, "*.jsonl", "annotation: expected PubTabNet_2.0.0.jsonl, train and val")[0]
    part, entries = "train" if split == "train" else "val", list[Entry]()
    with open_file(own, "an annotation of PubTabNet") as file:
        for count, line in enumerate(file, 1):
            within("points", count, own)
            if not line.strip():
                continue
            row = parse_json(line, own, "an annotation of PubTabNet, one table on each line")
            if not isinstance(row, dict) or not isinstance(row.get("html"), dict):
                raise VergenceError(f"line {count} of {own} has no html")
            if row.get("split") != part:
                continue
            name = str(row.get("filename"))
            if not name or "/" in name or "\\" in name or name in (".", ".."):
                raise VergenceError(f"line {count} of {own} names no picture: {name[:60]!r}")
            tokens = _list(row["html"].get("structure"), "tokens", own)
            cells = _list(row["html"], "cells" if "cells" in row["html"] else "cell", own)
            spans = html_spans([str(token) for token in tokens], own)
            if len(spans) != len(cells):
                raise VergenceError(f"line {count} of {own} has {len(cells)} cells for {len(spans)} places")
            boxes = [_corners(cell.get("bbox"), own) for cell in cells]
            texts = [re.sub(r"<[^>]*>", "", "".join(map(str, cell.get("tokens", ())))) for cell in cells]
            if any(boxes):
                entries.append(entry(own, own.parent / part / name, spans, content=boxes, texts=texts))
    return _files(entries, own, split="val" if split == "test" else "")


def _corners(value: Any, own: Path) -> Box | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 4:
        raise VergenceError(f"{own} has a box that is not four numbers: {str(value)[:60]}")
    left, top, right, bottom = (number(v, own) for v in value)
    return left, top, right, bottom


# JSON -----------------------------------------------------------------------------------------------------------------


def tabstruct(path: Path, split: str) -> TableFiles:
    """The JSON of COCO's form that the authors' code trains from, ``annotations/instances_{train,val}2014.json``, whose
    boxes have ``start_row``, ``end_row``, ``start_col`` and ``end_col``, and the folders ``train2014``, ``val2014``."""
    part = "train" if split == "train" else "val"
    own = path / "annotations" / f"instances_{part}2014.json"
    document = read_json(own, "an annotation of COCO's form")
    rows = defaultdict[Any, list[Any]](list)
    for row in _list(document, "annotations", own):
        rows[row.get("image_id") if isinstance(row, dict) else None].append(row)
    entries = []
    for image in _list(document, "images", own):
        mine = rows.get(image.get("id"), [])
        if mine:
            spans = [
                tuple(whole(r, key, own) for key in ("start_row", "end_row", "start_col", "end_col")) for r in mine
            ]
            boxes = [_corners(r.get("bbox"), own) for r in mine]
            cells = [(b[0], b[1], b[0] + b[2], b[1] + b[3]) if b is not None else None for b in boxes]
            name = Path(str(image.get("file_name"))).name
            entries.append(entry(own, path / f"{part}2014" / name, spans, cells=cells))
    return _files(entries, own, split="val" if split == "test" else "")


def folder(path: Path, split: str) -> TableFiles:
    """Pictures, each with a JSON file of the same name: ``cells`` with ``box`` (left, top, right, bottom),
    ``start_row``, ``end_row``, ``start_col``, ``end_col`` and perhaps ``text``, as prediction writes them. In folders
    ``train``, ``val`` and ``test``, or split by a hash."""
    parts = [name for name in ("train", "val", "test") if (path / name).is_dir()]
    name = next((name for name in STANDS_IN[split] if name in parts), None)
    if parts and name is None:
        raise VergenceError(f"{path} has no folder {split}")
    entries = []
    for own in _below(path / name if name else path, "*.json", "tables: expected a JSON file beside each picture"):
        if parts or split_of(own.stem) == split:
            cells = _list(read_json(own), "cells", own)
            spans = [
                tuple(whole(c, key, own) for key in ("start_row", "end_row", "start_col", "end_col")) for c in cells
            ]
            boxes = [_corners(c.get("box"), own) for c in cells]
            if not cells or None in boxes:
                raise VergenceError(f"{own} has {'a cell without a box' if cells else 'no cells'}")
            texts = [str(c.get("text", "")) for c in cells]
            entries.append(entry(own, _picture_of(own.with_suffix(""), own), spans, cells=boxes, texts=texts))
    return _files(entries, path, "" if parts else BY_HASH, name if name and name != split else "")


READERS: dict[str, tuple[Callable[[Path, str], TableFiles], str]] = {
    "folder": (folder, "pictures of tables with a JSON file beside each, perhaps in train, val and test"),
    "scitsr": (scitsr, "train and test, each with structure, chunk and img"),
    "scitsr-comp": (partial(scitsr, complicated=True), "SciTSR with SciTSR-COMP.list"),
    "icdar13": (icdar13, "NAME-str.xml beside pictures of pages, NAME-1.png"),
    "icdar13-partial": (partial(icdar13, parted=True), "the same, split by a hash"),
    "ctdar": (ctdar, "XML of ICDAR 2019 with cells, and pictures of the same names"),
    "unlv": (unlv, "XML of T-Truth, and pictures of the same names"),
    "unlv-partial": (partial(unlv, parted=True), "the same, split by a hash"),
    "pubtabnet": (pubtabnet, "PubTabNet_2.0.0.jsonl and the folders train and val"),
    "tabstruct": (tabstruct, "annotations/instances_train2014.json, instances_val2014.json and their folders"),
}
LAYOUTS = {name: Layout(read, about) for name, (read, about) in READERS.items()}
