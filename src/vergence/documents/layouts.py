"""Public data sets of words and lines, by their published names: Synth90k, IIIT5K, SVT, ICDAR 2003 and 2013, IAM, the
word crops that come with EnCTC, and a folder with a table ``labels.csv``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.classfolders import SHARES, split_of
from vergence.data.layouts import left_out
from vergence.documents.lines import TextFiles
from vergence.reading.files import read_text
from vergence.reading.matlab_structs import read_mat_tree
from vergence.reading.tables import read_records
from vergence.reading.voc import read_xml

Pair = tuple[Path, str]
BY_HASH = "nothing says how it is split, so {} are split by a hash of their names (" + ", ".join(
    f"{split} {share:.0%}" for split, share in SHARES.items()
) + ")"  # fmt: skip


def _lines(path: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    lines = [line.strip() for line in read_text(path).splitlines()]
    lines = [line for line in lines if line]
    if not lines:
        raise VergenceError(f"{path} is empty")
    return lines


def _first(folder: Path, names: Sequence[str], what: str) -> Path:
    """The first of some files or folders that exists."""
    found = next((folder / name for name in names if (folder / name).exists()), None)
    if found is None:
        raise VergenceError(f"{folder} has no {names[0]}: expected {what}")
    return found


def _inside(name: str, listed_in: Path) -> Path:
    """A relative path that a list names."""
    inside = PurePosixPath(name.replace("\\", "/"))
    if not name or inside.is_absolute() or ".." in inside.parts or "\0" in name:
        raise VergenceError(f"{listed_in} names no file below its folder: {name[:60]!r}")
    return listed_in.parent / inside


def _present(pairs: Sequence[Pair], listed_in: Path) -> None:
    """Refuse a list that names missing files. Every folder is looked into once."""
    known: dict[Path, set[str]] = {}
    for path, _ in pairs:
        if path.parent not in known:
            there = os.listdir(path.parent) if path.parent.is_dir() else []
            known[path.parent] = set(there)
    left_out([f"{p} does not exist, but {listed_in} lists it" for p, _ in pairs if p.name not in known[p.parent]],
             "refuse")  # fmt: skip


def _files(pairs: Sequence[Pair], listed_in: Path, note: str = "", split: str = "") -> TextFiles:
    if not pairs:
        raise VergenceError(f"{listed_in} has no texts to read" + (f": {note}" if note else ""))
    return TextFiles(tuple(p for p, _ in pairs), tuple(t for _, t in pairs), note=note, split=split)


# Scene text -----------------------------------------------------------------------------------------------------------


def synth90k(path: Path, split: str) -> TextFiles:
    """``annotation_train.txt`` and ``annotation_val.txt`` for training, ``annotation_test.txt`` for validation and
    test; the text is the middle part of a file's name. That all files exist is not checked: there are millions."""
    root = next((f for f in (path, path / "90kDICT32px", path / "mnt/ramdisk/max/90kDICT32px") if _has_lists(f)), path)
    names = ("annotation_train.txt", "annotation_val.txt") if split == "train" else ("annotation_test.txt",)
    _first(root, names[:1], "lists such as annotation_train.txt")
    pairs = list[Pair]()
    for own in (root / name for name in names if (root / name).exists()):
        for number, line in enumerate(_lines(own), 1):
            name, _, index = line.rpartition(" ")
            match = re.fullmatch(r"[^_]+_(.+)_(\d+)\.jpg", PurePosixPath(name).name)
            if match is None or match[2] != index:
                raise VergenceError(f"line {number} of {own} is not a file N_WORD_ID.jpg and its ID: {line[:60]!r}")
            pairs.append((_inside(name, own), match[1]))
    return _files(pairs, root)


def _has_lists(folder: Path) -> bool:
    return any((folder / f"annotation_{split}.txt").exists() for split in ("train", "test"))


def iiit5k(path: Path, split: str) -> TextFiles:
    """``traindata.mat`` and ``testdata.mat``, arrays of structures with ``ImgName`` and ``GroundTruth``; validation is
    the test."""
    root = path / "IIIT5K" if (path / "IIIT5K").is_dir() else path
    name = "traindata" if split == "train" else "testdata"
    own = _first(root, (f"{name}.mat",), "traindata.mat and testdata.mat")
    rows = read_mat_tree(own, [name]).get(name)
    if not isinstance(rows, list) or not all(isinstance(r, dict) and _named(r) for r in rows):
        raise VergenceError(f"{own} has no structures {name!r} with ImgName and GroundTruth")
    pairs = [(_inside(row["ImgName"], own), row["GroundTruth"]) for row in rows]
    _present(pairs, own)
    return _files(pairs, own, split="" if split != "val" else "test")


def _named(row: dict[str, object]) -> bool:
    return all(isinstance(row.get(name), str) and row[name] for name in ("ImgName", "GroundTruth"))


def svt(path: Path, split: str) -> TextFiles:
    """``train.xml`` and ``test.xml`` with ``taggedRectangle``s of pictures in ``img``; validation is the test."""
    root = path / "svt1" if (path / "svt1").is_dir() else path
    own = _first(root, ("train.xml" if split == "train" else "test.xml",), "train.xml, test.xml and img")
    pairs, boxes = list[Pair](), []
    for image in read_xml(own, "the annotation of Street View Text", "taggedRectangle").iter("image"):
        picture = _inside((image.findtext("imageName") or "").strip(), own)
        for rectangle in image.iter("taggedRectangle"):
            try:
                left, top, width, height = (int(rectangle.attrib[k]) for k in ("x", "y", "width", "height"))
            except (KeyError, ValueError):
                raise VergenceError(f"{own} has a rectangle of {picture.name} without x, y, width and height") from None
            tag = (rectangle.findtext("tag") or "").strip()
            if not tag or min(width, height) < 1:
                raise VergenceError(f"{own} has a rectangle of {picture.name} without a tag or an area")
            pairs.append((picture, tag))
            boxes.append((left, top, width, height))
    _present(pairs, own)
    found = _files(pairs, own, split="" if split != "val" else "test")
    return TextFiles(found.paths, found.texts, tuple(boxes), split=found.split)


def _benchmark(pairs: Iterable[Pair], split: str) -> list[Pair]:
    """For test, the words that the protocol of ICDAR's sets counts: three or more letters and digits alone."""
    every = list(pairs)
    if split == "train":
        return every
    return [(p, text) for p, text in every if len(text) >= 3 and text.isascii() and text.isalnum()]


def icdar03(path: Path, split: str) -> TextFiles:
    """``TrialTrain/word.xml`` and ``TrialTest/word.xml``, with ``<image file="word/1/1.jpg" tag="TEXT" />``; for test,
    words of three or more letters and digits alone. Validation is the test."""
    part = "TrialTrain" if split == "train" else "TrialTest"
    own = _first(
        path, (f"{part}/word.xml", f"Word Recognition/{part}/word.xml", "word.xml"), "TrialTrain and TrialTest"
    )
    images = list(read_xml(own, "a list of word images", "image").iter("image"))
    if not all(image.get("file") and image.get("tag") for image in images):
        raise VergenceError(f"{own} has an image without a file or a tag")
    pairs = [(_inside(image.attrib["file"], own), image.attrib["tag"]) for image in images]
    _present(pairs, own)
    return _files(_benchmark(pairs, split), own, split="" if split != "val" else "test")


def icdar13(path: Path, split: str) -> TextFiles:
    """``Challenge2_Training_Task3_Images_GT/gt.txt`` and ``Challenge2_Test_Task3_GT.txt`` with lines ``word_1.png,
    "TEXT"``; for test, words of three or more letters and digits alone. Validation is the test."""
    if split == "train":
        own = _first(path, ("Challenge2_Training_Task3_Images_GT/gt.txt", "train/gt.txt"), "the training pictures")
        folder = own.parent
    else:
        names = ("Challenge2_Test_Task3_GT.txt", "test/Challenge2_Test_Task3_GT.txt", "test/gt.txt")
        own = _first(path, names, "the list of the test")
        folder = next((f for f in (path / "Challenge2_Test_Task3_Images", path / "test") if f.is_dir()), own.parent)
    pairs = list[Pair]()
    for number, line in enumerate(_lines(own), 1):
        match = re.fullmatch(r"([^,]+),\s*\"(.*)\"", line)
        if match is None:
            raise VergenceError(f'line {number} of {own} is not a file and its text, word_1.png, "TEXT": {line[:60]!r}')
        pairs.append((folder / _inside(match[1].strip(), own).name, match[2].replace('\\"', '"').replace("\\\\", "\\")))
    _present(pairs, own)
    return _files(_benchmark(pairs, split), own, split="" if split != "val" else "test")


def enctc(path: Path, split: str) -> TextFiles:
    """``annotation.txt``, a file and the number of its word per line, and ``lexicon.txt``, the words: a test set, which
    every split is."""
    own, words = path / "annotation.txt", path / "lexicon.txt"
    known = _lines(words)
    pairs = list[Pair]()
    for number, line in enumerate(_lines(own), 1):
        name, _, index = line.rpartition(" ")
        if not name or not (index.isascii() and index.isdecimal()):
            raise VergenceError(f"line {number} of {own} is not a file and the number of its word: {line[:60]!r}")
        if int(index) >= len(known):
            raise VergenceError(f"line {number} of {own} names word {index}, but {words} has {len(known)}")
        pairs.append((_inside(name, own), known[int(index)]))
    _present(pairs, own)
    return _files(pairs, own, split="test" if split != "test" else "")


# Handwriting ----------------------------------------------------------------------------------------------------------

SPLITS = {
    "train": ("trainset.txt", "train.uttlist"),
    "val": ("validationset1.txt", "validation.uttlist"),
    "test": ("testset.txt", "test.uttlist"),
}
"""Lists of forms or lines that make a split of IAM."""


def iam_words(path: Path, split: str) -> TextFiles:
    """``words.txt`` (or ``ascii/words.txt``) and ``words/a01/a01-000u/a01-000u-00-00.png``; see :func:`_iam`."""
    return _iam(path, split, "words", 8)


def iam_lines(path: Path, split: str) -> TextFiles:
    """``lines.txt`` (or ``ascii/lines.txt``) and ``lines/a01/a01-000u/a01-000u-00.png``; see :func:`_iam`."""
    return _iam(path, split, "lines", 8)


def _iam(path: Path, split: str, kind: str, before: int) -> TextFiles:
    """Rows ``id ok level ... text`` whose segmentation is marked ``ok``; ``|`` stands between the words of a line. A
    split is what ``trainset.txt``, ``validationset1.txt`` and ``testset.txt`` list; without them, writers (of
    ``forms.txt``) or forms are split by a hash."""
    own = _first(path, (f"{kind}.txt", f"ascii/{kind}.txt"), f"{kind}.txt and the folder {kind}")
    chosen, note = _iam_split(path, split)
    pairs = list[Pair]()
    for number, line in enumerate(_lines(own), 1):
        if line.startswith("#"):
            continue
        fields = line.split(" ", before)
        name = re.fullmatch(r"([a-z]\d\d)-(\d{3}[a-z]?)(-\d\d)(-\d\d)?", fields[0])
        if name is None or len(fields) <= before or fields[1] not in ("ok", "err"):
            raise VergenceError(f"line {number} of {own} is not a row of {kind}.txt: {line[:60]!r}")
        form = f"{name[1]}-{name[2]}"
        if fields[1] == "ok" and chosen(form, form + name[3]):
            text = fields[before].replace("|", " ") if kind == "lines" else fields[before]
            pairs.append((path / kind / name[1] / form / f"{fields[0]}.png", text))
    _present(pairs, own)
    return _files(pairs, own, note)


def _iam_split(path: Path, split: str) -> tuple[Callable[[str, str], bool], str]:
    """Whether a form or a line of it belongs to a split, and how that was decided."""
    folders = (path, path / "splits", path / "ascii")
    lists = [folder / name for folder in folders for name in SPLITS[split] if (folder / name).exists()]
    if lists:
        listed = set(_lines(lists[0]))
        stray = next((name for name in listed if not re.fullmatch(r"[a-z]\d\d-\d{3}[a-z]?(-\d\d)?", name)), None)
        if stray is not None:
            raise VergenceError(f"{lists[0]} names no form or line of IAM: {stray[:60]!r}")
        return (lambda form, line: form in listed or line in listed), ""
    forms = next((folder / "forms.txt" for folder in folders if (folder / "forms.txt").exists()), None)
    writers = dict[str, str]()
    for row in _lines(forms) if forms is not None else ():
        if not row.startswith("#"):
            fields = row.split()
            if len(fields) < 8:
                raise VergenceError(f"{forms} has a row that is not one of forms.txt: {row[:60]!r}")
            writers[fields[0]] = fields[1]
    note = BY_HASH.format("writers" if writers else "forms")
    return (lambda form, line: split_of(writers.get(form, form)) == split), note


# A folder of the user's -----------------------------------------------------------------------------------------------


def folder(path: Path, split: str) -> TextFiles:
    """``labels.csv`` with columns ``file`` and ``text``, and perhaps ``split`` (train, val, test); or one in each of
    the folders ``train``, ``val`` and ``test``. Without either, files are split by a hash of their names."""
    stands_in = {"train": ("train",), "val": ("val", "test"), "test": ("test", "val")}[split]
    parts = {name: path / name / "labels.csv" for name in ("train", "val", "test")}
    if any(own.exists() for own in parts.values()):
        name = next((name for name in stands_in if parts[name].exists()), None)
        if name is None:
            raise VergenceError(f"{path} has no {split}/labels.csv")
        return _files(_labels(parts[name])[0], parts[name], split=name if name != split else "")
    own = path / "labels.csv"
    pairs, splits = _labels(own)
    if splits:
        name = next((name for name in stands_in if name in splits), None)
        if name is None:
            raise VergenceError(f"{own} has no file of the split {split}")
        chosen = [pair for pair, given in zip(pairs, splits, strict=True) if given == name]
        return _files(chosen, own, split=name if name != split else "")
    chosen = [pair for pair in pairs if split_of(pair[0].name) == split]
    return _files(chosen, own, BY_HASH.format("files"))


def _labels(own: Path) -> tuple[list[Pair], list[str]]:
    rows = read_records(own, ("file", "text"), "a table with the columns file and text")
    pairs = [(_inside(row["file"], own), row["text"]) for row in rows]
    empty = next((path.name for path, text in pairs if not text.strip()), None)
    if empty is not None:
        raise VergenceError(f"{own} gives {empty} no text")
    splits = [row["split"] for row in rows if "split" in row]
    stray = next((name for name in splits if name not in SHARES), None)
    if stray is not None:
        raise VergenceError(f"{own} has the split {stray[:40]!r}: expected train, val or test")
    _present(pairs, own)
    return pairs, splits


LAYOUTS = {
    "folder": Layout(folder, "a table labels.csv with the columns file and text beside its pictures"),
    "synth90k": Layout(synth90k, "annotation_train.txt, annotation_val.txt, annotation_test.txt and their folders"),
    "iiit5k": Layout(iiit5k, "traindata.mat, testdata.mat and the folders train and test"),
    "svt": Layout(svt, "train.xml, test.xml and the folder img"),
    "icdar03": Layout(icdar03, "TrialTrain and TrialTest, each with word.xml"),
    "icdar13": Layout(icdar13, "Challenge2_Training_Task3_Images_GT, Challenge2_Test_Task3_Images and their lists"),
    "enctc": Layout(enctc, "annotation.txt, lexicon.txt and word pictures"),
    "iam-words": Layout(iam_words, "words.txt (or ascii/words.txt) and the folder words"),
    "iam-lines": Layout(iam_lines, "lines.txt (or ascii/lines.txt) and the folder lines"),
}
