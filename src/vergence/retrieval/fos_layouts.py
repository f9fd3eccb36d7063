"""Readers of data for foreground object search: a folder of pairs, COCO's annotations, and FOSD."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.images import read_image
from vergence.reading.files import refusing
from vergence.reading.pictures import picture_size
from vergence.reading.tables import read_json, read_records
from vergence.retrieval.coco_pairs import Parts, instances, patterns_of
from vergence.retrieval.cutouts import filled, read_cutout
from vergence.retrieval.foregrounds import Pairs, Reads

MEMBERS, TESTED, VALIDATED, QUERIES = 20, 5, 2, 100
"""The protocol: patterns of at least 20 cut-outs give 5 of them to the test (and 2 to validation), of whose queries 100
are asked."""


@dataclass(frozen=True)
class Files:
    """Pictures or cut-outs read from files by index."""

    paths: Sequence[Path]
    read: Callable[[Path], Tensor]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        return self.read(self.paths[index])


def held_out(patterns: Tensor) -> tuple[Tensor, str]:
    """A split for each of n cut-outs with patterns (n,): 0 for training, 1 for validation, 2 for the test; and a
    sentence that says how it was made. Every n-th member of a pattern is held out, so that it is the same each time.

    Patterns of at least 20 members give 5 to the test and 2 to validation, as published; where there is no such
    pattern, every pattern of at least 3 gives a fifth, at least one each.
    """
    split = torch.zeros(len(patterns), dtype=torch.long)
    known, counts = patterns[patterns >= 0].unique(return_counts=True)
    published = bool((counts >= MEMBERS).any())
    for pattern, count in zip(known.tolist(), counts.tolist(), strict=True):
        if count < (MEMBERS if published else 3):
            continue
        tested, validated = (TESTED, VALIDATED) if published else (max(count // 5, 1), max(count // 10, 1))
        members = (patterns == pattern).nonzero()[:, 0]
        held = members[torch.linspace(0, count - 1, tested + validated).round().long()]
        split[held] = 2
        split[held[:: max((tested + validated) // validated, 1)][:validated]] = 1
    if not bool((split == 2).any()):
        raise VergenceError("no pattern has three cut-outs: there is nothing to hold out for the test")
    given = f"{MEMBERS} cut-outs give {TESTED}" if published else "3 cut-outs give a fifth"
    return split, f"the data is split here: patterns of at least {given} of them to the test"


@dataclass(frozen=True)
class Holes:
    """Backgrounds whose boxes are blank, read from files by index and filled from around the box."""

    paths: Sequence[Path]
    boxes: Tensor

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        picture = read_image(self.paths[index])
        left, top, width, height = self.boxes[index].tolist()
        hole = torch.zeros(picture.shape[-2:], dtype=torch.bool)
        # One pixel more: compression blurs the border of the blank.
        hole[max(int(top) - 1, 0) : int(top + height) + 2, max(int(left) - 1, 0) : int(left + width) + 2] = True
        return filled(picture, hole)


def _part(pairs: Pairs, part: Tensor, queries: Tensor) -> Pairs:
    """The cut-outs at some places with those of the ``queries`` that are theirs."""
    places = torch.full((len(pairs.patterns),), -1)
    places[part] = torch.arange(len(part))
    kept = queries[places[pairs.own[queries]] >= 0]
    if not len(kept):
        raise VergenceError("no query is left for this split")
    fits = None if pairs.fits is None else pairs.fits[kept][:, part]
    return Pairs(_Some(pairs.backgrounds, kept), pairs.boxes[kept], _Some(pairs.cutouts, part), places[pairs.own[kept]],
                 pairs.patterns[part], pairs.names, fits, note=pairs.note)  # fmt: skip


@dataclass(frozen=True)
class _Some:
    """Some of the pictures of another collection."""

    data: Reads
    places: Tensor

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Tensor:
        return self.data[int(self.places[index])]


def _splitted(pairs: Pairs, splits: Tensor, split: str, queries: Tensor) -> Pairs:
    number = {"train": 0, "val": 1, "test": 2}[split]
    part = (splits == number).nonzero()[:, 0]
    if not len(part):
        raise VergenceError(f"there are no cut-outs for the split {split!r}")
    return _part(pairs, part, queries)


# A folder of pairs ----------------------------------------------------------------------------------------------------


def folder(path: Path, split: str) -> Pairs:
    """``pairs.csv`` (background, x, y, width, height, foreground, perhaps split), ``backgrounds/`` and ``foregrounds/``
    with a ``patterns.csv`` (file, pattern); perhaps ``fits.csv`` (background, foreground)."""
    table = path / "pairs.csv"
    rows = read_records(table, ("background", "x", "y", "width", "height", "foreground"), "a table of pairs")
    if not rows:
        raise VergenceError(f"{table} has no pairs")
    names = list(dict.fromkeys(row["foreground"] for row in rows))
    backgrounds = [_below(path / "backgrounds", row["background"], table) for row in rows]
    with refusing(table, "a table of pairs"):
        boxes = torch.tensor([[float(row[key]) for key in ("x", "y", "width", "height")] for row in rows])
    _check_boxes(boxes, backgrounds, table)
    patterns, kinds = read_patterns(path / "foregrounds" / "patterns.csv", names)
    places = {name: place for place, name in enumerate(names)}
    files = [_below(path / "foregrounds", name, table) for name in names]
    own = torch.tensor([places[row["foreground"]] for row in rows])
    pairs = Pairs(Files(backgrounds, read_image), boxes, Files(files, read_cutout), own, patterns, kinds,
                  _fits(path / "fits.csv", [row["background"] for row in rows], places))  # fmt: skip
    if "split" in rows[0]:
        words = {"train": 0, "val": 1, "valid": 1, "test": 2}
        unknown = next((row["split"] for row in rows if row["split"] not in words), None)
        if unknown is not None:
            raise VergenceError(f"{table} has the split {unknown!r}: expected train, val or test")
        splits = torch.zeros(len(names), dtype=torch.long)
        splits[own] = torch.tensor([words[row["split"]] for row in rows])
        if not bool((splits == 1).any()):  # validation on the test pictures, if there are no others
            split = "test" if split == "val" else split
        return _splitted(pairs, splits, split, torch.arange(len(rows)))
    splits, note = held_out(patterns)
    object.__setattr__(pairs, "note", note)
    return _splitted(pairs, splits, split, torch.arange(len(rows)))


def read_patterns(table: Path, files: Sequence[str]) -> tuple[Tensor, tuple[str, ...]]:
    """The pattern of each file (n,), -1 where its field is empty, and the names of the patterns; every file has a row.
    Several columns beside ``file`` are attributes, whose values together name the pattern."""
    rows = read_records(table, ("file",), "a table of patterns")
    texts = {row["file"]: ", ".join(v.strip() for k, v in row.items() if k != "file" and v.strip()) for row in rows}
    missing = next((name for name in files if name not in texts), None)
    if missing is not None:
        raise VergenceError(f"{table} has no row for {missing}: its pattern may be empty, but not its row")
    names = tuple(sorted({text for text in texts.values() if text}))
    if not names:
        raise VergenceError(f"{table} names no pattern")
    places = {name: place for place, name in enumerate(names)}
    return torch.tensor([places.get(texts[name], -1) for name in files]), names


def _fits(table: Path, queries: Sequence[str], places: dict[str, int]) -> Tensor | None:
    if not table.is_file():
        return None
    fits = torch.zeros(len(queries), len(places), dtype=torch.bool)
    asked: dict[str, list[int]] = {}
    for number, name in enumerate(queries):
        asked.setdefault(name, []).append(number)
    for row in read_records(table, ("background", "foreground"), "a table of what fits"):
        if row["background"] not in asked or row["foreground"] not in places:
            raise VergenceError(f"{table} names the pair {row['background']}, {row['foreground']}: pairs.csv does not")
        fits[asked[row["background"]], places[row["foreground"]]] = True
    return fits


def _below(folder_: Path, name: str, table: Path) -> Path:
    inside = PurePosixPath(name)
    if not name or inside.is_absolute() or ".." in inside.parts or "\0" in name:
        raise VergenceError(f"{table} names {name[:60]!r}, which is no file below {folder_}")
    if not (folder_ / name).is_file():
        raise VergenceError(f"{table} names {name[:60]!r}, but {folder_ / name} does not exist")
    return folder_ / name


def _check_boxes(boxes: Tensor, paths: Sequence[Path], table: Path) -> None:
    for number, (path, box) in enumerate(zip(paths, boxes.tolist(), strict=True), 2):
        left, top, width, height = box
        if not boxes[number - 2].isfinite().all() or width < 1 or height < 1:
            raise VergenceError(
                f"{table}: row {number} has a box of {width:g} x {height:g} pixels: expected at least 1"
            )
        high, wide = picture_size(path)
        if left >= wide or top >= high or left + width <= 0 or top + height <= 0:
            raise VergenceError(f"{table}: row {number} has a box outside its picture of {wide} x {high} pixels")


# COCO -----------------------------------------------------------------------------------------------------------------


def coco(path: Path, split: str) -> Pairs:
    """``annotations/instances_*.json`` with the pictures, and perhaps ``attributes.csv``; objects are cut out and their
    places filled as they are read."""
    found = instances(path)
    table = path / "attributes.csv"
    patterns, names = patterns_of(found, table if table.is_file() else None)
    splits, note = held_out(patterns)
    parts, own = Parts(found), torch.arange(len(found))
    pairs = Pairs(Parts(found, removed=True), parts.boxes, parts, own, patterns, names, note=note)
    queries = own
    if split != "train":  # those with the most company, as published
        company = torch.tensor([instance.others for instance in found])
        asked = (splits == (2 if split == "test" else 1)).nonzero()[:, 0]
        queries = asked[company[asked].argsort(descending=True, stable=True)][:QUERIES]
    return _splitted(pairs, splits, split, queries)


# FOSD -----------------------------------------------------------------------------------------------------------------


def fosd(path: Path, split: str) -> Pairs:
    """``train/{bg,fg,labels/train_sfosd.json}`` and ``test/{bg_set1,fg,labels/test_set1.json}``, or ``test_set2.json``
    with ``bg_set2``. Classes stand for patterns, which it does not have; what was in a box is lost and filled in."""
    root = path / "data" if (path / "data").is_dir() else path
    return _fosd_train(root / "train") if split == "train" else _fosd_test(root / "test")


def _fosd_train(root: Path) -> Pairs:
    file = next((f for f in (root / "labels" / f"{n}.json" for n in ("train_sfosd", "train_rfosd", "train"))
                 if f.is_file()), root / "labels" / "train_sfosd.json")  # fmt: skip
    content = read_json(file, "annotations of FOSD")
    if not isinstance(content, dict) or not content:
        raise VergenceError(f"{file} is not annotations of FOSD: expected one entry per background")
    with refusing(file, "annotations of FOSD"):
        rows = {str(name): row for name, row in content.items()}
        names = sorted({*rows, *(n for row in rows.values() for key in ("similars", "dissimilars") for n in row[key])})
        places = {name: place for place, name in enumerate(names)}
        classes = tuple(sorted({str(row["class"]) for row in rows.values()}))
        patterns = torch.tensor([classes.index(rows[name]["class"]) if name in rows else -1 for name in names])
        shares = [[float(value) for value in row["bbox"]] for row in rows.values()]
        positives = {q: torch.tensor([places[name], *(places[n] for n in row["similars"])])
                     for q, (name, row) in enumerate(rows.items())}  # fmt: skip
        others = {name: [place for other, place in places.items() if other != name] for name in rows}
        negatives = {q: torch.tensor([places[n] for n in row["dissimilars"]] or others[name])
                     for q, (name, row) in enumerate(rows.items())}  # fmt: skip
    backgrounds = [_below(root / "bg", name, file) for name in rows]
    files = [_below(root / "fg", name, file) for name in names]
    own = torch.tensor([places[name] for name in rows])
    boxes = _boxes(shares, backgrounds, file)
    return Pairs(Holes(backgrounds, boxes), boxes, Files(files, read_cutout), own, patterns, classes,
                 positives=positives, negatives=negatives)  # fmt: skip


def _fosd_test(root: Path) -> Pairs:
    found = [(root / "labels" / f"{n}.json", root / b) for n, b in
             (("test_set1", "bg_set1"), ("test_set1", "bg"), ("test", "bg"), ("test_set2", "bg_set2"))]  # fmt: skip
    file, folder_ = next((pair for pair in found if pair[0].is_file() and pair[1].is_dir()), found[0])
    content = read_json(file, "annotations of FOSD")
    if not isinstance(content, dict) or not content:
        raise VergenceError(f"{file} is not annotations of FOSD: expected one entry per class")
    classes = tuple(sorted(content))
    names: list[str] = []
    patterns, shares, asked, kinds, relevant = [], [], [], [], []
    with refusing(file, "annotations of FOSD"):
        for number, kind in enumerate(classes):
            entry = content[kind]
            if "fg" in entry:  # set 1: a background fits the cut-out of its own name
                rows = [(str(name), box, {str(name)}) for name, box in entry["bg"]]
                gallery = [str(name) for name in entry["fg"]]
            else:  # set 2: labels by cut-out
                rows = [(str(n), row[0], {str(k) for k, v in row[-1].items() if v}) for n, row in entry.items()]
                gallery = sorted({str(name) for row in entry.values() for name in row[-1]})
            names += gallery
            patterns += [number] * len(gallery)
            for name, box, fitting in rows:
                asked.append(name)
                shares.append([float(value) for value in box])
                kinds.append(number)
                relevant.append(fitting)
    backgrounds = [_below(folder_, name, file) for name in asked]
    files = [_below(root / "fg", name, file) for name in names]
    kind_of, of = torch.tensor(patterns), torch.tensor(kinds)
    among = of.unsqueeze(1) == kind_of
    fits = torch.tensor([[name in fitting for name in names] for fitting in relevant]) & among
    own = fits.int().argmax(1)
    boxes = _boxes(shares, backgrounds, file)
    return Pairs(Holes(backgrounds, boxes), boxes, Files(files, read_cutout), own, kind_of, classes, fits, among)


def _boxes(shares: Sequence[Sequence[float]], paths: Sequence[Path], file: Path) -> Tensor:
    """Boxes in pixels from left, top, right and bottom as shares of the picture."""
    boxes = []
    for share, path in zip(shares, paths, strict=True):
        if len(share) != 4 or not 0 <= share[0] < share[2] <= 1 or not 0 <= share[1] < share[3] <= 1:
            raise VergenceError(f"{file} has the box {share} for {path.name}: expected left, top, right and bottom as "
                                "shares of the picture")  # fmt: skip
        high, wide = picture_size(path)
        left, top, right, bottom = (s * length for s, length in zip(share, (wide, high, wide, high), strict=True))
        boxes.append([left, top, right - left, bottom - top])
    return torch.tensor(boxes)


LAYOUTS = {
    "folder": Layout(folder, "a folder with pairs.csv, backgrounds/ and foregrounds/ with patterns.csv"),
    "coco": Layout(coco, "a folder with annotations/instances_*.json and the pictures, perhaps attributes.csv"),
    "fosd": Layout(fosd, "FOSD: train/{bg,fg,labels} and test/{bg_set1,fg,labels}"),
}
